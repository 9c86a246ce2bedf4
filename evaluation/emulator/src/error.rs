//! Why the emulator could not run.

use std::io;

/// Why the emulator could not run.
#[derive(Debug, thiserror::Error)]
pub enum EmulatorError {
    /// A loopback socket could not be opened.
    #[error("the emulator cannot open a UDP socket on loopback: {0}")]
    Socket(io::Error),
    /// The thread could not be started, or ended with a panic.
    #[error("the emulator's thread failed: {0}")]
    Thread(String),
}
