"""Lab 6: a hybrid that survives a bad policy. Hand in this file."""

import math

import anole_ccp

#: Packets of its own that the rule keeps in the queue.
LOW, HIGH = 2, 4
#: A trial is won by this much.
MARGIN = 1.06
#: Intervals that a policy governs before the rule is looked at again, and that the rule governs after a lost trial.
TRUST, WAIT, LONGEST_WAIT = 20, 8, 256


class Hybrid(anole_ccp.Algorithm):
    """A rule (Vegas) governs; the policy's rate is tried, and governs while it is better."""

    #: Called with each report: the policy's rate in bytes/s, or None. The check fills it in.
    policy = None

    def on_flow(self, flow):
        self.mss, self.cwnd = flow.mss, flow.init_cwnd
        self.base_us, self.starting, self.cut_s = None, True, 0.0
        self.state, self.left, self.wait = "rule", WAIT, WAIT
        self.rule_value = self.value = 0.0
        return {"cwnd": self.cwnd, "interval_us": 10_000}

    def on_report(self, report):
        if report.min_rtt_us == anole_ccp.NO_VALUE:
            self.state, self.left = "rule", self.wait
            return {"cwnd": self.cwnd, "rate": 0}
        rtt_us = report.min_rtt_us
        self.base_us = min(rtt_us, self.base_us or rtt_us)
        self.rule(report, rtt_us)
        now = self.worth(report, rtt_us)
        self.value += 0.5 * (now - self.value)
        offered = self.offered(report, rtt_us)
        self.left -= 1
        if report.lost and self.state == "policy":
            self.leave()
        if self.state == "rule":
            self.rule_value = self.value
            if self.left <= 0 and offered is not None and not self.starting:
                self.state, self.left = "trial", 3
        elif self.state == "trial" and self.left <= 0:
            # The last two intervals' reports are of packets that were sent at the policy's rate.
            if self.value > self.rule_value * MARGIN:
                self.state, self.left, self.wait, self.rule_value = "policy", TRUST, WAIT, self.value
                # The rule goes on from here, and so does what is near it.
                self.cwnd = max(offered * self.base_us / 1e6, 4 * self.mss)
            else:
                self.leave()
        elif self.state == "policy" and (self.left <= 0 or self.value < 0.9 * self.rule_value):
            self.leave()
        if self.state == "rule" or offered is None:
            return {"cwnd": self.cwnd, "rate": 0, "interval_us": rtt_us}
        return {"cwnd": 2 * offered * rtt_us / 1e6, "rate": offered, "interval_us": rtt_us}

    def leave(self):
        """Back to the rule, for longer each time that a trial is lost."""
        self.wait = min(2 * self.wait, LONGEST_WAIT)
        self.state, self.left = "rule", self.wait

    def rule(self, report, rtt_us):
        """Vegas: the window of the next interval."""
        queued = self.cwnd / self.mss * (1 - self.base_us / rtt_us)
        if report.lost and report.now_s - self.cut_s > rtt_us / 1e6:
            self.cwnd, self.cut_s, self.starting = self.cwnd * 0.7, report.now_s, False
        elif self.state != "rule":
            return
        elif self.starting:
            self.starting = queued < LOW
            self.cwnd += report.acked / 2 if self.starting else 0
        elif queued < LOW:
            self.cwnd += self.mss * max(1, (LOW - queued) / 2)
        elif queued > HIGH:
            self.cwnd -= self.mss * max(1, (queued - HIGH) / 4)
        self.cwnd = max(self.cwnd, 4 * self.mss)

    def worth(self, report, rtt_us):
        """What an interval was worth: throughput, less for a queue and for losses."""
        lost = report.lost * self.mss
        share = lost / max(lost + report.acked, 1)
        mbps = report.acked * 8 / max(report.elapsed_us, 1)
        return mbps / (rtt_us / self.base_us) * max(1 - 5 * share, 0.0)

    def offered(self, report, rtt_us):
        """The policy's rate, near the rule's; None where it is no rate."""
        try:
            rate = type(self).policy(report) if type(self).policy else None
        except Exception:
            return None
        if rate is None or not math.isfinite(rate) or rate <= 0:
            return None
        own = self.cwnd / (rtt_us / 1e6)
        return min(max(rate, 0.7 * own), 1.4 * own)
