"""Lab 1: a fixed window and the bandwidth-delay product. Hand in this file."""

import anole_ccp


def window_bytes(capacity_mbps: float, rtt_ms: float) -> float:
    """The smallest window that keeps a link busy without a queue, in bytes.

    `rtt_ms` is the round-trip time of an empty link.
    """
    # A link that carries C for one round-trip time has carried C × RTT.
    return capacity_mbps * 1e6 / 8 * rtt_ms / 1e3


def predict(capacity_mbps: float, rtt_ms: float, buffer_bytes: float, window: float) -> tuple[float, float]:
    """Throughput in Mbps and round-trip time in ms of a flow that keeps `window` bytes on their way.

    The window is never larger than what the link and its buffer hold together.
    """
    product = window_bytes(capacity_mbps, rtt_ms)
    queue = max(window - product, 0.0)
    return capacity_mbps * min(window / product, 1.0), rtt_ms + queue * 8 / (capacity_mbps * 1e6) * 1e3


def fixed(window: float) -> type[anole_ccp.Algorithm]:
    """An algorithm that holds a window; nothing to do here."""

    class Fixed(anole_ccp.Algorithm):
        name = f"window of {window / 1000:.0f} kB"

        def on_flow(self, flow):
            return {"cwnd": window}

    return Fixed
