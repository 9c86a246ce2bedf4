//! The window after a retransmission timeout, until the agent's answer to it is in force.
//!
//! A timeout says that the path may hold nothing any more, and the agent's answer takes effect at an ACK, which may be
//! long in coming. So the datapath itself takes the loss window of one packet at once (RFC 5681 §3.1; Linux,
//! tcp_enter_loss) and lets it grow by slow start, until the agent sets a window or a rate. What the program and the
//! agent ask for stays in their registers meanwhile; this limits what the transport gets of it.

use crate::AckSample;

/// The limit after a timeout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LossWindow {
    /// Window, bytes.
    pub window: u32,
    /// What was in flight when the first timeout of this congestion fired, bytes; the largest number where nothing tells.
    pub flight: u32,
}

impl LossWindow {
    /// A timeout fires. One before the window grew again after `before` is the same congestion.
    pub fn begin(before: Option<LossWindow>, sample: &AckSample, mss: u32) -> LossWindow {
        let lost = sample.lost_packets.saturating_mul(mss);
        let flight = match lost.saturating_add(sample.bytes_in_flight.unwrap_or(0)) {
            0 => u32::MAX,
            told => told,
        };
        let again = before.filter(|before| before.window <= mss);
        LossWindow { window: mss, flight: again.map_or(flight, |before| before.flight) }
    }

    /// Slow start: a byte more for each byte acknowledged.
    pub fn grow(self, acked: u32) -> LossWindow {
        LossWindow { window: self.window.saturating_add(acked), ..self }
    }
}
