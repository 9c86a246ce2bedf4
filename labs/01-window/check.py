"""Lab 1: windows of the student's choice, and predictions, on hidden links."""

from __future__ import annotations

import math
from typing import Any

import anole_ccp

from anole_lab.lab import Checker, needs

#: Rows of a check that no error cuts short.
ROWS = 12

#: Windows whose outcome is predicted, in bandwidth-delay products.
WINDOWS = (0.4, 0.8, 1.3, 1.8)
#: Wire bytes of a packet over the payload that a window counts.
OVERHEAD = 1500 / 1448


def check(submission: Any, checker: Checker) -> None:
    """Asks for the window, then for predictions."""
    window_bytes, predict = needs(submission, "window_bytes"), needs(submission, "predict")
    fixed = needs(submission, "fixed")
    for number in checker.each(3):
        mbps, delay = checker.links.between(15, 100), checker.links.between(12, 60)
        rtt = 2 * delay
        bdp = mbps * 1e6 / 8 * rtt / 1e3
        link = {"capacity_mbps": mbps, "one_way_delay_ms": delay, "buffer_bytes": int(max(bdp, 6000))}
        scenario = anole_ccp.Scenario(
            name=f"link {number}: {mbps:g} Mbps, {rtt:g} ms", link=link, duration_s=10, warmup_s=2
        )
        window = float(window_bytes(mbps, rtt))
        result = checker.run(scenario, fixed(window), seed=1, show=number == 1)
        checker.expect(
            f"link {number} ({mbps:g} Mbps, {rtt:g} ms): utilisation with your window",
            result.links[0].utilization,
            least=0.93,
            hint="The link runs dry while ACKs are on their way back: what does it carry in one round-trip time?",
        )
        checker.expect(
            f"link {number}: mean queueing delay with your window",
            (result.links[0].queue_delay_mean_ms or 0.0) / rtt * 100,
            most=6,
            unit=" % of the RTT",
            hint="What the link cannot carry waits in its buffer. Bits or bytes, ms or s?",
        )
        _predictions(checker, number, (mbps, rtt, bdp), predict, fixed, scenario)


def _predictions(
    checker: Checker,
    number: int,
    path: tuple[float, float, float],
    predict: Any,
    fixed: Any,
    scenario: anole_ccp.Scenario,
) -> None:
    mbps, rtt, bdp = path
    wrong = {"throughput": 0.0, "round-trip time": 0.0}
    for share in WINDOWS:
        window = share * bdp
        measured = checker.run(scenario, fixed(window), seed=1).flow
        told = predict(mbps, rtt, bdp, window)
        # What is measured counts headers as well, and whole packets alone.
        for what, predicted, real in (
            ("throughput", told[0], (measured.throughput_mbps or 0.0) / OVERHEAD),
            ("round-trip time", told[1], measured.rtt_mean_ms or 0.0),
        ):
            error = abs(predicted / real - 1) * 100 if real else 100.0
            # max() passes over NaN.
            wrong[what] = max(wrong[what], error if math.isfinite(error) else math.inf)
    for what, percent in wrong.items():
        checker.expect(
            f"link {number}: largest error of the predicted {what}",
            percent,
            most=12,
            unit=" %",
            hint="Below the product the window limits the rate and the queue is empty; above it, the other way round.",
        )
