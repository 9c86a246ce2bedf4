//! The simulator's link model in real time, in user space.
//!
//! ```text
//!  client ──► entry ─► links of the flow's path ─► extra delay ─► exit ──► server
//!         ◄─────────── delay of the reverse path ◄─────────────
//! ```
//!
//! [`EmulatedNetwork`] is the pure part: links, routes and their changes, with time as an argument. [`Emulator`]
//! drives it from one thread with the monotonic clock. Links compute in nominal time: a thread that wakes
//! late sends late, but the rate of a link does not suffer. Entry and exit are a [`Wire`], of which there
//! are three:
//!
//! - [`UdpPorts`]: a pair of UDP sockets on loopback per flow, for transports in user space. The client's
//!   datagrams tell their flow by where they come in, and the server sees every flow under a different
//!   address.
//! - [`TunPair`]: two hosts, each a network namespace with a TUN device, for the kernel's TCP. The emulator
//!   is the router between them, and a packet's port tells its flow.
//! - [`StackSockets`]: TCP stacks inside the process, each behind a pair of sockets.
//!
//! A packet counts with its real size on an IPv4 wire: a datagram's is its payload + 28 bytes (IPv4 20,
//! UDP 8), that of a packet of a TUN device or a stack its length.
//!
//! Deviations: ECN marks are not carried, so that queues that would mark drop; the ways into the emulator
//! and out of it add tens of microseconds each way.

#![deny(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "real time and real sockets are what this crate is for")]

mod awake;
mod emulator;
mod error;
mod hosts;
pub mod mahimahi;
mod measure;
mod namespace;
mod network;
mod self_test;
mod stacks;
mod tcp_info;
mod tun;
mod udp;
mod watch;
mod wire;

pub use awake::Awake;
pub use emulator::{Emulator, EmulatorOptions};
pub use error::EmulatorError;
pub use hosts::{Hosts, TunPair};
pub use measure::{Counts, FlowRecord, Record, TimerRecord};
pub use namespace::Namespace;
pub use network::{EmulatedNetwork, NetworkLink, Route};
pub use self_test::{SelfTest, Through, self_test};
pub use stacks::{StackEnds, StackSockets};
pub use tcp_info::{TcpWindow, tcp_window};
pub use udp::UdpPorts;
pub use watch::RoundTrip;
pub use wire::{Arrival, Direction, Wire};

/// Bytes that IPv4 and UDP add to a datagram's payload.
pub const UDP_HEADER_BYTES: u32 = 28;
