"""What random links are drawn from; the drawing itself is `anole_sim::suite` in Rust."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from . import _anole

Range = tuple[float, float]


@dataclasses.dataclass(frozen=True)
class Ranges:
    """What random links are drawn from. Capacity, round-trip time and buffer are log-uniform between their
    two values, everything else is uniform. The defaults are the random suite of `anole-eval suite`."""

    capacity_mbps: Range = (1.0, 200.0)
    """Capacity, Mbps; of a varying one, its mean or its start."""
    rtt_ms: Range = (5.0, 200.0)
    """Round-trip time without queues, ms."""
    buffer_bdp: Range = (0.1, 6.0)
    """Buffer, in products of capacity and round-trip time …"""
    buffer_bytes: Range | None = None
    """… or in bytes."""
    loss: Range = (0.0, 0.03)
    """Probability of random loss, on links that have any."""
    lossless: float = 0.5
    """Share of links without random loss."""
    traces: float = 0.25
    """Share of links whose capacity varies like that of LTE."""
    steps: float = 0.0
    """Share of links whose capacity changes in steps, every 2 to 10 s, to 0.5 to 2 times the first one."""
    busy_cells: float = 0.0
    """Share of the links that vary like LTE which are busy cells: deeper fades, flicker, bursts, more and longer outages."""
    wifi: float = 0.0
    """Share of links that are Wi-Fi: a capacity that varies a little, data and ACKs in bursts, jitter."""
    rtt_steps: float = 0.0
    """Share of links whose round-trip time changes in steps, every 2 to 10 s, to 0.5 to 2 times the first one."""
    ack_jitter_us: Range = (0.0, 0.0)
    """By how much the ACKs of a link's flows come late at most, in order, us: what hosts add."""
    own_flows: tuple[int, int] = (0, 0)
    """Fewest and most further flows of the algorithm under test, which start one after the other in the first half
    and stay to the end. In a `VectorEnv` they run its `set_peer` policy."""
    cross_flows: tuple[int, int] = (0, 0)
    """Fewest and most flows that compete for a part of the time."""
    cross_algs: tuple[str, ...] = ("cubic",)
    """Their algorithms, each as likely as the others."""
    start_s: Range = (0.0, 0.0)
    """When the flow under test starts, s."""
    duration_s: float = 30.0
    """Length of a run, s."""

    @classmethod
    def named(cls, name: str) -> Ranges:
        """The ranges that `anole-eval suite --ranges` knows by this name. Raises ValueError."""
        values = json.loads(_anole.named_ranges(name))
        read: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
        return cls(**read)

    def replace(self, **values: Any) -> Ranges:
        """The same with other values."""
        return dataclasses.replace(self, **values)

    def json(self) -> str:
        """The ranges as JSON, for `anole-eval suite --ranges FILE`."""
        return json.dumps(dataclasses.asdict(self))
