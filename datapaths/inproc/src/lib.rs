//! Anole's congestion control without an agent: algorithm, policies and datapath runtime in the application's process.
//!
//! ```text
//!  the transport's thread
//!  InProcessFlow::on_ack(now, sample)
//!    ├ anole_datapath::Flow     the fold program per ACK; CUBIC where there is no decision
//!    │    └ a report (once a round trip or so)
//!    └ anole_algorithms::Session   the decision, at once: no socket, no wake-up, no thread
//!         └ registers or a program, in force at the next ACK
//! ```
//!
//! The programs, algorithms and policies are those of the agent, and so is what they do: a decision is an answer that
//! takes no time. Time is the transport's, an argument. Trained policies run as networks in plain Rust on the calling
//! thread ([`anole_policies::Shipped`]).
//!
//! An algorithm that commands what its program does not have, or panics, loses the flow: CUBIC takes over after 500 ms,
//! and the algorithm begins anew.
//!
//! With the QUIC stack noq, a connection has Anole in five lines:
//!
//! ```
//! # #[cfg(feature = "noq")] {
//! let mut transport = noq::TransportConfig::default();
//! transport.congestion_controller_factory(anole::noq::anole());
//! # }
//! ```

#![forbid(unsafe_code)]

mod flow;
#[cfg(feature = "noq")]
pub mod noq;
mod settings;

pub use anole_algorithms::{BuildError, Metrics};
pub use anole_datapath::{AckSample, FlowStats, Governor, InForce};
pub use anole_model::{Bounds, Dur, Time};
pub use flow::InProcessFlow;
pub use settings::{InProcess, Settings};
