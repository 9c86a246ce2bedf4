"""Congestion control policies: environments to train them in, their networks, and their files.

The dynamics, features and actions are those of the Rust crates (`anole._anole`); nothing of them is
written here a second time.

    env = anole.VectorEnv(schema="libra", algorithm="anole", n=64, threads=4, seed=1)
    obs = env.reset()
    obs, stats, done = env.step(actions)
"""

from __future__ import annotations

from typing import Any

from . import schema
from .environment import STATS, TapEnv, VectorEnv
from .evaluation import evaluate
from .ranges import Ranges
from .schema import Schema

__all__ = [
    "STATS",
    "Ranges",
    "Schema",
    "TapEnv",
    "VectorEnv",
    "evaluate",
    "networks",
    "policy_file",
    "schema",
]


def __getattr__(name: str) -> Any:
    # `networks` needs PyTorch, which whoever only simulates need not have.
    if name in ("networks", "policy_file"):
        import importlib

        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
