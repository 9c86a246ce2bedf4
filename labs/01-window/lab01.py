"""Lab 1: a fixed window and the bandwidth-delay product. Hand in this file."""

import anole_ccp


def window_bytes(capacity_mbps: float, rtt_ms: float) -> float:
    """The smallest window that keeps a link busy without a queue, in bytes.

    `rtt_ms` is the round-trip time of an empty link.
    """
    # TODO: how many bytes are on their way when the link is just busy?
    return 10 * 1500


def predict(capacity_mbps: float, rtt_ms: float, buffer_bytes: float, window: float) -> tuple[float, float]:
    """Throughput in Mbps and round-trip time in ms of a flow that keeps `window` bytes on their way.

    The window is never larger than what the link and its buffer hold together.
    """
    # TODO: two cases. Below the bandwidth-delay product the window is the limit, above it the link is.
    return capacity_mbps, rtt_ms


def fixed(window: float) -> type[anole_ccp.Algorithm]:
    """An algorithm that holds a window; nothing to do here."""

    class Fixed(anole_ccp.Algorithm):
        name = f"window of {window / 1000:.0f} kB"

        def on_flow(self, flow):
            return {"cwnd": window}

    return Fixed
