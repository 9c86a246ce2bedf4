//! The CCP datapath runtime.
//!
//! A transport owns one [`Flow`] per connection and calls [`Flow::on_ack`] for every ACK, loss or
//! timeout; the flow runs the installed fold program, or the native fallback while no agent answers,
//! and returns the window and the pacing rate to use. [`wire`] reads and writes the messages between
//! datapath and agent, byte-compatible with libccp. [`Datapath`] is the single-owner table of flows
//! and programs that a one-threaded host (the simulator, a test) needs.
//!
//! Time is an argument everywhere. Nothing here reads a clock, takes a lock or allocates per ACK.

#![forbid(unsafe_code)]

mod cubic;
mod datapath;
mod flow;
mod hystart;
mod program;
mod register;
mod sample;
mod vm;
pub mod wire;

pub use cubic::Cubic;
pub use datapath::{Datapath, FlowId, OpenError, ProgramTable, ReceiveError};
pub use flow::{Flow, FlowConfig, FlowMessage, FlowStats, Governor};
pub use program::{Program, ProgramError};
pub use register::{
    CWND_INDEX, IMPLICIT_REGISTERS, MAX_CONTROL_REGISTERS, MAX_LOCAL_REGISTERS, MAX_REPORT_REGISTERS,
    MAX_TMP_REGISTERS, PRIMITIVES, RATE_INDEX, RegisterKind,
};
pub use sample::{AckSample, Control, Outbox, SendError};
pub use vm::Abort;
