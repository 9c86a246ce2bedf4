//! TCP stacks in user space as the ends of a network: each has a socket that carries one IPv4 packet a message.
//!
//! ```text
//!  stack of flow 0 ── socket ──┐
//!  stack of flow 1 ── socket ──┼──► links, delays, losses ──► socket ── stack of the receiver
//!                              └───────────── delay ◄──────────────
//! ```
//!
//! No device, no namespace and no privilege: the sockets are pairs (`AF_UNIX`, `SOCK_SEQPACKET`), which keep packets apart
//! and in order. A flow's data comes in at its socket; what goes back is told apart by its port, as behind a router.

use crate::EmulatorError;
use crate::hosts::Hosts;
use crate::watch::{self, DataWatch, RoundTrip};
use crate::wire::{Arrival, Direction, Wire};
use anole_model::Time;
use nix::sys::socket::sockopt::{SndBuf, SndBufForce};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, setsockopt, socketpair};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Packets taken from one stack before the next has its turn.
const MAX_BATCH: usize = 64;
/// Largest packet carried: that of IPv4.
const MAX_PACKET_BYTES: usize = 65_536;
/// What may wait at a socket, bytes, where the kernel allows it: a thread may be kept from running for a while.
const SOCKET_BYTES: usize = 8 << 20;

/// The emulator's ends of the sockets.
#[derive(Debug)]
pub struct StackSockets {
    senders: Vec<OwnedFd>,
    receiver: OwnedFd,
    watches: Vec<DataWatch>,
    buffer: Vec<u8>,
}

/// The stacks' ends.
#[derive(Debug)]
pub struct StackEnds {
    /// One for the stack of each flow, which sends from [`Hosts::source`].
    pub senders: Vec<OwnedFd>,
    /// For the stack that receives all of them, at [`Hosts::destination`].
    pub receiver: OwnedFd,
}

impl StackSockets {
    /// Makes the sockets for so many flows.
    pub fn open(flows: usize) -> Result<(StackSockets, StackEnds), EmulatorError> {
        let pairs = (0..flows).map(|_| pair()).collect::<Result<Vec<_>, _>>()?;
        let (senders, stacks) = pairs.into_iter().unzip();
        let (receiver, receiving_stack) = pair()?;
        let (watches, buffer) = (vec![DataWatch::default(); flows], vec![0; MAX_PACKET_BYTES]);
        let ends = StackEnds { senders: stacks, receiver: receiving_stack };
        Ok((StackSockets { senders, receiver, watches, buffer }, ends))
    }

    /// The round trips of a flow, in order.
    pub fn round_trips(&self, flow: usize) -> &[RoundTrip] {
        &self.watches[flow].round_trips
    }
}

fn pair() -> Result<(OwnedFd, OwnedFd), EmulatorError> {
    let failed = |error: nix::Error| EmulatorError::Socket(error.into());
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let pair = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).map_err(failed)?;
    for end in [&pair.0, &pair.1] {
        // More than the host's limit takes the privilege; less is what everybody has.
        if setsockopt(end, SndBufForce, &SOCKET_BYTES).is_err() {
            setsockopt(end, SndBuf, &SOCKET_BYTES).map_err(failed)?;
        }
    }
    Ok(pair)
}

impl Wire for StackSockets {
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        self.senders.iter().chain([&self.receiver]).map(AsFd::as_fd).collect()
    }

    fn receive(&mut self, now: &dyn Fn() -> Time, arrivals: &mut Vec<Arrival>) {
        let StackSockets { senders, receiver, watches, buffer } = self;
        let ends = senders.iter().enumerate().map(|(flow, end)| (end, Some(flow)));
        for (end, sends) in ends.chain([(&*receiver, None)]) {
            for _ in 0..MAX_BATCH {
                // A stack that is gone sends nothing.
                let Ok(length @ 1..) = recv(end.as_raw_fd(), buffer, MsgFlags::empty()) else { break };
                let packet = &buffer[..length];
                let Some(header) = watch::parse(packet) else { continue };
                let at = now();
                let (flow, direction) = match sends {
                    Some(flow) => (Some(flow), Direction::Forward),
                    None => (Hosts::flow_of(header.destination_port), Direction::Reverse),
                };
                let Some(flow) = flow.filter(|&flow| flow < watches.len()) else { continue };
                let again = match (direction, &header.segment) {
                    (Direction::Forward, Some(segment)) => watches[flow].on_sent(at, segment),
                    _ => false,
                };
                arrivals.push(Arrival { at, flow, direction, again, data: packet.to_vec() });
            }
        }
    }

    fn deliver(&mut self, now: Time, flow: usize, direction: Direction, data: &[u8]) -> io::Result<bool> {
        let end = match direction {
            Direction::Forward => &self.receiver,
            Direction::Reverse => {
                if let Some(segment) = watch::parse(data).and_then(|header| header.segment) {
                    self.watches[flow].on_acknowledged(now, &segment);
                }
                &self.senders[flow]
            }
        };
        match send(end.as_raw_fd(), data, MsgFlags::MSG_NOSIGNAL) {
            Ok(_) => Ok(true),
            // A stack whose transfer is over.
            Err(nix::Error::EPIPE | nix::Error::ECONNRESET | nix::Error::ENOTCONN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn size(&self, data: &[u8]) -> u32 {
        data.len() as u32
    }
}
