"""Antelope's trainer: rows and targets, models that learn, a log that is learnt from, and one that is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

import antelope


def unit(at_s, arm, reward, flow=0, **more):
    """A data unit of 10 ms; its smoothed round-trip time is 20 ms."""
    features = dict.fromkeys(antelope.FEATURES, 1.0) | {"time_ms": 10.0} | more
    return features | {"at_s": at_s, "arm": arm, "reward": reward, "srtt_ms": 20.0, "flow": flow}


def test_a_row_learns_the_reward_of_the_law_that_followed_it():
    units = [unit(0.01 * n, "cubic", 1.0) for n in range(60)]
    units += [unit(0.6 + 0.01 * n, "vegas", 0.25) for n in range(60)]
    rows = antelope.rows_of(units, np.random.default_rng(1))
    assert set(np.unique(rows["cubic"][1])) == {1.0} and set(np.unique(rows["vegas"][1])) == {0.25}
    # Rows whose round trips have units of two laws are of no use: 17 of 20 ms before the switch.
    assert len(rows["cubic"][1]) < 60 - 30


def log(path, flows):
    """A log in which the reward follows the delay."""
    random = np.random.default_rng(3)
    lines = []
    for flow in range(flows):
        for n in range(150):
            delay = float(random.uniform(1, 100))
            lines.append(
                json.dumps(unit(0.1 * n, "cubic", 1 / delay, flow, rtt_ms=delay, delay_min_ms=delay))
            )
    path.write_text("\n".join(lines))
    return path


def test_what_an_agent_logged_improves_a_model_and_the_others_stay(tmp_path):
    before = json.loads(antelope.SHIPPED.read_text())["boosters"]
    out = tmp_path / "new" / "next.json"
    antelope.main(["retrain", str(log(tmp_path / "units.jsonl", 10)), "--out", str(out)])
    after = json.loads(out.read_text())["boosters"]
    assert after.keys() == before.keys() and after["vegas"] == before["vegas"]
    assert after["cubic"] != before["cubic"]
    _, unseen = antelope.logged([tmp_path / "units.jsonl"])
    error = {
        name: antelope.report(models, unseen)["cubic"]["rmse"]
        for name, models in (("old", before), ("new", after))
    }
    assert error["new"] < error["old"], error


def test_a_law_without_a_model_gets_one_and_one_without_rows_none(tmp_path):
    models = json.loads(antelope.SHIPPED.read_text())["boosters"]
    rows = (np.ones((20, len(antelope.FEATURES)), dtype=np.float32), np.ones(20, dtype=np.float32))
    before = {"vegas": models["vegas"]}
    fitted = antelope.fit({"cubic": rows}, 1, before)
    chosen = antelope.better(fitted, before, {"cubic": rows, "bbr": rows})
    assert chosen == {"vegas": models["vegas"], "cubic": fitted["cubic"]}


def test_a_model_that_is_no_better_stays(tmp_path):
    models = {"cubic": json.loads(antelope.SHIPPED.read_text())["boosters"]["cubic"]}
    x = np.ones((20, len(antelope.FEATURES)), dtype=np.float32)
    exact = {"cubic": (x, antelope.predict(models["cubic"], x))}
    worse = antelope.fit({"cubic": (x, exact["cubic"][1] + 1)}, 1, models)
    assert antelope.better(worse, models, exact) == models


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}", "units.jsonl:1"),
        ("no json", "units.jsonl:1"),
        ("", "0 flows"),
        ('{"flow": 1, "arm": "bbr", "at_s": 0.1, "reward": 1.0}', "units.jsonl:1: .*rtt_ms"),
        (json.dumps(unit(0.1, "reno", 1.0)), 'units.jsonl:1: .*no law is named "reno"'),
    ],
)
def test_a_log_that_cannot_be_learnt_from_is_refused_with_its_place(text, told, tmp_path):
    (tmp_path / "units.jsonl").write_text(text)
    with pytest.raises(SystemExit, match=told):
        antelope.logged([tmp_path / "units.jsonl"])
    with pytest.raises(SystemExit, match=r"absent\.jsonl"):
        antelope.logged([tmp_path / "absent.jsonl"])


def test_files_that_are_no_text_or_no_models_are_refused_by_name(tmp_path, capsys):
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(SystemExit, match="binary: no log"):
        antelope.logged([tmp_path / "binary"])
    (tmp_path / "other.json").write_text("{}")
    for name in ("binary", "other.json", "absent.json"):
        with pytest.raises(SystemExit, match=f"--models .*{name}: no models"):
            antelope.main(
                ["retrain", "log", "--models", str(tmp_path / name), "--out", str(tmp_path / "new")]
            )
    with pytest.raises(SystemExit):
        antelope.main(["train", "--runs", "0"])
    assert "--runs 0: give at least 1" in capsys.readouterr().err


def test_what_was_not_measured_is_null_in_an_evaluation(monkeypatch, capsys):
    runs = {1: {"mbps": 2.0, "owd_ms": None, "fct_s": None}, 2: {"mbps": 4.0, "owd_ms": 20.0, "fct_s": None}}
    monkeypatch.setattr(antelope, "measured", lambda *cell: runs[cell[-1]])
    antelope.main(["evaluate", "--seeds", "2", "--jobs", "1"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all((row["mbps"], row["owd_ms"], row["fct_s"]) == (3.0, 20.0, None) for row in rows)
    assert len(rows) == len(antelope.SETTINGS) * 2 * (2 + len(antelope.ARMS))


def test_a_long_flow_has_no_completion_time():
    assert antelope.measured("DCN", "cubic", None, 0, 1)["fct_s"] is None
