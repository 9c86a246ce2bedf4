//! The simulator's link model in real time: a user-space UDP link emulator on loopback.
//!
//! ```text
//!  client ──► entry socket ─► links of the flow's path ─► extra delay ─► exit socket ──► server
//!         ◄────────────────── delay of the reverse path ◄──────────────
//! ```
//!
//! Every flow has a pair of sockets of its own, so that the client's datagrams tell their flow by where
//! they come in, and the server sees every flow under a different address. [`Network`] is the pure part:
//! links, routes and their changes, with time as an argument. [`Emulator`] drives it from one thread with
//! the monotonic clock. Links compute in nominal time: a thread that wakes late sends late, but the rate
//! of a link does not suffer.
//!
//! A datagram counts with its real size on an IPv4 wire: its payload + 28 bytes (IPv4 20, UDP 8). A
//! scenario's full packet of mss + 52 bytes is therefore a datagram of mss + 24 bytes.
//!
//! Deviations: ECN marks are not carried, so that queues that would mark drop; the loopback itself adds
//! tens of microseconds each way.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "real time and real sockets are what this crate is for")]

mod emulator;
mod error;
mod measure;
mod network;
mod self_test;

pub use emulator::{Emulator, EmulatorOptions};
pub use error::EmulatorError;
pub use measure::{Counts, FlowRecord, Record, TimerRecord};
pub use network::{Network, NetworkLink, Route};
pub use self_test::{SelfTest, self_test};

/// Bytes that IPv4 and UDP add to a datagram's payload.
pub const UDP_HEADER_BYTES: u32 = 28;
