//! The congestion control algorithms of anole-ccp.
//!
//! An [`Algorithm`] is pure: it is told the time, takes the datapath's reports and fills in commands.
//! It reads no clock, socket, file or environment, and its randomness comes from the seed it was built
//! with. A [`Session`] is one in service, the same for a simulated flow and a real one.

#![forbid(unsafe_code)]

mod alone;
mod antelope;
mod explain;
mod hold;
mod hybrid;
pub mod learned;
mod offload;
mod preference;
mod registry;
pub mod session;
mod slots;
mod spec;
mod telemetry;

pub use anole_laws::{Parameter, ParameterError};
pub use anole_programs::{Commands, Program};
pub use antelope::{ARMS, DataUnit, Decision, Governed, Judgement, Selector, Stretch};
pub use explain::{Explanation, Judged};
pub use hybrid::libra_utility;
pub use learned::{FlowPolicy, Observation, Watch};
pub use preference::{Preference, UnknownPreference};
pub use registry::{all, find};
pub use session::Session;
pub use slots::{Slots, build};
pub use spec::{Build, BuildError, Builder, Slot, Spec, rule_names};
pub use telemetry::{Applied, Metrics, Shares, Telemetry};

use anole_model::Time;

/// What an algorithm knows of its flow at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowInfo {
    /// Maximum segment size, bytes.
    pub mss: u32,
    /// Window at the start, or at adoption of a running flow, bytes.
    pub init_cwnd: u32,
}

impl FlowInfo {
    /// The same for a law.
    pub fn of_law(self, seed: u64) -> anole_laws::FlowStart {
        anole_laws::FlowStart { mss: self.mss, init_cwnd: self.init_cwnd, seed }
    }
}

/// One report of the datapath.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The program that sent it.
    pub program: &'static Program,
    /// Its report registers in wire order; read with the program's typed `Report::read`.
    pub values: &'a [u64],
}

/// A congestion control algorithm for one flow.
pub trait Algorithm: Send {
    /// The flow begins (or is adopted): choose the first program and its fields.
    fn start(&mut self, now: Time, out: &mut Commands);

    /// A report arrived. Reports of a program that is no longer the current one are passed on too, and
    /// have to be ignored. Commands may be empty.
    fn on_report(&mut self, now: Time, report: &Report<'_>, out: &mut Commands);

    /// What the application prefers from now on. False of algorithms to which that means nothing.
    fn prefer(&mut self, _preference: Preference) -> bool {
        false
    }

    /// Why it does since the last report what it does; `None` where that report changed nothing, and of
    /// algorithms that explain nothing.
    fn explain(&mut self) -> Option<Explanation> {
        None
    }

    /// The data unit that the last report completed, once; of Antelope, where it was asked to log.
    fn judgement(&mut self) -> Option<Judgement> {
        None
    }

    /// What it did so far.
    fn telemetry(&self) -> Telemetry {
        Telemetry::default()
    }
}
