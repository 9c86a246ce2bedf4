//! Why the emulator could not run.

use std::io;

/// Why the emulator could not run.
#[derive(Debug, thiserror::Error)]
pub enum EmulatorError {
    /// A loopback socket could not be opened.
    #[error("the emulator cannot open a UDP socket: {0}")]
    Socket(io::Error),
    /// The thread could not be started, or ended with a panic.
    #[error("the emulator's thread failed: {0}")]
    Thread(String),
    /// Namespaces are root's.
    #[error("network namespaces take the capability CAP_SYS_ADMIN; run as root (sudo)")]
    Privilege,
    /// A namespace could not be made or entered.
    #[error("the emulator cannot use a network namespace: {0}")]
    Namespace(io::Error),
    /// A TUN device could not be made.
    #[error("the emulator cannot make a TUN device with /dev/net/tun (modprobe tun): {0}")]
    Tun(io::Error),
    /// The program `ip` failed.
    #[error("the program `ip` (Debian's iproute2) could not set up the emulator's network: {0}")]
    Ip(String),
    /// A parameter of a namespace could not be set.
    #[error("cannot set {0} in the emulator's network: {1}")]
    Parameter(&'static str, io::Error),
    /// Mahimahi cannot do it, or did not.
    #[error("Mahimahi: {0}")]
    Mahimahi(String),
}
