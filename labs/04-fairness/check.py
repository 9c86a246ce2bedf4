"""Lab 4: Jain's index as a function, then two flows with equal and with unequal round-trip times, and a late third."""

from __future__ import annotations

import math
from typing import Any

import anole_ccp

from anole_lab.lab import Checker, needs

#: Rows of a check that no error cuts short.
ROWS = 12


def check(submission: Any, checker: Checker) -> None:
    """The index, then the flows."""
    jain, fair = needs(submission, "jain"), needs(submission, "Fair", anole_ccp.Algorithm)
    for rates, index in (([3.0, 3.0, 3.0], 1.0), ([7.0, 0.0], 0.5), ([1.0, 2.0, 3.0], 36 / 42)):
        told = float(jain(rates))
        checker.require(
            f"Jain's index of {rates}",
            math.isclose(told, index, rel_tol=1e-6),
            f"{told:.4g}",
            f"{index:.4g}",
            hint="The square of the sum over n times the sum of the squares (Jain, Chiu, Hawe 1984).",
        )
    delay = checker.links.between(8, 12)
    for number in checker.each(2):
        mbps, extra = checker.links.between(20, 50), checker.links.between(45, 60)
        for what, more, least in (("equal RTTs", 0.0, 0.9), ("unequal RTTs", extra, 0.82)):
            _flows(checker, f"link {number}, {mbps:g} Mbps", what, mbps, delay, more, least, fair)
    _late(checker, checker.links.between(20, 40), delay, fair)


def _flows(
    checker: Checker, name: str, what: str, mbps: float, delay: float, extra: float, least: float, fair: Any
) -> None:
    near = {"alg": "cubic", "under_test": True, "ack_jitter_us": 200}
    far = near | {"extra_delay_ms": extra, "start_s": 1}
    link = {"capacity_mbps": mbps, "one_way_delay_ms": delay, "buffer_bdp": 2}
    scenario = anole_ccp.Scenario(
        name=f"{name}, {what}", link=link, flow=[near, far], duration_s=120, warmup_s=40
    )
    result = checker.run(scenario, fair, show=extra > 0 and not checker.shown)
    times = f"{2 * delay:.0f} and {2 * (delay + extra):.0f} ms"
    checker.expect(
        f"{name}, {what} ({times}): Jain's index",
        result.jain_index,
        least=least,
        hint="The rate is cwnd / RTT. A packet in each round trip makes it grow with 1 / RTT²: choose another increase.",
    )
    checker.expect(
        f"{name}, {what}: utilisation",
        result.links[0].utilization,
        least=0.85,
        hint="Fairness that leaves the link idle is none: decrease less, or grow faster.",
    )


def _late(checker: Checker, mbps: float, delay: float, fair: Any) -> None:
    flows = [
        {"alg": "cubic", "under_test": True, "ack_jitter_us": 200, "start_s": start} for start in (0, 5, 40)
    ]
    link = {"capacity_mbps": mbps, "one_way_delay_ms": delay, "buffer_bdp": 2}
    scenario = anole_ccp.Scenario(name="a late flow", link=link, flow=flows, duration_s=120, warmup_s=70)
    checker.expect(
        f"a third flow joins after 40 s, {mbps:g} Mbps: Jain's index from 70 s on",
        checker.run(scenario, fair).jain_index,
        least=0.9,
        hint="Multiplicative decrease takes more from those that have more: that is what makes room for a late flow.",
    )
