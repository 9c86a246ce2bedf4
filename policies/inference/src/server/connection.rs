//! A connection to the policy server.

use super::protocol::MAX_PACKET;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, send, socket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// A socket that never blocks.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    packet: Vec<u8>,
}

/// Why a packet did not leave or come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Not now: the server does not read, or has said nothing.
    NotNow,
    /// The connection is over.
    Over(Errno),
}

impl From<Errno> for Trouble {
    fn from(errno: Errno) -> Trouble {
        match errno {
            Errno::EAGAIN | Errno::EINTR | Errno::ENOBUFS => Trouble::NotNow,
            errno => Trouble::Over(errno),
        }
    }
}

impl Connection {
    /// Connects at once or not at all.
    pub fn open(path: &Path) -> Result<Connection, Errno> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
        connect(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
        Ok(Connection { socket, packet: vec![0; MAX_PACKET] })
    }

    /// To wait for.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends one packet.
    pub fn send(&self, packet: &[u8]) -> Result<(), Trouble> {
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        send(self.socket.as_raw_fd(), packet, flags)?;
        Ok(())
    }

    /// Takes one packet.
    pub fn receive(&mut self) -> Result<&[u8], Trouble> {
        match recv(self.socket.as_raw_fd(), &mut self.packet, MsgFlags::MSG_DONTWAIT)? {
            0 => Err(Trouble::Over(Errno::ECONNRESET)),
            length => Ok(&self.packet[..length]),
        }
    }

    /// Waits for one packet until `deadline`.
    pub fn receive_until(&mut self, deadline: Instant) -> Result<&[u8], Trouble> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Trouble::NotNow);
            }
            let timeout = PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
            let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, timeout) {
                Ok(0) | Err(Errno::EINTR) => continue,
                Ok(_) => return self.receive(),
                Err(errno) => return Err(Trouble::Over(errno)),
            }
        }
    }
}
