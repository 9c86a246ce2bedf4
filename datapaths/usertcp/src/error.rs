//! What can go wrong with a transfer.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Why a transfer or a server failed.
#[derive(Debug, thiserror::Error)]
pub enum UserTcpError {
    /// The device could not be opened.
    #[error("cannot open {kind} {name}: {reason}{}", hint(reason))]
    Open {
        /// TUN or the network interface.
        kind: &'static str,
        /// Its name.
        name: String,
        /// What the system said.
        reason: io::Error,
    },
    /// The device failed while it was used.
    #[error("the device is gone or down; set it up again and start anew")]
    Device,
    /// Waiting for packets failed.
    #[error("cannot wait for packets: {0}")]
    Wait(io::Error),
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
    /// The peer closed the connection before the transfer was over.
    #[error("{remote} closed the connection after {delivered_bytes} bytes")]
    Ended {
        /// The peer.
        remote: SocketAddr,
        /// Bytes acknowledged until then.
        delivered_bytes: u64,
    },
}

fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(nix::libc::EPERM | nix::libc::EACCES) => {
            "; it takes CAP_NET_ADMIN (a TUN device) or CAP_NET_RAW (an interface)"
        }
        Some(nix::libc::ENODEV | nix::libc::ENXIO) => {
            "; no interface has that name (ip link shows them; ip tuntap add dev NAME mode tun makes one)"
        }
        Some(nix::libc::EINVAL) => "; it is no TUN device (ip tuntap shows them)",
        Some(nix::libc::EBUSY) => "; another program has it",
        Some(nix::libc::ENOENT) => "; this system has no /dev/net/tun",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel says of `--tun lo`.
    #[test]
    fn an_interface_that_is_no_tun_device_is_said_to_be_none() {
        let reason = io::Error::from_raw_os_error(nix::libc::EINVAL);
        let error = UserTcpError::Open { kind: "the TUN device", name: "lo".to_string(), reason };
        assert!(error.to_string().contains("no TUN device"), "{error}");
    }
}
