//! What the kernel tells of a TCP socket (`TCP_INFO`, tcp(7)): the window and the pacing rate in force.
#![allow(unsafe_code, reason = "reads a socket option that no safe interface has as a whole")]

use nix::libc;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The window and the rate that hold for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpWindow {
    /// Congestion window, bytes: whole segments.
    pub cwnd_bytes: u32,
    /// Pacing rate, bytes/s; `None` where the connection is not paced.
    pub pacing_bytes_per_s: Option<u64>,
}

/// `struct tcp_info` of linux/tcp.h up to the pacing rate, which came with Linux 3.15.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Info {
    bytes: [u8; 8],
    /// tcpi_rto to tcpi_total_retrans.
    words: [u32; 24],
    pacing_rate: u64,
}

/// Places of words in it.
const SND_MSS: usize = 2;
const SND_CWND: usize = 18;

/// Reads them; `None` of what is no TCP socket, or one without a connection.
pub fn tcp_window(socket: BorrowedFd<'_>) -> Option<TcpWindow> {
    let mut info = Info::default();
    let mut length = size_of::<Info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, and every bit pattern is an Info.
    let failed = unsafe {
        let (level, name) = (libc::IPPROTO_TCP, libc::TCP_INFO);
        libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut info).cast(), &raw mut length)
    };
    let whole = failed == 0 && length as usize == size_of::<Info>();
    whole.then_some(TcpWindow {
        cwnd_bytes: info.words[SND_CWND].saturating_mul(info.words[SND_MSS]),
        pacing_bytes_per_s: Some(info.pacing_rate).filter(|&rate| rate != u64::MAX && rate > 0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn a_fresh_connection_has_the_initial_window() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let window = tcp_window(stream.as_fd()).unwrap();
        // Ten segments (RFC 6928) of loopback's size, unless the host's routes say otherwise.
        assert!(window.cwnd_bytes >= 10 * 536 && window.cwnd_bytes < 64 << 20, "{window:?}");
        assert_eq!(tcp_window(std::io::stdin().as_fd()), None);
    }
}
