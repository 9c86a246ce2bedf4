//! What a flow measured, in one struct, and the signals that a feature may name.

use anole_model::{Dur, Rate};

/// What was measured over one decision interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// Sending rate that was in force: the pacing rate, or what the window sends per round trip.
    pub rate: Rate,
    /// Delivery rate over the interval.
    pub delivery_rate: Rate,
    /// Smoothed round-trip time.
    pub srtt: Dur,
    /// Smallest round-trip time seen by the flow.
    pub min_rtt: Dur,
    /// Smallest round-trip time of the last five to ten seconds.
    pub min_rtt_10s: Dur,
    /// Smallest round-trip time of the last one to two seconds.
    pub min_rtt_2s: Dur,
    /// Largest delivery rate of the last five to ten seconds.
    pub max_delivery_10s: Rate,
    /// Mean round-trip time over the interval; the smoothed one where there was no sample.
    pub rtt: Dur,
    /// Mean deviation of the round-trip time, smoothed (RFC 6298, RTTVAR); zero where it is not measured.
    pub rtt_var: Dur,
    /// Slope of the round-trip time over time (s/s).
    pub rtt_gradient: f64,
    /// Packets lost over packets sent in the interval.
    pub loss_rate: f64,
    /// Length of the interval.
    pub interval: Dur,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Bytes in flight at its end.
    pub inflight: u64,
    /// ACKs with a round-trip sample in the interval: a whole number, where it was measured.
    pub acks: f64,
    /// Packets found lost in the interval: as well.
    pub lost: f64,
    /// Maximum segment size, bytes.
    pub mss: u32,
}

impl Observation {
    /// A quiet path at `rate`: all delivered, no queue, 50 ms. For tests and as a base to vary.
    pub fn quiet(rate: Rate) -> Observation {
        let rtt = Dur::from_millis(50);
        let window = (rate.bytes_per_s() * rtt.as_secs_f64()) as u64;
        Observation {
            rate,
            delivery_rate: rate,
            srtt: rtt,
            min_rtt: rtt,
            min_rtt_10s: rtt,
            min_rtt_2s: rtt,
            max_delivery_10s: rate,
            rtt,
            rtt_var: Dur::ZERO,
            rtt_gradient: 0.0,
            loss_rate: 0.0,
            interval: rtt,
            cwnd: window,
            inflight: window,
            acks: (window / 1448) as f64,
            lost: 0.0,
            mss: 1448,
        }
    }
}
