"""Lab 3: delay-based control. Hand in this file."""

import anole_ccp

#: Packets of its own that a flow keeps in the queue: it grows below the first, and shrinks above the second.
LOW, HIGH = 2, 4


class Vegas(anole_ccp.Algorithm):
    """Compares the round-trip time with the smallest one, once per round trip."""

    def on_flow(self, flow):
        self.mss, self.cwnd = flow.mss, flow.init_cwnd
        self.base_us = None
        self.starting = True
        self.cut_s = 0.0
        return {"cwnd": self.cwnd, "interval_us": 10_000}

    def on_report(self, report):
        if report.min_rtt_us == anole_ccp.NO_VALUE:
            return None
        rtt_us = report.min_rtt_us
        self.base_us = min(rtt_us, self.base_us or rtt_us)
        queued = self.cwnd / self.mss * (1 - self.base_us / rtt_us)
        if report.lost and report.now_s - self.cut_s > rtt_us / 1e6:
            self.cwnd, self.cut_s, self.starting = self.cwnd * 0.7, report.now_s, False
        elif self.starting:
            self.starting = queued < LOW
            self.cwnd += report.acked / 2 if self.starting else 0
        elif queued < LOW:
            self.cwnd += self.mss
        elif queued > HIGH:
            self.cwnd -= self.mss
        self.cwnd = max(self.cwnd, 2 * self.mss)
        return {"cwnd": self.cwnd, "interval_us": rtt_us}
