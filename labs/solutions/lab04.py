"""Lab 4: fairness. Hand in this file."""

from collections.abc import Sequence

import anole_ccp

#: The round-trip time at which a flow grows as Reno's does.
REFERENCE_S = 0.04


def jain(rates: Sequence[float]) -> float:
    """Jain's index of fairness of some rates: 1 when all are equal, 1/n when one has everything."""
    return sum(rates) ** 2 / (len(rates) * sum(rate**2 for rate in rates))


class Fair(anole_ccp.Algorithm):
    """AIMD of the rate: it grows by the same in each second, whatever the round-trip time."""

    def on_flow(self, flow):
        self.mss, self.cwnd = flow.mss, flow.init_cwnd
        self.cut_s = 0.0
        return {"cwnd": self.cwnd, "interval_us": 10_000}

    def on_report(self, report):
        if report.min_rtt_us == anole_ccp.NO_VALUE:
            return None
        rtt_s = report.min_rtt_us / 1e6
        if report.lost and report.now_s - self.cut_s > 1.5 * rtt_s:
            self.cwnd, self.cut_s = self.cwnd / 2, report.now_s
        elif not report.lost:
            # A window of RTT × rate has to grow by RTT² for the rate to grow the same in a second.
            self.cwnd += self.mss * report.acked / self.cwnd * (rtt_s / REFERENCE_S) ** 2
        self.cwnd = max(self.cwnd, 2 * self.mss)
        return {"cwnd": self.cwnd, "interval_us": report.min_rtt_us / 4}
