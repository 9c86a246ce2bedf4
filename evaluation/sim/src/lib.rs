//! A deterministic packet-level simulator.
//!
//! [`scenario`] reads what to simulate, [`plan`] chooses the algorithms, [`run`] simulates, [`result`] is
//! what comes out. [`link`] models a bottleneck and serves the real-time emulator as well.

#![forbid(unsafe_code)]

pub mod control;
mod engine;
pub mod histogram;
pub mod ideal;
mod late;
pub mod link;
mod pilot;
pub mod plan;
pub mod result;
pub mod scenario;
mod streams;
pub mod suite;
pub mod truth;

pub use engine::{AgentScript, SERIES_STEP, changes, jain_index, link_configs, point_s, run, run_while};
