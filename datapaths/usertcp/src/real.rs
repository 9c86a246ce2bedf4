//! Real devices, and the loop that drives a stack on one.

use crate::socket::hand_over;
use crate::{HostAddress, UserTcpError};
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use smoltcp::phy::{self, Device, DeviceCapabilities, Medium, RawSocket, TunTapInterface};
use smoltcp::time::Instant as StackTime;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// Longest sleep: how soon a signal is noticed.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// Shortest sleep: below it the kernel's timers do not tell times apart.
const SHORTEST_WAIT: Duration = Duration::from_micros(20);

/// Opens a TUN device that is there and up.
pub fn open_tun(name: &str) -> Result<TunTapInterface, UserTcpError> {
    let failed = |reason| UserTcpError::Open { kind: "the TUN device", name: name.to_string(), reason };
    // Opening a name that there is not makes a device, which is down and goes with its opener.
    checked(name).and_then(up).and_then(|name| TunTapInterface::new(name, Medium::Ip)).map_err(failed)
}

/// An Ethernet interface. A frame that it has no room for, in its queueing discipline or in memory, is lost, as on a wire;
/// smoltcp's device panics then.
#[derive(Debug)]
pub struct Interface(RawSocket);

/// Leave to send a frame.
#[derive(Debug)]
pub struct InterfaceTx(RawFd);

impl AsRawFd for Interface {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl phy::TxToken for InterfaceTx {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, fill: F) -> R {
        match hand_over(self.0, length, fill) {
            (result, Ok(_) | Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::ENOMEM)) => result,
            // As smoltcp's devices, which panic: drive() makes it an error.
            (_, Err(error)) => resume_unwind(Box::new(error)),
        }
    }
}

impl Device for Interface {
    type RxToken<'a> = <RawSocket as Device>::RxToken<'a>;
    type TxToken<'a> = InterfaceTx;

    fn receive(&mut self, time: StackTime) -> Option<(Self::RxToken<'_>, InterfaceTx)> {
        let socket = self.as_raw_fd();
        self.0.receive(time).map(|(rx, _)| (rx, InterfaceTx(socket)))
    }

    fn transmit(&mut self, _: StackTime) -> Option<InterfaceTx> {
        Some(InterfaceTx(self.as_raw_fd()))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        self.0.capabilities()
    }
}

/// Opens an Ethernet interface; its frames come here as well as to the kernel.
pub fn open_interface(name: &str) -> Result<Interface, UserTcpError> {
    let failed = |reason| UserTcpError::Open { kind: "the interface", name: name.to_string(), reason };
    let opened = checked(name).and_then(up).and_then(|name| RawSocket::new(name, Medium::Ethernet));
    opened.map(Interface).map_err(failed)
}

/// The interface of that name, if it is there and up: reading and writing fail while it is not.
fn up(name: &str) -> io::Result<&str> {
    match getifaddrs()?.find(|known| known.interface_name == name) {
        None => Err(io::Error::from_raw_os_error(nix::libc::ENODEV)),
        Some(known) if known.flags.contains(InterfaceFlags::IFF_UP) => Ok(name),
        Some(_) => Err(io::Error::other(format!("it is down; ip link set {name} up"))),
    }
}

/// A name that an interface can have (`IFNAMSIZ` of netdevice(7)); smoltcp panics at a longer one.
fn checked(name: &str) -> io::Result<&str> {
    let fits = (1..=15).contains(&name.len()) && !name.bytes().any(|byte| byte == 0 || byte == b'/');
    fits.then_some(name)
        .ok_or_else(|| io::Error::other("the name of an interface has 1 to 15 bytes without /"))
}

/// The host that the stack plays: with the interface's Ethernet address, and a seed that differs from one start to the
/// next.
pub fn host(
    interface: Option<&str>,
    (address, prefix): (IpAddr, u8),
    gateway: Option<IpAddr>,
) -> HostAddress {
    let text =
        interface.and_then(|name| std::fs::read_to_string(format!("/sys/class/net/{name}/address")).ok());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let seed = now.as_nanos() as u64 ^ u64::from(std::process::id()) << 40;
    HostAddress { address, prefix, gateway, ethernet: text.and_then(|text| ethernet(&text)), seed }
}

/// The port that a connection with this seed is opened from (RFC 6335 §6).
pub fn ephemeral_port(seed: u64) -> u16 {
    const FIRST: u16 = 49_152;
    FIRST + (seed % u64::from(u16::MAX - FIRST)) as u16
}

/// Six bytes in hexadecimal with colons between.
fn ethernet(text: &str) -> Option<[u8; 6]> {
    let bytes: Vec<u8> =
        text.trim().split(':').map(|part| u8::from_str_radix(part, 16)).collect::<Result<_, _>>().ok()?;
    bytes.try_into().ok()
}

/// Polls until `turn` says that it is over; it gets the time and says when to be called at the latest.
pub fn drive<T>(
    device: &impl AsRawFd,
    mut turn: impl FnMut(Instant) -> Result<Turn<T>, UserTcpError>,
) -> Result<T, UserTcpError> {
    loop {
        let now = Instant::now();
        // smoltcp's devices panic when reading or writing fails, as it does once the interface is down or gone.
        let next = match catch_unwind(AssertUnwindSafe(|| turn(now))).map_err(|_| UserTcpError::Device)?? {
            Turn::Over(result) => return Ok(result),
            Turn::Until(next) => next,
        };
        let until = next.unwrap_or(now + LONGEST_WAIT).saturating_duration_since(Instant::now());
        if until.is_zero() {
            continue;
        }
        let wait = until.clamp(SHORTEST_WAIT, LONGEST_WAIT);
        let wait = smoltcp::time::Duration::from_micros(wait.as_micros() as u64);
        match phy::wait(device.as_raw_fd(), Some(wait)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                return Err(UserTcpError::Wait(error));
            }
            _ => {}
        }
    }
}

/// What a turn came to.
#[derive(Debug)]
pub enum Turn<T> {
    /// The end.
    Over(T),
    /// Wait for a packet, at most until then.
    Until(Option<Instant>),
}

/// Waits for the same packets as the device it was taken from.
#[derive(Debug)]
pub struct Waiter(RawFd);

impl Waiter {
    /// Of a device that lives as long as whoever waits.
    pub fn of(device: &impl AsRawFd) -> Waiter {
        Waiter(device.as_raw_fd())
    }
}

impl AsRawFd for Waiter {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ethernet_addresses() {
        assert_eq!(ethernet("02:00:5e:10:00:ff\n"), Some([2, 0, 0x5e, 0x10, 0, 255]));
        for bad in ["", "02:00", "02:00:5e:10:00:zz", "00:00:00:00:00:00:00"] {
            assert_eq!(ethernet(bad), None);
        }
    }
}
