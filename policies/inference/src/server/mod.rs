//! A policy server: another process computes, for many agents.

mod client;
mod connection;
mod protocol;
mod remote;
mod session;

pub use client::serve;
pub use remote::{Remote, RemoteNetwork};
