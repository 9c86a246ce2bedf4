"""Lab 5: what the utility prefers, then the prober on lossy links, on a clean one, and after changes of capacity."""

from __future__ import annotations

from typing import Any

import anole_ccp

from anole_lab.lab import Checker, needs

#: Rows of a check that no error cuts short.
ROWS = 9


def check(submission: Any, checker: Checker) -> None:
    """The function, then the flows."""
    utility, prober = needs(submission, "utility"), needs(submission, "Prober", anole_ccp.Algorithm)
    _utility(checker, utility)
    for number in checker.each(2):
        mbps, delay = checker.links.between(10, 40), checker.links.between(10, 25)
        _lossy(checker, number, mbps, delay, prober)
    mbps, delay = checker.links.between(10, 40), checker.links.between(10, 25)
    _clean(checker, mbps, delay, prober)
    _changing(checker, checker.links.between(8, 16), delay, prober)


def _utility(checker: Checker, utility: Any) -> None:
    mbps = checker.links.between(2, 50)
    cases = {
        "more throughput is better": (utility(mbps * 1.1, 0, 0), utility(mbps, 0, 0)),
        "a round-trip time that grows is worse": (utility(mbps, 0, 0), utility(mbps, 0.2, 0)),
        "losing a fifth is worse than sending a fifth less": (
            utility(mbps * 0.8, 0, 0),
            utility(mbps, 0, 0.2),
        ),
        "losing one packet in a hundred is better than sending half": (
            utility(mbps, 0, 0.01),
            utility(mbps / 2, 0, 0),
        ),
    }
    for what, (better, worse) in cases.items():
        checker.require(
            f"utility at {mbps:g} Mbps: {what}",
            better > worse,
            f"{better:.3g} and {worse:.3g}",
            "more, less",
            hint="Reward throughput, less than in proportion; take away for slope and for loss, in proportion to the rate.",
        )


def _scenario(name: str, link: dict[str, Any], **more: Any) -> anole_ccp.Scenario:
    flow = {"alg": "cubic", "under_test": True, "ack_jitter_us": 100}
    return anole_ccp.Scenario(name=name, link=link, flow=flow, **({"duration_s": 40, "warmup_s": 10} | more))


def _lossy(checker: Checker, number: int, mbps: float, delay: float, prober: Any) -> None:
    loss = checker.links.one_of(0.01, 0.015, 0.02)
    link = {"capacity_mbps": mbps, "one_way_delay_ms": delay, "buffer_bdp": 1, "random_loss": loss}
    name = f"link {number}: {mbps:g} Mbps, {2 * delay:g} ms, {loss * 100:g} % of the packets lost"
    scenario = _scenario(name, link)
    cubic = checker.run(scenario, "cubic", show=number == 1).links[0].utilization or 0.0
    result = checker.run(scenario, prober, show=number == 1)
    checker.expect(
        f"{name}: utilisation (CUBIC: {cubic:.2f})",
        result.links[0].utilization,
        least=0.75,
        hint="Losses that come at any rate say nothing about the rate: does a probe up look better than a probe down?",
    )


def _clean(checker: Checker, mbps: float, delay: float, prober: Any) -> None:
    link = {"capacity_mbps": mbps, "one_way_delay_ms": delay, "buffer_bdp": 2}
    name = f"no loss, {mbps:g} Mbps, {2 * delay:g} ms"
    result = checker.run(_scenario(name, link), prober)
    cubic = checker.run(_scenario(name, link), "cubic").links[0].queue_delay_mean_ms or 1.0
    checker.expect(
        f"{name}: utilisation",
        result.links[0].utilization,
        least=0.85,
        hint="The outcome of a probe comes a round trip later: is it the right probe's?",
    )
    checker.expect(
        f"{name}: mean queueing delay, of CUBIC's {cubic:.0f} ms",
        (result.links[0].queue_delay_mean_ms or 0.0) / cubic * 100,
        most=60,
        unit=" %",
        hint="A queue that grows shows as a slope before any packet is lost: the sums in the report give it.",
    )


def _changing(checker: Checker, mbps: float, delay: float, prober: Any) -> None:
    link = {"capacity_mbps": mbps, "one_way_delay_ms": delay, "buffer_bdp": 2}
    change = {"at_s": 15, "link": "bottleneck", "capacity_mbps": round(3 * mbps, 2)}
    scenario = _scenario("capacity times three", link, change=change, warmup_s=25)
    checker.expect(
        f"capacity goes from {mbps:g} to {3 * mbps:g} Mbps: utilisation from 10 s later on",
        checker.run(scenario, prober).links[0].utilization,
        least=0.75,
        hint="Steps of a constant size take for ever: let them grow while they go the same way.",
    )
