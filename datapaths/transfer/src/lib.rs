//! What the programs that transfer bulk data over a datapath share.
//!
//! The flags and their values ([`TransferFlags`]), the state of a connection at a moment ([`Reading`]), a file of such
//! readings over time ([`trace`]), and what a transfer came to ([`TransferReport`]): so that a trace or a summary is the
//! same whichever transport wrote it.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "reads names of hosts, writes traces")]

pub mod flags;
mod reading;
mod report;
pub mod trace;

pub use flags::{Amount, TransferFlags};
pub use reading::{GovernedBy, Reading};
pub use report::{TransferReport, received, summarise};
