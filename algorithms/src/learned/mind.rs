//! What decides for a flow: a network that sees features, or a rule written by hand that sees what was
//! measured. The rule, driving alone, is what a trained policy has to beat.

use crate::policy::Policy;
use anole_model::Time;
use anole_policies::schema::Action;
use anole_policies::{Brain, Decision, Observation};

/// Network or rule.
pub(super) enum Mind {
    /// A network, and what its outputs mean.
    Network(Box<dyn Brain>, Action),
    /// A rule that proposes rates.
    Rule(Box<dyn Policy>),
}

/// An answer.
pub(super) enum Answer {
    /// What to do, the outputs as applied, and the network's last output.
    Decided(Decision, Vec<f64>, f32),
    /// It is no decision (not a number, or too few of them).
    Unusable,
}

impl Mind {
    /// Asks about `seen`, from which `input` was made.
    pub fn ask(&mut self, now: Time, due: Time, seen: &Observation, input: &[f32]) {
        match self {
            Mind::Network(brain, _) => brain.ask(now, due, input),
            Mind::Rule(rule) => rule.ask(now, seen),
        }
    }

    /// The answer to the last question, once; `seen` is what the flow measured, with rate and window as
    /// they are now.
    pub fn poll(&mut self, now: Time, seen: &Observation) -> Option<Answer> {
        Some(match self {
            Mind::Network(brain, action) => {
                let outputs = brain.poll(now)?;
                let finite = outputs.iter().all(|output| output.is_finite());
                let last = outputs.last().copied().unwrap_or(0.0);
                match action.decode(outputs, seen).filter(|_| finite) {
                    Some((decision, applied)) => Answer::Decided(decision, applied, last),
                    None => Answer::Unusable,
                }
            }
            Mind::Rule(rule) => match rule.poll(now)? {
                rate if rate.is_finite() => Answer::Decided(Decision::Rate(rate), Vec::new(), 1.0),
                _ => Answer::Unusable,
            },
        })
    }
}
