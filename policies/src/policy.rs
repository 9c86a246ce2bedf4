//! How a flow gets its answers: a [`Policy`] is shared, each flow asks it through an [`InferenceSession`] of its
//! own, and [`Policies`] finds policies by name.

use crate::boosted::{BoostedError, Boosters};
use crate::error::PolicyError;
use crate::network::{Batch, Network};
use crate::schema::Schema;
use anole_model::Time;
use std::fmt::Debug;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// A trained policy that is ready to serve flows: its schema, and weights in some backend.
pub trait Policy: Debug + Send + Sync {
    /// What it sees and does.
    fn schema(&self) -> &Schema;

    /// The session of a new flow.
    fn session(&self) -> Box<dyn InferenceSession>;
}

/// One flow's use of a policy: the recurrent state, and the question that waits for its answer.
pub trait InferenceSession: Send {
    /// Asks. An answer that is ready after `deadline` counts as none; one that is ready in time is there until the next
    /// question. A question asked before the last one was answered replaces it; the state then stays that before the question
    /// replaced.
    fn ask(&mut self, now: Time, deadline: Time, input: &[f32]);

    /// The answer to the last question, once: the network's outputs, unchecked. `None` while there is
    /// none.
    fn poll(&mut self, now: Time) -> Option<&[f32]>;
}

/// Finds trained policies.
pub trait Policies: Debug + Send + Sync {
    /// Names that `find` knows without a file.
    fn names(&self) -> Vec<String>;

    /// The policy with this name, or in this file.
    fn find(&self, name: &str) -> Result<Arc<dyn Policy>, PolicyError>;

    /// The models of Antelope in this file, or the shipped ones; each takes `width` values.
    fn boosters(&self, name: Option<&str>, width: usize) -> Result<Arc<Boosters>, PolicyError> {
        match name {
            None | Some("antelope") => shipped_boosters(width),
            Some(name) => Err(PolicyError::Refused(format!(
                "\"{name}\" names no models of antelope; give a file, FILE.json, or leave it out for the shipped ones"
            ))),
        }
    }
}

/// True for a policy's file, false for a name: a file's contains a slash or ends in `.safetensors` or `.json`.
pub fn is_file(name: &str) -> bool {
    name.contains('/') || name.ends_with(".safetensors") || name.ends_with(".json")
}

/// The policy that a file names, for [`Policies::find`]: a policy's own file is relative to the folder of that one.
pub fn beside(file: &Path, policy: &str) -> String {
    if is_file(policy) { file.with_file_name(policy).display().to_string() } else { policy.to_string() }
}

/// The models that come with the program.
fn shipped_boosters(width: usize) -> Result<Arc<Boosters>, PolicyError> {
    static SHIPPED: OnceLock<Result<Arc<Boosters>, BoostedError>> = OnceLock::new();
    let read = || Boosters::parse(include_str!("../shipped/antelope.json"), width).map(Arc::new);
    let boosters = SHIPPED.get_or_init(read).clone();
    boosters.map_err(|error| PolicyError::Refused(format!("shipped/antelope.json: {error}")))
}

/// A policy that answers at once, on the thread that asks: for simulations, where this takes no virtual time.
#[derive(Clone, Debug)]
pub struct Immediate(pub Arc<dyn Network>);

impl Policy for Immediate {
    fn schema(&self) -> &Schema {
        self.0.schema()
    }

    fn session(&self) -> Box<dyn InferenceSession> {
        let schema = self.0.schema();
        let batch = Batch {
            rows: 1,
            inputs: vec![0.0; schema.inputs()],
            states: vec![0.0; schema.state()],
            outputs: vec![0.0; schema.outputs()],
        };
        let state = batch.states.clone();
        Box::new(ImmediateSession { network: Arc::clone(&self.0), batch, state, answered: false })
    }
}

/// Looks at an answer: a state `next` that is not finite becomes the one before it, and the outputs that came with it count
/// as not a number.
pub fn refuse_unfinite(outputs: &mut [f32], next: &mut [f32], before: &[f32]) {
    if !next.iter().all(|value| value.is_finite()) {
        next.copy_from_slice(before);
        outputs.fill(f32::NAN);
    }
}

struct ImmediateSession {
    network: Arc<dyn Network>,
    batch: Batch,
    /// The flow's state after the last answer that was polled.
    state: Vec<f32>,
    answered: bool,
}

impl InferenceSession for ImmediateSession {
    fn ask(&mut self, _now: Time, _deadline: Time, input: &[f32]) {
        self.answered = input.len() == self.batch.inputs.len() && {
            self.batch.inputs.copy_from_slice(input);
            self.batch.states.clone_from(&self.state);
            self.network.step(&mut self.batch).is_ok()
        };
        if self.answered {
            refuse_unfinite(&mut self.batch.outputs, &mut self.batch.states, &self.state);
        }
    }

    fn poll(&mut self, _now: Time) -> Option<&[f32]> {
        if !std::mem::take(&mut self.answered) {
            return None;
        }
        self.state.clone_from(&self.batch.states);
        Some(&self.batch.outputs)
    }
}
