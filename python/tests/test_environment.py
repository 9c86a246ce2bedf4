"""The environment: shapes, determinism, episodes, refusals, Gymnasium's contracts."""

from __future__ import annotations

import contextlib
import gc
import time
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import anole_ccp as anole
from anole_ccp.gym import GymEnv, GymVectorEnv

SHORT = anole.Ranges(capacity_mbps=(5.0, 20.0), rtt_ms=(10.0, 40.0), duration_s=1.0)
POLICIES = Path(__file__).resolve().parents[2] / "policies"
SAGE, SCHEMAS = POLICIES / "shipped/sage.safetensors", POLICIES / "schemas"
OTHER_LIBRA = anole.schema.parse(anole.schema.load("libra").text.replace("history = 8", "history = 4"))
COLUMN = {name: index for index, name in enumerate(anole.STATS)}


def env(**options):
    return anole.VectorEnv(**{"n": 3, "threads": 1, "ranges": SHORT} | options)


def rollout(environment, steps=30, action=0.1):
    """Everything that an environment said."""
    said = [environment.reset()]
    for _ in range(steps):
        said += environment.step(np.full((environment.num_envs, 1), action, np.float32))
    environment.close()
    return said


def equal(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def test_shapes_and_plausible_figures():
    environment = env()
    obs = environment.reset()
    assert obs.shape == (3, environment.schema.inputs) and obs.dtype == np.float32
    delivered = spans = 0.0
    for _ in range(20):
        obs, stats, done = environment.step(np.zeros((3, 1)))
        assert obs.shape == (3, environment.schema.inputs) and np.isfinite(obs).all()
        assert stats.shape == (3, len(anole.STATS)) and np.isfinite(stats).all()
        assert done.shape == (3,) and done.dtype == bool
        rate, span = stats[:, COLUMN["throughput_mbps"]], stats[:, COLUMN["interval_s"]]
        delivered, spans = delivered + (rate * span).sum(), spans + span.sum()
        assert (stats[:, COLUMN["rtt_ms"]] >= stats[:, COLUMN["base_rtt_ms"]] - 1e-3).all()
    assert 0.5 < delivered / spans < 20.0
    assert (environment.window() >= 1448).all()


def test_results_depend_on_the_seed_and_the_actions_and_not_on_threads():
    first = rollout(env(threads=1))
    assert equal(first, rollout(env(threads=3)))
    assert equal(first[:4], rollout(env(n=3, threads=2))[:4])
    assert not equal(first, rollout(env(seed=2)))
    assert not equal(first, rollout(env(), action=-0.5))


def test_a_reset_draws_the_next_link_and_a_seed_begins_again():
    environment = env()
    obs = environment.reset()
    environment.step(np.zeros((3, 1)))
    again = environment.reset()
    assert not np.array_equal(again, obs)
    assert np.array_equal(environment.reset(seed=1), obs)
    assert np.array_equal(environment.reset(), again)
    assert not np.array_equal(environment.reset(seed=9), obs)
    environment.close()
    assert np.array_equal(environment.reset(seed=1), obs)


def test_episodes_end_in_time_and_the_last_observation_is_kept():
    environment = env()
    environment.reset()
    ends = 0
    for _ in range(200):
        before = environment.step(np.zeros(3))
        obs, stats, done = before
        assert (stats[done, COLUMN["time_s"]] >= 1.0).all()
        assert (stats[~done, COLUMN["time_s"]] < 1.0).all()
        for row in np.flatnonzero(done):
            assert environment.final_obs[row].any()
            assert not np.array_equal(environment.final_obs[row], obs[row])
        ends += done.sum()
    assert ends >= 6


def test_the_end_of_an_episode_is_that_of_the_one_before():
    ranges = anole.Ranges(capacity_mbps=(5.0, 20.0), rtt_ms=(50.0, 200.0), start_s=(0.0, 1.9), duration_s=2.0)
    environment = env(schema="libra", algorithm="libra-rl", n=8, seed=3, ranges=ranges)
    environment.reset()
    last = np.full(8, np.nan)
    for _ in range(300):
        _, stats, done = environment.step(np.zeros(8))
        known = done & ~np.isnan(last)
        begins = stats[:, COLUMN["time_s"]] - stats[:, COLUMN["interval_s"]]
        assert np.allclose(begins[known], last[known], atol=1e-3)
        last = np.where(done, np.nan, stats[:, COLUMN["time_s"]])


def test_cross_traffic_and_late_starts_are_seen():
    ranges = SHORT.replace(cross_flows=(2, 2), start_s=(0.2, 0.2), duration_s=3.0)
    environment = env(ranges=ranges)
    environment.reset()
    flows = [environment.step(np.zeros(3))[1][:, COLUMN["flows"]] for _ in range(60)]
    assert np.max(flows) == 3.0 and np.min(flows) >= 1.0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"algorithm": "anol"}, "^algorithm: .*did you mean anole"),
        ({"algorithm": "orca", "schema": "libra"}, "^schema: algorithm orca runs policies"),
        ({"algorithm": "cubic"}, "cubic takes no policy"),
        ({"schema": "libr"}, "no schema is named"),
        ({"schema": OTHER_LIBRA}, '^schema: another "libra" .* a name of its own'),
        ({"ranges": "everything"}, "no ranges are named"),
        ({"ranges": SHORT.replace(rtt_ms=(0.0, 5.0))}, "rtt_ms"),
        ({"n": 0}, "n = 0"),
        ({"n": -1}, "n = -1"),
        ({"seed": -1}, "seed = -1"),
        ({"seed": 2**64}, "seed = 18446744073709551616"),
        ({"threads": -1}, "threads = -1"),
        ({"params": {"no_such": 1.0}}, "no_such"),
        ({"ranges": SHORT.replace(cross_flows=(0, 1), cross_algs=("bbr", "cubi"))}, "cross_algs: .*cubic"),
    ],
)
def test_nonsense_is_refused_with_the_reason(options, reason):
    with pytest.raises(ValueError, match=reason):
        env(**options)


def test_wrong_calls_are_refused():
    environment = env()
    with pytest.raises(RuntimeError, match="reset"):
        environment.step(np.zeros((3, 1)))
    environment.reset()
    with pytest.raises(ValueError, match="wanted are"):
        environment.step(np.zeros((3, 2)))
    # NaN is an answer that the algorithm has to cope with.
    environment.step(np.full((3, 1), np.nan))
    before = environment.reset(seed=1)
    with pytest.raises(ValueError, match="seed = -1"):
        environment.reset(seed=-1)
    assert environment.seed == 1 and not np.array_equal(environment.reset(), before)


def simulations() -> int:
    """Threads of this process that simulate."""
    found = 0
    for thread in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):
            found += "simulation" in thread.read_text()
    return found


def settles(count: int) -> bool:
    """Whether there are so many of them soon: a thread takes its name, and its leave, by itself."""
    until = time.monotonic() + 5
    while simulations() != count and time.monotonic() < until:
        time.sleep(0.01)
    return simulations() == count


def test_a_closed_environment_has_no_threads_and_starts_again():
    gc.collect()  # environments of other tests
    before = simulations()
    environment = env()
    assert settles(before + 3)
    environment.close()
    assert settles(before)
    with pytest.raises(RuntimeError, match=r"reset\(\)"):
        environment.set_peer(b"")
    assert equal(rollout(environment), rollout(env()))


@pytest.mark.parametrize("algorithm", ["cubic", "bbr", "reno"])
def test_a_tap_sees_what_an_algorithm_does(algorithm):
    tap = anole.TapEnv("orca", algorithm, n=2, threads=1, ranges=SHORT, episode_s=2.0)
    alone = anole.TapEnv("orca", algorithm, n=2, threads=2, ranges=SHORT, episode_s=2.0)
    assert np.array_equal(tap.reset(), alone.reset())
    windows, spans = [tap.window()], []
    for _ in range(40):
        obs, stats, _ = tap.step()
        assert np.array_equal(obs, alone.step()[0])
        windows.append(tap.window())
        spans.append(stats[:, COLUMN["interval_s"]])
    assert np.std(np.stack(windows), axis=0).min() > 0
    # A question about every 20 ms.
    assert 0.018 < np.median(spans) < 0.03


def test_named_ranges_are_those_of_the_suite():
    assert anole.Ranges.named("random") == anole.Ranges()
    assert anole.Ranges.named("capacity-5x").capacity_mbps == (400.0, 1000.0)


def test_episodes_that_are_left_are_those_that_would_have_come():
    whole, left = env(n=1), env(n=1)
    whole.reset(), left.reset()
    done, obs = [False], None
    while not done[0]:
        obs, _, done = whole.step(np.zeros((1, 1)))
    left.step(np.zeros((1, 1)))
    assert np.array_equal(left.reset(), obs)


def test_gymnasium_makes_the_environments_by_name():
    single = gymnasium.make("anole/Link-v0", ranges=SHORT, threads=1)
    first, _ = single.reset(seed=1)
    single.step(single.action_space.sample())
    second, _ = single.reset()
    assert not np.array_equal(first, second)
    assert np.array_equal(single.reset(seed=1)[0], first)
    several = gymnasium.make_vec("anole/Link-v0", num_envs=3, ranges=SHORT, threads=1)
    obs, _ = several.reset(seed=1)
    assert obs.shape == (3, several.single_observation_space.shape[0])
    several.close()


@pytest.mark.filterwarnings("ignore:.*")
def test_gymnasium_accepts_the_environments():
    check_env(GymEnv(schema="libra", algorithm="anole", ranges=SHORT, threads=1), skip_render_check=True)
    vector = GymVectorEnv(schema="libra", algorithm="anole", n=2, ranges=SHORT, threads=1)
    obs, _ = vector.reset(seed=1)
    assert vector.observation_space.contains(obs)
    truncated = np.zeros(2, bool)
    while not truncated.any():
        obs, reward, terminated, truncated, info = vector.step(vector.action_space.sample())
        assert vector.observation_space.contains(obs) and reward.shape == (2,)
        assert not terminated.any() and (reward <= 1.0).all()
    assert vector.single_observation_space.contains(info["final_obs"][np.flatnonzero(truncated)[0]])
    vector.close()


def test_a_history_that_is_not_full_is_in_the_space(tmp_path):
    text = (SCHEMAS / "libra.toml").read_text().replace('name = "libra"', 'name = "mine"')
    text = text.replace("clip = [0.0, 4.0]", "clip = [1.0, 4.0]").replace("[-2.0, 2.0]", "[-2.0, -1.0]")
    schema = tmp_path / "mine.toml"
    schema.write_text(text)
    single = GymEnv(schema=schema, algorithm="anole", ranges=SHORT, threads=1)
    obs, _ = single.reset(seed=1)
    assert (obs[:5] == 0).all() and single.observation_space.contains(obs)
    single.close()


def test_a_reset_after_the_end_starts_again():
    single = GymEnv(ranges=SHORT, threads=1)
    single.reset(seed=1)
    while not single.step(single.action_space.sample())[3]:
        pass
    single.close()
    single.reset()
    single.step(single.action_space.sample())
    single.close()


@pytest.mark.parametrize(("name", "best"), [("indigo", 4), ("aurora", 20.0), ("orca", 1.0)])
def test_actions_reach_whatever_the_schema_allows(name, best):
    options = {"schema": name, "algorithm": name, "ranges": SHORT, "threads": 1}
    single, vector = GymEnv(**options), GymVectorEnv(n=2, **options)
    action = best if name == "indigo" else np.full(1, best, np.float32)
    assert single.action_space.contains(action)
    window = [single.reset(seed=1) and float(single.env.window()[0])]
    for _ in range(8):
        single.step(action)
        window.append(float(single.env.window()[0]))
    assert max(window) > 2 * window[0], window
    vector.reset(seed=1)
    actions = np.stack([action, action])
    assert vector.action_space.contains(actions)
    assert vector.step(actions)[0].shape == vector.observation_space.shape
    vector.reset(seed=1), vector.step(vector.action_space.sample())


def test_flows_of_its_own_kind_run_the_peers_policy():
    ranges = SHORT.replace(own_flows=(2, 2), duration_s=3.0)
    schema = anole.schema.load("libra")
    torch = pytest.importorskip("torch")

    def shares(bias: float | None) -> float:
        environment = env(algorithm="libra-rl", n=4, ranges=ranges)
        if bias is not None:
            network = anole.networks.build(schema)
            with torch.no_grad():
                for values in network.parameters():
                    values.zero_()
                list(network.layers)[-1].bias.fill_(bias)
            environment.set_peer(anole.policy_file.content(schema, network))
        said = rollout(environment, steps=60, action=0.0)[2::3]
        rows = np.concatenate([stats[stats[:, COLUMN["flows"]] > 2.5] for stats in said])
        return float(rows[:, COLUMN["throughput_mbps"]].sum() / rows[:, COLUMN["capacity_mbps"]].sum())

    # Peers that ask for more leave less; without a word they run the shipped policy.
    assert shares(-1.0) > 1.1 * shares(1.0)
    assert shares(None) > 0.0
    environment = env(algorithm="libra-rl", ranges=ranges)
    with pytest.raises(ValueError, match="schema is another"):
        sage = anole.policy_file.load(SAGE)
        environment.set_peer(anole.policy_file.content(sage.schema, sage.tensors))


def test_media_and_changes_are_drawn_and_refused_by_name():
    wild = SHORT.replace(traces=0.3, busy_cells=1.0, wifi=0.4, rtt_steps=1.0, steps=0.2)
    assert equal(rollout(env(ranges=wild, threads=1)), rollout(env(ranges=wild, threads=2)))
    with pytest.raises(ValueError, match="wifi"):
        env(ranges=SHORT.replace(wifi=0.9, traces=0.3))
