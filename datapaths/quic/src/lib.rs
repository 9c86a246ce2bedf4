//! QUIC bulk transfers under CCP.
//!
//! The datapath runtime governs window and pacing of [noq](https://docs.rs/noq) connections: a
//! controller built per connection feeds every ACK and loss to a flow of the datapath host and obeys its
//! answer. Around it stands what a measurement needs: a [`Server`] that counts what it receives, a
//! [`Transfer`] that sends for a time or a size, and a [`Meter`] per connection that counts alike for
//! every congestion control, the stack's own included.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "real time and real sockets are what this crate is for")]

mod ccp;
mod client;
mod congestion;
mod error;
mod meter;
mod server;
#[cfg(test)]
mod tests;
mod timer;
mod tls;
mod transport;

pub use anole_datapath::wire::AlgorithmName;
pub use anole_transfer::{Amount, GovernedBy, Reading, TransferReport};
pub use client::{ClientOptions, Closing, Transfer};
pub use congestion::CongestionControl;
pub use error::QuicError;
pub use meter::{Meter, RttSample};
pub use server::{Ended, ReceivedBytes, Server, ServerOptions};
pub use tls::ServerCertificate;
pub use transport::DatagramSize;
