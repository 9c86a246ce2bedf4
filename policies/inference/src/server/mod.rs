//! A policy server: another process computes, for many agents.

mod client;
mod connection;
mod exchange;
mod protocol;
mod remote;

pub use client::serve;
pub use remote::{Remote, RemoteNetwork};
