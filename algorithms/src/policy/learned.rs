//! A trained policy in a slot that wants a rate.

use super::{Observation, Policy};
use anole_model::{Dur, Time};
use anole_policies::schema::Action;
use anole_policies::{Brain, Decision, Features, Model};

/// Turns what a flow measured into the network's input and its output into a rate.
pub struct Learned {
    action: Action,
    features: Features,
    brain: Box<dyn Brain>,
    /// What the last question was about.
    asked: Option<Observation>,
}

impl Learned {
    /// The policy of a new flow; `None` if its action is neither about a rate nor about a window.
    pub fn new(model: &dyn Model) -> Option<Learned> {
        let schema = model.schema();
        match schema.action {
            Action::Parameters { .. } | Action::CubicCwndExp { .. } => None,
            _ => Some(Learned {
                action: schema.action.clone(),
                features: Features::new(schema),
                brain: model.brain(),
                asked: None,
            }),
        }
    }
}

/// An answer later than half the decision interval counts as none.
pub fn deadline(now: Time, interval: Dur) -> Time {
    now + interval / 2
}

impl Policy for Learned {
    fn ask(&mut self, now: Time, seen: &Observation) {
        self.asked = Some(*seen);
        self.brain.ask(now, deadline(now, seen.interval), self.features.push(seen));
    }

    fn poll(&mut self, now: Time) -> Option<f64> {
        let outputs = self.brain.poll(now)?;
        let seen = self.asked.take()?;
        let Some((decision, applied)) = self.action.decode(outputs, &seen) else { return Some(f64::NAN) };
        self.features.decided(&applied);
        match decision {
            Decision::Rate(rate) => Some(rate),
            Decision::Cwnd(cwnd) => Some(cwnd / seen.srtt.as_secs_f64().max(1e-6)),
            Decision::Parameters(_) => None,
        }
    }
}
