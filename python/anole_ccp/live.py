"""An algorithm of one's own over real flows: a QUIC transfer in this process, or an agent at a Unix socket."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from . import _anole
from .algorithm import Algorithm, own
from .result import Result
from .running import Runnable, _checked, _seed
from .scenario import Scenario


@dataclasses.dataclass(frozen=True)
class Served:
    """What an agent did."""

    flows: int
    """Flows that began."""
    reports: int
    """Reports that were answered."""


class Stop:
    """Ends a `serve` that was given it, from another thread."""

    def __init__(self) -> None:
        """Not set."""
        self._stop = _anole.Stop()

    def set(self) -> None:
        """Ends it."""
        self._stop.set()


def serve(
    algorithm: type[Algorithm],
    socket: str | Path,
    *,
    seconds: float | None = None,
    seed: int = 1,
    stop: Stop | None = None,
) -> Served:
    """Lets `algorithm` govern the flows of datapaths that are given this socket, such as real QUIC transfers:

        anole-quic serve --cert quic.pem &
        anole-quic send 127.0.0.1:4433 --cert quic.pem --agent /tmp/mine.sock --duration 10

    or Linux TCP, which root lends to the socket:

        sudo anole-ccp relay --socket /tmp/mine.sock &
        iperf3 -c HOST -C anole_ccp

    until `seconds` are over, `stop` is set, or Ctrl-C comes. It makes the socket, for this user alone, and removes it; one
    that a killed process has left is replaced.
    The flows' seeds follow from `seed`. An exception of the algorithm ends it and comes out; the flows go on under their
    datapath's own CUBIC. Of more than 1024 flows at a time the last ones are left to their datapaths, with a RuntimeWarning.
    Raises OSError where the socket cannot be bound.
    """
    flows, reports = _anole.serve(own(algorithm), str(socket), seconds, _seed(seed), (stop or Stop())._stop)
    return Served(flows, reports)


def transfer(
    algorithm: Runnable,
    scenario: Scenario | str | Path = "anole-normal",
    *,
    seed: int | None = None,
    set: Sequence[str] = (),
) -> Result:
    """Sends real QUIC packets for the scenario's length, governed by `algorithm` (a class of one's own, or a name as for
    `simulate`), and returns what was measured.

    Client, server and the scenario's links are in this process, over loopback: packets wait, are delayed and lost as
    in `simulate`, in real time. The scenario has one flow, which sends all it can from the start on: `start_s`, `bytes`,
    `app_mbps`, `ecn` and preferences are refused with ValueError. What a sender cannot see is not in the result: one-way
    delays, the queue over time. An exception of the algorithm ends it and comes out. Figures differ a little from run to
    run, as with any real packets.

    >>> import anole_ccp
    >>> class Forty(anole_ccp.Algorithm):
    ...     def on_flow(self, flow):
    ...         return {"cwnd": 40 * flow.mss}
    >>> anole_ccp.transfer(Forty, set=["duration_s=1"]).flow.throughput_mbps > 1
    True
    """
    checked = _checked(scenario, set)
    chosen = _seed(checked.seed if seed is None else seed)
    name, policy, mine = None, None, None
    if isinstance(algorithm, str):
        name, _, policy = algorithm.partition("+")
    else:
        mine = own(algorithm)
    return Result(_anole.transfer(checked._scenario, name, policy or None, mine, chosen, _anole.Stop()))
