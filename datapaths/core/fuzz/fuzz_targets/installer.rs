//! Any bytes are a program that runs or an error.
#![no_main]

#[path = "../entry.rs"]
#[allow(dead_code, reason = "each target uses one entry point")]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::installer(data));
