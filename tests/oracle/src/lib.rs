//! The datapath runtime beside C libccp, which runs in a process of its own.
//!
//! `generate` writes cases (programs, ACKs, updates) from a grammar and a seed, `oracle` runs them in
//! libccp, `subject` in the runtime, both with the same bytes as their answer, and `differ` compares.

#![forbid(unsafe_code)]

pub mod bpf;
pub mod cubic;
pub mod differ;
pub mod generate;
pub mod oracle;
pub mod subject;
