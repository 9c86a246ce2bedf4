//! A flow as a policy would see it, whoever drives it: for learning from what others do.
//!
//! The same reports, measurements and features as of a flow that the policy drives; only the rate and the
//! window come from the flow that is watched, and its last action is what its window did.

use super::actuator::rate_of;
use super::algorithm::{EARLY, SHORTEST};
use super::monitor::Monitor;
use super::report::Reader;
use crate::Report;
use anole_model::{Dur, Rate, Time};
use anole_policies::schema::Action;
use anole_policies::{Features, Schema};
use anole_programs::rate_hold;

/// Watches one flow.
#[derive(Debug)]
pub struct Watch {
    features: Features,
    reader: Reader,
    monitor: Monitor,
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
            reader: Reader::new(&rate_hold::PROGRAM),
            monitor: Monitor::new(mss),
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
        if let Some(sample) = self.reader.read(now, &Report { program: &rate_hold::PROGRAM, values }) {
            self.monitor.add(now, &sample);
        }
        if self.next.is_none() && self.monitor.srtt().is_some() {
            self.next = Some(now + self.interval);
            self.monitor.forget();
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
        let rate = if rate > Rate::ZERO { rate } else { rate_of(cwnd, self.monitor.srtt()?) };
        let seen = self.monitor.observe(rate, u64::from(cwnd))?;
        self.next = Some(now + self.interval);
        if let Some(base) = self.base.filter(|_| self.cwnd > 0 && cwnd > 0) {
            self.features.decided(&[(f64::from(cwnd) / self.cwnd as f64).log(base)]);
        }
        self.cwnd = u64::from(cwnd);
        Some(self.features.push(&seen))
    }
}
