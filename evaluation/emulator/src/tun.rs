//! A TUN device: what its namespace sends is read as IPv4 packets, what is written is received there.
//!
//! Without offloads (`IFF_VNET_HDR`) the kernel hands over packets of at most the MTU with complete
//! checksums, and checks those of what it is given.
#![allow(unsafe_code, reason = "a device is named by an ioctl")]

use crate::EmulatorError;
use nix::libc;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The character device behind every TUN device.
const CLONE_DEVICE: &str = "/dev/net/tun";

/// Its name, inside a namespace of its own.
const NAME: &str = "tun0";

/// Packets that may wait for the emulator: nothing may be lost but by the links, and its thread may be
/// kept from running for tens of milliseconds on a busy machine.
const QUEUE_PACKETS: u32 = 10_000;

/// How long iproute2 may take; it waits while the kernel clears other namespaces away.
const IP_PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(2);

mod ioctl {
    nix::ioctl_write_ptr_bad!(
        /// `TUNSETIFF`: attaches an open clone device to an interface of this name and kind.
        set_interface,
        nix::request_code_write!(b'T', 202, size_of::<nix::libc::c_int>()),
        nix::libc::ifreq
    );
}

/// An open device.
#[derive(Debug)]
pub struct Tun {
    file: File,
}

impl Tun {
    /// Makes a device in the namespace of the calling thread and brings it up, with the address `own`
    /// and a route to `peer`.
    pub fn open(own: Ipv4Addr, peer: Ipv4Addr, mtu: u32) -> Result<Tun, EmulatorError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(CLONE_DEVICE)
            .map_err(EmulatorError::Tun)?;
        let mut request = libc::ifreq {
            ifr_name: [0; libc::IFNAMSIZ],
            ifr_ifru: libc::__c_anonymous_ifr_ifru {
                // IFF_TUN | IFF_NO_PI = 0x1001 fits.
                ifru_flags: (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short,
            },
        };
        for (slot, byte) in request.ifr_name.iter_mut().zip(NAME.bytes()) {
            *slot = byte as libc::c_char;
        }
        // SAFETY: the file is open, and the request is a whole ifreq with a name that ends in NUL.
        unsafe { ioctl::set_interface(file.as_raw_fd(), &request) }
            .map_err(|error| EmulatorError::Tun(error.into()))?;
        ip(&format!(
            "address add {own} peer {peer} dev {NAME}\n\
             link set {NAME} mtu {mtu} txqueuelen {QUEUE_PACKETS} up\n"
        ))?;
        Ok(Tun { file })
    }

    /// The next packet that was sent, if one waits; its length.
    pub fn read(&self, buffer: &mut [u8]) -> Option<usize> {
        (&self.file).read(buffer).ok()
    }

    /// Hands a packet to the namespace.
    pub fn write(&self, packet: &[u8]) -> std::io::Result<()> {
        (&self.file).write(packet).map(drop)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Packets for which the device had no room, from the text of `/proc/net/dev`: behind the name, eight
/// columns about receiving and then bytes, packets, errors and drops of sending.
pub fn refused(devices: &str) -> u64 {
    let columns = devices.lines().find_map(|line| line.trim_start().strip_prefix(NAME)?.strip_prefix(':'));
    let drops = columns.and_then(|columns| columns.split_whitespace().nth(11));
    drops.and_then(|drops| drops.parse().ok()).unwrap_or(0)
}

/// Runs commands of iproute2, one per line, in the namespace of the calling thread.
pub(crate) fn ip(commands: &str) -> Result<(), EmulatorError> {
    let failed = |error| EmulatorError::Ip(format!("cannot run it: {error}"));
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let fed = child.stdin.take().map(|mut stdin| stdin.write_all(commands.as_bytes()));
    let deadline = Instant::now() + IP_PATIENCE;
    while child.try_wait().map_err(failed)?.is_none() {
        if Instant::now() > deadline {
            let _ = child.kill();
            let seconds = IP_PATIENCE.as_secs();
            return Err(EmulatorError::Ip(format!("it did not end within {seconds} s; the kernel is busy")));
        }
        std::thread::sleep(LOOK);
    }
    let output = child.wait_with_output().map_err(failed)?;
    let message = String::from_utf8_lossy(&output.stderr);
    match (output.status.success(), fed) {
        (true, Some(Ok(()))) => Ok(()),
        _ => Err(EmulatorError::Ip(message.lines().next().unwrap_or("it failed").to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_in_the_twelfth_column() {
        let devices = "Inter-|   Receive  |  Transmit\n face |bytes packets …\n    lo: 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9\n\
                       \x20 tun0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n";
        assert_eq!(refused(devices), 12);
        assert_eq!(refused("    lo: 9 9 9"), 0);
    }
}
