"""One check of one submission."""

from __future__ import annotations

import dataclasses
import json
import math
import time
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import anole_ccp

from .lab import PRACTICE_KEY, Checker, Lab, Row, labs, load, where

Made = TypeVar("Made")


@dataclasses.dataclass
class Outcome:
    """What a check found."""

    lab: str
    rows: list[Row]
    #: What went wrong before the end, empty if nothing did.
    error: str
    score: float | None
    seconds: float
    #: Rows of a check that no error cuts short.
    asked: int = 0
    #: The picture's runs.
    shown: list[anole_ccp.Result] = dataclasses.field(default_factory=list)

    @property
    def passed(self) -> bool:
        """All that was asked for is met."""
        return not self.error and bool(self.rows) and all(row.passed for row in self.rows)

    @property
    def met(self) -> int:
        """How much of what was asked for is met."""
        return sum(row.passed for row in self.rows)

    @property
    def of(self) -> int:
        """How much was asked for, what an error kept from being tried as well."""
        return max(len(self.rows) + 1, self.asked) if self.error else len(self.rows)

    @property
    def points(self) -> float:
        """Share of what was asked for that is met, 0 to 1."""
        return self.met / self.of if self.of else 0.0

    def json(self) -> str:
        """Everything but the picture."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        fields["rows"] = [dataclasses.asdict(row) for row in self.rows]
        del fields["shown"]
        return json.dumps(fields)

    @classmethod
    def from_json(cls, text: str) -> Outcome:
        """What `json` wrote. Raises for anything else: a submission may have written it."""
        fields = json.loads(text)
        rows = [_typed(Row(**row)) for row in fields.pop("rows")]
        return _typed(cls(rows=rows, **fields))

    def picture(self, path: Path) -> Path | None:
        """Draws the runs that the check shows; None where there is none."""
        return anole_ccp.plot(*self.shown).save(path) if self.shown else None

    def __str__(self) -> str:
        lines = table(self.rows)
        hints = dict.fromkeys(row.hint for row in self.rows if not row.passed and row.hint)
        lines += [f"  → {hint}" for hint in hints]
        if self.error:
            lines += ["", self.error]
        lines += [
            "",
            f"Lab {self.lab}: {'passed' if self.passed else 'not yet'}, {self.met} of {self.of} met",
        ]
        if self.score is not None:
            lines[-1] += f"; score {self.score:.3f}"
        return "\n".join(lines)


#: What JSON has for a field, by its annotation.
_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "float | None": (int, float, type(None)),
}


def _typed(made: Made) -> Made:
    """A dataclass whose fields are what they say; raises TypeError otherwise."""
    for field in dataclasses.fields(cast("Any", made)):
        value, kinds = getattr(made, field.name), _KINDS.get(str(field.type), (object,))
        if not isinstance(value, kinds) or (isinstance(value, (int, float)) and not math.isfinite(value)):
            raise TypeError(f"{field.name} is {value!r}")
    return made


def table(rows: list[Row]) -> list[str]:
    """Rows as lines of text."""
    cells = [("", "what", "found", "wanted")]
    cells += [("✓" if row.passed else "✗", row.what, row.found, row.wanted) for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(4)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]


def check(lab: str, file: str | Path | None = None, *, key: str = PRACTICE_KEY) -> Outcome:
    """Checks a file, the starter's copy in the current folder if none is given. Raises KeyError for no such lab."""
    chosen = labs()[lab]
    path = Path(file) if file is not None else Path(chosen.starter.name)
    return _checked(chosen, key, lambda: load(path, f"submission_{lab}"))


def check_here(lab: str, names: Mapping[str, Any], *, key: str = PRACTICE_KEY) -> Outcome:
    """Checks what a notebook has defined: `check_here("02", globals())`."""
    return _checked(labs()[lab], key, lambda: types.SimpleNamespace(**names))


def _checked(lab: Lab, key: str, submission: Any) -> Outcome:
    checker, error, begun = Checker(lab.number, key), "", time.monotonic()
    try:
        lab.run_check(submission(), checker)
    except (Exception, SystemExit) as problem:
        error = _told(problem)
    seconds = round(time.monotonic() - begun, 2)
    score = None if error else checker.score
    return Outcome(lab.number, checker.rows, error, score, seconds, checker.asked, checker.shown)


def _told(problem: BaseException) -> str:
    """An error with the lines of the submission that it came through."""
    if isinstance(problem, SyntaxError):
        place = f"{Path(problem.filename or '').name}:{problem.lineno}: {(problem.text or '').strip()}"
        return f"SyntaxError: {problem.msg}\n  {place}"
    return "\n  ".join([f"{type(problem).__name__}: {problem}", *where(problem)])
