//! Deliberately bad networks, for showing that no policy harms a flow or its path; the kinds are those of
//! [`crate::policy::Fault`], and what they decide is the least, the most or anything of what an action may
//! be.

use crate::policy::{Kind, SLOW_ANSWER};
use anole_model::Time;
use anole_policies::schema::Action;
use anole_policies::{Brain, Schema};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A network with a fault; without a kind, one that never answers.
pub(super) struct FaultBrain {
    kind: Option<Kind>,
    low: f32,
    high: f32,
    random: Pcg64Mcg,
    /// The next answer is the high one.
    up: bool,
    outputs: Vec<f32>,
    ready: Option<Time>,
}

impl FaultBrain {
    /// In the place of a network with this schema.
    pub fn new(kind: Option<Kind>, schema: &Schema, seed: u64) -> FaultBrain {
        let (low, high) = match &schema.action {
            Action::RateExp { low, high, .. }
            | Action::RateStep { low, high, .. }
            | Action::CwndExp { low, high, .. }
            | Action::CwndStep { low, high, .. }
            | Action::CubicCwndExp { low, high, .. } => (*low as f32, *high as f32),
            Action::CwndTable { table } => (0.0, table.len().saturating_sub(1) as f32),
            Action::Parameters { .. } => (-1.0, 1.0),
        };
        let random = Pcg64Mcg::seed_from_u64(seed);
        FaultBrain { kind, low, high, random, up: false, outputs: vec![0.0; schema.outputs()], ready: None }
    }
}

impl Brain for FaultBrain {
    fn ask(&mut self, now: Time, deadline: Time, _input: &[f32]) {
        let (low, high) = (self.low, self.high);
        self.ready = Some(now);
        match self.kind {
            None | Some(Kind::Absent) => self.ready = None,
            Some(Kind::Random) => {
                let random = &mut self.random;
                self.outputs.fill_with(|| random.random_range(low..=high));
            }
            Some(Kind::Low) => self.outputs.fill(low),
            Some(Kind::High) => self.outputs.fill(high),
            Some(Kind::Stuck) => self.outputs.fill((low + high) / 2.0),
            Some(Kind::Nan) => self.outputs.fill(f32::NAN),
            Some(Kind::Oscillate) => {
                self.up = !self.up;
                self.outputs.fill(if self.up { high } else { low });
            }
            Some(Kind::Slow) => {
                let ready = now + SLOW_ANSWER;
                self.ready = (ready <= deadline).then_some(ready);
                self.outputs.fill((low + high) / 2.0);
            }
        }
    }

    fn poll(&mut self, now: Time) -> Option<&[f32]> {
        self.ready.take_if(|ready| *ready <= now).map(|_| self.outputs.as_slice())
    }
}
