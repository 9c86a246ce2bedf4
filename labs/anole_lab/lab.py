"""Labs, what a check expects of a submission, and the links that it is tried on."""

from __future__ import annotations

import dataclasses
import importlib.util
import math
import random
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import anole_ccp

#: Links are drawn by this key unless the instructor's is given.
PRACTICE_KEY = "practice"


@dataclasses.dataclass(frozen=True)
class Lab:
    """A lab's folder: README.md, the starter labNN.py, check.py."""

    #: Two digits.
    number: str
    folder: Path

    @property
    def title(self) -> str:
        """The heading of its README."""
        first = (self.folder / "README.md").read_text(encoding="utf-8").splitlines()[0]
        return first.removeprefix("# ").strip()

    @property
    def starter(self) -> Path:
        """What students begin with, and the name of what they hand in."""
        return self.folder / f"lab{self.number}.py"

    def run_check(self, submission: Any, checker: Checker) -> None:
        """Runs the lab's own check."""
        module = load(self.folder / "check.py", f"anole_lab_check_{self.number}")
        checker.asked = module.ROWS
        module.check(submission, checker)


def labs_folder() -> Path:
    """Where the labs are: inside an installed package, beside the package in a source tree."""
    inside = Path(__file__).resolve().parent / "labs"
    return inside if inside.is_dir() else Path(__file__).resolve().parent.parent


def labs() -> dict[str, Lab]:
    """The labs by number."""
    found = sorted(labs_folder().glob("[0-9][0-9]-*/check.py"))
    return {path.parent.name[:2]: Lab(path.parent.name[:2], path.parent) for path in found}


def load(path: Path, name: str) -> ModuleType:
    """A Python file as a module."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path}: no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def where(problem: BaseException) -> list[str]:
    """The lines of a submission, a file or a notebook's cells, that an exception came through; the check's own where what
    the submission returned is of no use to it."""
    trace = problem.__traceback__
    names = [str(frame.f_globals.get("__name__")) for frame, _ in traceback.walk_tb(trace)]
    frames = list(traceback.extract_tb(trace))
    own = [
        frame
        for name, frame in zip(names, frames, strict=True)
        if name == "__main__" or name.startswith("submission_")
    ]
    if not own and names and names[-1].startswith("anole_lab_check_"):
        own = frames[-1:]
    return [f"{Path(frame.filename).name}:{frame.lineno}: {frame.line}" for frame in own]


class Links:
    """Links that a key draws: the same key and lab, the same links, on every machine."""

    def __init__(self, key: str, lab: str) -> None:
        """`key` is a text that students do not know, or `PRACTICE_KEY`."""
        self._random = random.Random(f"{lab}/{key}")

    def between(self, low: float, high: float) -> float:
        """A number whose logarithm is uniform, with three digits."""
        return float(f"{math.exp(self._random.uniform(math.log(low), math.log(high))):.3g}")

    def one_of(self, *values: Any) -> Any:
        """One of them."""
        return self._random.choice(values)

    def seed(self) -> int:
        """A seed for a run."""
        return self._random.randrange(1, 2**31)


@dataclasses.dataclass(frozen=True)
class Row:
    """One thing that a submission was asked for."""

    what: str
    found: str
    wanted: str
    passed: bool
    #: What to think about when it was not met.
    hint: str


class Checker:
    """Collects what a submission did. A lab's check calls it; links come from `links`."""

    def __init__(self, lab: str, key: str) -> None:
        """A check of one submission."""
        self.links = Links(key, lab)
        self.rows: list[Row] = []
        #: Rows that the check has if no error cuts it short.
        self.asked = 0
        #: Runs that the picture shows.
        self.shown: list[anole_ccp.Result] = []
        #: Figures for the leaderboard.
        self.score: float | None = None

    def expect(
        self,
        what: str,
        value: float | None,
        *,
        least: float | None = None,
        most: float | None = None,
        unit: str = "",
        hint: str = "",
    ) -> bool:
        """A figure between bounds; None and NaN are within none."""
        known = value is not None and math.isfinite(value)
        high_enough = known and (least is None or float(value or 0.0) >= least)
        passed = bool(high_enough and (most is None or float(value or 0.0) <= most))
        bounds = [
            f"{sign} {bound:.4g}{unit}" for sign, bound in (("≥", least), ("≤", most)) if bound is not None
        ]
        found = f"{value:.4g}{unit}" if known else "nothing"
        self.rows.append(Row(what, found, " and ".join(bounds), passed, hint))
        return passed

    def require(self, what: str, passed: bool, found: str, wanted: str, hint: str = "") -> bool:
        """Something that is so or not."""
        # A comparison of NumPy's numbers is none of Python's, and an outcome has to be JSON.
        passed = bool(passed)
        self.rows.append(Row(what, found, wanted, passed, hint))
        return passed

    def run(
        self, scenario: anole_ccp.Scenario, algorithm: Any, *, seed: int | None = None, show: bool = False
    ) -> anole_ccp.Result:
        """Simulates `algorithm`, a class or a name."""
        result = anole_ccp.simulate(scenario, algorithm, seed=self.links.seed() if seed is None else seed)
        if show:
            self.shown.append(result)
        return result

    def transfer(self, what: str, scenario: anole_ccp.Scenario, algorithm: Any, hint: str = "") -> bool:
        """Real QUIC packets under `algorithm`, which have to be reported on. Three tries: no submission can help a busy host."""
        for _ in range(3):
            result = anole_ccp.transfer(algorithm, scenario)
            reports = result.figures["flows"][0]["reports"]
            if reports > 5:
                break
        found = f"{reports} reports, {result.flow.throughput_mbps:.1f} Mbps"
        return self.require(what, reports > 5, found, "more than 5 reports", hint)

    def each(self, count: int) -> Iterator[int]:
        """So many hidden links, numbered from 1."""
        yield from range(1, count + 1)


def needs(submission: Any, name: str, kind: type | None = None) -> Any:
    """What a submission has to define, or an error that says so."""
    value = getattr(submission, name, None)
    if value is None:
        raise AttributeError(f"the submission defines no {name}")
    if kind is not None and not (isinstance(value, type) and issubclass(value, kind)):
        raise TypeError(f"{name} has to be a class derived from anole_ccp.{kind.__name__}")
    return value
