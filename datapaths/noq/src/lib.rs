//! The CCP datapath runtime under [noq](https://docs.rs/noq): a congestion controller that makes samples of what the stack
//! tells and puts a flow's window and rate in force. Who decides over the flow is the caller's choice: an agent
//! (`anole-quic`), or an algorithm in the process (`anole`).

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "the stack's clock may be older than an ACK")]

mod controller;

pub use controller::{PathController, PathFlow, initial_window, seen};
