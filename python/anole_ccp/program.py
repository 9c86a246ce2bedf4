"""Fold programs: what runs in the datapath on every ACK (`docs/fold-programs.md`)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from . import _anole


class Finding(NamedTuple):
    """Something that a check found."""

    line: int
    """Line, from 1."""
    column: int
    """Column, from 1."""
    severity: str
    """`error`: it does not compile, or to something else than it says; or `warning`."""
    code: str
    """The kind, such as `underflow`."""
    message: str
    """What happens, and the way out."""

    def __str__(self) -> str:
        return f"{self.line}:{self.column}: {self.severity}[{self.code}]: {self.message}"


class Program:
    """A compiled fold program: one that comes with the package, by name, or a text of one's own.

    >>> Program("rate-hold").controls["most_acks"]
    'round-trip samples that a report may hold'
    >>> mine = Program('''
    ... (def (interval_us 50000) (Report (volatile acked 0)))
    ... (when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (fallthrough))
    ... (when (> Micros interval_us) (:= Micros 0) (report))
    ... ''', name="mine")
    >>> list(mine.reports)
    ['acked']
    """

    def __init__(self, source: str | Path, *, name: str | None = None) -> None:
        """`source`: the name of a shipped program, a path to a `.ccp` file, or the text (which begins with a
        parenthesis or a comment). Raises ValueError with every error's line and column."""
        if isinstance(source, Path) or source.endswith(".ccp"):
            path = Path(source)
            self._program = _anole.Program(name or path.stem, path.read_text(encoding="utf-8"))
        elif "(" in source:
            self._program = _anole.Program(name or "program", source)
        else:
            self._program = _anole.Program(source)

    @staticmethod
    def names() -> list[str]:
        """Names of the programs that come with the package."""
        return _anole.program_names()

    @property
    def name(self) -> str:
        """Its name."""
        return self._program.name

    @property
    def source(self) -> str:
        """The text without comments."""
        return self._program.source

    @property
    def reports(self) -> dict[str, str]:
        """The registers that it reports, each with its comment."""
        return {name: comment for name, _, comment in self._program.reports}

    @property
    def controls(self) -> dict[str, str]:
        """The registers that an algorithm may set, each with its comment; `cwnd` and `rate` come to them."""
        return {name: comment for name, _, comment in self._program.controls}

    def __repr__(self) -> str:
        return f"Program({self.name!r}: reports {', '.join(self.reports)}; takes {', '.join(self.controls)})"


def check_program(text: str) -> list[Finding]:
    """Everything there is to say about a program's text, in the order of the text; nothing when it is fine.

    >>> print(check_program("(def (Report (x 0)))(when true (:= Report.x (- 1 Ack.packets_acked)) (report))")[0])
    1:45: warning[underflow]: ...
    """
    return [Finding(*finding) for finding in _anole.check_program(text)]


def explain(program: Program | str | Path) -> str:
    """A program in words: its registers, what it takes of a datapath, and its byte code line by line.

    >>> print(explain("rate-hold").splitlines()[0])
    rate-hold: ... of 16 report, 6 of 16 control, ...
    """
    program = program if isinstance(program, Program) else Program(program)
    raw = program._program
    lines = [f"{program.name}: {raw.summary}"]
    for title, registers in (("reports", raw.reports), ("takes", raw.controls)):
        width = max((len(name) for name, _, _ in registers), default=0)
        lines += ["", title, *(f"  {name:<{width}}  from {first}: {text}" for name, first, text in registers)]
    return "\n".join([*lines, "", raw.disassembly])
