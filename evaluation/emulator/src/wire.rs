//! The two ends of an emulated network, as the thread that moves packets sees them.

use anole_model::Time;
use std::io;
use std::os::fd::BorrowedFd;

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// With the data: through the links.
    Forward,
    /// Back to the sender: through their reverse delays.
    Reverse,
}

/// A packet that came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub at: Time,
    /// Whose.
    pub flow: usize,
    /// Which way it goes.
    pub direction: Direction,
    /// It carries data that its flow had sent before.
    pub again: bool,
    /// What to hand over at the other end.
    pub data: Vec<u8>,
}

/// Where packets come in and go out.
pub trait Wire: Send + 'static {
    /// What becomes readable when packets come in.
    fn fds(&self) -> Vec<BorrowedFd<'_>>;

    /// Appends packets that wait, a bounded number at a time, and returns without waiting.
    fn receive(&mut self, now: &dyn Fn() -> Time, arrivals: &mut Vec<Arrival>);

    /// Hands a packet over at its far end; false when nobody is there to take it.
    fn deliver(&mut self, now: Time, flow: usize, direction: Direction, data: &[u8]) -> io::Result<bool>;

    /// Bytes that a packet has on an IPv4 wire.
    fn size(&self, data: &[u8]) -> u32;
}
