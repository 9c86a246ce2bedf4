//! Pairs of UDP sockets on loopback as the ends of the network.

use crate::wire::{Arrival, Direction, Wire};
use crate::{EmulatorError, UDP_HEADER_BYTES};
use anole_model::Time;
use nix::sys::socket::{setsockopt, sockopt};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

/// Datagrams taken from one socket before the others have their turn.
const MAX_BATCH: usize = 64;

/// Socket buffers asked of the kernel, bytes: nothing may be lost but by the links, and the thread may
/// be kept from running for tens of milliseconds on a busy machine.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// Largest datagram carried.
const MAX_DATAGRAM_BYTES: usize = 65_536;

/// A pair of sockets per flow.
#[derive(Debug)]
pub struct UdpPorts {
    flows: Vec<Sockets>,
    buffer: Vec<u8>,
}

/// One flow's pair.
#[derive(Debug)]
struct Sockets {
    entry: UdpSocket,
    exit: UdpSocket,
    client: Option<SocketAddr>,
}

impl UdpPorts {
    /// Opens the sockets of so many flows, whose data goes to `server`.
    pub fn open(flows: usize, server: SocketAddr) -> Result<UdpPorts, EmulatorError> {
        let pair = || {
            let pair = Sockets { entry: open()?, exit: open()?, client: None };
            pair.exit.connect(server).map(|()| pair)
        };
        let flows = (0..flows).map(|_| pair()).collect::<io::Result<_>>().map_err(EmulatorError::Socket)?;
        Ok(UdpPorts { flows, buffer: vec![0; MAX_DATAGRAM_BYTES] })
    }

    /// Where the client of each flow has to send to.
    pub fn entries(&self) -> Result<Vec<SocketAddr>, EmulatorError> {
        addresses(self.flows.iter().map(|sockets| &sockets.entry))
    }

    /// The address under which the server sees each flow.
    pub fn exits(&self) -> Result<Vec<SocketAddr>, EmulatorError> {
        addresses(self.flows.iter().map(|sockets| &sockets.exit))
    }
}

fn addresses<'a>(sockets: impl Iterator<Item = &'a UdpSocket>) -> Result<Vec<SocketAddr>, EmulatorError> {
    sockets.map(UdpSocket::local_addr).collect::<io::Result<_>>().map_err(EmulatorError::Socket)
}

fn open() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_nonblocking(true)?;
    // The privileged form ignores net.core.{r,w}mem_max; without the privilege the maximum has to do.
    if setsockopt(&socket, sockopt::RcvBufForce, &SOCKET_BUFFER_BYTES).is_err() {
        let _ = setsockopt(&socket, sockopt::RcvBuf, &SOCKET_BUFFER_BYTES);
    }
    if setsockopt(&socket, sockopt::SndBufForce, &SOCKET_BUFFER_BYTES).is_err() {
        let _ = setsockopt(&socket, sockopt::SndBuf, &SOCKET_BUFFER_BYTES);
    }
    Ok(socket)
}

impl Wire for UdpPorts {
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        self.flows.iter().flat_map(|sockets| [sockets.entry.as_fd(), sockets.exit.as_fd()]).collect()
    }

    fn receive(&mut self, now: &dyn Fn() -> Time, arrivals: &mut Vec<Arrival>) {
        for (flow, sockets) in self.flows.iter_mut().enumerate() {
            let mut arrive = |direction, data: &[u8]| {
                arrivals.push(Arrival { at: now(), flow, direction, again: false, data: data.to_vec() });
            };
            for _ in 0..MAX_BATCH {
                let Ok((length, from)) = sockets.entry.recv_from(&mut self.buffer) else { break };
                sockets.client = Some(from);
                arrive(Direction::Forward, &self.buffer[..length]);
            }
            for _ in 0..MAX_BATCH {
                let Ok(length) = sockets.exit.recv(&mut self.buffer) else { break };
                arrive(Direction::Reverse, &self.buffer[..length]);
            }
        }
    }

    fn deliver(&mut self, _now: Time, flow: usize, direction: Direction, data: &[u8]) -> io::Result<bool> {
        let sockets = &self.flows[flow];
        let sent = match (direction, sockets.client) {
            (Direction::Forward, _) => sockets.exit.send(data),
            (Direction::Reverse, Some(client)) => sockets.entry.send_to(data, client),
            // No client has spoken yet, so that nobody waits for this.
            (Direction::Reverse, None) => return Ok(false),
        };
        match sent {
            Ok(_) => Ok(true),
            // The other end's socket is closed, as at the end of every run.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn size(&self, data: &[u8]) -> u32 {
        data.len() as u32 + UDP_HEADER_BYTES
    }
}
