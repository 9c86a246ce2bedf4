//! Runs trained policies ([`anole_policies`]): by the networks in plain Rust, by LibTorch in this process,
//! or by a policy server; at once for simulations, on a thread of its own for agents.
//!
//! ```text
//!   Loader ── find ──▶ Policy ── session ──▶ InferenceSession     one per flow, on the thread that serves reports
//!                                               │ ask   ▲ poll
//!                                               ▼       │
//!                                             Request ──┘
//!                                               │ Worker: a queue and a thread
//!                                               ▼
//!                             compute: batches to a Network │ server: STEP and RESULT
//! ```
//! Serving reports never waits: a lock is held only to copy a question or an answer. Whatever goes wrong
//! on the other side, the flow sees no answer, and its algorithm goes on without.
#![allow(clippy::disallowed_methods, reason = "this crate is there for files, sockets, clocks and threads")]
#![deny(unsafe_code)]

mod complaints;
mod compute;
mod loader;
mod models;
mod read;
mod refused;
mod request;
mod server;
mod serving;
#[cfg(test)]
mod tests;
mod threaded;
mod torch;
mod worker;

pub use loader::{Backend, BackendSettings, BackendSettingsError, Loader};
pub use read::read;
pub use serving::Serving;
