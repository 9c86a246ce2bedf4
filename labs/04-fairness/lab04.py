"""Lab 4: fairness. Hand in this file."""

from collections.abc import Sequence

import anole_ccp


def jain(rates: Sequence[float]) -> float:
    """Jain's index of fairness of some rates: 1 when all are equal, 1/n when one has everything."""
    # TODO
    return 1.0


class Fair(anole_ccp.Algorithm):
    """AIMD. Flows with short round trips get more: why, and what has to change?"""

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
            # TODO: a packet in each round trip. How fast does the rate, cwnd / rtt, grow at 20 ms, and at 120 ms?
            self.cwnd += self.mss * report.acked / self.cwnd
        self.cwnd = max(self.cwnd, 2 * self.mss)
        return {"cwnd": self.cwnd, "interval_us": report.min_rtt_us / 4}
