"""Lab 5: a utility function and rate probing. Hand in this file."""

import anole_ccp

#: A probe is this much above and below the rate.
PROBE = 0.05


def utility(throughput_mbps: float, rtt_slope: float, loss: float) -> float:
    """How good an interval was. `rtt_slope`: growth of the round-trip time, s per s; `loss`: share of the packets."""
    # TODO: reward throughput; take away for a queue that grows and for packets that are lost.
    return throughput_mbps


def slope(report) -> float:
    """The slope of the round-trip time over a report's interval, from its sums (least squares)."""
    n, t, y = report.n, report.sum_t, report.sum_rtt
    spread = n * report.sum_tt - t * t
    return (n * report.sum_trtt - t * y) / spread if n > 2 and spread > 0 else 0.0


class Prober(anole_ccp.Algorithm):
    """Tries a little more and a little less in turn, and goes where the utility is larger.

    What a report tells is the outcome of the interval before: its ACKs take a round trip.
    """

    def on_flow(self, flow):
        self.mss = flow.mss
        self.rate = flow.init_cwnd / 0.1
        self.before = self.now = 0  # direction of the probe whose outcome comes, and of the one that runs
        return self.hold(0, 0.05) | {"interval_us": 50_000}

    def hold(self, probe, rtt_s):
        """The rate with a probe: 1 is above it, -1 below, 0 itself."""
        self.before, self.now = self.now, probe
        rate = self.rate * (1 + PROBE * probe)
        return {"rate": rate, "cwnd": max(2 * rate * rtt_s, 4 * self.mss)}

    def on_report(self, report):
        if report.min_rtt_us == anole_ccp.NO_VALUE:
            return None
        rtt_s = report.min_rtt_us / 1e6
        mbps = report.acked * 8 / max(report.elapsed_us, 1)
        lost = report.lost * self.mss
        self.value = utility(mbps, slope(report), lost / max(lost + report.acked, 1))
        # TODO: `self.value` belongs to the probe `self.before`. Keep the values of a probe up and a probe down, compare
        # them, and move the rate. At the start, let the rate grow by half while that pays.
        return self.hold(0, rtt_s) | {"interval_us": max(1.2 * report.min_rtt_us, 10_000)}
