//! Trained policies in control of flows: alone, or as the learned candidate of a hybrid.
//!
//! ```text
//!   Policy (schema and weights) ─▶ InferenceSession (one flow's)       anole-policies, anole-inference
//!      ─▶ FlowPolicy: observation in, decision out                     trained, hand-written or faulty
//!           ├─▶ a hybrid's learned slot, which takes its decisions as rates
//!           └─▶ Learned: Monitor ─▶ FlowPolicy ─▶ Actuator, under a Guard
//! ```
//!
//! The rows of the registry come from the policies' schemas ([`spec`]).

mod actuator;
mod algorithm;
mod choice;
mod delay_target;
mod fault;
mod flow_policy;
mod guard;
mod monitor;
mod probe_rtt;
mod report;
mod spec;
mod watch;

pub(crate) use monitor::Monitor;
pub(crate) use report::{Reader, Sample};

pub use anole_policies::{Observation, Policies, PolicyError, Shipped};
pub use choice::{DEFAULT, names, proposer};
pub use fault::FaultKind;
pub use flow_policy::{Answer, FlowPolicy, deadline};
pub use spec::spec;
pub use watch::Watch;
