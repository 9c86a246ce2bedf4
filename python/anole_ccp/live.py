"""An algorithm of one's own over real flows: an agent in this process, at a Unix socket."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from . import _anole
from .algorithm import Algorithm, own


@dataclasses.dataclass(frozen=True)
class Served:
    """What an agent did."""

    #: Flows that began.
    flows: int
    #: Reports that were answered.
    reports: int


class Stop:
    """Ends a `serve` that was given it, from another thread."""

    def __init__(self) -> None:
        """Not set."""
        self._stop = _anole.Stop()

    def set(self) -> None:
        """Ends it."""
        self._stop.set()


def serve(
    algorithm: type[Algorithm], socket: str | Path, *, seconds: float | None = None, stop: Stop | None = None
) -> Served:
    """Lets `algorithm` govern the flows of datapaths that are given this socket, such as real QUIC transfers:

        anole-quic serve --cert quic.pem &
        anole-quic send 127.0.0.1:4433 --cert quic.pem --agent /tmp/mine.sock --duration 10

    until `seconds` are over, `stop` is set, or Ctrl-C comes. It makes the socket, for this user alone, and removes it.
    An exception of the algorithm ends it and comes out; the flows go on under their datapath's own CUBIC. Raises
    OSError where the socket cannot be bound.
    """
    flows, reports = _anole.serve(own(algorithm), str(socket), seconds, (stop or Stop())._stop)
    return Served(flows, reports)
