//! Trained policies, without IO: what they see and do ([`schema`]), the file that carries one, the
//! features of a flow, the meaning of an action, and the networks in plain Rust.

#![deny(unsafe_code)]

mod action;
pub mod boosted;
pub mod certificate;
mod digest;
mod embedded;
mod error;
mod features;
pub mod file;
pub mod import;
mod network;
mod observation;
mod policy;
pub mod schema;
mod shipped;
mod window;

pub use action::Decision;
pub use boosted::{BoostedError, Booster, Boosters};
pub use embedded::Embedded;
pub use error::PolicyError;
pub use features::Features;
pub use file::PolicyFile;
pub use network::{Batch, Network, StepError};
pub use observation::Observation;
pub use policy::{Immediate, InferenceSession, Policies, Policy, beside, is_file, refuse_unfinite};
pub use schema::{Schema, SchemaError};
pub use shipped::Shipped;
