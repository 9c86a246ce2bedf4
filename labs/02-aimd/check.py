"""Lab 2: the program's text, its growth and its decreases, two flows, and real packets."""

from __future__ import annotations

from typing import Any

import anole_ccp
import numpy as np

from anole_lab.lab import Checker, needs

#: Rows of a check that no error cuts short.
ROWS = 11


def check(submission: Any, checker: Checker) -> None:
    """Reads the program, then runs it alone, in company, and over QUIC."""
    aimd = needs(submission, "Aimd", anole_ccp.Algorithm)
    findings = anole_ccp.check_program(needs(submission, "PROGRAM"))
    told = "; ".join(f"Line {finding.line} of PROGRAM: {finding.message}" for finding in findings)
    checker.require(
        "the program compiles, without findings",
        not findings,
        str(len(findings) or "none"),
        "none",
        hint=told,
    )
    listening = _listening(aimd)
    for number in checker.each(2):
        mbps, delay = checker.links.between(8, 30), checker.links.between(8, 25)
        _alone(checker, number, mbps, delay, listening)
    _together(checker, checker.links.between(8, 20), checker.links.between(8, 20), listening)
    _real(checker, aimd)


def _listening(aimd: Any) -> Any:
    """The same algorithm, noting the reports; what it answers to them is not heeded."""

    class Listening(aimd):  # type: ignore[misc]
        name = "Aimd"
        seen: list[Any] = []

        def on_report(self, report: Any) -> None:
            super().on_report(report)
            self.seen.append((report.now_s, report.cwnd, report.cuts))

    return Listening


def _alone(checker: Checker, number: int, mbps: float, delay: float, algorithm: Any) -> None:
    algorithm.seen = []
    link = {"capacity_mbps": mbps, "one_way_delay_ms": delay, "buffer_bdp": 1}
    name = f"link {number}: {mbps:g} Mbps, {2 * delay:g} ms, 1 BDP"
    scenario = anole_ccp.Scenario(name=name, link=link, duration_s=40, warmup_s=15)
    result = checker.run(scenario, algorithm, show=number == 1)
    checker.expect(
        f"{name}: utilisation",
        result.links[0].utilization,
        least=0.9,
        hint="Half of twice the bandwidth-delay product still fills the link: does the window grow, and halve no lower?",
    )
    seen = np.array(algorithm.seen or [(0.0, 0.0, 0.0)], float)
    checker.expect(
        f"link {number}: decreases that the program counts in 40 s",
        float(seen[-1, 2]),
        least=2,
        hint="A loss is a sample above 0 in Ack.lost_pkts_sample; Report.cuts counts decreases, not packets.",
    )
    # From report to report a window grows by little, or is halved.
    ratio = seen[1:, 1] / np.maximum(seen[:-1, 1], 1.0)
    falls = ratio[ratio < 0.9]
    checker.expect(
        f"link {number}: the window after a decrease, median",
        float(np.median(falls)) if falls.size else None,
        least=0.4,
        most=0.65,
        unit=" of that before",
        hint="One overflow loses several packets; a second halving within the same window quarters it.",
    )
    rises = (seen[1:, 1] - seen[:-1, 1])[ratio >= 1]
    round_trips = 0.1 / (2 * delay / 1e3)
    checker.expect(
        f"link {number}: growth in a round trip, largest mean",
        float(rises.max() / round_trips / 1448) if rises.size else None,
        least=0.2,
        most=3,
        unit=" packets",
        hint="One mss for each window of acknowledged bytes: count the bytes, and grow when they exceed Cwnd.",
    )


def _together(checker: Checker, mbps: float, delay: float, algorithm: Any) -> None:
    flows = [{"alg": "cubic", "under_test": True, "ack_jitter_us": 200, "start_s": start} for start in (0, 5)]
    link = {"capacity_mbps": mbps, "one_way_delay_ms": delay, "buffer_bdp": 1}
    scenario = anole_ccp.Scenario(
        name=f"two flows, {mbps:g} Mbps", link=link, flow=flows, duration_s=90, warmup_s=40
    )
    checker.expect(
        f"two flows, {mbps:g} Mbps, {2 * delay:g} ms: Jain's index",
        checker.run(scenario, algorithm).jain_index,
        least=0.9,
        hint="Additive increase and multiplicative decrease converge to equal shares; anything else does not.",
    )


def _real(checker: Checker, aimd: Any) -> None:
    link = {"capacity_mbps": 12, "one_way_delay_ms": 10, "buffer_bdp": 1}
    scenario = anole_ccp.Scenario(name="real QUIC packets", link=link, duration_s=2)
    checker.transfer(
        "a real QUIC transfer runs under the program",
        scenario,
        aimd,
        hint="The same program as in the simulation; a report every 100 ms.",
    )
