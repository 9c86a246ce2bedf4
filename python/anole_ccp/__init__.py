"""Congestion control in simulation: scenarios, runs, algorithms of one's own, training environments.

    import anole_ccp

    result = anole_ccp.simulate("anole-normal", "cubic")
    result.flow.throughput_mbps, result.flow.series.cwnd_bytes

Dynamics, features and actions are those of the Rust crates (`anole_ccp._anole`); nothing of them is written here a
second time.
"""

from __future__ import annotations

from typing import Any

from . import fold, schema
from .algorithm import NO_VALUE, Algorithm, Commands, Flow, Report
from .environment import STATS, TapEnv, VectorEnv
from .live import Served, Stop, serve, transfer
from .plotting import Plot, plot
from .program import Finding, Program, check_program, explain
from .ranges import Ranges
from .result import FlowResult, FlowSeries, LinkResult, LinkSeries, Result
from .running import Figure, Sweep, SweepRow, simulate, suite, sweep
from .scenario import Scenario
from .schema import Schema

__all__ = [
    "NO_VALUE",
    "STATS",
    "Algorithm",
    "Commands",
    "Figure",
    "Finding",
    "Flow",
    "FlowResult",
    "FlowSeries",
    "LinkResult",
    "LinkSeries",
    "Plot",
    "Program",
    "Ranges",
    "Report",
    "Result",
    "Scenario",
    "Schema",
    "Served",
    "Stop",
    "Sweep",
    "SweepRow",
    "TapEnv",
    "VectorEnv",
    "check_program",
    "explain",
    "fold",
    "networks",
    "plot",
    "policy_file",
    "schema",
    "serve",
    "simulate",
    "suite",
    "sweep",
    "transfer",
]


def __getattr__(name: str) -> Any:
    # `networks` needs PyTorch, which whoever only simulates need not have.
    if name in ("networks", "policy_file"):
        import importlib

        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
