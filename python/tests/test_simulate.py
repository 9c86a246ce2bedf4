"""Runs in-process: results, refusals, algorithms of one's own, sweeps, suites, Ctrl-C."""

from __future__ import annotations

import json
import math
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import anole_ccp
from anole_ccp import Algorithm, Program, Scenario, fold, running, simulate, suite, sweep

LINK = {"capacity_mbps": 12, "one_way_delay_ms": 20, "buffer_bdp": 1}
BUFFER = {"one_way_delay_ms": 20, "buffer_packets": 30}
SHORT = Scenario(link=LINK, duration_s=8)


def test_a_result_has_figures_and_series():
    result = simulate(SHORT, "cubic", seed=3)
    flow, link = result.flow, result.links[0]
    assert (result.scenario, result.alg, result.seed) == ("scenario", "cubic", 3)
    series = (*vars(flow.series).values(), *vars(link.series).values())
    assert {values.shape for values in series} == {(80,)} and {v.dtype for v in series} == {
        np.dtype("float64")
    }
    assert np.isclose(flow.series.throughput_mbps.mean(), flow.throughput_mbps, rtol=0.02)
    # A sawtooth: the window falls where packets were lost, with a full queue.
    falls = np.flatnonzero(np.diff(flow.series.cwnd_bytes) < -0.2 * flow.series.cwnd_bytes[:-1]) + 1
    assert len(falls) >= 2 and all(flow.series.lost_packets[at - 1 : at + 1].sum() > 0 for at in falls)
    assert link.series.queue_bytes.max() > 50_000 and np.allclose(link.series.capacity_mbps, 12)
    whole = json.loads(result.json())
    assert whole["flows"][0]["series"]["cwnd_bytes"][5] == flow.series.cwnd_bytes[5]


def test_the_same_seed_gives_the_same_run():
    lossy = Scenario(link=LINK | {"random_loss": 0.01}, duration_s=3)
    runs = [simulate(lossy, "cubic", seed=seed).flow.series.cwnd_bytes for seed in (1, 1, 2)]
    assert np.array_equal(runs[0], runs[1], equal_nan=True) and not np.array_equal(runs[0], runs[2])


def test_the_flow_of_a_result_is_under_test_whatever_runs_beside_it():
    link = {"capacity_mbps": 20, "one_way_delay_ms": 15, "buffer_bdp": 2}
    beside = {"alg": "cubic", "start_s": 0.5, "count": 2}
    tested = {"alg": "cubic", "under_test": True, "start_s": 2}
    scenario = Scenario(link=link, flow=[beside, tested], duration_s=4)
    assert [simulate(scenario, alg).flow.start_s for alg in ("cubic", "reno")] == [2.0, 2.0]
    row = sweep(scenario, "cubic", progress=False).rows[0]
    assert row.figure("start_s").mean == 2.0


def test_a_scenario_takes_numpys_numbers_and_any_text():
    link = {"capacity_mbps": np.float32(20), "one_way_delay_ms": np.int64(15), "buffer_packets": np.uint8(50)}
    flow = {"count": np.int64(2), "under_test": np.bool_(True)}
    scenario = Scenario(name="café 🚀", link=link, flow=flow, mss_bytes=np.int32(1000), duration_s=1)
    assert scenario.name == "café 🚀" and scenario._scenario.flows == 2 * [("cubic", True)]


def test_confidence_intervals_beyond_the_table_are_students_too():
    # R: qt(0.975, c(30, 31, 40, 120))
    quantiles = [(30, 2.0423), (31, 2.0395), (40, 2.0211), (120, 1.9799)]
    assert all(abs(running._student(degrees) - t) < 0.001 for degrees, t in quantiles)


def test_a_table_for_pandas():
    pandas = pytest.importorskip("pandas")
    table = simulate(SHORT, "reno").to_pandas()
    assert isinstance(table, pandas.DataFrame) and len(table) == 80 and "cwnd_bytes" in table.columns


def test_scenarios_of_every_kind(tmp_path):
    assert "anole-normal" in Scenario.names()
    text = Scenario(
        link=LINK, flow=[{"alg": "cubic", "under_test": True}, {"alg": "bbr", "start_s": 1.0}]
    ).toml
    file = tmp_path / "two.toml"
    file.write_text(text)
    assert len(simulate(Scenario(text), "reno", seed=1).flows) == 2
    assert [flow.alg for flow in simulate(file, set=["duration_s=2"]).flows] == ["cubic", "bbr"]
    (tmp_path / "trace").write_text("1\n2\n3\n")
    traced = text.replace("capacity_mbps = 12", 'trace = "trace"')
    file.write_text(traced)
    assert simulate(str(file), set=["duration_s=2"]).flow.throughput_mbps > 1


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Scenario("anole-norml"), "did you mean anole-normal"),
        (lambda: Scenario("name = 1\n"), r"text:1: .*string"),
        (lambda: Scenario(link=LINK | {"queue": "fifo"}), r"keywords:\d+: "),
        (lambda: Scenario("anole-normal", set=["bottleneck.los=1"]), "los"),
        (lambda: Scenario("anole-normal", link=LINK), "tables go with keywords"),
        (lambda: Scenario(link={"trace": "no-such-file"} | BUFFER), "no-such-file"),
        (lambda: simulate(SHORT, "cubik"), "^alg: .*did you mean cubic"),
        (lambda: simulate(SHORT, "cubic", policy="libra"), "^policy: cubic takes no policy"),
        (lambda: simulate(SHORT, "orca", policy="libra"), "^policy: alg orca runs policies"),
        (lambda: simulate(SHORT, "cubic", params={"no_such": 1.0}), "no_such"),
        (lambda: simulate(SHORT, Fixed, policy="libra"), "^Fixed takes no policy, classic or params"),
        (lambda: simulate(SHORT, Fixed, params={"beta": 0.5}), "^param.beta: Fixed takes no policy"),
        (lambda: simulate(SHORT, Fixed, set=["param.beta=0.5"]), "^param.beta: Fixed takes no policy"),
        (lambda: anole_ccp.transfer(Fixed, SHORT, set=["param.beta=0.5"]), "^param.beta: Fixed takes no"),
        (lambda: simulate(SHORT, "cubic", set=["duration_s=x"]), "duration_s"),
        (lambda: simulate(SHORT, "cubic", set=["bottlenek.random_loss=0.1"]), "bottlenek"),
        (lambda: simulate(SHORT, "cubic", seed=-1), "seed = -1"),
        (lambda: sweep("anole-normal", ["cubic"], runs=0), "at least 1"),
        (lambda: sweep("anole-normal", ["cubic"], threads=0), "at least 1"),
        (lambda: sweep("anole-normal", ["cubic"], vary={"seed": []}), "vary: seed = .*at least one value"),
        (lambda: sweep("anole-normal", ["cubic"], vary={"bottleneck.queue": "codel"}), "give a list"),
        (
            lambda: sweep("anole-normal", ["cubic"], vary={"seed": [1, 2], "duration_s": [1]}),
            "duration_s has 1",
        ),
        (lambda: sweep(SHORT, "cubic", set="duration_s=1").rows[0].figure("thruput"), "known are start_s"),
        (lambda: suite(["cubic"], links=0), "at least 1"),
        (lambda: suite(["cubic"], links=1, seed=2**64), "give a number from 0"),
        (lambda: simulate(SHORT, type("Twice", (Algorithm,), {"program": ["reno", "reno"]})), "two programs"),
        (lambda: Program("no-such"), "known are"),
        (lambda: Program("(def (x 0))(when true (:= y"), "program:1:"),
    ],
)
def test_nonsense_is_refused_with_the_reason(make, reason):
    with pytest.raises(ValueError, match=reason):
        make()


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: simulate(SHORT, Fixed()), r"the class Fixed itself, not Fixed\(\)"),
        (lambda: simulate(SHORT, dict), "derived from anole_ccp.Algorithm"),
        (lambda: anole_ccp.transfer(Fixed(), SHORT), "the class Fixed itself"),
        (lambda: anole_ccp.serve("cubic", "/tmp/none.sock"), "give a class"),
        (lambda: fold.MICROS > 1 and fold.TRUE, "combine conditions with & and |"),
        (lambda: 1 < fold.MICROS < 9, "combine conditions with & and |"),
        (lambda: not fold.CWND, "combine conditions with & and |"),
        (lambda: fold.MICROS == 3, r"a\.equals\(b\)"),
        (lambda: Scenario(3), "3 is no scenario"),
        (lambda: Scenario(link="x"), "link = 'x': give a dictionary"),
        (lambda: Scenario(link=LINK | {"random_loss": None}), "None is no value"),
        (lambda: anole_ccp.plot([simulate(SHORT, Fixed)]), r"plot\(\*results\)"),
    ],
)
def test_what_is_of_the_wrong_kind_is_refused_with_what_would_do(make, reason):
    with pytest.raises(TypeError, match=reason):
        make()


class Fixed(Algorithm):
    """Twenty packets."""

    packets = 20

    def on_flow(self, flow):
        return {"cwnd": self.packets * flow.mss}


def test_a_fixed_window_sends_it_once_a_round_trip():
    flow = simulate(SHORT, Fixed).flow
    assert flow.alg == "Fixed" and (flow.series.cwnd_bytes[1:] == 20 * 1448).all()
    assert math.isclose(flow.throughput_mbps, 20 * 1500 * 8 / 0.041 / 1e6, rel_tol=0.03)


TEXT = """
# Counts acknowledged bytes, and reports every interval and at a loss.
(def (interval_us 40000) (Report (volatile acked 0) (volatile lost 0)))
(when true
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
    (fallthrough))
(when (|| (> Micros interval_us) (> Ack.lost_pkts_sample 0)) (:= Micros 0) (report))
"""


class Aimd(Algorithm):
    """Additive increase, multiplicative decrease, over a program of its own."""

    name = "my-aimd"
    program = TEXT

    def on_flow(self, flow):
        self.mss, self.cwnd = flow.mss, float(flow.init_cwnd)
        return {"cwnd": self.cwnd, "interval_us": 20_000}

    def on_report(self, report):
        assert set(report.values) == {"acked", "lost"}
        if report.lost:
            self.cwnd = max(self.cwnd / 2, 2 * self.mss)
        else:
            self.cwnd += self.mss * report.acked / self.cwnd
        return {"cwnd": self.cwnd}


def test_a_law_over_a_program_of_its_own_fills_the_link_and_is_the_same_each_time():
    result = simulate(SHORT, Aimd)
    assert result.alg == "my-aimd" and result.flow.throughput_mbps > 9 and result.flow.loss_rate > 0
    assert result.json().split('"links"')[1] == simulate(SHORT, Aimd).json().split('"links"')[1]
    both = simulate(
        Scenario(link=LINK, flow={"alg": "cubic", "under_test": True, "count": 2}, duration_s=5), Aimd
    )
    assert both.jain_index > 0.5 and {flow.alg for flow in both.flows} == {"my-aimd"}


def test_programs_are_changed_by_name():
    class Two(Algorithm):
        program = ("rate-hold", TEXT)
        seen = []

        def on_report(self, report):
            self.seen.append(report.program)
            return {"program": "Two-2", "cwnd": 20_000} if report.program == "rate-hold" else {"cwnd": 30_000}

    assert simulate(SHORT, Two).flow.series.cwnd_bytes[-1] == 30_000
    assert Two.seen[0] == "rate-hold" and set(Two.seen[1:]) == {"Two-2"}


@pytest.mark.parametrize(
    ("answer", "error", "reason"),
    [
        ({"cwnt": 1}, ValueError, "did you mean cwnd"),
        ({"cwnd": float("nan")}, ValueError, "Wrong.on_report: cwnd is NaN"),
        ({"rate": -1}, ValueError, "rate is -1"),
        ({"cwnd": "wide"}, TypeError, "wide"),
        ([1], TypeError, "Wrong.on_report returned .*dictionary"),
        ({"program": "none"}, ValueError, "no program is named"),
    ],
)
def test_what_an_algorithm_must_not_say_comes_out_of_the_run(answer, error, reason):
    class Wrong(Algorithm):
        def on_report(self, report):
            return answer

    with pytest.raises(error, match=reason):
        simulate(SHORT, Wrong)


def test_an_exception_comes_out_as_it_is():
    class Broken(Algorithm):
        def on_report(self, report):
            return report.no_such_register

    with pytest.raises(AttributeError, match=r"no no_such_register; it has acked, lost"):
        simulate(SHORT, Broken)
    with pytest.raises(AttributeError):
        sweep("anole-normal", [Broken, "cubic"], set=["duration_s=2"], threads=2)


def test_a_sweep_has_means_and_intervals():
    made = sweep(
        "anole-normal",
        ["cubic", Aimd],
        vary={"bottleneck.random_loss": [0, 0.01]},
        runs=3,
        set=["duration_s=2"],
        threads=2,
    )
    assert [(row.alg, row.at["bottleneck.random_loss"]) for row in made.rows] == [
        ("cubic", 0),
        ("my-aimd", 0),
        ("cubic", 0.01),
        ("my-aimd", 0.01),
    ]
    same, differs = made.rows[0].figure("throughput_mbps"), made.rows[2].figure("throughput_mbps")
    assert same.deviation == 0 and same.runs == 3
    assert differs.deviation > 0 and differs.low < differs.mean < differs.high
    assert len(made.table()) == 4 and "±" in str(made)
    assert str(anole_ccp.Figure(0.0031, 0.0002, 0, 0, 3)) == "0.0031 ± 0.0002"
    assert str(anole_ccp.Figure(31.0, 3.589, 0, 0, 3)) == "31.00 ± 3.59"


def test_a_scenario_is_changed_and_swept_over():
    longer = SHORT.changed(["duration_s=9"])
    assert (SHORT.duration_s, longer.duration_s) == (8, 9)
    assert simulate(SHORT, "cubic", set=["duration_s=2"]).flow.series.time_s.size == 20
    rows = sweep(SHORT, ["cubic"], vary={"bottleneck.capacity_mbps": [2, 4]}, set=["duration_s=2"]).rows
    assert [round(row.figure("throughput_mbps").mean) for row in rows] == [2, 4]
    told = sweep(SHORT, "cubic", vary={"flow.ecn": np.array([True, False])}, set=["duration_s=1"]).rows
    assert [row.at["flow.ecn"] for row in told] == [True, False]


def test_a_scenario_is_pickled_and_one_without_a_text_says_why_not():
    scenario = anole_ccp.Scenario(
        link={"capacity_mbps": 20, "one_way_delay_ms": 10, "buffer_bdp": 1}, duration_s=3
    )
    again = pickle.loads(pickle.dumps(scenario.changed(["seed=7"])))
    assert (again.duration_s, again.seed, again.toml) == (3.0, 7, scenario.toml)
    drawn = anole_ccp.Scenario._of(anole_ccp._anole.Scenario.drawn(anole_ccp.Ranges().json(), 1, 0))
    with pytest.raises(TypeError, match="no text to pickle"):
        pickle.dumps(drawn)


def test_a_suite_compares_with_the_first():
    first, second = suite(["cubic", Fixed], links=4, duration_s=2, threads=2)
    assert (first["alg"], second["alg"], first["links"]) == ("cubic", "Fixed", 4)
    assert math.isclose(
        first["power"] - second["power"], second["first_less_this_power"]["mean"], abs_tol=1e-9
    )


def test_runs_do_not_hold_pythons_lock():
    long = Scenario(link=LINK | {"capacity_mbps": 200}, duration_s=60)
    worker = threading.Thread(target=simulate, args=(long, "cubic"))
    worker.start()
    turns = 0
    while worker.is_alive():
        turns += 1
    assert turns > 1000


ENDLESS = """
import anole_ccp, signal, sys
# A shell that runs things in the background has them ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
print("ready", flush=True)
link = {"capacity_mbps": 100, "one_way_delay_ms": 20, "buffer_bdp": 1}
scenario = anole_ccp.Scenario(link=link, duration_s=20000)
text = scenario.toml
try:
    CALL
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize(
    "call", ["anole_ccp.simulate(scenario)", "anole_ccp.sweep(text, ['cubic', 'reno'], threads=2)"]
)
def test_ctrl_c_ends_a_run(call):
    code = textwrap.dedent(ENDLESS.replace("CALL", call))
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert said == "interrupted\n" and process.returncode == 0


def test_programs_are_checked_and_explained():
    assert anole_ccp.check_program(TEXT) == []
    finding = anole_ccp.check_program(
        "(def (Report (x 0)))\n(when true (:= Report.x (+ 1 nothing)) (report))"
    )[0]
    assert (finding.line, finding.severity, finding.code) == (2, "error", "unknown")
    text = anole_ccp.explain(Program(TEXT, name="mine"))
    assert text.startswith("mine: 2 of 16 report") and "when 1" in text


def test_a_plot_is_svg_that_can_be_saved(tmp_path):
    plot = anole_ccp.plot(simulate(SHORT, "cubic"), simulate(SHORT, Fixed))
    assert plot.svg.startswith("<svg") and "Fixed" in plot.svg and "Congestion window" in plot.svg
    assert plot.save(tmp_path / "two.svg").read_text() == plot.svg == plot._repr_svg_()
    assert "Jain" in simulate("rtt-fairness", "cubic").plot().svg
    with pytest.raises(ValueError, match=r"\.svg"):
        plot.save("two.png")
    with pytest.raises(ValueError, match="nothing to plot"):
        anole_ccp.plot()


def test_a_program_that_is_built_runs():
    build = fold.Builder("built")
    acked = build.report("acked", volatile=True, comment="bytes since the last report")
    least = build.report("least_us", None, volatile=True)
    interval = build.control("interval_us", 20_000)
    build.when(fold.TRUE, acked.set(acked + fold.ACK["bytes_acked"]))
    build.when(fold.HAS_RTT, least.set(least.min(fold.FLOW["rtt_sample_us"])))
    build.when((fold.MICROS > interval) | fold.WAS_TIMEOUT, fold.MICROS.set(0), report=True)
    assert anole_ccp.check_program(build.text()) == []
    assert build.program().reports["acked"] == "bytes since the last report"

    class Built(Algorithm):
        program = build.program()
        least = []

        def on_report(self, report):
            self.least.append(report.least_us)
            return {"cwnd": 30_000}

    assert simulate(SHORT, Built).flow.throughput_mbps > 5
    assert 40_000 <= min(Built.least) < 45_000


def test_a_rate_of_0_ends_pacing():
    class Paced(Algorithm):
        def on_flow(self, flow):
            return {"cwnd": 100 * flow.mss, "rate": 1e5}

        def on_report(self, report):
            return {"rate": 0} if report.now_s > 1 else None

    rates = simulate(SHORT, Paced).flow.series.throughput_mbps
    assert rates[5] < 1.2 and rates[-1] > 5
