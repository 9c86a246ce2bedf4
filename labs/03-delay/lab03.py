"""Lab 3: delay-based control. Hand in this file."""

import anole_ccp


class Vegas(anole_ccp.Algorithm):
    """Compares the round-trip time with the smallest one, once per round trip."""

    def on_flow(self, flow):
        self.mss, self.cwnd = flow.mss, flow.init_cwnd
        self.base_us = None
        return {"cwnd": self.cwnd, "interval_us": 10_000}

    def on_report(self, report):
        if report.min_rtt_us == anole_ccp.NO_VALUE:
            return None  # nothing was acknowledged since the last report
        rtt_us = report.min_rtt_us
        self.base_us = min(rtt_us, self.base_us or rtt_us)
        # TODO: how many packets of this flow wait in the queue? (window and the two round-trip times tell)
        # TODO: grow when they are few, shrink when they are many. Start faster than a packet per round trip.
        # As it is, the window grows until packets are lost:
        if report.lost:
            self.cwnd = max(self.cwnd / 2, 2 * self.mss)
        else:
            self.cwnd += self.mss
        return {"cwnd": self.cwnd, "interval_us": rtt_us}
