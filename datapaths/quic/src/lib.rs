//! QUIC bulk transfers under CCP.
#![allow(clippy::disallowed_methods, reason = "real time and real sockets are what this crate is for")]
