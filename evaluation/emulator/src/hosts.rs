//! Two hosts of this machine's kernel with the emulator as the router between them.
//!
//! ```text
//!  namespace of the senders            this process            namespace of the receivers
//!  sockets ─ TCP ─ tun0 ───────► links, delays, losses ───────► tun0 ─ TCP ─ sockets
//!  192.0.2.1            ◄───────────── delay ◄─────────────             192.0.2.2
//! ```
//!
//! Delay, rate and queue lie outside of both hosts, as on a real path: a sender's own queueing
//! discipline would hold its packets back and tell its TCP of it. A flow is known by its sender's port.

use crate::EmulatorError;
use crate::namespace::Namespace;
use crate::tun::{self, Tun};
use crate::watch::{self, DataWatch, RoundTrip};
use crate::wire::{Arrival, Direction, Wire};
use anole_model::Time;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd};

/// Where data comes from and where it goes: addresses for documentation (RFC 5737).
const SENDER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const RECEIVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

/// Port of the first flow's sender; the others follow.
const FIRST_PORT: u16 = 10_000;
/// Port of the receiver, of every flow.
const RECEIVER_PORT: u16 = 5001;
/// Flows that have a port.
const MAX_FLOWS: usize = 50_000;

/// Packets taken from one device before the other has its turn.
const MAX_BATCH: usize = 64;

/// Largest packet carried: that of IPv4.
const MAX_PACKET_BYTES: usize = 65_536;

/// Parameters of both hosts. Windows shall end where the network does, not at a buffer; and a flow shall
/// learn nothing from the one before it, as in the simulator.
const PARAMETERS: [(&str, &str); 4] = [
    ("/proc/sys/net/ipv4/tcp_rmem", "4096 131072 67108864"),
    ("/proc/sys/net/ipv4/tcp_wmem", "4096 16384 67108864"),
    ("/proc/sys/net/ipv4/tcp_no_metrics_save", "1"),
    ("/proc/sys/net/ipv4/tcp_ecn", "0"),
];
/// Not there in a kernel without IPv6.
const NO_IPV6: &str = "/proc/sys/net/ipv6/conf/all/disable_ipv6";

/// The namespaces, for whoever opens sockets in them.
#[derive(Debug)]
pub struct Hosts {
    /// Where data comes from.
    pub sender: Namespace,
    /// Where it goes.
    pub receiver: Namespace,
}

impl Hosts {
    /// Makes both hosts for so many flows, and the wire between them. `mtu` is the size of a full packet.
    pub fn new(flows: usize, mtu: u32) -> Result<(Hosts, TunPair), EmulatorError> {
        if flows > MAX_FLOWS {
            return Err(EmulatorError::Socket(io::Error::other(format!("more than {MAX_FLOWS} flows"))));
        }
        let hosts = Hosts { sender: Namespace::new()?, receiver: Namespace::new()? };
        let pair = TunPair {
            sender: hosts.sender.run(|| host(SENDER, RECEIVER, mtu))?,
            receiver: hosts.receiver.run(|| host(RECEIVER, SENDER, mtu))?,
            watches: vec![DataWatch::default(); flows],
            buffer: vec![0; MAX_PACKET_BYTES],
        };
        Ok((hosts, pair))
    }

    /// Packets that were lost before they reached the emulator, which was too slow to take them.
    pub fn overflows(&self) -> Result<u64, EmulatorError> {
        let count = |namespace: &Namespace| {
            namespace.run(|| {
                let devices = std::fs::read_to_string("/proc/thread-self/net/dev");
                Ok(tun::refused(&devices.map_err(EmulatorError::Namespace)?))
            })
        };
        Ok(count(&self.sender)? + count(&self.receiver)?)
    }

    /// The address from which a flow has to send.
    pub fn source(flow: usize) -> SocketAddrV4 {
        SocketAddrV4::new(SENDER, FIRST_PORT + flow as u16)
    }

    /// The next socket of the calling thread's namespace that asks for any port gets that of this flow.
    pub fn next_port_of(flow: usize) -> Result<(), EmulatorError> {
        const RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";
        let port = Hosts::source(flow).port();
        std::fs::write(RANGE, format!("{port} {port}"))
            .map_err(|error| EmulatorError::Parameter(RANGE, error))
    }

    /// The flow that has this port at the sender.
    pub fn flow_of(port: u16) -> Option<usize> {
        port.checked_sub(FIRST_PORT).map(usize::from)
    }

    /// The address to which every flow has to send.
    pub fn destination() -> SocketAddrV4 {
        SocketAddrV4::new(RECEIVER, RECEIVER_PORT)
    }
}

/// Sets up the namespace of the calling thread.
fn host(own: Ipv4Addr, peer: Ipv4Addr, mtu: u32) -> Result<Tun, EmulatorError> {
    prepare()?;
    Tun::open(own, peer, mtu)
}

/// Sets the parameters of a host in the namespace of the calling thread.
pub(crate) fn prepare() -> Result<(), EmulatorError> {
    for (path, value) in PARAMETERS {
        std::fs::write(path, value).map_err(|error| EmulatorError::Parameter(path, error))?;
    }
    match std::fs::write(NO_IPV6, "1") {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(EmulatorError::Parameter(NO_IPV6, error))
        }
        _ => Ok(()),
    }
}

/// The devices of two hosts as the ends of a network.
#[derive(Debug)]
pub struct TunPair {
    sender: Tun,
    receiver: Tun,
    watches: Vec<DataWatch>,
    buffer: Vec<u8>,
}

impl TunPair {
    /// The round trips of a flow, in order.
    pub fn round_trips(&self, flow: usize) -> &[RoundTrip] {
        &self.watches[flow].round_trips
    }
}

impl Wire for TunPair {
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.sender.as_fd(), self.receiver.as_fd()]
    }

    fn receive(&mut self, now: &dyn Fn() -> Time, arrivals: &mut Vec<Arrival>) {
        for (tun, direction) in [(&self.sender, Direction::Forward), (&self.receiver, Direction::Reverse)] {
            for _ in 0..MAX_BATCH {
                let Some(length) = tun.read(&mut self.buffer) else { break };
                let packet = &self.buffer[..length];
                let Some(header) = watch::parse(packet) else { continue };
                let port = match direction {
                    Direction::Forward => header.source_port,
                    Direction::Reverse => header.destination_port,
                };
                let Some(flow) = Hosts::flow_of(port).filter(|&flow| flow < self.watches.len()) else {
                    continue;
                };
                let at = now();
                let again = match (direction, &header.segment) {
                    (Direction::Forward, Some(segment)) => self.watches[flow].on_sent(at, segment),
                    _ => false,
                };
                arrivals.push(Arrival { at, flow, direction, again, data: packet.to_vec() });
            }
        }
    }

    fn deliver(&mut self, now: Time, flow: usize, direction: Direction, data: &[u8]) -> io::Result<bool> {
        match direction {
            Direction::Forward => self.receiver.write(data)?,
            Direction::Reverse => {
                if let Some(segment) = watch::parse(data).and_then(|header| header.segment) {
                    self.watches[flow].on_acknowledged(now, &segment);
                }
                self.sender.write(data)?;
            }
        }
        Ok(true)
    }

    fn size(&self, data: &[u8]) -> u32 {
        data.len() as u32
    }
}
