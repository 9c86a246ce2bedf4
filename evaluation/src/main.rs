//! Evaluation of anole-ccp.
#![allow(clippy::disallowed_methods, reason = "a binary reads clocks, files and sockets")]
fn main() {}
