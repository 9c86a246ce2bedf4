//! What a transport tells a flow, and what it gets back.

use anole_laws::Feedback;
use anole_model::{Dur, Rate};

/// What one ACK, loss detection or timeout tells, in the terms of the language's primitives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckSample {
    /// Newly acknowledged bytes, in order or not, each counted once (`Ack.bytes_acked`).
    pub bytes_acked: u32,
    /// Newly acknowledged packets, in order or not (`Ack.packets_acked`).
    pub packets_acked: u32,
    /// Those of the newly acknowledged bytes that arrived out of order (`Ack.bytes_misordered`).
    pub bytes_misordered: u32,
    /// Those of the newly acknowledged packets that arrived out of order (`Ack.packets_misordered`).
    pub packets_misordered: u32,
    /// Bytes acknowledged with an ECN mark (`Ack.ecn_bytes`).
    pub ecn_bytes: u32,
    /// Packets acknowledged with an ECN mark (`Ack.ecn_packets`).
    pub ecn_packets: u32,
    /// Packets newly found lost (`Ack.lost_pkts_sample`).
    pub lost_packets: u32,
    /// A retransmission timeout fired (`Flow.was_timeout`).
    pub was_timeout: bool,
    /// Round-trip time sample, µs; 0 when there is none, which programs read as 2^32 − 1
    /// (`Flow.rtt_sample_us`).
    pub rtt_us: u64,
    /// Sending rate, bytes/s (`Flow.rate_outgoing`).
    pub rate_outgoing: u64,
    /// Delivery rate, bytes/s (`Flow.rate_incoming`).
    pub rate_incoming: u64,
    /// Bytes in flight (`Flow.bytes_in_flight`); `None` where the transport does not tell, which programs read as what the
    /// window and the pacing rate in force let into flight.
    pub bytes_in_flight: Option<u32>,
    /// Packets in flight (`Flow.packets_in_flight`).
    pub packets_in_flight: u32,
    /// Bytes that wait to be sent (`Flow.bytes_pending`).
    pub bytes_pending: u32,
    /// The application had too little to send: what was in flight says nothing about the path.
    pub app_limited: bool,
}

impl AckSample {
    /// The sample of the round-trip time, µs, 0 without one. Larger ones than 2^32 µs (71 minutes) are a transport's mistake.
    #[inline(always)]
    pub(crate) fn plausible_rtt_us(&self) -> u64 {
        self.rtt_us.min(u64::from(u32::MAX))
    }

    /// The same in a law's terms.
    pub(crate) fn feedback(&self) -> Feedback {
        let rtt = (self.rtt_us > 0).then(|| Dur::from_micros(self.plausible_rtt_us()));
        Feedback {
            acked: u64::from(self.bytes_acked),
            lost: u64::from(self.lost_packets),
            marked: u64::from(self.ecn_packets),
            timeout: self.was_timeout,
            rtt,
            min_rtt: rtt,
            samples: u64::from(rtt.is_some()),
            sums: Default::default(),
            delivery_rate: (self.rate_incoming > 0)
                .then(|| Rate::from_bytes_per_s(self.rate_incoming as f64)),
            in_flight: self.bytes_in_flight.map(u64::from),
            app_limited: self.app_limited,
            elapsed: Dur::ZERO,
        }
    }
}

/// What the transport has to obey until the next call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InForce {
    /// Congestion window, bytes; always within the flow's bounds.
    pub cwnd: u32,
    /// Pacing rate, bytes/s, within the flow's bounds; 0 leaves pacing to the transport.
    pub rate: u32,
}

/// The message could not be handed to the agent (no agent, or its queue is full).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message could not be handed to the agent")]
pub struct SendError;

/// Where a flow puts its messages to the agent. Must not block.
pub trait Outbox {
    /// Takes one whole message.
    fn send(&mut self, message: &[u8]) -> Result<(), SendError>;
}

impl Outbox for Vec<Vec<u8>> {
    fn send(&mut self, message: &[u8]) -> Result<(), SendError> {
        self.push(message.to_vec());
        Ok(())
    }
}
