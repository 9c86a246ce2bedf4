"""The trainers' parts against figures worked out by hand."""

import sys
import types

import numpy as np
import pytest
import torch

import anole_ccp as anole
import common
import libra
import orca
import sage
import spine


def stats(**columns: list[list[float]]) -> np.ndarray:
    """Statistics [T, N, K] with these columns [T][N], the others as on a quiet link of 10 Mbps, 1.2 ms a packet."""
    quiet = {
        "interval_s": 0.1,
        "throughput_mbps": 10.0,
        "rtt_ms": 50.0,
        "base_rtt_ms": 48.8,
        "capacity_mbps": 10.0,
        "fair_share_mbps": 10.0,
        "flows": 1.0,
    }
    shape = np.shape(next(iter(columns.values())))
    parts = [np.broadcast_to(columns.get(name, quiet.get(name, 0.0)), shape) for name in anole.STATS]
    return np.stack(parts, -1).astype(np.float32)


def test_rewards_of_libra() -> None:
    seen = stats(throughput_mbps=[[5.0], [10.0]], rtt_ms=[[50.0], [100.0]])
    alive = np.zeros((2, 1), dtype=bool)

    def reward(*flags: str) -> list[float]:
        args = common.parse(libra.LibraArguments, flags, "")
        return libra.Reward(args, 1)(seen, alive).ravel().tolist()

    assert reward("--reward", "power") == pytest.approx([np.log(0.5), -np.log(2.0)])
    assert reward("--reward", "link") == pytest.approx([0.5 - 0.5, 1.0 - 1.0])
    # The flow's own largest rate is what it has reached so far.
    assert reward("--reward", "libra") == pytest.approx([1.0 - 0.5, 1.0 - 1.0])
    assert reward("--reward", "libra", "--change") == pytest.approx([0.0, -0.5])


def test_a_flow_among_others_pays_for_what_it_has_beyond_its_fair_share() -> None:
    seen = stats(throughput_mbps=[[5.0, 20.0, 20.0]], flows=[[2.0, 2.0, 1.0]])
    assert common.above_fair_share(seen).ravel().tolist() == pytest.approx([0.0, 1.0, 0.0])
    args = common.parse(libra.LibraArguments, ["--equal-weight", "0.5"], "")
    found = libra.Reward(args, 3)(seen, np.zeros((1, 3), dtype=bool)).ravel().tolist()
    assert found == pytest.approx([np.log(0.5), -0.5 * np.log(2.0), 0.0])


def test_an_episodes_end_ends_what_a_reward_remembers() -> None:
    args = common.parse(libra.LibraArguments, ["--reward", "libra", "--change"], "")
    seen = stats(throughput_mbps=[[10.0], [5.0], [5.0]])
    found = libra.Reward(args, 1)(seen, np.array([[False], [True], [False]]))
    assert found.ravel().tolist() == pytest.approx([0.0, -0.5, 0.0])


@pytest.mark.parametrize("flag", ["--envs", "--checkpoints", "--validation-envs", "--validation-steps"])
def test_a_run_without_flows_or_validations_is_refused(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        common.parse(libra.LibraArguments, [flag, "0"], "")
    assert flag in capsys.readouterr().err


@pytest.mark.parametrize("share", ["-0.1", "0.61", "nan"])
def test_no_links_are_left_for_more_traces(share: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        common.parse(libra.LibraArguments, ["--traces", share], "")
    assert "--traces" in capsys.readouterr().err
    args = common.parse(libra.LibraArguments, ["--traces", "0.6"], "")
    anole.VectorEnv(n=1, ranges=common.training_ranges(args)).close()


def test_advantages_stop_at_an_end_and_take_the_next_state_for_the_last() -> None:
    args = common.parse(libra.LibraArguments, ["--gamma", "0.5", "--lam", "0.5"], "")
    rewards = torch.tensor([[1.0], [2.0], [3.0]])
    values = torch.tensor([[4.0], [6.0], [8.0], [10.0]])
    done = torch.tensor([[False], [True], [False]])
    found = libra.advantages(rewards, values, done, args).ravel().tolist()
    last = 3.0 + 0.5 * 10.0 - 8.0
    cut = 2.0 + 0.5 * 6.0 - 6.0
    assert found == pytest.approx([1.0 + 0.5 * 6.0 - 4.0 + 0.25 * cut, cut, last])


def test_the_expert_goes_to_the_fair_share_and_below_it_while_there_is_a_queue() -> None:
    # 10 Mbps, 50 ms, a packet takes 1.2 ms: without a queue the round-trip time is 51.2 ms.
    seen = stats(
        throughput_mbps=[[5.0, 10.0, 10.0, 0.0]], rtt_ms=[[51.2, 51.2, 101.2, 51.2]], base_rtt_ms=[[50.0] * 4]
    )
    obs = np.zeros((1, 4, 40), dtype=np.float32)
    obs[..., libra.SENT_OVER_DELIVERED] = [1.0, 1.25, 1.0, 0.0]
    found = libra.expert(obs, seen, np.full((1, 4), 10.0), 0.0)[0, :, 0]
    wanted = np.log2([9.8 / 5.0, 9.8 / 12.5, 9.8 * 0.75 / 10.0])
    assert found[:3].tolist() == pytest.approx(wanted.tolist(), abs=1e-5)
    assert np.isnan(found[3])
    # Five packets, 6 ms, that are wanted in the queue and are not there: a quarter of their share of a round trip more.
    found = libra.expert(obs, seen, np.full((1, 4), 10.0), 5.0)[0, :, 0]
    assert found[1] == pytest.approx(np.log2(9.8 * 1.03 / 12.5), abs=1e-5)


def test_the_fair_share_is_smoothed_and_forgotten_with_an_episode() -> None:
    fair_share = common.FairShare(1, span_s=0.1)
    seen = stats(fair_share_mbps=[[10.0], [0.0], [30.0]], interval_s=[[0.1], [0.1], [0.1]])
    found = fair_share(seen, np.array([[False], [True], [False]])).ravel().tolist()
    assert found == pytest.approx([10.0, 10.0 / np.e, 30.0], abs=1e-3)
    # What was known goes on with the next rollout.
    again = fair_share(stats(fair_share_mbps=[[30.0]]), np.zeros((1, 1), dtype=bool))
    assert again.ravel().tolist() == pytest.approx([30.0])


def test_the_expert_of_orca_brings_the_window_to_what_the_fair_share_fills() -> None:
    filled = 1448.0 / 1500.0 * 62_500.0 + 2.0 * 1448.0
    window = filled * np.array([[1.0, 0.5, 16.0]])
    found = orca.expert(window, stats(base_rtt_ms=[[50.0] * 3]), np.full((1, 3), 10.0)).ravel().tolist()
    assert found == pytest.approx([0.0, 0.5, -1.0], abs=1e-6)


def test_rewards_of_orca() -> None:
    args = common.parse(orca.OrcaArguments, [], "")
    seen = stats(
        rtt_ms=[[50.0, 60.0, 100.0]], throughput_mbps=[[10.0, 20.0, 5.0]], loss_rate=[[0.0, 0.0, 0.5]]
    )
    # Within 1.25 of the smallest delay; more than the fair share earns no more; lost 5 Mbps at ζ = 5.
    assert orca.rewards(seen, args).ravel().tolist() == pytest.approx([1.0, 1.0, -1.0])


def test_replay_returns_over_several_steps_and_marks_what_an_end_cuts() -> None:
    replay = orca.Replay(64 * 2, 2, 1, 1, torch.device("cpu"))
    count = 100  # more than its 64 rows, so that it wraps
    t = np.arange(count, dtype=np.float32)
    both = np.stack([t, t + 1000.0], -1)
    done = np.zeros((count, 2), dtype=bool)
    done[90, 1] = True
    replay.add(
        obs=both[..., None],
        known=np.repeat(both[..., None], common.KNOWN, -1),
        action=both[..., None],
        reward=both,
        done=done,
    )
    torch.manual_seed(1)
    batch = replay.sample(2000, 3, 0.5)
    now = batch["obs"][:, 0]
    assert now.min() >= 36.0 and set((now % 1000).tolist()) == set(range(36, 97))
    assert torch.equal(batch["next_obs"][:, 0], now + 3)
    assert torch.allclose(batch["reward"], now + 0.5 * (now + 1) + 0.25 * (now + 2))
    cut = (now >= 1088.0) & (now <= 1090.0)
    assert cut.any() and torch.equal(batch["whole"], (~cut).float())


def test_the_score_weighs_steps_by_time_and_packets() -> None:
    seen = stats(throughput_mbps=[[10.0], [5.0]], rtt_ms=[[100.0], [50.0]], interval_s=[[1.0], [3.0]])
    found = common.score(seen)
    assert found["utilisation"] == pytest.approx(25.0 / 40.0)
    assert found["rtt_ratio"] == pytest.approx((10.0 * 2 + 15.0 * 1) / 25.0)
    assert found["power"] == pytest.approx(found["utilisation"] / found["rtt_ratio"])
    seen = stats(sending_mbps=[[4.0], [1.0]], loss_rate=[[0.1], [0.6]], interval_s=[[1.0], [1.0]])
    assert common.score(seen)["loss"] == pytest.approx((0.4 + 0.6) / 5.0)


def test_nothing_is_better_than_the_round_trip_time_of_a_packet_that_is_alone() -> None:
    """Its transmission takes 12 ms at 1 Mbps."""
    link = {"capacity_mbps": [[1.0]], "fair_share_mbps": [[1.0]], "throughput_mbps": [[1.0]]}
    seen = stats(base_rtt_ms=[[5.0]], rtt_ms=[[17.0]], **link)
    assert common.score(seen)["power"] == pytest.approx(1.0)
    alive = np.zeros((1, 1), dtype=bool)
    for reward, best in (("power", 0.0), ("link", 0.5)):
        args = common.parse(libra.LibraArguments, ["--reward", reward], "")
        assert float(libra.Reward(args, 1)(seen, alive)[0, 0]) == pytest.approx(best, abs=1e-6)
    args = common.parse(orca.OrcaArguments, ["--beta", "1"], "")
    assert orca.rewards(seen, args).item() == pytest.approx(1.0)
    args = common.parse(spine.Arguments, ["--tolerance", "1"], "")
    assert spine.reward_of(seen, args).item() == pytest.approx(1.0)
    assert sage.reward_of(seen, 1.0).item() == pytest.approx(1.0)
    # A cell that gives nothing for a moment makes no round-trip time a good one.
    outage = {**link, "capacity_mbps": [[0.0]], "fair_share_mbps": [[0.0]]}
    assert sage.reward_of(
        stats(base_rtt_ms=[[5.0]], rtt_ms=[[170.0]], **outage), 1.0
    ).item() == pytest.approx(0.1)


def test_peers_have_the_first_weights_before_the_first_episodes_begin() -> None:
    class Environment:
        """Notes what it is asked for."""

        num_envs, schema = 1, anole.schema.load("libra-rl")

        def __init__(self) -> None:
            self.calls: list[bytes | str] = []

        def set_peer(self, policy: bytes) -> None:
            self.calls.append(policy)

        def reset(self) -> np.ndarray:
            self.calls.append("reset")
            return np.zeros((1, self.schema.inputs), np.float32)

        def window(self) -> np.ndarray:
            return np.zeros(1, np.float32)

        def step(self, actions: np.ndarray) -> tuple[np.ndarray, ...]:
            return np.zeros((1, self.schema.inputs), np.float32), stats(rtt_ms=[[50.0]])[0], np.zeros(1)

    environment = Environment()
    actors = [libra.Actor(environment.schema) for _ in range(3)]
    worker = common.Worker(lambda *_: [environment], lambda: actors[0], seed=1, envs=1, threads=1)
    contents = [anole.policy_file.content(environment.schema, actor.network) for actor in actors[1:]]
    for actor in actors[1:]:
        worker.collect(actor.state_dict(), 2)
    assert environment.calls == [contents[0], "reset", contents[1]]


def test_a_full_log_keeps_validations(tmp_path) -> None:
    log = common.Log(tmp_path, [])
    for step in range(3 * common.MAX_ROWS):
        log.add(step, {"reward": 1.0})
        if step % 1000 == 0:
            log.add(step, {"valid_power": 0.5})
    log.save()
    lines = (tmp_path / "log.csv").read_text().splitlines()
    assert len(lines) <= common.MAX_ROWS + 1
    assert sum(line.endswith("0.5") for line in lines) == 6


@pytest.mark.parametrize("address", ["local", "10.0.0.1:6379"])
def test_a_ray_of_its_own_is_asked_for_by_that_word(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without an address Ray joins a cluster that is there.
    asked = []
    ray = types.SimpleNamespace(init=lambda **options: asked.append(options["address"]))
    monkeypatch.setitem(sys.modules, "ray", ray)
    common.start_ray(address)
    assert asked == [address]
