//! Vegas (Brakmo and Peterson, *TCP Vegas: End to End Congestion Avoidance on a Global Internet*, IEEE JSAC
//! 13(8), 1995): the window moves once per round trip.
//!
//! With the smallest round-trip time of the flow and that of the round, the packets that the flow keeps in queues are
//!
//! ```text
//! diff = cwnd·(1 − base/rtt)
//! ```
//!
//! Between alpha and beta of them the window stays; below it grows by a segment, above it shrinks by one. Slow start
//! doubles per round trip until diff exceeds gamma, and goes on from the window that fits the path. Losses and
//! timeouts are Reno's. Parameters are those of Linux.
//!
//! Deviations: a round is measured in time; the window doubles in every round of slow start, as in Linux, and not in
//! every other; there is no finer retransmission clock, which is the transport's matter; rounds of one or two samples
//! grow like Reno, as in Linux, since delayed ACKs may be all they show.

use crate::{Control, Feedback, Law, LawSpec, Reno, parameters};
use anole_model::{Bounds, Dur, Time};

parameters! {
    /// What a user may change.
    pub struct Params {
        alpha = 2.0, 0.0..=100.0, "Packets in queues below which the window grows (Linux).";
        beta = 4.0, 0.0..=100.0, "Packets in queues above which it shrinks (Linux).";
        gamma = 1.0, 0.0..=100.0, "Packets in queues that end slow start (Linux).";
    }
}

/// Vegas in the registry.
pub const SPEC: LawSpec = LawSpec {
    name: "vegas",
    summary: "Keeps two to four packets in the queue: the first delay-based algorithm",
    source: "Brakmo and Peterson, IEEE JSAC 1995",
    parameters: Params::PARAMETERS,
    build: |flow, given| Ok(Box::new(Vegas::new(flow.mss, flow.init_cwnd, Params::with(given)?))),
};

/// Rounds with no more samples than this grow like Reno (Linux).
const FEW_SAMPLES: u64 = 2;
/// A round is at least and at most this long.
const ROUND: (Dur, Dur) = (Dur::from_millis(1), Dur::from_millis(1000));

/// Vegas' window.
#[derive(Clone, Debug)]
pub struct Vegas {
    mss: u32,
    params: Params,
    window: Reno,
    /// The smallest round-trip time of the flow.
    base: Option<Dur>,
    round: Round,
}

/// What happened in this round.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    ends: Time,
    acked: u64,
    samples: u64,
    least: Option<Dur>,
}

impl Vegas {
    /// Slow start from `init_cwnd` bytes.
    pub fn new(mss: u32, init_cwnd: u32, params: Params) -> Vegas {
        let window = Reno::new(mss, Bounds::DEFAULT.cwnd(u64::from(init_cwnd), mss));
        Vegas { mss, params, window, base: None, round: Round::default() }
    }

    /// A round is over that met no loss: one step of the window.
    fn adjust(&mut self, base: Dur, rtt: Dur) {
        let mss = u64::from(self.mss.max(1));
        let cwnd = self.window.cwnd();
        let fits = cwnd as f64 * base.as_secs_f64() / rtt.as_secs_f64().max(1e-9);
        let diff = (cwnd as f64 - fits) / mss as f64;
        let slow_start = self.in_slow_start();
        if self.round.samples <= FEW_SAMPLES || (slow_start && diff <= self.params.gamma) {
            self.window.on_ack(self.round.acked);
        } else if slow_start {
            self.move_to((fits as u64 + mss).min(cwnd));
        } else if diff > self.params.beta {
            self.move_to(cwnd.saturating_sub(mss));
        } else if diff < self.params.alpha {
            self.move_to(cwnd.saturating_add(mss));
        }
    }

    fn move_to(&mut self, cwnd: u64) {
        self.window.resume_at(u64::from(Bounds::DEFAULT.cwnd(cwnd, self.mss)));
    }
}

impl Law for Vegas {
    fn on_feedback(&mut self, now: Time, seen: &Feedback) {
        if seen.after_idle() {
            (self.base, self.round) = (None, Round::default());
        }
        if let Some(rtt) = seen.min_rtt {
            self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
            self.round.least = Some(self.round.least.map_or(rtt, |least| least.min(rtt)));
        }
        self.round.acked = self.round.acked.saturating_add(seen.acked);
        self.round.samples = self.round.samples.saturating_add(seen.samples);
        let rtt = seen.rtt.unwrap_or(Dur::ZERO);
        self.window.observe(self.window.cwnd(), seen.acked, rtt);
        if seen.timeout {
            self.window.on_timeout(now);
        } else if seen.congested() {
            self.window.on_loss(now);
        } else if now < self.round.ends {
            return;
        } else if let (Some(base), Some(least)) = (self.base, self.round.least)
            && seen.uses(self.window.cwnd())
        {
            self.adjust(base, least);
        }
        let ends = now + rtt.clamp(ROUND.0, ROUND.1);
        self.round = Round { ends, ..Round::default() };
    }

    fn control(&self) -> Control {
        Control::window(u64::from(Bounds::DEFAULT.cwnd(self.window.cwnd(), self.mss)))
    }

    fn resume(&mut self, _now: Time, from: Control) {
        self.move_to(from.cwnd);
    }

    fn in_slow_start(&self) -> bool {
        self.window.in_slow_start()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vegas() -> Vegas {
        Vegas::new(1000, 10_000, Params::default())
    }

    /// The window after a round with this smallest round-trip time, in us.
    fn round(vegas: &mut Vegas, at_ms: u64, rtt_us: u64, lost: u64, timeout: bool) -> u64 {
        let (acked, rtt) = (vegas.window.cwnd(), Some(Dur::from_micros(rtt_us)));
        let in_flight = Some(acked);
        let seen = Feedback {
            acked,
            lost,
            timeout,
            rtt,
            min_rtt: rtt,
            samples: 10,
            in_flight,
            ..Feedback::default()
        };
        vegas.on_feedback(Time::from_micros(at_ms * 1000), &seen);
        vegas.window.cwnd()
    }

    #[test]
    fn slow_start_ends_at_the_window_that_fits() {
        let mut vegas = vegas();
        assert_eq!(round(&mut vegas, 50, 50_000, 0, false), 20_000);
        // 20 packets, 2 of them in the queue: 18 fit, and one more.
        assert_eq!(round(&mut vegas, 106, 55_556, 0, false), 18_999);
    }

    #[test]
    fn two_to_four_packets_in_the_queue_are_kept() {
        let mut vegas = vegas();
        vegas.base = Some(Dur::from_millis(50));
        vegas.move_to(30_000);
        // diff = 30·(1 − 50/rtt) packets: 1, 3 and 5.
        assert_eq!(round(&mut vegas, 100, 51_724, 0, false), 31_000);
        vegas.move_to(30_000);
        assert_eq!(round(&mut vegas, 200, 55_556, 0, false), 30_000);
        assert_eq!(round(&mut vegas, 300, 60_000, 0, false), 29_000);
    }

    #[test]
    fn a_path_that_became_longer_while_the_flow_was_idle_has_no_queue() {
        let mut vegas = vegas();
        round(&mut vegas, 50, 50_000, 0, false);
        let rtt = Some(Dur::from_millis(80));
        let seen = Feedback { acked: 1000, rtt, min_rtt: rtt, samples: 1, ..Feedback::default() };
        vegas
            .on_feedback(Time::from_micros(5_000_000), &Feedback { elapsed: Dur::from_millis(4900), ..seen });
        assert_eq!(vegas.base, rtt);
    }

    #[test]
    fn single_acks_make_a_round_together() {
        let mut vegas = vegas();
        vegas.base = Some(Dur::from_millis(50));
        vegas.move_to(30_000);
        let rtt = Some(Dur::from_micros(51_724));
        let ack = Feedback {
            acked: 1000,
            rtt,
            min_rtt: rtt,
            samples: 1,
            in_flight: Some(29_000),
            ..Feedback::default()
        };
        let mut windows = (0..104u64).map(|n| {
            vegas.on_feedback(Time::from_micros(1_000_000 + n * 1000), &ack);
            vegas.window.cwnd()
        });
        // The first ACK ends the round before; it has too few samples to tell anything.
        assert!(windows.by_ref().take(52).all(|cwnd| cwnd == 30_000));
        assert_eq!(windows.next(), Some(31_000));
        assert_eq!(windows.last(), Some(31_000));
    }

    #[test]
    fn losses_are_renos() {
        let mut vegas = vegas();
        vegas.base = Some(Dur::from_millis(50));
        vegas.move_to(30_000);
        assert_eq!(round(&mut vegas, 100, 50_000, 1, false), 15_000);
        assert_eq!(round(&mut vegas, 149, 50_000, 1, false), 15_000);
        assert_eq!(round(&mut vegas, 300, 50_000, 0, true), 1_000);
    }
}
