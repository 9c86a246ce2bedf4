//! How a flow gets its answers: a [`Network`] computes, a [`Model`] hands out one [`Brain`] per flow, and
//! [`Policies`] finds models by name.

use crate::schema::Schema;
use anole_model::Time;
use std::fmt::Debug;
use std::sync::Arc;

/// Rows of inputs, states and outputs, each row after row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Number of rows.
    pub rows: usize,
    /// rows × [`Schema::inputs`].
    pub inputs: Vec<f32>,
    /// rows × [`Schema::state`]; replaced by the state after the step.
    pub states: Vec<f32>,
    /// rows × [`Schema::outputs`]; written by the step.
    pub outputs: Vec<f32>,
}

/// Why a step gave no outputs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StepError(pub String);

/// A network with its weights: a pure function of input and state. One value serves all flows.
pub trait Network: Debug + Send + Sync {
    /// What it is.
    fn schema(&self) -> &Schema;

    /// Computes outputs and new states of all rows.
    fn step(&self, batch: &mut Batch) -> Result<(), StepError>;
}

/// The network of one flow, with the flow's state.
pub trait Brain: Send {
    /// Asks. An answer after `deadline` counts as none. A question asked before the last one was
    /// answered replaces it; the state then stays that before the question replaced.
    fn ask(&mut self, now: Time, deadline: Time, input: &[f32]);

    /// The answer to the last question, once: the network's outputs, unchecked. `None` while there is
    /// none.
    fn poll(&mut self, now: Time) -> Option<&[f32]>;
}

/// A policy that is ready to serve flows.
pub trait Model: Debug + Send + Sync {
    /// What it is.
    fn schema(&self) -> &Schema;

    /// One for a new flow.
    fn brain(&self) -> Box<dyn Brain>;
}

/// Why there is no such policy, or why its file is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// No policy has this name.
    #[error("no trained policy is named \"{0}\"")]
    Unknown(String),
    /// The policy's file, server or library is refused; the message names it.
    #[error("{0}")]
    Refused(String),
}

/// Finds trained policies.
pub trait Policies: Debug + Send + Sync {
    /// Names that `find` knows without a file.
    fn names(&self) -> Vec<String>;

    /// The policy with this name, or in this file.
    fn find(&self, name: &str) -> Result<Arc<dyn Model>, PolicyError>;
}

/// Answers at once, on the thread that asks: for simulations, where this takes no virtual time.
#[derive(Clone, Debug)]
pub struct Immediate(pub Arc<dyn Network>);

impl Model for Immediate {
    fn schema(&self) -> &Schema {
        self.0.schema()
    }

    fn brain(&self) -> Box<dyn Brain> {
        let schema = self.0.schema();
        let batch = Batch {
            rows: 1,
            inputs: vec![0.0; schema.inputs()],
            states: vec![0.0; schema.state()],
            outputs: vec![0.0; schema.outputs()],
        };
        Box::new(ImmediateBrain { network: Arc::clone(&self.0), batch, answered: false })
    }
}

struct ImmediateBrain {
    network: Arc<dyn Network>,
    batch: Batch,
    answered: bool,
}

impl Brain for ImmediateBrain {
    fn ask(&mut self, _now: Time, _deadline: Time, input: &[f32]) {
        self.answered = input.len() == self.batch.inputs.len() && {
            self.batch.inputs.copy_from_slice(input);
            self.network.step(&mut self.batch).is_ok()
        };
    }

    fn poll(&mut self, _now: Time) -> Option<&[f32]> {
        std::mem::take(&mut self.answered).then_some(self.batch.outputs.as_slice())
    }
}
