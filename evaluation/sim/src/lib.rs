//! A deterministic packet-level simulator.
