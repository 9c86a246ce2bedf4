"""Congestion control algorithms in Python.

class Fixed(anole_ccp.Algorithm):
    def on_flow(self, flow):
        return {"cwnd": 20 * flow.mss}

    def on_report(self, report):
        return None

anole_ccp.simulate("anole-normal", Fixed)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from . import _anole
from .program import Program

Commands: TypeAlias = Mapping[str, "float | str"]
"""What an algorithm tells the datapath: registers of the program that runs; `cwnd` (bytes of payload) and `rate` (those
per second; 0 ends pacing); `program` (the name of one of its programs, which then runs from its start)."""

NO_VALUE = 0xFFFF_FFFF
"""What a register holds that began at `+infinity` and was given no sample, such as `min_rtt_us`."""


@dataclasses.dataclass(frozen=True)
class Flow:
    """A flow that begins."""

    mss: int
    """Payload of a full packet, bytes."""
    init_cwnd: int
    """Window at the start, bytes."""
    seed: int
    """Seed for whatever is random; differs between flows, and with the run's seed."""
    now_s: float
    """Time, s."""


class Report:
    """A report of the datapath: the program's report registers as attributes, integers; `now_s` is the time.

    Truth values are 0 and 1. Times are in the unit that the program says, which is microseconds in all that come
    with the package.
    """

    def __init__(self, program: str, values: Mapping[str, int], now_s: float) -> None:
        """Of `program`, with its registers by name."""
        self.program = program
        """Name of the program."""
        self.values = values
        """The registers."""
        self.now_s = now_s
        """Time, s."""

    def __getattr__(self, name: str) -> int:
        values: Mapping[str, int] = self.__dict__.get("values", {})
        if name in values:
            return values[name]
        raise AttributeError(f"the report has no {name}; it has {', '.join(values)}")

    def __repr__(self) -> str:
        return f"Report({self.now_s:.6f} s, {self.program}: {dict(self.values)})"


class Algorithm:
    """A congestion control algorithm. A flow has an instance of its own, made without arguments.

    The same class runs in a simulation (`anole_ccp.simulate(scenario, Mine)`) and over a socket on real flows
    (`anole_ccp.serve(Mine, socket)`). An exception ends either and comes out of it.

    >>> class Fixed(Algorithm):
    ...     def on_flow(self, flow):
    ...         return {"cwnd": 20 * flow.mss}
    >>> from anole_ccp import simulate
    >>> round(simulate("anole-normal", Fixed, set=["duration_s=5"]).flow.throughput_mbps, 1)
    4.7
    """

    name: ClassVar[str] = ""
    """Name in results and plots; the class's name if empty."""
    program: ClassVar[str | Path | Program | Sequence[str | Path | Program]] = "rate-hold"
    """The fold program, or several, of which the first runs at the start: a name, a `.ccp` file, a text, or a
    `Program`. The default holds window and rate as they were set, and reports every `interval_us` and after a
    timeout: `acked`, `lost`, `timeout`, `elapsed_us`, `rtt_us`, `min_rtt_us`, `rate_in`, `inflight`, `marked`."""

    def on_flow(self, flow: Flow) -> Commands | None:
        """The flow begins, under the first program. Returns what to set."""
        return {"cwnd": flow.init_cwnd}

    def on_report(self, report: Report) -> Commands | None:
        """A report of the program that runs. Returns what to set; None leaves everything as it is."""
        return None

    @classmethod
    def programs(cls) -> list[Program]:
        """The fold programs, compiled. Raises ValueError for one that does not compile, with the line, and for two of one
        name."""
        given = cls.program
        several = [given] if isinstance(given, (str, Path, Program)) else list(given)
        own = cls.name or cls.__name__
        names = [own if len(several) == 1 else f"{own}-{number}" for number in range(1, 1 + len(several))]
        programs = [_compiled(one, name) for one, name in zip(several, names, strict=True)]
        for number, program in enumerate(programs):
            if program.name in [before.name for before in programs[:number]]:
                raise ValueError(f"{own}: two programs are named {program.name}; a name chooses one of them")
        return programs


def _compiled(given: str | Path | Program, name: str) -> Program:
    if isinstance(given, Program):
        return given
    return Program(given, name=name if isinstance(given, str) and "(" in given else None)


Own: TypeAlias = tuple[str, Callable[..., Any], Callable[..., Any], list[_anole.Program]]
"""What `_anole.simulate` takes: name, start, report, programs."""


def own(algorithm: type[Algorithm]) -> Own:
    """An algorithm as the extension takes it. Raises TypeError for what is no class derived from `Algorithm`."""
    if isinstance(algorithm, Algorithm):
        name = type(algorithm).__name__
        raise TypeError(f"give the class {name} itself, not {name}(): each flow has an instance of its own")
    if not (isinstance(algorithm, type) and issubclass(algorithm, Algorithm)):
        raise TypeError(
            f"{algorithm!r} is no algorithm: give a class that is derived from anole_ccp.Algorithm"
        )

    def start(mss: int, init_cwnd: int, seed: int, now_s: float) -> tuple[Algorithm, Commands | None]:
        instance = algorithm()
        return instance, instance.on_flow(Flow(mss, init_cwnd, seed, now_s))

    def report(instance: Algorithm, program: str, values: dict[str, int], now_s: float) -> Commands | None:
        return instance.on_report(Report(program, values, now_s))

    programs = [program._program for program in algorithm.programs()]
    return algorithm.name or algorithm.__name__, start, report, programs
