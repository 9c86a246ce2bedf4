//! What can go wrong with a transfer.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Why a transfer or a server failed.
#[derive(Debug, thiserror::Error)]
pub enum QuicError {
    /// The UDP socket could not be bound.
    #[error("cannot bind UDP {address}: {reason}{}", hint(reason))]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        reason: io::Error,
    },
    /// The certificate could not be read, written, made or used.
    #[error("certificate {}: {reason}; give the file that `anole-quic serve` wrote", path.display())]
    Certificate {
        /// The certificate's file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// TLS could not be set up.
    #[error("cannot set up TLS: {0}")]
    Tls(String),
    /// The connection could not be opened.
    #[error("cannot connect to {remote}: {reason}")]
    Connect {
        /// The server.
        remote: SocketAddr,
        /// Why not.
        reason: String,
    },
    /// The peer stopped answering.
    #[error(
        "{remote} has not answered for {} s; the transfer stopped after {delivered_bytes} bytes. Is the server still running, and the path up?",
        idle.as_secs_f64()
    )]
    Vanished {
        /// The peer.
        remote: SocketAddr,
        /// How long was waited.
        idle: Duration,
        /// Bytes acknowledged until then.
        delivered_bytes: u64,
    },
    /// The connection ended before the transfer did.
    #[error("the connection to {remote} ended after {delivered_bytes} bytes: {reason}")]
    Ended {
        /// The peer.
        remote: SocketAddr,
        /// Bytes acknowledged until then.
        delivered_bytes: u64,
        /// Why.
        reason: String,
    },
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; choose another port, or 0 for any free one",
        io::ErrorKind::PermissionDenied => "; ports below 1024 need a privilege, choose a higher one",
        io::ErrorKind::AddrNotAvailable => "; no interface of this machine has that address",
        _ => "",
    }
}
