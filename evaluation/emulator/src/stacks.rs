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
    /// Those at whose other end nobody is any more, the receiver's last. They stay readable for ever.
    gone: Vec<bool>,
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
        Ok((StackSockets { senders, receiver, gone: vec![false; flows + 1], watches, buffer }, ends))
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
        let ends = self.senders.iter().chain([&self.receiver]).zip(&self.gone);
        ends.filter(|(_, gone)| !**gone).map(|(end, _)| end.as_fd()).collect()
    }

    fn receive(&mut self, now: &dyn Fn() -> Time, arrivals: &mut Vec<Arrival>) {
        let StackSockets { senders, receiver, gone, watches, buffer } = self;
        let ends = senders.iter().enumerate().map(|(flow, end)| (end, Some(flow)));
        for ((end, sends), gone) in ends.chain([(&*receiver, None)]).zip(gone) {
            for _ in 0..if *gone { 0 } else { MAX_BATCH } {
                let length = match recv(end.as_raw_fd(), buffer, MsgFlags::empty()) {
                    Ok(length @ 1..) => length,
                    Err(nix::Error::EAGAIN | nix::Error::EINTR) => break,
                    // A stack that is gone sends nothing more.
                    Ok(0) | Err(_) => {
                        *gone = true;
                        break;
                    }
                };
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

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    /// How many ends there are to wait for, and how many have something.
    fn waits(wire: &StackSockets) -> (usize, i32) {
        let mut fds: Vec<PollFd<'_>> =
            wire.fds().into_iter().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let ready = poll(&mut fds, PollTimeout::ZERO).unwrap();
        (fds.len(), ready)
    }

    #[test]
    fn an_end_whose_stack_is_gone_wakes_nobody() {
        let (mut wire, mut ends) = StackSockets::open(2).unwrap();
        let mut arrivals = Vec::new();
        let mut receive = |wire: &mut StackSockets| wire.receive(&|| Time::ZERO, &mut arrivals);
        receive(&mut wire);
        assert_eq!(waits(&wire), (3, 0));
        // What a stack said last is taken first.
        let last = ends.senders.remove(0);
        send(last.as_raw_fd(), &[0; 3], MsgFlags::empty()).unwrap();
        drop(last);
        assert_eq!(waits(&wire), (3, 1));
        receive(&mut wire);
        assert_eq!(waits(&wire), (2, 0));
        assert!(!wire.deliver(Time::ZERO, 0, Direction::Reverse, &[0; 3]).unwrap());
        send(ends.senders[0].as_raw_fd(), &[0; 3], MsgFlags::empty()).unwrap();
        assert_eq!(waits(&wire), (2, 1));
        receive(&mut wire);
        drop(ends);
        receive(&mut wire);
        assert_eq!(waits(&wire), (0, 0));
    }
}
