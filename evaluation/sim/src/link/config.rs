//! What a link carries, what it is made of, and what it tells.

use super::{Aggregation, CrossTraffic, Impairments, Trace};
use anole_model::{Dur, Rate};
use std::sync::Arc;

/// What a packet's ECN field says (RFC 3168 §5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// The transport does not understand marks.
    #[default]
    NotCapable,
    /// It does.
    Capable,
    /// A queue was congested: the mark.
    Experienced,
}

/// A packet on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    /// Bytes on the wire.
    pub size: u32,
    /// Number of its flow, small and dense (queues and counters are kept by it).
    pub flow: u32,
    /// Whether it may be marked, or has been.
    pub ecn: Ecn,
    /// Whatever its sender and receiver need.
    pub data: T,
}

impl<T> Packet<T> {
    /// Marks it. False when it cannot be, and has to be dropped.
    pub(super) fn mark(&mut self) -> bool {
        let capable = self.ecn != Ecn::NotCapable;
        if capable {
            self.ecn = Ecn::Experienced;
        }
        capable
    }
}

/// How a link queues packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// First in, first out, with a limit.
    DropTail,
    /// RFC 8289.
    CoDel,
    /// RFC 8290.
    FqCodel,
    /// RFC 8033.
    Pie,
    /// Floyd and Jacobson 1993, gentle.
    Red,
}

/// What limits a link.
#[derive(Clone, Debug, PartialEq)]
pub enum Capacity {
    /// A rate, which may be changed while packets pass.
    Fixed(Rate),
    /// Delivery opportunities of a Mahimahi trace.
    Trace(Arc<Trace>),
}

impl Capacity {
    /// The rate, averaged over one repetition for a trace.
    pub fn mean_rate(&self) -> Rate {
        match self {
            Capacity::Fixed(rate) => *rate,
            Capacity::Trace(trace) => trace.mean_rate(),
        }
    }
}

/// What a link is made of.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// What limits it.
    pub capacity: Capacity,
    /// Propagation delay.
    pub delay: Dur,
    /// Bytes that may wait.
    pub buffer_bytes: u64,
    /// Probability that a sent packet is lost.
    pub random_loss: f64,
    /// How packets wait.
    pub queue: QueueKind,
    /// How packets wait for each other behind it.
    pub aggregation: Aggregation,
    /// What else befalls packets there.
    pub impairments: Impairments,
    /// What else is sent across it.
    pub cross: Vec<CrossTraffic>,
    /// A full packet, bytes on the wire.
    pub full_packet: u32,
    /// Seed of all its randomness.
    pub seed: u64,
}

/// What happened on a link. `None` where nothing happened that could be measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkStats {
    /// Bytes sent over bytes that could have been sent.
    pub utilization: Option<f64>,
    /// Packets lost (refused, dropped or lost at random) over packets lost or carried; those still waiting
    /// count as neither.
    pub loss_rate: Option<f64>,
    /// Mean queueing delay.
    pub queue_delay_mean: Option<Dur>,
    /// 95th percentile of the queueing delay, over packets.
    pub queue_delay_p95: Option<Dur>,
}
