//! Westwood+ (Grieco and Mascolo, *Performance Evaluation and Comparison of Westwood+, New Reno, and Vegas TCP Congestion
//! Control*, ACM CCR 34(2), 2004): Reno whose decrease goes to the window that the measured bandwidth fills.
//!
//! ```text
//! b = bytes acknowledged / time                  a sample per round trip, of 50 ms at least               (§2)
//! n = 7/8·n + 1/8·b,  bw = 7/8·bw + 1/8·n        two low-pass filters, which begin with the first sample  (Linux)
//! on a loss:     ssthresh = bw·RTT_min, at least 2 packets; cwnd = ssthresh where it is less
//! on a timeout:  ssthresh likewise, cwnd = 1 packet, and RTT_min is measured anew                         (Linux)
//! ```
//! Growth is Reno's. A loss that no queue caused costs little, since the bandwidth is what the window brought before it.
//!
//! Deviations: a congestion event is measured in time; Linux sets the window at the end of a recovery, here it is set at
//! its start.

use crate::{Control, Feedback, Law, LawSpec, Reno, params};
use anole_model::{Bounds, Dur, Rate, Time};

/// Westwood+ in the registry.
pub const SPEC: LawSpec = LawSpec {
    name: "westwood",
    summary: "Reno whose decrease goes to measured bandwidth times smallest round-trip time (Westwood+)",
    source: "Grieco and Mascolo, ACM CCR 2004",
    parameters: &[],
    build: |flow, given| {
        params::check(SPEC.parameters, given)?;
        Ok(Box::new(Westwood::new(flow.mss, flow.init_cwnd)))
    },
};

/// Weight of what was known in both filters (Linux, westwood_do_filter).
const KEPT: f64 = 7.0 / 8.0;
/// A sample takes no less than this (Linux, TCP_WESTWOOD_RTT_MIN).
const SHORTEST_SAMPLE: Dur = Dur::from_millis(50);
/// No round-trip time is longer.
const LONGEST_RTT: Dur = Dur::from_millis(60_000);

/// The bandwidth estimate.
#[derive(Clone, Debug, Default)]
struct Bandwidth {
    /// When the present sample began, and the bytes acknowledged since.
    since: Option<Time>,
    acked: u64,
    /// After the first filter and after both, bytes/s.
    filtered: Option<(f64, f64)>,
}

impl Bandwidth {
    fn take(&mut self, now: Time, acked: u64, rtt: Dur) {
        let Some(since) = self.since else {
            self.since = Some(now);
            return;
        };
        self.acked = self.acked.saturating_add(acked);
        let span = now.since(since);
        if span > rtt.max(SHORTEST_SAMPLE) {
            let sample = Rate::from_bytes_in(self.acked, span).bytes_per_s();
            let (first, second) = self.filtered.unwrap_or((sample, sample));
            let first = KEPT * first + (1.0 - KEPT) * sample;
            self.filtered = Some((first, KEPT * second + (1.0 - KEPT) * first));
            (self.since, self.acked) = (Some(now), 0);
        }
    }

    fn bytes_in(&self, rtt: Dur) -> f64 {
        self.filtered.map_or(0.0, |(_, bandwidth)| bandwidth * rtt.as_secs_f64())
    }
}

/// Westwood+'s window.
#[derive(Clone, Debug)]
pub struct Westwood {
    mss: u32,
    window: Reno,
    bandwidth: Bandwidth,
    /// The smallest round-trip time.
    least: Option<Dur>,
    rtt: Dur,
}

impl Westwood {
    /// Slow start from `init_cwnd` bytes.
    pub fn new(mss: u32, init_cwnd: u32) -> Westwood {
        let window = Reno::new(mss, Bounds::DEFAULT.cwnd(u64::from(init_cwnd), mss));
        Westwood { mss, window, bandwidth: Bandwidth::default(), least: None, rtt: Dur::ZERO }
    }

    /// The share of the window that the measured bandwidth fills.
    fn kept(&self) -> f64 {
        let fits = self.least.map_or(0.0, |least| self.bandwidth.bytes_in(least));
        fits / self.window.cwnd().max(1) as f64
    }
}

impl Law for Westwood {
    fn on_feedback(&mut self, now: Time, seen: &Feedback) {
        let sane = |rtt: &Dur| !rtt.is_zero() && *rtt <= LONGEST_RTT;
        self.rtt = seen.rtt.filter(sane).unwrap_or(self.rtt);
        if let Some(rtt) = seen.min_rtt.filter(sane) {
            self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        }
        self.bandwidth.take(now, seen.acked, self.rtt);
        self.window.observe(self.window.cwnd(), seen.acked, self.rtt);
        if seen.timeout {
            self.window.time_out(now, self.kept());
            self.least = None;
        } else if seen.congested() {
            self.window.decrease(now, self.kept());
        }
        if seen.acked > 0 && !seen.timeout && seen.uses(self.window.cwnd()) {
            self.window.on_ack(seen.acked);
        }
    }

    fn control(&self) -> Control {
        Control::window(u64::from(Bounds::DEFAULT.cwnd(self.window.cwnd(), self.mss)))
    }

    fn resume(&mut self, _now: Time, from: Control) {
        self.window.resume_at(u64::from(Bounds::DEFAULT.cwnd(from.cwnd, self.mss)));
    }

    fn in_slow_start(&self) -> bool {
        self.window.in_slow_start()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Dur = Dur::from_millis(60);

    /// Round trips of 60 ms from `from` on that acknowledge 60 kB each: 1 MB/s.
    fn rounds(law: &mut Westwood, from: u64, n: u64) -> u64 {
        for round in from..from + n {
            let seen = Feedback {
                acked: 60_060,
                rtt: Some(RTT),
                min_rtt: Some(RTT),
                samples: 60,
                ..Feedback::default()
            };
            law.on_feedback(Time::from_micros(round * 60_060), &seen);
        }
        from + n - 1
    }

    fn lose(law: &mut Westwood, round: u64, lost: Feedback) -> u64 {
        law.on_feedback(Time::from_micros(round * 60_060 + 1000), &lost);
        law.window.cwnd()
    }

    #[test]
    fn a_loss_leaves_what_the_bandwidth_fills() {
        let mut law = Westwood::new(1000, 10_000);
        let round = rounds(&mut law, 1, 200);
        law.resume(Time::ZERO, Control::window(100_000));
        let loss = Feedback { lost: 1, ..Feedback::default() };
        assert_eq!(lose(&mut law, round, loss) / 100, 600);
        // A window below that stays.
        law.resume(Time::ZERO, Control::window(40_000));
        assert_eq!(lose(&mut law, round + 5, loss), 40_000);
    }

    #[test]
    fn two_filters_follow_an_eighth_at_a_time() {
        let mut bandwidth = Bandwidth::default();
        let at = |n: u64| Time::from_micros(n * 100_000);
        bandwidth.take(at(0), 0, RTT);
        bandwidth.take(at(1), 100_000, RTT);
        assert_eq!(bandwidth.filtered, Some((1e6, 1e6)));
        // 2 MB/s: the first filter is at 1.125, the second at 1 + 0.125/8.
        bandwidth.take(at(2), 200_000, RTT);
        assert_eq!(bandwidth.filtered, Some((1.125e6, 1.015625e6)));
        // Less than a round trip, then the rest of it.
        bandwidth.take(Time::from_micros(240_000), 1, RTT);
        assert_eq!(bandwidth.acked, 1);
    }

    #[test]
    fn a_timeout_keeps_the_threshold_and_measures_the_path_anew() {
        let mut law = Westwood::new(1000, 10_000);
        let round = rounds(&mut law, 1, 200);
        law.resume(Time::ZERO, Control::window(100_000));
        assert_eq!(lose(&mut law, round, Feedback { timeout: true, ..Feedback::default() }), 1000);
        assert_eq!((law.window.ssthresh() / 100, law.least), (600, None));
    }
}
