//! C2TCP (Abbasloo, Xu and Chao, *C2TCP: A Flexible Cellular TCP to Meet Stringent Delay Requirements*, IEEE JSAC 37(4),
//! 2019): CUBIC under a bound on its delay.
//!
//! With the smallest round-trip time of the flow, setpoint = interval = α·RTT_min, per ACK:
//!
//! ```text
//! good, RTT ≤ setpoint:                  cwnd += γ/cwnd per packet beside CUBIC's growth, γ = setpoint/RTT
//! normal, above it for an interval:      CUBIC alone
//! bad, above it all of the time since:   ssthresh = CUBIC's after a loss, cwnd = 1 packet; again after
//!                                        interval/√n, n the decreases in a row, as CoDel drops (RFC 8289)
//! ```
//! α = 2 is that of the authors' release.
//!
//! Deviations: the smallest round-trip time of a report stands for its ACKs, which is what "all above" needs; a decrease
//! before anything was acknowledged leaves ssthresh where it is, as after a timeout.

use crate::{Control, Cubic, Feedback, Law, LawSpec, parameters};
use anole_model::{Dur, Time};

parameters! {
    /// What a user may change.
    pub struct Params {
        alpha = 2.0, 1.01..=20.0, "Delay allowed, over the smallest round-trip time (the authors' release: 2).";
    }
}

/// C2TCP in the registry.
pub const SPEC: LawSpec = LawSpec {
    name: "c2tcp",
    summary: "CUBIC that starts over when the round-trip time stays above twice the smallest: for cellular links",
    source: "Abbasloo, Xu and Chao, IEEE JSAC 2019",
    parameters: Params::PARAMETERS,
    build: |flow, given| Ok(Box::new(C2tcp::new(flow.mss, flow.init_cwnd, Params::with(given)?))),
};

/// Reports per round trip: a condition is judged within two.
const REPORTS_PER_RTT: u32 = 4;
/// No round-trip time is longer.
const LONGEST_RTT: Dur = Dur::from_millis(60_000);

/// The condition of the path.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Condition {
    Good,
    /// Above the setpoint; the time of the next decrease, and how many there were.
    Above {
        next: Time,
        decreases: u32,
    },
}

/// C2TCP's window.
#[derive(Clone, Debug)]
pub struct C2tcp {
    mss: f64,
    params: Params,
    cubic: Cubic,
    least: Option<Dur>,
    condition: Condition,
}

impl C2tcp {
    /// Slow start from `init_cwnd` bytes.
    pub fn new(mss: u32, init_cwnd: u32, params: Params) -> C2tcp {
        let cubic = Cubic::new(mss, init_cwnd);
        C2tcp { mss: f64::from(mss.max(1)), params, cubic, least: None, condition: Condition::Good }
    }

    /// Judges the path by the smallest round-trip time of late.
    fn judge(&mut self, now: Time, rtt: Dur, seen: &Feedback) {
        let least = self.least.map_or(rtt, |least| least.min(rtt));
        self.least = Some(least);
        let setpoint = least.mul_f64(self.params.alpha);
        if rtt <= setpoint {
            self.condition = Condition::Good;
            self.grow(setpoint.as_secs_f64() / rtt.as_secs_f64(), seen);
            return;
        }
        match self.condition {
            Condition::Good => self.condition = Condition::Above { next: now + setpoint, decreases: 0 },
            Condition::Above { next, decreases } if now > next => {
                self.cubic.on_timeout(now);
                let decreases = decreases.saturating_add(1);
                let wait = setpoint.mul_f64(1.0 / f64::from(decreases).sqrt());
                self.condition = Condition::Above { next: now + wait, decreases };
            }
            Condition::Above { .. } => {}
        }
    }

    /// γ packets per window acknowledged.
    fn grow(&mut self, gamma: f64, seen: &Feedback) {
        let cwnd = self.cubic.cwnd();
        if seen.acked > 0 && seen.uses(cwnd) && !seen.congested() && !seen.timeout {
            let windows = seen.acked as f64 / cwnd.max(1) as f64;
            let step = (gamma * windows.min(1.0) * self.mss) as u64;
            self.cubic.observe(cwnd.saturating_add(step), 0);
        }
    }
}

impl Law for C2tcp {
    fn on_feedback(&mut self, now: Time, seen: &Feedback) {
        self.cubic.on_feedback(now, seen);
        let sane = |rtt: &Dur| !rtt.is_zero() && *rtt <= LONGEST_RTT;
        if let Some(rtt) = seen.min_rtt.filter(sane) {
            self.judge(now, rtt, seen);
        }
    }

    fn control(&self) -> Control {
        self.cubic.control()
    }

    fn resume(&mut self, now: Time, from: Control) {
        self.cubic.resume(now, from);
        self.condition = Condition::Good;
    }

    fn in_slow_start(&self) -> bool {
        self.cubic.in_slow_start()
    }

    fn reports_per_rtt(&self) -> u32 {
        REPORTS_PER_RTT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The window after an ACK with this round-trip time.
    fn ack(law: &mut C2tcp, at_ms: u64, rtt_ms: u64, acked: u64) -> u64 {
        let rtt = Some(Dur::from_millis(rtt_ms));
        let seen = Feedback { acked, rtt, min_rtt: rtt, samples: 1, ..Feedback::default() };
        law.on_feedback(Time::from_micros(at_ms * 1000), &seen);
        law.control().cwnd
    }

    fn avoiding() -> C2tcp {
        let mut law = C2tcp::new(1000, 10_000, Params::default());
        ack(&mut law, 0, 50, 0);
        law.resume(Time::ZERO, Control::window(100_000));
        law
    }

    #[test]
    fn a_good_path_adds_setpoint_over_rtt_packets_to_cubics() {
        let mut law = avoiding();
        let mut cubic = law.cubic.clone();
        let rtt = Some(Dur::from_millis(80));
        let seen = Feedback { acked: 100_000, rtt, min_rtt: rtt, samples: 1, ..Feedback::default() };
        cubic.on_feedback(Time::from_micros(80_000), &seen);
        // γ = 2·50/80.
        assert_eq!(ack(&mut law, 80, 80, 100_000) - cubic.cwnd(), 1250 * 100_000 / cubic.cwnd());
    }

    #[test]
    fn an_interval_above_the_setpoint_starts_over_and_again_after_an_interval_over_root_n() {
        let mut law = avoiding();
        let mut collapses = Vec::new();
        for ms in 100..520 {
            // What is acknowledged lets CUBIC grow in slow start meanwhile.
            let before = law.control().cwnd;
            if ack(&mut law, ms, 101, 1) < before {
                collapses.push(ms);
                law.cubic.resume_at(100_000);
            }
        }
        // 100 ms, then 100/√1, 100/√2, 100/√3.
        assert_eq!(collapses, [201, 302, 373, 431, 482]);
    }

    #[test]
    fn one_ack_within_the_setpoint_begins_the_interval_anew() {
        let mut law = avoiding();
        for ms in (100..2000).step_by(10) {
            ack(&mut law, ms, if ms % 100 == 0 { 99 } else { 150 }, 1);
        }
        assert!(law.control().cwnd >= 99_999);
    }
}
