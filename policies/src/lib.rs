//! Trained policies, without IO: what they see and do ([`schema`]), the file that carries one, the
//! features of a flow, the meaning of an action, and the networks in plain Rust.

#![deny(unsafe_code)]

mod action;
mod embedded;
mod features;
pub mod file;
pub mod import;
mod model;
mod observation;
pub mod schema;
mod shipped;
mod window;

pub use action::Decision;
pub use embedded::Embedded;
pub use features::Features;
pub use file::PolicyFile;
pub use model::{Batch, Brain, Immediate, Model, Network, Policies, PolicyError, StepError};
pub use observation::Observation;
pub use schema::{Schema, SchemaError};
pub use shipped::Shipped;
