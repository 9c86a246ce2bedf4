"""The environments as Gymnasium's. The reward is for the user to choose; `power_reward` is a plain one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from .environment import STATS, VectorEnv

Reward = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""Stats [n, len(STATS)] to rewards [n]."""


def power_reward(stats: NDArray[np.float32]) -> NDArray[np.float32]:
    """Share of the fair rate over the round-trip time in units of the smallest one, less the loss rate that
    exceeds the random loss: 1 at best."""
    column = {name: stats[:, index] for index, name in enumerate(STATS)}
    share = np.minimum(column["throughput_mbps"] / np.maximum(column["fair_share_mbps"], 1e-3), 1.0)
    stretch = np.maximum(column["rtt_ms"] / np.maximum(column["base_rtt_ms"], 1e-3), 1.0)
    loss = np.maximum(column["loss_rate"] - column["random_loss"], 0.0)
    reward: NDArray[np.float32] = share / stretch - loss
    return reward


def _spaces(env: VectorEnv) -> tuple[gymnasium.spaces.Box, gymnasium.Space[Any]]:
    features = env.schema.data["feature"]
    history = env.schema.data.get("history", 1)
    low, high = (np.array([f["clip"][i] for f in features] * history, np.float32) for i in range(2))
    if history > 1:
        # A history begins as zeros.
        low, high = np.minimum(low, 0), np.maximum(high, 0)
    action = env.schema.data["action"]
    actions: gymnasium.Space[Any]
    if "table" in action:
        actions = gymnasium.spaces.Discrete(len(action["table"]))
    else:
        # Parameters, and a trigger, have no bounds of their own.
        least, most = action.get("low", -1.0), action.get("high", 1.0)
        actions = gymnasium.spaces.Box(least, most, (env.schema.outputs,), np.float32)
    return gymnasium.spaces.Box(low, high, dtype=np.float32), actions


class GymVectorEnv(gymnasium.vector.VectorEnv):
    """`anole_ccp.VectorEnv` as a `gymnasium.vector.VectorEnv` with autoreset in the same step.

    Observations are the network's input, within the features' clips, and 0 where a history is not full yet; actions its
    outputs, within the bounds of the schema's action, or the number of an entry of its table.
    Episodes are truncated, never terminated. `info` holds `stats` and, after an end, `final_obs` with the
    mask `_final_obs`.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}

    def __init__(self, reward: Reward = power_reward, **options: Any) -> None:
        """`options`: as for `anole_ccp.VectorEnv`."""
        self.env = VectorEnv(**options)
        self.num_envs = self.env.num_envs
        self.reward = reward
        self.single_observation_space, self.single_action_space = _spaces(self.env)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """First observations; the same seed gives the same links."""
        super().reset(seed=seed)
        return self.env.reset(seed), {}

    def step(
        self, actions: NDArray[np.float32]
    ) -> tuple[
        NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]
    ]:
        """(observations, rewards, terminated, truncated, info)."""
        obs, stats, done = self.env.step(actions)
        info: dict[str, Any] = {"stats": stats, "_stats": np.ones(self.num_envs, bool)}
        if done.any():
            final = np.full(self.num_envs, None, dtype=object)
            for row in np.flatnonzero(done):
                final[row] = self.env.final_obs[row]
            info |= {"final_obs": final, "_final_obs": done}
        return obs, self.reward(stats), np.zeros_like(done), done, info

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the simulations."""
        self.env.close()


class GymEnv(gymnasium.Env):
    """One network as a `gymnasium.Env`: spaces and reward as for `GymVectorEnv`, `info` holds `stats`.

    Every episode is another link, also after a reset in mid-episode; `reset(seed=…)` begins the sequence of links
    of that seed. After `import anole_ccp.gym`, `gymnasium.make("anole/Link-v0", …)` makes one, and
    `gymnasium.make_vec("anole/Link-v0", num_envs=8, …)` a `GymVectorEnv`.
    """

    metadata = {"render_modes": []}

    def __init__(self, reward: Reward = power_reward, **options: Any) -> None:
        """`options`: as for `anole_ccp.VectorEnv`, without `n`."""
        self.env = VectorEnv(**options, n=1)
        self.reward = reward
        self.observation_space, self.action_space = _spaces(self.env)
        self._following: NDArray[np.float32] | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """The first observation of the next episode."""
        super().reset(seed=seed)
        if seed is None and self._following is not None:
            obs = self._following
        else:
            obs = self.env.reset(seed)[0]
        self._following = None
        return obs, {}

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """(observation, reward, terminated, truncated, info)."""
        obs, stats, done = self.env.step(np.asarray(action, np.float32)[None])
        self._following = obs[0] if done[0] else None
        seen = self.env.final_obs[0] if done[0] else obs[0]
        return seen, float(self.reward(stats)[0]), False, bool(done[0]), {"stats": stats[0]}

    def close(self) -> None:
        """Ends the simulation; the next `reset` starts it again."""
        self.env.close()
        self._following = None


def make_vector(num_envs: int = 1, **options: Any) -> GymVectorEnv:
    """What `gymnasium.make_vec` calls."""
    return GymVectorEnv(**{"n": num_envs} | options)


ID = "anole/Link-v0"
"""What `gymnasium.make` and `make_vec` are given."""

if ID not in gymnasium.registry:
    gymnasium.register(ID, entry_point=GymEnv, vector_entry_point=make_vector)
