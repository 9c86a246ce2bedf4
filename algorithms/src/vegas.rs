//! Vegas (Brakmo and Peterson, *TCP Vegas: End to End Congestion Avoidance on a Global Internet*, IEEE JSAC
//! 13(8), 1995) over the `rate-hold` program: the window moves once per round trip.
//!
//! With the smallest round-trip time of the flow and that of the round, the packets which the flow keeps in
//! queues are
//!   diff = cwnd·(1 − base/rtt)
//! Between alpha and beta of them the window stays; below it grows by a segment, above it shrinks by one.
//! Slow start doubles per round trip until diff exceeds gamma, and goes on from the window that fits the
//! path. Losses and timeouts are Reno's. Parameters are those of Linux.
//!
//! Deviations: a round is a report; the window doubles in every round of slow start, as in Linux, and not in
//! every other; there is no finer retransmission clock, which is the transport's matter; rounds of one or
//! two samples grow like Reno, as in Linux, since delayed ACKs may be all they show.

use crate::classic::{Classic, RenoWindow};
use crate::params::parameters;
use crate::{Algorithm, Build, BuildError, Commands, FlowInfo, Report, Spec};
use anole_model::{Bounds, Dur, Time};
use anole_programs::rate_hold::{self, control};

parameters! {
    /// What a user may change.
    struct Params {
        alpha = 2.0, 0.0..=100.0, "Packets in queues below which the window grows (Linux).";
        beta = 4.0, 0.0..=100.0, "Packets in queues above which it shrinks (Linux).";
        gamma = 1.0, 0.0..=100.0, "Packets in queues that end slow start (Linux).";
    }
}

/// Vegas in the registry.
pub(crate) const SPEC: Spec = Spec {
    name: "vegas",
    kind: "rule",
    summary: "Keeps two to four packets in the queue: the first delay-based algorithm",
    programs: &[&rate_hold::PROGRAM],
    parameters: Params::PARAMETERS,
    source: "Brakmo and Peterson, IEEE JSAC 1995",
    build,
};

/// The first report comes with the first ACK, us.
const FIRST_REPORT_US: u32 = 1_000;
/// Rounds with no more samples than this grow like Reno (Linux).
const FEW_SAMPLES: u64 = 2;
/// The window grows while more than half of it is in use.
const IN_USE: u64 = 2;

fn build(what: &Build) -> Result<Box<dyn Algorithm>, BuildError> {
    Ok(Box::new(Vegas::new(what.flow, Params::with(&what.params)?)))
}

struct Vegas {
    flow: FlowInfo,
    params: Params,
    window: RenoWindow,
    base_us: u64,
}

impl Vegas {
    fn new(flow: FlowInfo, params: Params) -> Vegas {
        let init_cwnd = Bounds::DEFAULT.cwnd(u64::from(flow.init_cwnd), flow.mss);
        Vegas { flow, params, window: RenoWindow::new(flow.mss, init_cwnd), base_us: u64::MAX }
    }

    /// One round of `n` samples, the smallest of `rtt_us`, without a loss.
    fn adjust(&mut self, now: Time, seen: &rate_hold::Report, rtt_us: u64) {
        let mss = u64::from(self.flow.mss.max(1));
        let cwnd = self.window.cwnd();
        let fits = cwnd as f64 * self.base_us as f64 / rtt_us as f64;
        let diff = (cwnd as f64 - fits) / mss as f64;
        let slow_start = self.window.in_slow_start();
        if seen.n <= FEW_SAMPLES || (slow_start && diff <= self.params.gamma) {
            self.window.on_ack(now, seen.acked, Dur::from_micros(seen.rtt_us));
        } else if slow_start {
            self.move_to((fits as u64 + mss).min(cwnd));
        } else if diff > self.params.beta {
            self.move_to(cwnd.saturating_sub(mss));
        } else if diff < self.params.alpha {
            self.move_to(cwnd.saturating_add(mss));
        }
    }

    fn move_to(&mut self, cwnd: u64) {
        self.window.resume(Bounds::DEFAULT.cwnd(cwnd, self.flow.mss));
    }
}

impl Algorithm for Vegas {
    fn start(&mut self, _now: Time, out: &mut Commands) {
        out.run(&rate_hold::PROGRAM)
            .cwnd(Bounds::DEFAULT.cwnd(self.window.cwnd(), self.flow.mss))
            .set(control::INTERVAL_US, FIRST_REPORT_US);
    }

    fn on_report(&mut self, now: Time, report: &Report<'_>, out: &mut Commands) {
        if report.program.name != rate_hold::PROGRAM.name {
            return;
        }
        let Some(seen) = rate_hold::Report::read(report.values) else { return };
        let rtt_us = seen.min_rtt_us.max(1);
        if seen.n > 0 {
            self.base_us = self.base_us.min(rtt_us);
        }
        if seen.timeout > 0 {
            self.window.on_timeout(now);
        } else if seen.lost > 0 {
            self.window.observe(self.window.cwnd(), Dur::from_micros(seen.rtt_us));
            self.window.on_loss(now);
        } else if seen.n > 0 && IN_USE * (seen.inflight.saturating_add(seen.acked)) > self.window.cwnd() {
            self.adjust(now, &seen, rtt_us);
        }
        out.cwnd(Bounds::DEFAULT.cwnd(self.window.cwnd(), self.flow.mss))
            .set(control::INTERVAL_US, seen.rtt_us.clamp(1_000, 1_000_000) as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: FlowInfo = FlowInfo { mss: 1000, init_cwnd: 10_000 };

    /// The window after a round with this smallest round-trip time, in us.
    fn round(vegas: &mut Vegas, at_ms: u64, rtt_us: u64, lost: u64, timeout: u64) -> u64 {
        let cwnd = vegas.window.cwnd();
        let seen = [cwnd, lost, timeout, rtt_us, rtt_us, rtt_us, 10, 0, 0, 0, 0, 0, 0, cwnd];
        let report = Report { program: &rate_hold::PROGRAM, values: &seen };
        vegas.on_report(Time::from_micros(at_ms * 1000), &report, &mut Commands::default());
        vegas.window.cwnd()
    }

    #[test]
    fn slow_start_ends_at_the_window_that_fits() {
        let mut vegas = Vegas::new(FLOW, Params::default());
        assert_eq!(round(&mut vegas, 50, 50_000, 0, 0), 20_000);
        // 20 packets, 2 of them in the queue: 18 fit, and one more.
        assert_eq!(round(&mut vegas, 100, 55_556, 0, 0), 18_999);
    }

    #[test]
    fn two_to_four_packets_in_the_queue_are_kept() {
        let mut vegas = Vegas::new(FLOW, Params::default());
        vegas.base_us = 50_000;
        vegas.move_to(30_000);
        // diff = 30·(1 − 50/rtt) packets: 1, 3 and 5.
        assert_eq!(round(&mut vegas, 50, 51_724, 0, 0), 31_000);
        vegas.move_to(30_000);
        assert_eq!(round(&mut vegas, 100, 55_556, 0, 0), 30_000);
        assert_eq!(round(&mut vegas, 150, 60_000, 0, 0), 29_000);
    }

    #[test]
    fn losses_are_renos() {
        let mut vegas = Vegas::new(FLOW, Params::default());
        vegas.base_us = 50_000;
        vegas.move_to(30_000);
        assert_eq!(round(&mut vegas, 100, 50_000, 1, 0), 15_000);
        assert_eq!(round(&mut vegas, 149, 50_000, 1, 0), 15_000);
        assert_eq!(round(&mut vegas, 150, 50_000, 1, 0), 7_500);
        assert_eq!(round(&mut vegas, 300, 50_000, 0, 1), 1_000);
    }
}
