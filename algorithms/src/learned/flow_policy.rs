//! The policy of one flow: what was measured goes in, a decision comes out, maybe late, maybe wrong, maybe never.
//!
//! [`Trained`] makes features of what was measured and asks an inference session; a rule written by hand and
//! policies with a fault need neither.

use anole_model::{Dur, Time};
use anole_policies::schema::{Action, Architecture};
use anole_policies::{Decision, Features, InferenceSession, Observation, Policy, Schema};

/// A learned (or hand-written, or deliberately bad) policy of one flow.
pub trait FlowPolicy: Send {
    /// Takes what was measured over one monitor interval.
    fn observe(&mut self, seen: &Observation);

    /// Asks for a decision on what was observed last, worth nothing after `deadline`. A question asked before the
    /// last one was answered replaces it.
    fn ask(&mut self, now: Time, deadline: Time);

    /// The answer to the last question, once; `None` while there is none. `seen` is what was observed, with the rate
    /// and the window that the decision starts from.
    fn poll(&mut self, now: Time, seen: &Observation) -> Option<Answer>;
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// What to do.
    Decided {
        /// Unchecked: a rate may be negative or absurd, but it is finite.
        decision: Decision,
        /// False where a hierarchical network left its outputs as they were.
        fresh: bool,
    },
    /// It is no decision (not a number, or too few of them).
    Unusable,
}

impl Answer {
    /// The decision to send at this rate, bytes/s.
    pub(super) fn rate(rate: f64) -> Answer {
        match rate.is_finite() {
            true => Answer::Decided { decision: Decision::Rate(rate), fresh: true },
            false => Answer::Unusable,
        }
    }
}

/// An answer later than half the decision interval counts as none.
pub fn deadline(now: Time, interval: Dur) -> Time {
    now + interval / 2
}

/// A hierarchical network's last output is above this when it was triggered.
const TRIGGERED: f32 = 0.5;

/// What a network's outputs mean.
#[derive(Clone, Debug)]
pub(super) struct Decoder {
    action: Action,
    /// The last output says whether the others are new.
    has_trigger: bool,
}

impl Decoder {
    /// The meaning of outputs of a network with this schema.
    pub fn new(schema: &Schema) -> Decoder {
        let has_trigger = matches!(schema.network, Architecture::Hierarchical { .. });
        Decoder { action: schema.action.clone(), has_trigger }
    }

    /// The answer in `outputs`, and the outputs as applied.
    pub fn decode(&self, outputs: &[f32], seen: &Observation) -> (Answer, Vec<f64>) {
        let finite = outputs.iter().all(|output| output.is_finite());
        let fresh = !self.has_trigger || outputs.last().is_some_and(|&last| last > TRIGGERED);
        match self.action.decode(outputs, seen).filter(|_| finite) {
            Some((decision, applied)) => (Answer::Decided { decision, fresh }, applied),
            None => (Answer::Unusable, Vec::new()),
        }
    }
}

/// A trained policy.
pub(super) struct Trained {
    decoder: Decoder,
    features: Features,
    session: Box<dyn InferenceSession>,
}

impl Trained {
    /// The policy of a new flow.
    pub fn new(policy: &dyn Policy) -> Trained {
        let schema = policy.schema();
        Trained { decoder: Decoder::new(schema), features: Features::new(schema), session: policy.session() }
    }
}

impl FlowPolicy for Trained {
    fn observe(&mut self, seen: &Observation) {
        self.features.push(seen);
    }

    fn ask(&mut self, now: Time, deadline: Time) {
        self.session.ask(now, deadline, self.features.input());
    }

    fn poll(&mut self, now: Time, seen: &Observation) -> Option<Answer> {
        let (answer, applied) = self.decoder.decode(self.session.poll(now)?, seen);
        if answer != Answer::Unusable {
            self.features.decided(&applied);
        }
        Some(answer)
    }
}
