//! Acceleration: while a candidate is deprecated nothing is evaluated, and the rate moves by additive
//! steps every two round trips.
//!
//! Down by v packets per round trip when the queue is longer than the one aimed at, else up; v doubles while the
//! direction repeats and is 1 again when it turns.
//!
//! Deviations: the steps start from the rate decided on, not from the active candidate's own, which may be far from any rate
//! that was tried; v is bounded (a long stage of doubling fills any buffer); the queue looked at is the one that the
//! present gradient leads to by the time the step is felt, two round trips ahead, since looking at the present one the
//! rate overshoots by what it grew meanwhile; the paper turns at 1 + µ, where a queue already costs utility, and the
//! next test adds to it.

use super::super::interval::MonitorInterval;
use super::decision::Choice;
use super::params::AnoleParams;
use super::path::Path;
use super::probing::Probing;
use super::target_queue::TargetQueue;
use super::{Anole, Stage};
use anole_model::{Dur, Rate, Time};
use anole_programs::Commands;

/// Largest step, packets per two round trips: unbounded doubling would fill any buffer.
const LARGEST_VELOCITY: f64 = 16.0;

/// Direction and velocity of the steps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Acceleration {
    /// Direction of the last step, none before the first.
    up: Option<bool>,
    velocity: f64,
}

impl Acceleration {
    /// One step from `rate`; `gradient` is the significant slope of the last window, else 0.
    pub fn step(
        &mut self,
        rate: Rate,
        rtt: Dur,
        gradient: f64,
        path: &Path,
        mss: u32,
        params: &AnoleParams,
    ) -> Rate {
        let ahead = rtt.as_secs_f64() * (1.0 + 2.0 * gradient.clamp(-0.5, 0.5));
        let target = TargetQueue::of(rate, path, mss, params).target;
        let up = ahead <= (path.min_rtt() + target).as_secs_f64();
        self.velocity = if self.up == Some(up) { (self.velocity * 2.0).min(LARGEST_VELOCITY) } else { 1.0 };
        self.up = Some(up);
        let step =
            Rate::from_bytes_per_s(self.velocity * f64::from(mss) / path.srtt().as_secs_f64().max(1e-6));
        if up { rate + step } else { rate - step }
    }
}

impl Anole {
    /// Two round trips are over: one more step, or the next evaluation once every candidate is active again.
    ///
    /// Deviation: on reactivation the paper runs each candidate for a round trip. Here the rule-based one goes
    /// on from the rate in force, and the policy is asked about the last two round trips.
    pub(super) fn accelerate(
        &mut self,
        now: Time,
        mut acceleration: Acceleration,
        window: &MonitorInterval,
        out: &mut Commands,
    ) {
        let thresholds = self.params.thresholds();
        self.rule.confidence.recover(&thresholds);
        self.learned.confidence.recover(&thresholds);
        let gradient = window.significant_gradient().unwrap_or(0.0);
        self.verdict = self.judge(window, self.rate);
        if self.rule.confidence.is_active() && self.learned.confidence.is_active() {
            self.resume_rule(now, self.rate);
            return self.on_probed(now, Probing::default(), window, out);
        }
        if let Some((mean, _)) = window.rtt {
            let rate = acceleration.step(self.rate, mean, gradient, &self.path, self.flow.mss, &self.params);
            // A rate that the application leaves unused meets no queue, whatever it is.
            let rate = if self.is_idle(window, self.rate) { rate.min(self.rate) } else { rate };
            let (source, _) = self.source;
            self.apply(now, Choice { rate, source, climb: false });
        }
        self.enter(Stage::Acceleration(acceleration));
        self.hold(self.rate, self.path.srtt() * 2, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anole_model::Time;

    #[test]
    fn the_velocity_doubles_up_to_its_bound_and_resets_at_a_turn() {
        let params = AnoleParams { fill: 1.0, ..AnoleParams::default() };
        let mut path = Path::new();
        path.saw_rtt(Time::ZERO, Dur::from_millis(100), Dur::from_millis(100));
        let rate = Rate::from_bytes_per_s(1e6);
        let mut acceleration = Acceleration::default();
        let mut moved = |rtt_ms, gradient| {
            let rate_after =
                acceleration.step(rate, Dur::from_millis(rtt_ms), gradient, &path, 1000, &params);
            ((rate_after.bytes_per_s() - rate.bytes_per_s()) / 10_000.0).round()
        };
        // The queue aimed at is 7 ms: the root of the 50 packets sent in 50 ms.
        assert_eq!(
            [100, 107, 105, 105, 105, 105].map(|rtt_ms| moved(rtt_ms, 0.0)),
            [1.0, 2.0, 4.0, 8.0, 16.0, 16.0]
        );
        assert_eq!([moved(108, 0.0), moved(108, 0.0), moved(100, 0.0)], [-1.0, -2.0, 1.0]);
        // 105 ms growing by a twentieth per unit of time will be 115 ms two round trips on.
        assert_eq!(moved(105, 0.05), -1.0);
    }
}
