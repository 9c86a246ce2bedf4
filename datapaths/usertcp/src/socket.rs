//! A device whose packets go through a socket: one end of a pair that keeps messages apart, such as `SOCK_SEQPACKET`.

use nix::sys::socket::{MsgFlags, recv, send};
use smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use smoltcp::time::Instant as StackTime;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Each message is an IP packet. What the socket does not take is lost, as on a wire.
#[derive(Debug)]
pub struct SocketDevice {
    socket: OwnedFd,
    mtu: usize,
}

impl SocketDevice {
    /// A device for IP packets of up to `mtu` bytes.
    pub fn new(socket: OwnedFd, mtu: usize) -> SocketDevice {
        SocketDevice { socket, mtu }
    }
}

impl AsRawFd for SocketDevice {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// A packet that came.
#[derive(Debug)]
pub struct RxToken(Vec<u8>);

/// Leave to send a packet.
#[derive(Debug)]
pub struct TxToken<'a>(BorrowedFd<'a>);

impl phy::RxToken for RxToken {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(&self.0)
    }
}

impl phy::TxToken for TxToken<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, fill: F) -> R {
        hand_over(self.0.as_raw_fd(), length, fill).0
    }
}

/// Has a packet filled and gives it to a socket, which takes it at once or not at all.
pub(crate) fn hand_over<R>(
    socket: RawFd,
    length: usize,
    fill: impl FnOnce(&mut [u8]) -> R,
) -> (R, nix::Result<usize>) {
    let mut packet = vec![0; length];
    let result = fill(&mut packet);
    (result, send(socket, &packet, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL))
}

impl Device for SocketDevice {
    type RxToken<'a> = RxToken;
    type TxToken<'a> = TxToken<'a>;

    fn receive(&mut self, _: StackTime) -> Option<(RxToken, TxToken<'_>)> {
        let mut packet = vec![0; self.mtu];
        let length = recv(self.socket.as_raw_fd(), &mut packet, MsgFlags::MSG_DONTWAIT).ok()?;
        packet.truncate(length);
        // A message of no bytes is the end of the other side.
        (length > 0).then(|| (RxToken(packet), TxToken(self.socket.as_fd())))
    }

    fn transmit(&mut self, _: StackTime) -> Option<TxToken<'_>> {
        Some(TxToken(self.socket.as_fd()))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.max_transmission_unit = self.mtu;
        capabilities.medium = Medium::Ip;
        capabilities
    }
}
