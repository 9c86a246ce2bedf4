"""Results: figures as attributes, series as NumPy arrays."""

from __future__ import annotations

import dataclasses
import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _anole
from .plotting import Plot, plot

if TYPE_CHECKING:
    import pandas

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class FlowSeries:
    """A flow over time, float64 arrays of one length; NaN is what there was not."""

    time_s: Floats
    """End of each point, s."""
    throughput_mbps: Floats
    """Bytes on the wire that arrived, Mbps."""
    rtt_ms: Floats
    """Mean round-trip time, ms."""
    cwnd_bytes: Floats
    """Window in force at the point's end, bytes."""
    pacing_mbps: Floats
    """Pacing rate then, Mbps."""
    in_flight_bytes: Floats
    """Payload on its way then, bytes."""
    lost_packets: Floats
    """Packets lost in the point."""


@dataclasses.dataclass(frozen=True)
class LinkSeries:
    """A link over time, likewise."""

    time_s: Floats
    """End of each point, s."""
    capacity_mbps: Floats
    """Mean capacity, Mbps."""
    queue_bytes: Floats
    """Bytes that wait at the point's end."""
    lost_packets: Floats
    """Packets lost in the point, for whatever reason."""


@dataclasses.dataclass(frozen=True)
class FlowResult:
    """One flow: its figures, which are None where there was nothing to measure, and its series."""

    alg: str
    """Its algorithm."""
    under_test: bool
    """Whether the run is about it."""
    start_s: float
    """When it starts, s."""
    stop_s: float
    """When it stops, s."""
    throughput_mbps: float | None
    """Bytes on the wire that arrived over the time active after warm-up, Mbps."""
    goodput_mbps: float | None
    """Payload that arrived, each byte once, over the same time, Mbps."""
    owd_mean_ms: float | None
    """Mean time from sending to arrival of a packet, queue included, ms."""
    owd_p50_ms: float | None
    """Median of it over packets, ms."""
    owd_p95_ms: float | None
    """95th percentile of it, ms."""
    owd_p99_ms: float | None
    """99th percentile of it, ms."""
    rtt_mean_ms: float | None
    """Mean round-trip time, ms."""
    rtt_p95_ms: float | None
    """95th percentile of it over samples, ms."""
    loss_rate: float | None
    """Packets lost over packets lost or arrived."""
    retransmit_rate: float | None
    """Packets retransmitted over packets sent."""
    fct_s: float | None
    """Completion time of a flow with a size, s."""
    series: FlowSeries
    """The flow over time."""


@dataclasses.dataclass(frozen=True)
class LinkResult:
    """One link, likewise."""

    name: str
    """Its name in the scenario."""
    utilization: float | None
    """Bytes sent over bytes that could have been sent."""
    loss_rate: float | None
    """Packets lost over packets lost or carried."""
    queue_delay_mean_ms: float | None
    """Mean time that a packet waited, ms."""
    queue_delay_p95_ms: float | None
    """95th percentile of it over packets, ms."""
    series: LinkSeries
    """The link over time."""


class Result:
    """One run of a scenario."""

    def __init__(self, run: _anole.Run) -> None:
        """What the extension returned."""
        self._run = run
        self.figures: dict[str, Any] = json.loads(run.figures())
        """Every figure, with the names of `anole-eval --json`, without series."""

    @property
    def scenario(self) -> str:
        """The scenario's name."""
        return str(self.figures["scenario"])

    @property
    def alg(self) -> str:
        """Algorithm of the flows under test."""
        return str(self.figures["alg"])

    @property
    def seed(self) -> int:
        """The run's seed."""
        return int(self.figures["seed"])

    @property
    def jain_index(self) -> float | None:
        """Jain's index over the goodputs while all flows were active."""
        return self.figures["jain_index"]  # type: ignore[no-any-return]

    @cached_property
    def flows(self) -> list[FlowResult]:
        """Every flow, in the scenario's order."""
        known = {field.name for field in dataclasses.fields(FlowResult)} - {"series"}
        return [
            FlowResult(
                **{key: value for key, value in flow.items() if key in known},
                series=FlowSeries(**self._run.flow_series(index)),
            )
            for index, flow in enumerate(self.figures["flows"])
        ]

    @cached_property
    def links(self) -> list[LinkResult]:
        """Every link, in the scenario's order."""
        return [
            LinkResult(
                **{key: value for key, value in link.items() if key != "series"},
                series=LinkSeries(**self._run.link_series(index)),
            )
            for index, link in enumerate(self.figures["links"])
        ]

    @property
    def flow(self) -> FlowResult:
        """The first flow under test; without such flows, the first."""
        return self.flows[self._run.tested]

    def json(self) -> str:
        """The run as `anole-eval --json` prints it, with its series."""
        return self._run.json()

    def plot(self) -> Plot:
        """Throughput, round-trip time, window, queue and losses over time; `anole_ccp.plot` compares several runs."""
        return plot(self)

    def to_pandas(self) -> pandas.DataFrame:
        """The flows' series as one table: `flow`, `alg`, and a column for each series. Needs pandas."""
        import pandas

        tables = [
            pandas.DataFrame({"flow": index, "alg": flow.alg} | vars(flow.series))
            for index, flow in enumerate(self.flows)
        ]
        return pandas.concat(tables, ignore_index=True)

    def __repr__(self) -> str:
        flows = ", ".join(f"{flow.alg} {_shown(flow.throughput_mbps, 'Mbps')}" for flow in self.flows)
        return f"Result({self.scenario!r}, seed {self.seed}: {flows})"


def _shown(value: float | None, unit: str) -> str:
    return "–" if value is None else f"{value:.2f} {unit}"
