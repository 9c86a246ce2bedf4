//! A flow as a policy would see it, whoever drives it: for learning from what others do.
//!
//! The same reports, measurements and features as of a flow that the policy drives; only the rate and the
//! window come from the flow that is watched, and its last action is what its window did.

use super::drive::rate_of;
use super::measure::{Measured, Sample};
use super::{EARLY, SHORTEST};
use anole_model::{Dur, Rate, Time};
use anole_policies::schema::Action;
use anole_policies::{Features, Schema};
use anole_programs::rate_hold;

/// Watches one flow.
#[derive(Debug)]
pub struct Watch {
    features: Features,
    measured: Measured,
    /// Base of the action's power, of a policy that multiplies windows.
    base: Option<f64>,
    interval: Dur,
    /// When the interval is over; `None` before the first round-trip time.
    next: Option<Time>,
    /// Window at the last observation, bytes.
    cwnd: u64,
}

impl Watch {
    /// A new flow, seen by policies of this schema every `interval.ms`.
    pub fn new(mss: u32, schema: &Schema) -> Watch {
        Watch {
            features: Features::new(schema),
            measured: Measured::new(mss),
            base: match schema.action {
                Action::CwndExp { base, .. } | Action::CubicCwndExp { base, .. } => Some(base),
                _ => None,
            },
            interval: Dur::from_secs_f64(schema.interval.ms / 1e3).max(SHORTEST),
            next: None,
            cwnd: 0,
        }
    }

    /// Takes a report of the program `rate-hold`; returns when the next one is wanted.
    pub fn report(&mut self, now: Time, values: &[u64]) -> Dur {
        if let Some(report) = rate_hold::Report::read(values) {
            self.measured.add(now, &Sample::from(report));
        }
        if self.next.is_none() && self.measured.srtt().is_some() {
            self.next = Some(now + self.interval);
            self.measured.forget();
        }
        match self.next {
            Some(next) if !self.is_due(now) => next.since(now).max(SHORTEST),
            _ => self.interval,
        }
    }

    fn is_due(&self, now: Time) -> bool {
        self.next.is_some_and(|next| now + self.interval / EARLY >= next)
    }

    /// The policy's input if the interval is over, with the pacing rate (zero for none) and the window in
    /// force.
    pub fn observe(&mut self, now: Time, rate: Rate, cwnd: u32) -> Option<&[f32]> {
        if !self.is_due(now) {
            return None;
        }
        let rate = if rate > Rate::ZERO { rate } else { rate_of(cwnd, self.measured.srtt()?) };
        let seen = self.measured.observe(rate, u64::from(cwnd))?;
        self.next = Some(now + self.interval);
        if let Some(base) = self.base.filter(|_| self.cwnd > 0 && cwnd > 0) {
            self.features.decided(&[(f64::from(cwnd) / self.cwnd as f64).log(base)]);
        }
        self.cwnd = u64::from(cwnd);
        Some(self.features.push(&seen))
    }
}
