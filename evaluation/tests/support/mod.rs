//! What several of these tests need.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The agent, built if it is not there yet.
pub fn agent() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_anole-eval")).with_file_name("anole-ccp");
    if !program.is_file() {
        let build = ["build", "--package", "anole-agent", "--bin", "anole-ccp"];
        let built = Command::new(env!("CARGO")).args(build).status().unwrap();
        assert!(built.success() && program.is_file());
    }
    program
}
