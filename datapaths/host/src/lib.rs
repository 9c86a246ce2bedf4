//! The side of the datapath runtime that a real process needs.
//!
//! A transport (QUIC, a user-space TCP) opens one [`Host`] per process and one [`HostFlow`] per
//! connection. The host owns a Unix datagram socket beside the agent's, on which one thread receives
//! programs and commands; a flow sends its reports from the transport's own thread and finds its
//! commands in a mailbox.
//!
//! ```text
//!  transport thread(s)                         receive thread
//!  HostFlow::on_ack(now, sample)               recv from the agent's address only
//!    ├ flag set? drain the mailbox  ◄───────── INSTALL → program table
//!    ├ anole_datapath::Flow::on_ack            UPDATE, CHANGE_PROG → mailbox, flag
//!    └ report ──► non-blocking send ──► agent  READY whenever the agent's socket is a new one,
//!                                              or it names a program that is not here
//! ```
//!
//! At READY an agent knows no flow: each is announced again with its next ACK, and its program goes on until the answer.
//!
//! Per ACK there is no lock (an atomic flag tells whether the mailbox holds anything), no clock read
//! (`now` is an argument) and nothing that blocks (a full or missing agent socket is a send failure,
//! which the flow's fallback absorbs; the end of a flow is told again until it is taken). Without an agent,
//! or before it comes, every flow is governed by the runtime's native controller.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "real time and real sockets are what this crate is for")]

mod clock;
mod flow;
mod host;
mod packets;
mod receive;
mod shared;
mod socket;

pub use clock::Clock;
pub use flow::{FlowOptions, HostFlow};
pub use host::{Host, HostStats};
pub use packets::{Packets, RateSample};
pub use shared::HostOptions;
pub use socket::HostError;
