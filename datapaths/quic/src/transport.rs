//! How the stack is configured, where its defaults would measure something else than the controller.
//!
//! **Streams.** A receiver keeps what lies behind a gap of a stream in pieces, one per frame, and noq ends the connection
//! when a stream has more than some 1024 of them: one lost packet with 1.5 MB in flight behind it can be enough. A bulk
//! transfer therefore goes over [`STREAMS`] streams in turn, each with so little credit that its pieces stay below half
//! of that, whatever is lost, however large the window is and however late the application reads.

use crate::QuicError;
use crate::timer::PreciseRuntime;
use nix::sys::socket::{setsockopt, sockopt};
use noq::{Endpoint, EndpointConfig, IdleTimeout, MtuDiscoveryConfig, TransportConfig, VarInt};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

/// Streams of a bulk transfer, at most.
pub(crate) const STREAMS: u32 = 128;

/// Flow-control credit of a stream, bytes: in datagrams of 1200 bytes, the smallest, some 460 frames. A frame that is sent
/// again may be cut in two, and not more than one in two is: three quarters of the limit.
const STREAM_WINDOW_BYTES: u32 = 512 << 10;

/// Flow-control credit of a connection, bytes. No transfer may be limited by it: 1 Gbps over a 300 ms round trip are
/// 37.5 MB, and 200 Mbps over 400 ms with a buffer of 4 of those products 50 MB. Credit costs no memory by itself.
const WINDOW_BYTES: u32 = STREAMS * STREAM_WINDOW_BYTES;

/// Socket buffers asked of the kernel, bytes: 160 ms at 200 Mbps, more than a busy machine keeps a
/// thread waiting. The kernel grants at most net.core.{r,w}mem_max unless the process is privileged.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// Largest UDP payload in an Ethernet frame of 1500 bytes over IPv4: 1500 − 20 − 8.
const ETHERNET_UDP_PAYLOAD_BYTES: u16 = 1472;

/// QUIC counts in milliseconds and takes 0 for no timeout (RFC 9000 §18.2).
const SHORTEST_IDLE_TIMEOUT: Duration = Duration::from_millis(1);

/// The size of the UDP payloads that carry data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramSize {
    /// From 1200 bytes up to an Ethernet frame, as probes find the path to carry it (RFC 8899).
    Discovered,
    /// Exactly this many bytes, for a path that is known; at least the 1200 that QUIC needs.
    Fixed(u16),
}

/// The transport configuration of one end.
pub(crate) fn config(datagram: DatagramSize, idle_timeout: Duration) -> Result<TransportConfig, QuicError> {
    let mut config = TransportConfig::default();
    let idle = IdleTimeout::try_from(idle_timeout.max(SHORTEST_IDLE_TIMEOUT))
        .map_err(|_| QuicError::Tls(format!("an idle timeout of {idle_timeout:?} is too long for QUIC")))?;
    config
        .max_idle_timeout(Some(idle))
        .max_concurrent_uni_streams(VarInt::from_u32(STREAMS))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES))
        .receive_window(VarInt::from_u32(WINDOW_BYTES))
        .send_window(u64::from(WINDOW_BYTES))
        // One batch handed to the kernel leaves the machine back to back, whatever the pacing rate says.
        .enable_segmentation_offload(false);
    match datagram {
        DatagramSize::Discovered => {
            let mut discovery = MtuDiscoveryConfig::default();
            discovery.upper_bound(ETHERNET_UDP_PAYLOAD_BYTES);
            config.mtu_discovery_config(Some(discovery));
        }
        DatagramSize::Fixed(bytes) => {
            config.initial_mtu(bytes).min_mtu(bytes).mtu_discovery_config(None);
        }
    }
    Ok(config)
}

/// An endpoint on a socket with large buffers.
pub(crate) fn endpoint(
    address: SocketAddr,
    server: Option<noq::ServerConfig>,
) -> Result<Endpoint, QuicError> {
    let bind = |reason| QuicError::Bind { address, reason };
    let socket = UdpSocket::bind(address).map_err(bind)?;
    enlarge_buffers(&socket);
    Endpoint::new(EndpointConfig::default(), server, socket, Arc::new(PreciseRuntime)).map_err(bind)
}

/// Asks for large socket buffers; smaller ones only matter under load, so that a refusal is no error.
pub(crate) fn enlarge_buffers(socket: &UdpSocket) {
    if setsockopt(socket, sockopt::RcvBufForce, &SOCKET_BUFFER_BYTES).is_err() {
        let _ = setsockopt(socket, sockopt::RcvBuf, &SOCKET_BUFFER_BYTES);
    }
    if setsockopt(socket, sockopt::SndBufForce, &SOCKET_BUFFER_BYTES).is_err() {
        let _ = setsockopt(socket, sockopt::SndBuf, &SOCKET_BUFFER_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_idle_timeout_is_one() {
        for (asked, got) in [(1, 1), (999, 1), (2_000, 2)] {
            let config = config(DatagramSize::Discovered, Duration::from_micros(asked)).unwrap();
            let shown = format!("{config:?}");
            assert!(shown.contains(&format!("max_idle_timeout: Some({got})")), "{asked}: {shown}");
        }
    }
}
