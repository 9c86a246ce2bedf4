"""Fold programs built in Python instead of written: a type checker tells numbers from truth values.

    from anole_ccp import fold

    build = fold.Builder("count")
    acked = build.report("acked", volatile=True, comment="bytes acknowledged since the last report")
    interval_us = build.control("interval_us", 50_000)
    build.when(fold.TRUE, acked.set(acked + fold.ACK["bytes_acked"]))
    build.when(fold.MICROS > interval_us, fold.MICROS.set(0), report=True)
    program = build.program()

The language, its registers and its pitfalls are those of `docs/fold-programs.md`.
"""

from __future__ import annotations

import dataclasses
from typing import NoReturn

from .program import Program


class _Expression:
    """What is worked out in the datapath, and has no value here."""

    def __bool__(self) -> NoReturn:
        raise TypeError("combine conditions with & and |, not with and, or, not, or a < b < c")


@dataclasses.dataclass(frozen=True, eq=False)
class Number(_Expression):
    """An expression that is a number."""

    text: str

    def __add__(self, other: Number | int) -> Number:
        return _number("+", self, other)

    def __sub__(self, other: Number | int) -> Number:
        return _number("-", self, other)

    def __mul__(self, other: Number | int) -> Number:
        return _number("*", self, other)

    def __truediv__(self, other: Number | int) -> Number:
        return _number("/", self, other)

    def __gt__(self, other: Number | int) -> Truth:
        return Truth(f"(> {self.text} {_text(other)})")

    def __lt__(self, other: Number | int) -> Truth:
        return Truth(f"(< {self.text} {_text(other)})")

    def __eq__(self, other: object) -> NoReturn:
        raise TypeError("== gives no condition: write a.equals(b)")

    __hash__ = object.__hash__

    def equals(self, other: Number | int) -> Truth:
        """Whether the two are the same number."""
        return Truth(f"(== {self.text} {_text(other)})")

    def max(self, other: Number | int) -> Number:
        """The larger of the two."""
        return _number("max", self, other)

    def min(self, other: Number | int) -> Number:
        """The smaller of the two."""
        return _number("min", self, other)


@dataclasses.dataclass(frozen=True, eq=False)
class Truth(_Expression):
    """An expression that is true or false."""

    text: str

    def __and__(self, other: Truth) -> Truth:
        return Truth(f"(&& {self.text} {other.text})")

    def __or__(self, other: Truth) -> Truth:
        return Truth(f"(|| {self.text} {other.text})")


@dataclasses.dataclass(frozen=True)
class Assignment:
    """A statement: `(:= register value)`."""

    text: str


class Register(Number):
    """A register that holds a number and can be assigned."""

    def set(self, value: Number | int) -> Assignment:
        """Assigns a value."""
        return Assignment(f"(:= {self.text} {_text(value)})")

    def set_if(self, condition: Truth, value: Number | int) -> Assignment:
        """Assigns a value where the condition holds, and leaves it otherwise."""
        return Assignment(f"(:= {self.text} (if {condition.text} {_text(value)}))")


def _text(value: Number | int) -> str:
    return value.text if isinstance(value, Number) else str(value)


def _number(operator: str, left: Number, right: Number | int) -> Number:
    return Number(f"({operator} {left.text} {_text(right)})")


TRUE = Truth("true")
"""Always."""
MICROS = Register("Micros")
"""Time since the program began or set it, us."""
CWND = Register("Cwnd")
"""The congestion window, bytes."""
RATE = Register("Rate")
"""The pacing rate, bytes/s."""
ACK = {
    name: Number(f"Ack.{name}")
    for name in (
        "bytes_acked",
        "bytes_misordered",
        "ecn_bytes",
        "ecn_packets",
        "lost_pkts_sample",
        "now",
        "packets_acked",
        "packets_misordered",
    )
}
"""What the ACK says."""
FLOW = {
    name: Number(f"Flow.{name}")
    for name in (
        "bytes_in_flight",
        "bytes_pending",
        "packets_in_flight",
        "rate_incoming",
        "rate_outgoing",
        "rtt_sample_us",
    )
}
"""What the flow is like."""
WAS_TIMEOUT = Truth("Flow.was_timeout")
"""A retransmission timeout just happened."""
HAS_RTT = FLOW["rtt_sample_us"] < 2_000_000_000
"""`Flow.rtt_sample_us` is a sample."""


class Builder:
    """Collects declarations and `when` clauses.

    >>> build = Builder("count")
    >>> acked = build.report("acked", volatile=True)
    >>> build.when(TRUE, acked.set(acked + ACK["bytes_acked"]))
    >>> build.when(MICROS > build.control("interval_us", 50_000), MICROS.set(0), report=True)
    >>> print(build.text())
    (def
        (interval_us 50000)
        (Report
            (volatile acked 0)
        )
    )
    (when true
        (:= Report.acked (+ Report.acked Ack.bytes_acked))
        (fallthrough)
    )
    (when (> Micros interval_us)
        (:= Micros 0)
        (report)
    )
    <BLANKLINE>
    """

    def __init__(self, name: str) -> None:
        """An empty program with this name."""
        self.name = name
        self._controls: list[str] = []
        self._reports: list[str] = []
        self._events: list[str] = []

    def report(
        self, name: str, initial: int | None = 0, *, volatile: bool = False, comment: str = ""
    ) -> Register:
        """Declares a register that is reported; None begins at infinity; a volatile one begins anew with each report."""
        self._reports.append("    " + _declared(name, initial, volatile, comment))
        return Register(f"Report.{name}")

    def control(
        self, name: str, initial: int | None = 0, *, volatile: bool = False, comment: str = ""
    ) -> Register:
        """Declares a register that the algorithm may set."""
        self._controls.append(_declared(name, initial, volatile, comment))
        return Register(name)

    def local(self, name: str) -> Register:
        """A register of the program's own, 0 at first."""
        return Register(name)

    def when(self, condition: Truth, *statements: Assignment, report: bool = False) -> None:
        """Adds a clause. Without `report` the next clause is looked at too; with it, a report is sent and the ACK is
        done with."""
        end = "(report)" if report else "(fallthrough)"
        body = "".join(f"    {line}\n" for line in (*(statement.text for statement in statements), end))
        self._events.append(f"(when {condition.text}\n{body})\n")

    def text(self) -> str:
        """The program's text."""
        reports = ["    (Report", *self._reports, "    )"] if self._reports else []
        return "\n".join(["(def", *self._controls, *reports, ")", ""]) + "".join(self._events)

    def program(self) -> Program:
        """The program, compiled. Raises ValueError with every error's line and column in `text`."""
        return Program(self.text(), name=self.name)


def _declared(name: str, initial: int | None, volatile: bool, comment: str) -> str:
    value = "+infinity" if initial is None else str(initial)
    said = f" # {comment}" if comment else ""
    return f"    ({'volatile ' if volatile else ''}{name} {value}){said}"
