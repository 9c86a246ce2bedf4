"""Sage's parts against figures worked out by hand, and a run of a few updates."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import anole_ccp as anole
import common
import sage

SMALL = ["--minutes", "0", "--links", "3", "--episode-s", "4", "--validation-envs", "2", "--checkpoints", "2"]
SMALL += ["--batch", "4", "--round", "2", "--sequence", "8", "--envs", "4", "--collect", "20"]


def arguments(*flags: str) -> sage.Arguments:
    return common.parse(sage.Arguments, flags, "")


def test_its_budget_is_in_updates(capsys: pytest.CaptureFixture[str]) -> None:
    assert arguments().steps == 10_000
    with pytest.raises(SystemExit):
        arguments("--help")
    assert "gradient updates in all" in " ".join(capsys.readouterr().out.split())


def test_growth_is_averaged_over_the_round_trip_to_come() -> None:
    window = np.array([[10.0], [10.0], [20.0], [20.0], [5.0]])
    rtt = np.array([[40.0], [40.0], [40.0], [10.0], [10.0]])
    # Two intervals ahead three times (half a doubling each, then −2/2), then one; none after the last.
    five = np.array([5])
    assert sage.growth(window, rtt, five)[:, 0].tolist() == pytest.approx([0.5, 0.5, -1.0, -1.0, 0.0])
    # The last two windows are of another link.
    assert sage.growth(window, rtt, five - 2)[:3, 0].tolist() == pytest.approx([0.5, 1.0, 0.0])


def test_returns_are_means_and_compare_algorithms_on_the_same_link() -> None:
    reward = np.array([[1.0, 1.0, 1.0], [0.5, 0.5, 9.0], [0.0, 0.0, 0.0], [0.5, 0.5, 0.5]], np.float32)
    pool = {"reward": reward, "length": np.array([3, 2, 3, 3])}
    mean, standing = sage.returns(pool, 2, 0.9)
    assert mean[0].tolist() == pytest.approx([1.0, 1.0, 1.0])
    assert mean[1].tolist() == pytest.approx([0.5, 0.5, 0.0])
    # On the first link 1 against 0; on the second the same, and alone at its end.
    assert (standing[0] > 0).all() and np.allclose(standing[0], -standing[2])
    assert np.allclose(standing[1], 0.0) and np.allclose(standing[3], 0.0)


def test_fast_finds_its_target() -> None:
    """α packets in the queue of a link that is a fluid."""
    rng = np.random.default_rng(1)
    fast = sage.Fast(64, rng, kicks=0.0)
    fast.noise[:] = 0.0
    window = np.full(64, 10.0)
    mbps, base = 24.0, 40.0
    pipe = mbps * base / 12.0
    for _ in range(2000):
        rtt = base * np.maximum(window / pipe, 1.0)
        columns = {"throughput_mbps": window * 12.0 / rtt, "rtt_ms": rtt, "base_rtt_ms": np.full(64, base)}
        columns["fair_share_mbps"] = np.full(64, mbps)
        stats = np.stack([columns.get(name, np.zeros(64)) for name in anole.STATS], -1).astype(np.float32)
        window = window * 2.0 ** fast.act(stats)[0]
    queue = window - pipe
    wanted = fast.packets + fast.share * window
    assert np.allclose(queue, wanted, rtol=0.05, atol=0.5)


def test_the_learner_prefers_what_was_rewarded() -> None:
    """Two algorithms that always do the same on the same links: one grows, one shrinks. Which of them is
    rewarded depends on an input. A kick now and then is not copied."""
    torch.manual_seed(1)
    schema = anole.schema.load("sage")
    args = arguments(
        "--pool-algorithms", "a,b", "--batch", "32", "--sequence", "8", "--learning-rate", "0.001"
    )
    links, steps = 20, 60
    rng = np.random.default_rng(1)
    kind = np.tile(rng.random(links) < 0.5, 2)
    action = np.repeat([0.2, -0.2], links)
    obs = np.zeros((2 * links, steps, schema.inputs), np.float16)
    obs[:, :, 0] = kind[:, None]
    own = rng.random((2 * links, steps)) < 0.7
    pool = {
        "obs": obs,
        "known": np.zeros((2 * links, steps, sage.KNOWN), np.float16),
        "action": np.where(own, action[:, None], 0.9).astype(np.float32),
        "own": own,
        "reward": np.broadcast_to(((action > 0) == kind)[:, None], (2 * links, steps)).astype(np.float32),
        "length": np.full(2 * links, steps),
    }
    learner = sage.Learner(args, schema, pool, torch.device("cpu"))
    for _ in range(300):
        figures = learner.update(learner.sample(rng))
    assert figures["reward"] > 0.8 > figures["pool_reward"]
    served = sage.Served(learner.policy, schema.state)
    for _ in range(20):
        outputs = served(obs[:links, 0].astype(np.float32))[:, 0]
    assert np.allclose(outputs, np.where(kind[:links], 0.2, -0.2), atol=0.12)


def rollout(steps: int, done: list[int]) -> dict[str, np.ndarray]:
    """One flow whose inputs count its steps; its window is what 12 Mbps fill in 40 ms, a quarter of that from step 2 on."""
    stats = {"base_rtt_ms": 40.0, "rtt_ms": 80.0}
    pipe = common.fair_window(
        np.array([[40.0 if n == "base_rtt_ms" else 0.0 for n in anole.STATS]]), 12.0, 0.0
    )
    return {
        "obs": np.arange(steps, dtype=np.float32)[:, None, None],
        "stats": np.full((steps, 1, len(anole.STATS)), [stats.get(name, 0.0) for name in anole.STATS]),
        "window": np.where(np.arange(steps) < 2, pipe[0], pipe[0] / 4.0)[:, None],
        "done": np.isin(np.arange(steps), done)[:, None],
    }


def test_corrections_are_whole_sequences_with_what_the_expert_wanted() -> None:
    corrections = sage.Corrections(100, 1, 1)
    corrections.add(rollout(10, [5]), np.full((10, 1), 12.0), 0.0)
    found = corrections.sample(np.random.default_rng(1), 50, 3)
    first = found["obs"][:, 0, 0]
    # The episodes are the steps 0 to 5 and 6 to 9, without the first of each.
    assert set(first.tolist()) == {1.0, 2.0, 3.0, 7.0}
    assert (found["obs"][:, :, 0] == first[:, None] + np.arange(3)).all()
    # Per round trip: nothing, and at most a doubling; a decision is a quarter of one.
    assert np.allclose(found["wanted"], np.where(found["obs"][:, :, 0] < 2, 0.0, 1.0), atol=1e-6)
    assert np.allclose(found["per_rtt"], 0.25)


def test_episodes_too_short_for_corrections_are_refused(capsys) -> None:
    rollout = {
        "obs": np.zeros((13, 2, 3)),
        "window": np.zeros((12, 2)),
        "stats": np.zeros((12, 2, len(anole.STATS))),
        # Episodes of four intervals, of which the first does not count.
        "done": np.arange(1, 13)[:, None].repeat(2, 1) % 4 == 0,
    }
    corrections = sage.Corrections(12, 2, 3)
    corrections.add(rollout, np.ones((12, 2)), 8.0)
    assert corrections.sample(np.random.default_rng(1), 5, 3)["obs"].shape == (5, 3, 3)
    with pytest.raises(SystemExit):
        corrections.sample(np.random.default_rng(1), 5, 4)
    assert "--episode-s" in capsys.readouterr().err


def test_the_policy_is_corrected_towards_what_the_expert_wants() -> None:
    torch.manual_seed(1)
    schema = anole.schema.load("sage")
    empty = {"obs": (1, 60, schema.inputs), "known": (1, 60, sage.KNOWN)}
    pool = {name: np.zeros(empty.get(name, (1, 60)), np.float32) for name in sage.COLUMNS}
    args = arguments("--pool-algorithms", "a", "--learning-rate", "0.001")
    learner = sage.Learner(args, schema, pool | {"length": np.array([60])}, torch.device("cpu"))
    obs = np.zeros((32, 32, schema.inputs), np.float32)
    obs[::2, :, 0] = 1.0
    wanted = np.where(obs[:, :, 0] > 0.0, 0.4, -0.8).astype(np.float32)
    batch = {"obs": obs, "wanted": wanted, "per_rtt": np.full((32, 32), 0.25, np.float32)}
    losses = [learner.correct(dict(batch))["correction"] for _ in range(200)]
    assert losses[-1] < 0.02 * losses[0]
    served = sage.Served(learner.policy, schema.state)
    for _ in range(20):
        outputs = served(obs[:2, 0])[:, 0]
    assert outputs.tolist() == pytest.approx([0.1, -0.2], abs=0.03)


def run(folder: Path, updates: int, *more: str) -> dict[str, float]:
    return sage.main([*SMALL, "--steps", str(updates), "--out", str(folder), *more])


def test_a_run_leaves_pool_and_policy_and_a_resumed_one_goes_on(tmp_path: Path) -> None:
    run(tmp_path, 4)
    assert (tmp_path / "pool.npz").exists()
    found = anole.policy_file.load(tmp_path / "sage.safetensors")
    assert found.manifest["seed"] == 1 and "training/sage.py" in found.manifest["trained_by"]
    run(tmp_path, 8, "--resume")
    state = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert state["step"] == 8
    assert float(state["parts"]["policy_optimiser"]["state"][0]["step"]) == 8


def test_a_policy_of_another_size_is_trained(tmp_path: Path) -> None:
    run(tmp_path, 4, "--hidden", "16")
    assert anole.policy_file.load(tmp_path / "sage-last.safetensors").schema.name == "sage-16"


def test_the_seed_decides_the_run(tmp_path: Path) -> None:
    runs = [run(tmp_path / str(i), 4, "--seed", seed) for i, seed in enumerate("112")]
    losses = [found["correction"] for found in runs]
    assert losses[0] == losses[1]
    assert losses[0] != losses[2]
    offline = [run(tmp_path / f"offline-{seed}", 2, "--seed", seed, "--corrected", "0") for seed in "12"]
    assert offline[0]["critic_loss"] != offline[1]["critic_loss"]


def test_no_flow_of_the_pool_runs_a_policy_that_is_not_there_yet() -> None:
    pool = sage.record(arguments("--links", "16", "--episode-s", "4"), "fast", 0)
    # Flows over two: the one that is recorded, and one of CUBIC or BBR.
    assert sorted(set(pool["known"][:, 1:, 7].ravel().tolist()) - {0.0}) == [0.5, 1.0]


def test_a_pool_of_other_arguments_is_refused(tmp_path: Path, capsys) -> None:
    run(tmp_path / "a", 2)
    # The rewards in it know the weight of a loss.
    for other in (["--links", "4"], ["--loss-weight", "5"]):
        with pytest.raises(SystemExit):
            run(tmp_path / "b", 2, "--pool", str(tmp_path / "a/pool.npz"), *other)
        assert "pool.npz" in capsys.readouterr().err


def test_a_file_that_is_no_pool_is_refused(tmp_path: Path, capsys) -> None:
    (tmp_path / "text.npz").write_text("no pool")
    (tmp_path / "empty.npz").touch()
    np.savez(tmp_path / "other.npz", obs=np.zeros(3))
    np.save(tmp_path / "array.npy", np.zeros(3))
    for name in ("text.npz", "empty.npz", "other.npz", "array.npy", "."):
        with pytest.raises(SystemExit):
            sage.make_pool(arguments(), tmp_path / name)
        assert f"{tmp_path / name} is no pool" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--pool-algorithms", "fast,cubik"], '--pool-algorithms cubik: .*"cubik"; did you mean cubic'),
        (["--pool-algorithms", "cubic,"], "--pool-algorithms : .*unknown algorithm"),
        (["--pool-algorithms", "cubic,sage"], "--pool-algorithms sage: .* leave it out"),
        (["--hidden", "0"], "--hidden 0: .*outside"),
    ],
)
def test_what_cannot_drive_or_be_built_is_refused(
    tmp_path: Path, flags: list[str], told: str, capsys
) -> None:
    with pytest.raises(SystemExit):
        run(tmp_path, 2, *flags)
    assert re.search(told, capsys.readouterr().err)


def test_a_replay_that_holds_no_sequence_is_refused(tmp_path: Path, capsys) -> None:
    # Of burn-in and sequence 16 intervals, twice, for four flows.
    with pytest.raises(SystemExit):
        run(tmp_path, 2, "--replay", "127")
    assert "give 128" in capsys.readouterr().err
