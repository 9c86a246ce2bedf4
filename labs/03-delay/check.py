"""Lab 3: throughput and delay beside CUBIC's in deep buffers, a shallow buffer, and a drop of capacity."""

from __future__ import annotations

from typing import Any

import anole_ccp

from anole_lab.lab import Checker, needs

#: Rows of a check that no error cuts short.
ROWS = 6


def check(submission: Any, checker: Checker) -> None:
    """Two deep buffers, a shallow one, and a link whose capacity falls to a third."""
    vegas = needs(submission, "Vegas", anole_ccp.Algorithm)
    for number in checker.each(2):
        mbps, delay = checker.links.between(10, 60), checker.links.between(10, 30)
        name = f"link {number}: {mbps:g} Mbps, {2 * delay:g} ms"
        buffer = checker.links.between(4, 8)
        scenario = _link(name, mbps, delay, duration_s=50, warmup_s=15, buffer_bdp=buffer)
        result = checker.run(scenario, vegas, show=number == 1)
        cubic = checker.run(scenario, "cubic", seed=1, show=number == 1)
        checker.expect(
            f"{name}: utilisation",
            result.links[0].utilization,
            least=0.9,
            hint="A flow that keeps a few packets in the queue never leaves the link idle. Does it start fast enough?",
        )
        ours, its = (run.links[0].queue_delay_mean_ms or 0.0 for run in (result, cubic))
        checker.expect(
            f"link {number}: mean queueing delay, of CUBIC's {its:.0f} ms",
            ours / max(its, 1.0) * 100,
            most=15,
            unit=" %",
            hint="Losses come when the buffer is full: a delay-based law has to stop long before.",
        )
    # On longer paths the law of the text is not through what its start left in the queue: a packet less takes a round trip.
    mbps, delay = checker.links.between(10, 40), checker.links.between(10, 20)
    shallow = checker.run(_link("shallow", mbps, delay, buffer_bdp=0.5), vegas)
    checker.expect(
        f"half a BDP of buffer, {mbps:g} Mbps: loss",
        (shallow.links[0].loss_rate or 0.0) * 100,
        most=0.5,
        unit=" %",
        hint="A few packets in the queue fit into any buffer; a start that doubles blindly does not.",
    )
    change = {"at_s": 12, "link": "bottleneck", "capacity_mbps": round(mbps / 3, 2)}
    falling = checker.run(_link("falls", mbps, delay, buffer_bdp=6, change=change, warmup_s=16), vegas)
    checker.expect(
        f"capacity falls from {mbps:g} to a third: mean queueing delay from 4 s later on",
        falling.links[0].queue_delay_mean_ms,
        most=60,
        unit=" ms",
        hint="The window has to shrink as long as too many packets wait, once per round trip.",
    )


def _link(name: str, mbps: float, delay: float, **more: Any) -> anole_ccp.Scenario:
    link = {"capacity_mbps": mbps, "one_way_delay_ms": delay, "buffer_bdp": more.pop("buffer_bdp")}
    return anole_ccp.Scenario(name=name, link=link, **({"duration_s": 25, "warmup_s": 3} | more))
