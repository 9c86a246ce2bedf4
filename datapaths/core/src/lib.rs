//! The CCP datapath runtime.
//!
//! A transport owns one [`Flow`] per connection and calls [`Flow::on_ack`] for every ACK, loss or
//! timeout; the flow runs the installed fold program, or the native fallback while no agent answers,
//! and returns the window and the pacing rate to use. [`wire`] reads and writes the messages between
//! datapath and agent, byte-compatible with libccp. [`Datapath`] is the single-owner table of flows
//! and programs that a one-threaded host (the simulator, a test) needs.
//!
//! Time is an argument everywhere. Nothing here reads a clock, takes a lock or allocates per ACK.
//!
//! ```
//! use anole_datapath::wire::{AlgorithmName, CreateMessage};
//! use anole_datapath::{AckSample, Datapath, Governor};
//! use anole_model::{Bounds, Dur, Time};
//!
//! let mut datapath = Datapath::new(Bounds::DEFAULT, Dur::from_millis(500));
//! let mut to_agent: Vec<Vec<u8>> = Vec::new();
//! let create = CreateMessage::without_addresses(14_480, 1448, AlgorithmName::NONE);
//! let flow = datapath.open(Time::ZERO, create, &mut to_agent);
//! let sample = AckSample { bytes_acked: 1448, packets_acked: 1, rtt_us: 50_000, ..AckSample::default() };
//! let control = datapath.on_ack(Time::from_micros(50_000), flow, &sample, &mut to_agent);
//! // No agent has answered the CREATE in `to_agent`, so CUBIC is in slow start.
//! assert_eq!(control.map(|control| control.cwnd), Some(14_480 + 1448));
//! assert_eq!(datapath.flow(flow).map(|flow| flow.governor()), Some(Governor::Fallback));
//! ```

#![forbid(unsafe_code)]

mod datapath;
mod flow;
mod loss_window;
mod mail;
mod marks;
mod program;
mod register;
mod sample;
mod silence;
mod vm;
pub mod wire;

pub use datapath::{Datapath, FlowId, ProgramTable, ReceiveError};
pub use flow::{Flow, FlowConfig, FlowStats, Governor};
pub use mail::{FlowMessage, Mail};
pub use program::{ProgramError, ValidProgram};
pub use register::{
    CWND_INDEX, IMPLICIT_REGISTERS, MAX_CONTROL_REGISTERS, MAX_LOCAL_REGISTERS, MAX_REPORT_REGISTERS,
    MAX_TMP_REGISTERS, PRIMITIVES, RATE_INDEX, RegisterKind,
};
pub use sample::{AckSample, InForce, Outbox, SendError};
pub use vm::Abort;
