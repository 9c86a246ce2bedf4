//! What the emulator measures.

use anole_model::Dur;
use anole_sim::histogram::Histogram;
use anole_sim::link::LinkStats;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Live counters of one flow, readable while the emulator runs.
#[derive(Debug, Default)]
pub struct Counts {
    pub(crate) entered_packets: AtomicU64,
    pub(crate) repeated_packets: AtomicU64,
    pub(crate) delivered_packets: AtomicU64,
    pub(crate) delivered_bytes: AtomicU64,
}

impl Counts {
    /// Data packets that came in.
    pub fn entered_packets(&self) -> u64 {
        self.entered_packets.load(Relaxed)
    }
    /// Those of them whose data the flow had sent before, as far as the wire can tell.
    pub fn repeated_packets(&self) -> u64 {
        self.repeated_packets.load(Relaxed)
    }
    /// Data packets handed to the server.
    pub fn delivered_packets(&self) -> u64 {
        self.delivered_packets.load(Relaxed)
    }
    /// Bytes on the wire handed to the server.
    pub fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes.load(Relaxed)
    }
}

/// What a flow's packets went through since the measurement began.
#[derive(Clone, Debug, Default)]
pub struct FlowRecord {
    /// Data packets that came in.
    pub entered_packets: u64,
    /// Data packets handed to the server.
    pub delivered_packets: u64,
    /// Bytes on the wire handed to the server.
    pub delivered_bytes: u64,
    /// Data packets that the links dropped.
    pub lost_packets: u64,
    /// From arrival at the emulator to departure, per delivered data packet.
    pub one_way_delay: Histogram,
}

/// How well the emulator kept time.
#[derive(Clone, Debug, Default)]
pub struct TimerRecord {
    /// Departure after the time at which it was due, per packet.
    pub lateness: Histogram,
    /// CPU time of the emulator's thread.
    pub cpu: Dur,
    /// Time that it ran.
    pub wall: Dur,
    /// Datagrams that the kernel refused to take.
    pub send_failures: u64,
}

impl TimerRecord {
    /// Share of one CPU that the emulator took.
    pub fn cpu_share(&self) -> f64 {
        self.cpu.as_secs_f64() / self.wall.as_secs_f64().max(1e-9)
    }
}

/// What the emulator measured since the measurement began.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Per flow.
    pub flows: Vec<FlowRecord>,
    /// Per link.
    pub links: Vec<LinkStats>,
    /// Bytes that each link could have carried.
    pub possible_bytes: Vec<f64>,
    /// Time over which was measured.
    pub measured: Dur,
    /// Data packets that were inside when the measurement began, which are delivered or lost in it.
    pub inside_before: u64,
    /// Data packets still inside at the end.
    pub inside: u64,
    /// The emulator's own accuracy.
    pub timer: TimerRecord,
}
