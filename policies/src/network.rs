//! What a backend computes: a network, for many flows at once.

use crate::schema::Schema;
use std::fmt::Debug;

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
