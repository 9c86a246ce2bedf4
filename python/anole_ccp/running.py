"""Runs: one, many of a scenario, and many over random links. All of them in this process."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from . import _anole
from .algorithm import Algorithm, own
from .ranges import Ranges
from .result import FlowResult, Result
from .scenario import Scenario, _changes

Runnable: TypeAlias = "str | type[Algorithm]"
"""What to run: a name that `anole-ccp algs` lists, `NAME+POLICY`, or a class of one's own."""


def simulate(
    scenario: Scenario | str | Path,
    alg: Runnable | None = None,
    *,
    policy: str | Path | None = None,
    classic: str | None = None,
    params: Mapping[str, float] | None = None,
    seed: int | None = None,
    set: Sequence[str] = (),
) -> Result:
    """Runs a scenario once; the same scenario, algorithm and seed give the same result.

    `scenario`: a `Scenario`, or what makes one. `alg` replaces the algorithm of the flows under test, `policy` and
    `classic` the candidates of one that takes them (a policy is a name, a file, `none` or `fault:KIND`), `params` its
    parameters; `seed` the scenario's; `set` are changes of the scenario. Raises ValueError where that
    makes no sense, with the line or the name; an exception of one's own algorithm comes out as it is.

    >>> result = simulate("anole-normal", "cubic", set=["duration_s=5"])
    >>> result.flow.throughput_mbps > 40
    True
    >>> result.flow.series.cwnd_bytes.shape
    (50,)
    """
    return _run(_checked(scenario, set), alg, policy, classic, params, seed, _anole.Stop())


def _checked(scenario: Scenario | str | Path, changes: Sequence[str]) -> Scenario:
    if isinstance(scenario, Scenario):
        return scenario.changed(changes)
    return Scenario(scenario, set=changes)


def _seed(seed: int) -> int:
    if not 0 <= seed < 2**64:
        raise ValueError(f"seed = {seed}: give a number from 0 to 2**64 - 1")
    return seed


def _run(
    scenario: Scenario,
    alg: Runnable | None,
    policy: str | Path | None,
    classic: str | None,
    params: Mapping[str, float] | None,
    seed: int | None,
    stop: _anole.Stop,
) -> Result:
    seed = _seed(scenario.seed if seed is None else seed)
    name, mine = None, None
    if not (alg is None or isinstance(alg, str)):
        mine = own(alg)
        if policy is not None or classic is not None:
            raise ValueError(
                f"{mine[0]} takes no policy, classic or params; make them attributes of the class"
            )
    elif alg is not None and "+" in alg:
        if policy is not None:
            raise ValueError(f'"{alg}" names a policy, and policy= another')
        name, policy = alg.split("+", 1)
    else:
        name = alg
    asked = None if policy is None else str(policy)
    return Result(
        _anole.simulate(scenario._scenario, name, classic, asked, dict(params or {}), mine, seed, stop)
    )


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure over runs: mean, standard deviation, and the 95 % confidence interval of the mean (Student's t)."""

    mean: float
    """Mean over the runs."""
    deviation: float
    """Standard deviation over the runs, 0 of a single one."""
    low: float
    """Lower end of the interval."""
    high: float
    """Upper end of the interval."""
    runs: int
    """Runs in which there was something to measure."""

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Figure:
        """Of the values that are known; NaN where there is none."""
        known = np.array([value for value in values if value is not None], float)
        if known.size == 0:
            return cls(*4 * (float("nan"),), runs=0)
        mean = float(known.mean())
        deviation = float(known.std(ddof=1)) if known.size > 1 else 0.0
        half = _student(known.size - 1) * deviation / known.size**0.5 if known.size > 1 else 0.0
        return cls(mean, deviation, mean - half, mean + half, known.size)

    def __str__(self) -> str:
        # A loss rate of a few in a thousand is to be seen.
        digits = 4 if 0 < abs(self.mean) < 0.1 else 2
        return f"{self.mean:.{digits}f} ± {self.deviation:.{digits}f}"


#: 97.5 % quantiles of Student's t, for 1 to 30 degrees of freedom.
_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


def _student(degrees: int) -> float:
    # Beyond the table two terms of Cornish and Fisher's expansion are good to 0.001.
    return _T[degrees - 1] if degrees <= len(_T) else 1.960 + 2.372 / degrees + 2.822 / degrees**2


@dataclasses.dataclass(frozen=True)
class SweepRow:
    """What one algorithm did at one value: its runs, and figures of the first flow under test over them."""

    alg: str
    """The algorithm."""
    at: dict[str, Any]
    """Changes of the scenario, by key."""
    results: list[Result]
    """Its runs, in the order of their seeds."""

    def figure(self, what: str | Callable[[Result], float | None]) -> Figure:
        """A figure over the runs: the name of one of a flow's, or a function of a result."""
        value = what if callable(what) else lambda result: _named(result.flow, what)
        return Figure.of(value(result) for result in self.results)


def _named(flow: FlowResult, name: str) -> float | None:
    others = ("alg", "under_test", "series")
    figures = [field.name for field in dataclasses.fields(flow) if field.name not in others]
    if name not in figures:
        raise ValueError(f"no figure of a flow is named {name!r}; known are {', '.join(figures)}")
    value: float | None = getattr(flow, name)
    return value


class Sweep:
    """Rows of a sweep: every algorithm at every value."""

    FIGURES = ("throughput_mbps", "rtt_mean_ms", "rtt_p95_ms", "loss_rate")
    """Figures that tables show."""

    def __init__(self, rows: list[SweepRow]) -> None:
        """In order of values, then of algorithms."""
        self.rows = rows

    def table(self) -> list[dict[str, Any]]:
        """One dictionary a row: `alg`, the values, and for each figure its mean, deviation, low and high."""
        made = []
        for row in self.rows:
            line: dict[str, Any] = {"alg": row.alg} | row.at | {"runs": len(row.results)}
            for name in self.FIGURES:
                figure = row.figure(name)
                line |= {name: figure.mean, f"{name}_deviation": figure.deviation}
                line |= {f"{name}_low": figure.low, f"{name}_high": figure.high}
            made.append(line)
        return made

    def to_pandas(self) -> Any:
        """The table as a DataFrame. Needs pandas."""
        import pandas

        return pandas.DataFrame(self.table())

    def __str__(self) -> str:
        head = ["algorithm", *self.rows[0].at, *self.FIGURES] if self.rows else []
        cells = [
            [row.alg, *map(str, row.at.values()), *(str(row.figure(name)) for name in self.FIGURES)]
            for row in self.rows
        ]
        widths = [max(len(line[column]) for line in [head, *cells]) for column in range(len(head))]
        return "\n".join(
            "  ".join(c.rjust(w) for c, w in zip(line, widths, strict=True)) for line in [head, *cells]
        )


def _several(algs: Runnable | Sequence[Runnable]) -> list[Runnable]:
    return [algs] if isinstance(algs, (str, type)) else list(algs)


def sweep(
    scenario: Scenario | str | Path,
    algs: Runnable | Sequence[Runnable],
    *,
    vary: Mapping[str, Sequence[Any]] | None = None,
    runs: int = 1,
    seed: int | None = None,
    set: Sequence[str] = (),
    threads: int | None = None,
    progress: bool | None = None,
) -> Sweep:
    """Runs every algorithm at every value of one key, `runs` times with consecutive seeds.

    `vary`: `{"bottleneck.random_loss": [0, 0.01]}`, the key of a change and its values; several keys go in step.
    `progress`: a bar on standard error; where it is a terminal if left out. Ctrl-C ends it.

    >>> rows = sweep("anole-normal", ["cubic", "reno"], vary={"duration_s": [2, 3]}, threads=2).rows
    >>> [(row.alg, row.at["duration_s"]) for row in rows]
    [('cubic', 2), ('reno', 2), ('cubic', 3), ('reno', 3)]
    """
    if runs < 1:
        raise ValueError(f"runs = {runs}: give at least 1")
    vary, algs = vary or {}, _several(algs)
    for key, values in vary.items():
        if isinstance(values, str) or not hasattr(values, "__len__") or not len(values):
            raise ValueError(f"vary: {key} = {values!r}: give a list of at least one value")
    if len({len(values) for values in vary.values()}) > 1:
        lengths = ", ".join(f"{key} has {len(values)}" for key, values in vary.items())
        raise ValueError(f"vary: keys go in step and need as many values each; {lengths}")
    points = (
        [dict(zip(vary, values, strict=True)) for values in zip(*vary.values(), strict=True)]
        if vary
        else [{}]
    )
    rows, jobs = [], []
    for point in points:
        changed = _checked(
            scenario, [*_changes(set), *(f"{key}={_text(value)}" for key, value in point.items())]
        )
        first = changed.seed if seed is None else seed
        for alg in algs:
            rows.append((_label(alg), point))
            jobs += [(changed, alg, first + run) for run in range(runs)]
    results = _all(jobs, threads, progress)
    return Sweep(
        [SweepRow(alg, at, results[n * runs : (n + 1) * runs]) for n, (alg, at) in enumerate(rows)],
    )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, (bool, np.bool_)) else str(value)


def _label(alg: Runnable) -> str:
    return alg if isinstance(alg, str) else alg.name or alg.__name__


def suite(
    algs: Runnable | Sequence[Runnable],
    *,
    links: int = 200,
    seed: int = 1,
    ranges: Ranges | str = "random",
    duration_s: float | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> list[dict[str, Any]]:
    """Runs every algorithm over the same random links, as `anole-eval suite` does, and returns its figures: one
    dictionary for every algorithm with means over the links, tenth percentiles, and the first one's power and
    utilisation less this one's with 95 % intervals (of one link `None`). No training sees them, whatever its seed.

    >>> [row["alg"] for row in suite(["cubic", "bbr"], links=3, duration_s=2)]
    ['cubic', 'bbr']
    """
    algs = _several(algs)
    if links < 1:
        raise ValueError(f"links = {links}: give at least 1")
    drawn = Ranges.named(ranges) if isinstance(ranges, str) else ranges
    if duration_s is not None:
        drawn = drawn.replace(duration_s=float(duration_s))
    over = [Scenario._of(_anole.Scenario.drawn(drawn.json(), _seed(seed), number)) for number in range(links)]
    runs = [
        result._run
        for result in _all([(link, alg, link.seed) for alg in algs for link in over], threads, progress)
    ]
    each = [runs[n * links : (n + 1) * links] for n in range(len(algs))]
    checked = [link._scenario for link in over]
    return [
        json.loads(_anole.suite_figures(_label(alg), checked, its, each[0]))
        for alg, its in zip(algs, each, strict=True)
    ]


def _all(
    jobs: Sequence[tuple[Scenario, Runnable, int]], threads: int | None, progress: bool | None
) -> list[Result]:
    """Runs jobs on threads, which simulate without Python's lock; the first error, or Ctrl-C, ends all."""
    if threads is not None and threads < 1:
        raise ValueError(f"threads = {threads}: give at least 1")
    stop = _anole.Stop()
    bar = _Bar(len(jobs), sys.stderr.isatty() if progress is None else progress)
    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
        futures = [
            pool.submit(_run, scenario, alg, None, None, None, seed, stop) for scenario, alg, seed in jobs
        ]
        try:
            for future in as_completed(futures):
                future.result()
                bar.step()
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
        finally:
            bar.close()
    return [future.result() for future in futures]


class _Bar:
    """A bar of progress on standard error."""

    WIDTH = 40

    def __init__(self, total: int, shown: bool) -> None:
        self.total, self.done, self.shown = total, 0, shown

    def step(self) -> None:
        """One more is done."""
        self.done += 1
        if self.shown:
            full = self.WIDTH * self.done // max(self.total, 1)
            sys.stderr.write(f"\r[{'#' * full}{'.' * (self.WIDTH - full)}] {self.done} of {self.total} runs")
            sys.stderr.flush()

    def close(self) -> None:
        """The bar goes."""
        if self.shown and self.done:
            sys.stderr.write("\r" + " " * (self.WIDTH + 30) + "\r")
