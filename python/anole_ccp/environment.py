"""Flows in simulated networks, whose policies are decided on here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _anole
from .ranges import Ranges
from .running import _seed
from .schema import Schema
from .schema import load as load_schema

STATS: tuple[str, ...] = tuple(_anole.step_names())
"""Names of the columns of `stats`, with their units; see `Step` in `evaluation/sim/src/pilot.rs`."""

Floats = NDArray[np.float32]


class VectorEnv:
    """`n` independent networks, in each of which one flow asks for decisions.

    Every network is a link drawn from `ranges` with its traffic; the flow runs `algorithm` (a name that
    `anole-ccp algs` lists, with a learned slot or driven by a policy), whose network has the shape of
    `schema`. A step takes every flow from one question to its next; how much time that is, the algorithm
    decides (`stats` tells). Flows are not in step in virtual time.

    An episode ends with the first question after `episode_s` (or `ranges.duration_s`). The next one, on
    another link, begins in the same call: then `done` is true, `obs` is the first observation of the new
    episode, `stats` are those of the old one's last interval, and the old one's last observation stands in
    `final_obs`. Ends are truncations: the flow could have gone on.

    Links are a function of `seed`, the number of the environment and that of the episode, and never those
    of an evaluation (`anole-eval suite`), whatever the seeds. The same actions give the same results, for
    any number of threads.

    Simulations are threads: they do not survive a fork, so make environments in the process that uses them.

    Shapes: `obs` and `final_obs` [n, schema.inputs] float32; `actions` [n, schema.outputs] float32, the
    network's outputs as they are (the algorithm bounds them); `stats` [n, len(STATS)] float32; `done` [n]
    bool. Every call returns new arrays.
    """

    def __init__(
        self,
        schema: str | Path | Schema = "libra",
        algorithm: str = "anole",
        n: int = 64,
        threads: int | None = None,
        ranges: Ranges | str | None = None,
        seed: int = 1,
        episode_s: float | None = None,
        params: Mapping[str, float] | None = None,
    ) -> None:
        """Raises ValueError for names, ranges, parameters or a schema that make no sense, with the reason.
        `threads` (default: one per processor) simulate while Python waits, without its lock; `params` are
        parameters of the algorithm, as `--set param.NAME=VALUE` gives them."""
        self.schema = schema if isinstance(schema, Schema) else load_schema(schema)
        self.algorithm = algorithm
        ranges = Ranges() if ranges is None else ranges
        self.ranges = Ranges.named(ranges) if isinstance(ranges, str) else ranges
        if episode_s is not None:
            self.ranges = self.ranges.replace(duration_s=float(episode_s))
        if n < 1:
            raise ValueError(f"n = {n}: give at least 1")
        if (threads or 0) < 0:
            raise ValueError(f"threads = {threads}: give at least 1")
        self.num_envs = n
        self.threads = threads or os.cpu_count() or 1
        self.seed = _seed(seed)
        self.params = dict(params or {})
        self.final_obs: Floats = np.zeros((n, self.schema.inputs), np.float32)
        self._window: Floats = np.zeros(n, np.float32)
        self._episodes = [0] * n
        self._peer: bytes | None = None
        self._simulations: _anole.Simulations | None = self._start()
        self._fresh = True
        self._running = False

    #: The algorithm drives itself, and is only watched.
    _watched = False

    def _start(self) -> _anole.Simulations:
        simulations = _anole.Simulations(
            schema_text=self.schema.text,
            algorithm=self.algorithm,
            ranges_json=self.ranges.json(),
            count=self.num_envs,
            threads=self.threads,
            seed=self.seed,
            first_episodes=self._episodes,
            params=self.params,
            watched=self._watched,
        )
        if self._peer is not None:
            simulations.set_peer(self._peer)
        return simulations

    def reset(self, seed: int | None = None) -> Floats:
        """Begins the first episode of every environment and returns the first observations. A second call leaves
        the episodes that run and begins the next ones; with a `seed`, the first ones of that seed."""
        if seed is not None:
            seed = _seed(seed)
            self._fresh = self._fresh and seed == self.seed and not any(self._episodes)
            self.seed, self._episodes = seed, [0] * self.num_envs
        elif not self._fresh:
            self._episodes = [episode + 1 for episode in self._episodes]
        if not self._fresh or self._simulations is None:
            self._simulations = self._start()
        self._fresh, self._running = False, True
        return self._round(None)[0]

    def set_peer(self, policy: bytes) -> None:
        """Gives the flows that `ranges.own_flows` adds the policy in these bytes (`policy_file.content`), from each
        environment's next episode on. Before, they run the shipped policy of the schema, or one whose weights are
        all zero. Raises ValueError for what is no policy file of this schema, RuntimeError after `close`."""
        self._open().set_peer(policy)
        self._peer = policy

    def step(self, actions: ArrayLike) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Gives every flow its network's outputs, and returns (obs, stats, done) at the next questions.

        Raises RuntimeError before the first `reset`, and when an algorithm never asks; ValueError for
        actions of another shape."""
        if not self._running:
            raise RuntimeError("call reset() before the first step()")
        actions = np.ascontiguousarray(actions, dtype=np.float32)
        if self.schema.outputs == 1 and actions.shape == (self.num_envs,):
            actions = actions[:, None]
        return self._round(actions)

    def _round(self, actions: Floats | None) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        obs, stats, done, self.final_obs, self._window, self._episodes = self._open().round(actions)
        return obs, stats, done

    def _open(self) -> _anole.Simulations:
        if self._simulations is None:
            raise RuntimeError("the environment is closed; reset() starts it again")
        return self._simulations

    def window(self) -> Floats:
        """Congestion windows in force at the present questions, bytes, [n]."""
        return self._window

    def close(self) -> None:
        """Ends the simulations; the next `reset` starts them again."""
        self._simulations, self._running = None, False


class TapEnv(VectorEnv):
    """`n` flows that any algorithm drives, seen as a policy would see them: to learn from what others do.

    As `VectorEnv`, with these differences: `algorithm` may be any (`cubic`, `bbr`, …) and decides by itself;
    `obs` are what a policy with this schema would be asked every `interval.ms`, with rate and window of the
    flow that is watched; `step` takes no actions. What the flow did between two questions is the ratio of
    `window()` after and before.
    """

    _watched = True

    def step(  # type: ignore[override]  # a flow that drives itself takes none
        self, actions: None = None
    ) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """(obs, stats, done) at the next questions. Raises RuntimeError before the first `reset`."""
        if not self._running:
            raise RuntimeError("call reset() before the first step()")
        return self._round(None)
