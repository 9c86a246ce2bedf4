"""Lab 5: a utility function and rate probing. Hand in this file."""

import anole_ccp

#: A probe is this much above and below the rate.
PROBE = 0.05
#: Slopes of the round-trip time below this are noise.
NOISE = 0.01
#: A step of the rate: this much, and more for each step in the same direction, up to so many times.
STEP, LONGEST = 0.04, 6
#: Bounds of the rate, bytes/s.
LEAST, MOST = 2e4, 1e9


def utility(throughput_mbps: float, rtt_slope: float, loss: float) -> float:
    """How good an interval was. `rtt_slope`: growth of the round-trip time, s per s; `loss`: share of the packets."""
    slope = max(rtt_slope - NOISE, 0.0)
    return (
        throughput_mbps**0.9 - 20 * throughput_mbps * slope - 11.35 * throughput_mbps * max(loss - 0.03, 0.0)
    )


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
        self.starting, self.best = True, 0.0
        self.before = self.now = 0  # direction of the probe whose outcome comes, and of the one that runs
        self.found = {}
        self.direction, self.times = 0, 0
        self.loss = 0.0
        return self.hold(0, 0.05) | {"interval_us": 50_000}

    def hold(self, probe, rtt_s):
        self.rate = min(max(self.rate, LEAST), MOST)
        self.before, self.now = self.now, probe
        rate = self.rate * (1 + PROBE * probe)
        return {"rate": rate, "cwnd": max(2 * rate * rtt_s, 4 * self.mss)}

    def on_report(self, report):
        if report.min_rtt_us == anole_ccp.NO_VALUE:
            self.rate /= 2
            return self.hold(0, 0.1)
        rtt_s = report.min_rtt_us / 1e6
        mbps = report.acked * 8 / max(report.elapsed_us, 1)
        lost = report.lost * self.mss
        # Losses of single packets are smoothed: in a short interval one of them is many per cent.
        self.loss += 0.3 * (lost / max(lost + report.acked, 1) - self.loss)
        value = utility(mbps, slope(report), self.loss)
        probe = self.start(value) if self.starting else self.move(value)
        return self.hold(probe, rtt_s) | {"interval_us": max(1.2 * report.min_rtt_us, 10_000)}

    def start(self, value):
        if value > self.best:
            self.best, self.rate = value, self.rate * 1.5
        else:
            self.starting, self.rate = False, self.rate / 2
        return 0

    def move(self, value):
        if self.before:
            self.found[self.before] = value
        if len(self.found) < 2:
            return {0: 1, 1: -1, -1: 0}[self.now]
        direction = 1 if self.found[1] > self.found[-1] else -1
        self.times = min(self.times + 1, LONGEST) if direction == self.direction else 1
        self.direction, self.found = direction, {}
        self.rate *= 1 + STEP * self.times * direction
        return 1
