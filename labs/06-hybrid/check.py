"""Lab 6: one hybrid, many policies, on hidden and on adversarial links; a score for the leaderboard."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import anole_ccp

from anole_lab.lab import Checker, needs, where

#: Rows of a check that no error cuts short.
ROWS = 16

Policy = Callable[[Any], "float | None"]

#: Payload of a full packet over its length.
PAYLOAD_SHARE = 1448 / 1500

HINT = (
    "A rate is worth what it earns: try it for few round trips, compare, and wait longer after each defeat."
)

#: A score without a policy that others are compared with.
LEAST_COMPARED = 0.5
RULE_FIRST = f"Policies are compared with a rule that has more than {LEAST_COMPARED:g} without one: write the rule first."


def policies(mbps: float, seed: int) -> dict[str, Policy | None]:
    """What may sit in the learned slot, for a link of this capacity. A rate counts payload, and a link whole packets."""
    drawn = random.Random(seed)
    capacity = mbps * 1e6 / 8 * PAYLOAD_SHARE
    return {
        "none": None,
        "good": lambda report: 0.97 * capacity,
        "half the capacity": lambda report: capacity / 2,
        "four times the capacity": lambda report: capacity * 4,
        "random": lambda report: capacity * math.exp(drawn.uniform(-3, 3)),
        "no number": lambda report: math.nan,
    }


def score(result: anole_ccp.Result, rtt_ms: float) -> float:
    """1 for a link that is used without queue or loss: utilisation, divided by the delay, less five times the loss."""
    link = result.links[0]
    queue = (link.queue_delay_mean_ms or 0.0) / rtt_ms
    return (link.utilization or 0.0) / (1 + queue) * max(1 - 5 * (link.loss_rate or 0.0), 0.0)


def check(submission: Any, checker: Checker) -> None:
    """Policies on plain links, then hostile links, then real packets."""
    hybrid = needs(submission, "Hybrid", anole_ccp.Algorithm)
    scores = []
    for number in checker.each(2):
        scores += _plain(checker, number, hybrid)
    scores += _hostile(checker, hybrid)
    scores.append(_growing(checker, hybrid))
    _real(checker, hybrid)
    checker.score = sum(scores) / len(scores)


def _with(hybrid: Any, policy: Policy | None, name: str) -> Any:
    filled = staticmethod(policy) if policy else None
    return type("Hybrid", (hybrid,), {"policy": filled, "name": f"hybrid, policy: {name}"})


def _plain(checker: Checker, number: int, hybrid: Any) -> list[float]:
    mbps, delay = checker.links.between(10, 50), checker.links.between(10, 35)
    link = {"capacity_mbps": mbps, "one_way_delay_ms": delay, "buffer_bdp": checker.links.between(1, 4)}
    name = f"link {number}: {mbps:g} Mbps, {2 * delay:g} ms"
    scenario = anole_ccp.Scenario(name=name, link=link, duration_s=30, warmup_s=3)
    cubic = score(checker.run(scenario, "cubic", seed=1), 2 * delay)
    seed, found = checker.links.seed(), {}
    for what, policy in policies(mbps, seed).items():
        shown = number == 1 and what in ("good", "four times the capacity")
        filled = _with(hybrid, policy, what)
        try:
            found[what] = score(checker.run(scenario, filled, seed=1, show=shown), 2 * delay)
        except Exception as error:
            # One policy that it cannot stand; the others are tried as well.
            found[what] = 0.0
            hint = "; ".join([f"Policy that says {what}: {type(error).__name__}: {error}", *where(error)])
            checker.require(
                f"link {number}, policy that says {what}", False, type(error).__name__, "no exception", hint
            )
    checker.expect(
        f"{name}, no policy: score (CUBIC: {cubic:.2f})",
        found["none"],
        least=max(0.7, cubic - 0.05),
        hint="Without a policy your rule governs alone: it has to fill the link and keep the queue short.",
    )
    checker.expect(
        f"{name}, good policy: score",
        found["good"],
        least=0.8,
        hint="A good rate fills the link without a queue. Is it given the time to show that?",
    )
    for what in ("half the capacity", "four times the capacity", "random", "no number"):
        compared = found["none"] > LEAST_COMPARED
        checker.expect(
            f"{name}, policy that says {what}: score, of that without a policy",
            100 * found[what] / found["none"] if compared else None,
            least=85,
            unit=" %",
            hint=HINT if compared else RULE_FIRST,
        )
    return list(found.values())


def _hostile(checker: Checker, hybrid: Any) -> list[float]:
    low, high = checker.links.between(6, 10), checker.links.between(30, 50)
    delay, period = checker.links.between(8, 15), checker.links.between(0.6, 2.0)
    changes = [
        {"at_s": round(n * period, 3), "link": "bottleneck", "capacity_mbps": (high, low)[n % 2]}
        for n in range(1, int(24 / period))
    ]
    links = {
        "capacity swings": ({"capacity_mbps": low}, changes),
        "packets are lost at random": ({"capacity_mbps": high, "random_loss": 0.002}, []),
    }
    found = []
    for what, (link, change) in links.items():
        spec = {"one_way_delay_ms": delay, "buffer_bytes": 60_000, **link}
        scenario = anole_ccp.Scenario(name=what, link=spec, change=change, duration_s=25, warmup_s=3)
        cubic = checker.run(scenario, "cubic", seed=1).links[0].utilization or 0.01
        policy = policies(high, checker.links.seed())["random"]
        result = checker.run(scenario, _with(hybrid, policy, "random"), seed=1)
        checker.expect(
            f"{what}, random policy: utilisation, of CUBIC's {cubic:.2f}",
            100 * (result.links[0].utilization or 0.0) / cubic,
            least=55,
            unit=" %",
            hint="Where nothing holds for long, the rule is the floor: what keeps it from growing, or makes it shrink?",
        )
        found.append(min(score(result, 2 * delay), 1.0))
    return found


def _growing(checker: Checker, hybrid: Any) -> float:
    """A long path whose capacity grows, under a policy that knows it: a packet per round trip takes half a minute."""
    low, delay, at_s = checker.links.between(12, 15), checker.links.between(36, 42), 8.0
    before, after = (policies(mbps, 0)["good"] for mbps in (low, 5 * low))
    link = {"capacity_mbps": low, "one_way_delay_ms": delay, "buffer_bdp": 1}
    change = {"at_s": at_s, "link": "bottleneck", "capacity_mbps": 5 * low}
    scenario = anole_ccp.Scenario(
        name="capacity grows", link=link, change=change, duration_s=24, warmup_s=at_s + 4
    )
    good = _with(hybrid, lambda report: (after if report.now_s >= at_s else before)(report), "good")
    result = checker.run(scenario, good, seed=1)
    checker.expect(
        f"capacity goes from {low:g} to {5 * low:g} Mbps, {2 * delay:g} ms, good policy: utilisation from 4 s later on",
        result.links[0].utilization,
        least=0.7,
        hint="The policy knows at once what your rule takes long to find: let the rule go on from a rate that has won.",
    )
    return score(result, 2 * delay)


def _real(checker: Checker, hybrid: Any) -> None:
    link = {"capacity_mbps": 12, "one_way_delay_ms": 10, "buffer_bdp": 2}
    policy = policies(12, checker.links.seed())["random"]
    checker.transfer(
        "a real QUIC transfer runs under the hybrid and a random policy",
        anole_ccp.Scenario(name="real QUIC packets", link=link, duration_s=2),
        _with(hybrid, policy, "random"),
        hint="The same class as in the simulation, on a real clock.",
    )
