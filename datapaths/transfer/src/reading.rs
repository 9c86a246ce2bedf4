//! The state of one connection at a moment, alike for every transport and congestion control.

use anole_datapath::Governor;

/// Who sets the window and the pacing rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GovernedBy {
    /// One of the stack's own controllers.
    #[default]
    Stack,
    /// The agent and its fold program.
    Agent,
    /// The algorithm in this process, without an agent.
    InProcess,
    /// The datapath's native controller, where neither decides.
    Fallback,
}

impl GovernedBy {
    /// The name in traces and summaries.
    pub fn name(self) -> &'static str {
        match self {
            GovernedBy::Stack => "stack",
            GovernedBy::Agent => "agent",
            GovernedBy::InProcess => "in-process",
            GovernedBy::Fallback => "fallback",
        }
    }
}

impl From<Governor> for GovernedBy {
    fn from(governor: Governor) -> GovernedBy {
        match governor {
            Governor::Agent => GovernedBy::Agent,
            Governor::Fallback => GovernedBy::Fallback,
        }
    }
}

/// One reading of a connection's counters. Packets are those that ask for an acknowledgement: in QUIC, ack-eliciting
/// packets with the bytes of their UDP payload; in TCP, segments that carry data, with the bytes of that data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Packets sent.
    pub sent_packets: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets acknowledged.
    pub delivered_packets: u64,
    /// Bytes acknowledged.
    pub delivered_bytes: u64,
    /// Packets lost; what they carried is sent again in other packets.
    pub lost_packets: u64,
    /// Latest round-trip time, µs; `None` before the first acknowledgement.
    pub rtt_us: Option<u64>,
    /// Congestion window, bytes.
    pub cwnd_bytes: u64,
    /// Pacing rate asked of the stack, bytes/s; `None` when the stack derives its own from the window.
    pub pacing_bytes_per_s: Option<u64>,
    /// The flow's id in messages to the agent; `None` under the stack's own controllers.
    pub flow_id: Option<u32>,
    /// Who governs.
    pub governor: GovernedBy,
    /// Reports sent to the agent.
    pub reports: u64,
    /// Commands taken from the agent.
    pub updates: u64,
    /// Times that the fallback took over.
    pub fallbacks: u64,
}

impl Reading {
    /// Latest round-trip time, ms.
    pub fn rtt_ms(&self) -> Option<f64> {
        self.rtt_us.map(|us| us as f64 / 1e3)
    }

    /// Pacing rate asked of the stack, Mbps.
    pub fn pacing_mbps(&self) -> Option<f64> {
        self.pacing_bytes_per_s.map(|rate| rate as f64 * 8e-6)
    }
}
