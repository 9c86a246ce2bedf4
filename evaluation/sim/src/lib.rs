//! A deterministic packet-level simulator.
//!
//! [`scenario`] reads what to simulate; [`link`] models a bottleneck and serves the real-time emulator
//! as well.

#![forbid(unsafe_code)]

pub mod histogram;
pub mod link;
pub mod scenario;
