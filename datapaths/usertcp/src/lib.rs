//! A user-space TCP under CCP.
//!
//! [smoltcp](https://docs.rs/smoltcp) as it is released, its own congestion control left out. The datapath runtime
//! governs it from outside:
//!
//! ```text
//!  application ──► window: what enters the send buffer ──► smoltcp ──► pacing: what the device takes ──► wire
//!                          ▲                                                     ▲        │
//!                          └──────────── control ◄── flow ◄── scoreboard ◄───────┴────────┴── packets, both ways
//! ```
//!
//! - **Window.** Data enters the send buffer only while what is in flight and what waits there is below the window.
//! - **Pacing and measurement** are a wrapper around the device: it reads the headers of what goes out and comes in,
//!   keeps the scoreboard of transmissions, and gives the stack leave to send at the rate that is set.
//! - **Loss recovery is smoltcp's**: docs/usertcp.md says what that costs.
//!
//! A [`Sender`] and a [`Receiver`] are driven by [`Sender::poll`] with time as an argument, on any smoltcp device: a
//! TUN device, an Ethernet interface (AF_PACKET), one end of a [`pair`] inside the process, or a socket ([`SocketDevice`]).

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "real time and real devices are what this crate is for")]

mod device;
mod duplicates;
mod error;
mod pacer;
mod pair;
pub mod real;
mod receiver;
mod scoreboard;
mod segment;
mod sender;
mod socket;
mod stack;
mod watch;

pub use error::UserTcpError;
pub use pair::{PairEnd, pair};
pub use receiver::{Ended, Receiver, ReceiverOptions};
pub use sender::{Progress, Sender, SenderOptions};
pub use socket::SocketDevice;
pub use stack::HostAddress;
pub use watch::Governance;
