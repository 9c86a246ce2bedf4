//! What every queue shares: packets with their arrival time, a byte-counted FIFO, and a record of drops.

use super::Packet;
use anole_model::{Dur, Time};
use std::collections::VecDeque;

/// A packet that waits.
#[derive(Clone, Debug)]
pub(super) struct Queued<T> {
    pub packet: Packet<T>,
    pub arrived: Time,
}

impl<T> Queued<T> {
    /// How long it has waited.
    pub fn sojourn(&self, now: Time) -> Dur {
        now.since(self.arrived)
    }
}

/// Packets in order of arrival.
#[derive(Clone, Debug)]
pub(super) struct Fifo<T> {
    packets: VecDeque<Queued<T>>,
    bytes: u64,
}

impl<T> Fifo<T> {
    pub fn new() -> Fifo<T> {
        Fifo { packets: VecDeque::new(), bytes: 0 }
    }
    pub fn push(&mut self, queued: Queued<T>) {
        self.bytes += u64::from(queued.packet.size);
        self.packets.push_back(queued);
    }
    /// Whether the packet would leave the queue within its limit.
    pub fn fits(&self, queued: &Queued<T>, limit_bytes: u64) -> bool {
        self.bytes + u64::from(queued.packet.size) <= limit_bytes
    }
    /// Takes the packet if it fits, and counts it as dropped otherwise.
    pub fn push_within(&mut self, queued: Queued<T>, limit_bytes: u64, drops: &mut Drops) -> bool {
        let fits = self.fits(&queued, limit_bytes);
        if fits {
            self.push(queued);
        } else {
            drops.count(queued.packet.flow);
        }
        fits
    }
    pub fn pop(&mut self) -> Option<Queued<T>> {
        let queued = self.packets.pop_front()?;
        self.bytes -= u64::from(queued.packet.size);
        Some(queued)
    }
    pub fn front(&self) -> Option<&Queued<T>> {
        self.packets.front()
    }
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
    pub fn len(&self) -> usize {
        self.packets.len()
    }
}

/// Packets that never arrive, counted by flow.
#[derive(Clone, Debug, Default)]
pub(super) struct Drops {
    pub packets: u64,
    by_flow: Vec<u64>,
}

impl Drops {
    pub fn count(&mut self, flow: u32) {
        let flow = flow as usize;
        if self.by_flow.len() <= flow {
            self.by_flow.resize(flow + 1, 0);
        }
        self.by_flow[flow] += 1;
        self.packets += 1;
    }
    pub fn of(&self, flow: u32) -> u64 {
        self.by_flow.get(flow as usize).copied().unwrap_or(0)
    }
}
