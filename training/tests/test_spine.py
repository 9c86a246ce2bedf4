"""Spine's parts against figures worked out by hand, and a run of a few steps."""

from pathlib import Path

import numpy as np
import pytest
import torch

import anole_ccp as anole
import common
import spine

SMALL = ["--minutes", "0", "--envs", "4", "--validation-envs", "2", "--checkpoints", "2", "--episode-s", "6"]
SMALL += ["--warm-up", "8", "--burn-in", "2", "--sequence", "3", "--batch", "4", "--updates", "2"]
ROUND = 4 * 8


def arguments(*flags: str) -> spine.Arguments:
    return common.parse(spine.Arguments, flags, "")


def stats(**columns: float) -> np.ndarray:
    quiet = {
        "throughput_mbps": 10.0,
        "rtt_ms": 50.0,
        "base_rtt_ms": 48.8,
        "capacity_mbps": 10.0,
        "fair_share_mbps": 10.0,
        "flows": 1.0,
    }
    return np.array([{**quiet, **columns}.get(name, 0.0) for name in anole.STATS], np.float32)


def test_reward() -> None:
    args = arguments("--loss-weight", "2", "--tolerance", "1.1")
    assert spine.reward_of(stats(), args) == pytest.approx(1.0)
    assert spine.reward_of(stats(throughput_mbps=5.0, rtt_ms=54.0), args) == pytest.approx(0.5)
    assert spine.reward_of(stats(throughput_mbps=20.0, rtt_ms=100.0), args) == pytest.approx(0.5)
    assert spine.reward_of(stats(loss_rate=0.1), args) == pytest.approx(0.8)
    assert spine.reward_of(stats(loss_rate=0.1, random_loss=0.1), args) == pytest.approx(1.0)
    assert spine.reward_of(stats(throughput_mbps=20.0, flows=2.0), args) == pytest.approx(0.75)


def test_the_deployed_step_is_that_of_the_network() -> None:
    torch.manual_seed(1)
    schema = anole.schema.load("spine")
    network = anole.networks.build(schema)
    state = other = network.initial_state(64)
    fired = 0.0
    for _ in range(20):
        x = 2.0 * torch.randn(64, schema.inputs)
        outputs, other = network.step(x, other)
        step = spine.policy_step(network, x, state, None, 1.0)
        state = step.state
        fired += float(step.trigger.mean()) / 20
        assert torch.allclose(torch.cat([step.outputs, step.trigger], -1), outputs, atol=1e-6)
        assert torch.allclose(state, other, atol=1e-6)
    assert 0.1 < fired < 0.9


def test_a_drawn_trigger_fires_as_often_as_its_probability_and_passes_its_gradient() -> None:
    torch.manual_seed(1)
    schema = anole.schema.load("spine")
    network = anole.networks.build(schema)
    x, state = torch.zeros(4000, schema.inputs), torch.zeros(4000, schema.state)
    step = spine.policy_step(network, x, state, torch.rand(4000, 1), 0.5)
    probability = torch.sigmoid(network.trigger(step.state[:1, : network.watcher.hidden_size]) / 0.5)
    assert float(step.trigger.mean()) == pytest.approx(float(probability), abs=0.03)
    step.trigger.sum().backward()
    assert float(network.trigger.bias.grad) == pytest.approx(
        4000 * float(probability * (1 - probability)) / 0.5, rel=1e-3
    )


def test_replay_gives_whole_sequences_with_the_state_before_them() -> None:
    length, rows = 50, 2
    replay = spine.Replay(length, rows, 1, 1, 1)
    ages = np.array([[t % 7, (t + 3) % 9] for t in range(80)])
    for first in range(0, 80, 8):
        t = np.arange(first, first + 8)
        both = np.stack([t, t + 1000], -1).astype(np.float32)[..., None]
        rollout = {"obs": both, "action": both, "draw": both, "state": both, "age": ages[t]}
        replay.add(rollout, np.zeros((8, rows, spine.KNOWN), np.float32), both, both[..., 0])
    batch = replay.sample(np.random.default_rng(1), 500, 4, torch.device("cpu"))
    start = batch["inputs"][0, :, 0]
    assert torch.equal(batch["inputs"][..., 0], start + torch.arange(4.0)[:, None])
    assert torch.equal(batch["state"][:, 0], start)
    found = set(start.int().tolist())
    # The oldest 30 are overwritten; a sequence of 4 fits into an episode from its first intervals only.
    row_0 = {t for t in range(30, 77) if t % 7 <= 3}
    row_1 = {t + 1000 for t in range(30, 77) if (t + 3) % 9 <= 5}
    assert found == row_0 | row_1


def test_the_expert_brings_the_window_to_the_fair_share_within_an_interval() -> None:
    # 10 Mbps, 50 ms, no queue: the product and 8 packets. In 200 ms the window may grow by e^0.3 four times over.
    filled = 1448.0 / 1500.0 * 62_500.0 + 8.0 * 1448.0
    seen = np.stack([stats(interval_s=0.2, base_rtt_ms=50.0, loss_rate=loss) for loss in (0.0, 0.0, 0.1)])
    limits = np.array([[0.0, 0.5], [0.0, 0.5], [0.0, 2.0], [0.0, 1.0]])
    window = filled * np.exp([-1.2, 0.8, 0.0])
    found = spine.expert(window, seen, np.full(3, 10.0), limits, 8.0)
    grows, shrinks, tolerates, keeps = (found / 2.0 + 0.5).T * np.array([[0.5], [0.5], [2.0], [1.0]])
    # No output is at the very end of its range: 0.975 and 0.025 of it.
    assert grows == pytest.approx([0.3, 0.0125, 0.0125], abs=1e-6)
    assert shrinks == pytest.approx([0.0125, 0.2, 0.0125], abs=1e-6)
    assert tolerates == pytest.approx([0.1 + 11_584 / filled, 0.05, 0.5 * (0.1 + 11_584 / filled)], abs=1e-6)
    assert keeps == pytest.approx([0.975, 0.975, 0.7], abs=1e-6)


def test_the_learner_imitates_the_expert_and_is_held_near_it() -> None:
    torch.manual_seed(1)
    args = arguments("--burn-in", "1", "--sequence", "4", "--batch", "32")
    schema = anole.schema.load("spine")
    learner = spine.Learner(args, schema, torch.device("cpu"))
    for group in learner.actor_optimiser.param_groups:
        group["lr"] = 2e-3
    wanted = torch.tensor([0.5, -0.5, 0.9, 0.0])
    batch = {
        "inputs": torch.zeros(6, 32, schema.inputs),
        "known": torch.zeros(6, 32, spine.KNOWN),
        "outputs": torch.zeros(6, 32, 4),
        "expert": wanted.expand(6, 32, 4),
        "draw": torch.rand(6, 32, 1),
        "reward": torch.ones(6, 32),
        "state": torch.zeros(32, schema.state),
    }
    for imitate, near in ((True, 0.01), (False, 0.1)):
        for _ in range(100):
            figures = learner.update(batch, 1.0, 0.0, imitate=imitate)
        assert figures["strayed"] < near


def test_the_learner_finds_the_rewarded_parameters() -> None:
    """A reward for parameters near (0.5, −0.5, …) and nothing to remember."""
    torch.manual_seed(1)
    args = arguments(
        "--burn-in", "1", "--sequence", "4", "--batch", "32", "--learning-rate", "0.002", "--imitate", "0"
    )
    schema = anole.schema.load("spine")
    learner = spine.Learner(args, schema, torch.device("cpu"))
    wanted = torch.tensor([0.5, -0.5, 0.5, -0.5])

    def distance() -> float:
        state, x = torch.zeros(1, schema.state), torch.zeros(1, schema.inputs)
        return float((spine.policy_step(learner.actor, x, state, None, 1.0).outputs - wanted).abs().mean())

    before = distance()
    for _ in range(150):
        outputs = 2.0 * torch.rand(6, 32, 4) - 1.0
        batch = {
            "inputs": torch.zeros(6, 32, schema.inputs),
            "known": torch.zeros(6, 32, spine.KNOWN),
            "outputs": outputs,
            "draw": torch.rand(6, 32, 1),
            "reward": 1.0 - (outputs - wanted).square().sum(-1),
            "state": torch.zeros(32, schema.state),
        }
        learner.update(batch, 1.0, 0.0)
    assert before == pytest.approx(0.5, abs=0.05)
    assert distance() < 0.2


def run(folder: Path, rounds: int, *more: str) -> dict[str, float]:
    return spine.main([*SMALL, "--steps", str(rounds * ROUND), "--out", str(folder), *more])


def test_two_rounds_leave_a_policy_and_a_resumed_run_goes_on(tmp_path: Path) -> None:
    run(tmp_path, 2)
    found = anole.policy_file.load(tmp_path / "spine.safetensors")
    assert found.manifest["seed"] == 1 and "training/spine.py" in found.manifest["trained_by"]
    run(tmp_path, 4, "--resume")
    state = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert state["step"] == 4 * ROUND
    assert float(state["parts"]["critic_optimiser"]["state"][0]["step"]) > 0


def test_a_round_over_cubic_leaves_its_policy(tmp_path: Path) -> None:
    run(tmp_path, 2, "--policy", "spine-cubic")
    found = anole.policy_file.load(tmp_path / "spine-cubic.safetensors")
    assert found.schema.name == "spine-cubic" and found.manifest["training"]["commit"]
    assert "training/spine.py --minutes 0" in found.manifest["trained_by"]


def test_the_same_command_gives_the_same_weights(tmp_path: Path) -> None:
    for folder in "ab":
        run(tmp_path / folder, 4)
    files = [anole.policy_file.load(tmp_path / folder / "spine-last.safetensors") for folder in "ab"]
    assert files[0].manifest["tensors_sha256"] == files[1].manifest["tensors_sha256"]


def test_the_seed_decides_the_run(tmp_path: Path) -> None:
    runs = [run(tmp_path / str(i), 4, "--seed", seed) for i, seed in enumerate("112")]
    losses = [(found["reward"], found["critic_loss"]) for found in runs]
    assert losses[0] == losses[1]
    assert losses[0] != losses[2]


def test_episodes_too_short_for_a_sequence_are_refused(tmp_path: Path, capsys) -> None:
    # Of 200 ms: a sequence takes six intervals.
    with pytest.raises(SystemExit):
        run(tmp_path, 4, "--episode-s", "0.9")
    assert "--episode-s" in capsys.readouterr().err


@pytest.mark.usefixtures("ray")
def test_two_ray_workers_collect(tmp_path: Path) -> None:
    run(tmp_path, 2, "--ray", "local", "--workers", "2")
    assert torch.load(tmp_path / "checkpoint.pt", weights_only=True)["step"] == 2 * ROUND
