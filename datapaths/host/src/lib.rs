//! Runs the datapath runtime in a real process.
#![allow(clippy::disallowed_methods, reason = "real time and real sockets are what this crate is for")]
