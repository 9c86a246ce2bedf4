//! What a law is told, and what it answers.

use crate::regression::Sums;
use anole_model::{Dur, Rate};

/// What happened since the feedback before: one ACK, one loss detection, or all that a report sums up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Feedback {
    /// Bytes newly acknowledged.
    pub acked: u64,
    /// Packets newly found lost.
    pub lost: u64,
    /// Packets acknowledged with an ECN mark (RFC 3168 §6.1).
    pub marked: u64,
    /// A retransmission timeout fired (RFC 6298).
    pub timeout: bool,
    /// The latest round-trip time; `None` without a sample.
    pub rtt: Option<Dur>,
    /// The smallest round-trip time; `None` without a sample.
    pub min_rtt: Option<Dur>,
    /// Round-trip times sampled.
    pub samples: u64,
    /// Their sums over the time of arrival, counted from the start of what this covers; empty where nobody sums up.
    pub sums: Sums,
    /// The largest delivery rate sampled; `None` where the transport measures none.
    pub delivery_rate: Option<Rate>,
    /// Bytes in flight afterwards; `None` where the transport does not tell.
    pub in_flight: Option<u64>,
    /// The application had too little to send: neither the window in force nor the delivery rate says anything about the path.
    pub app_limited: bool,
    /// The time that this covers, by the datapath's clock.
    pub elapsed: Dur,
}

/// The window grows while at least half of it is in use (one over this), as in Linux during slow start.
const IN_USE: u64 = 2;
/// A flow of which nothing came back for so long, and for so many round trips, was idle (RFC 5681 §4.1: a timeout; RFC 6298 §2.4: a
/// second at least).
const IDLE: Dur = Dur::from_millis(1_000);
const IDLE_RTTS: u64 = 4;

impl Feedback {
    /// True when a window of `cwnd` bytes was in use, so that what came back tells about it (RFC 9438 §5.8).
    pub fn uses(&self, cwnd: u64) -> bool {
        let used = |left: u64| IN_USE.saturating_mul(left.saturating_add(self.acked)) >= cwnd;
        !self.app_limited && self.in_flight.is_none_or(used)
    }

    /// True where so long nothing came back that the flow had been idle, or the path away: what it was like may be of the past.
    pub fn after_idle(&self) -> bool {
        self.elapsed > IDLE.max(self.rtt.unwrap_or(Dur::ZERO) * IDLE_RTTS)
    }

    /// The round-trip times sampled: their sums, or the latest alone where nobody sums up.
    pub fn rtts(&self) -> Sums {
        if self.sums.n > 0 { self.sums } else { self.rtt.map_or(Sums::default(), Sums::one) }
    }

    /// True when the path told of congestion, short of a timeout.
    pub fn congested(&self) -> bool {
        self.lost > 0 || self.marked > 0
    }
}

/// What a law asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Control {
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Pacing rate; `None` leaves pacing to the transport, which spreads the window over the round trip.
    pub rate: Option<Rate>,
}

impl Control {
    /// A window without a pacing rate of its own.
    pub fn window(cwnd: u64) -> Control {
        Control { cwnd, rate: None }
    }

    /// What this sends over a round-trip time: the pacing rate, or the window over the round trip.
    pub fn rate_over(&self, rtt: Dur) -> Rate {
        self.rate.unwrap_or_else(|| Rate::from_bytes_in(self.cwnd, rtt))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_used_from_a_half_on_unless_the_application_had_nothing_to_send() {
        let seen = Feedback { acked: 1000, in_flight: Some(4000), ..Feedback::default() };
        assert!(seen.uses(10_000) && !seen.uses(10_001));
        assert!(!Feedback { app_limited: true, ..seen }.uses(10_000));
        assert!(Feedback { in_flight: None, ..seen }.uses(u64::MAX));
    }

    #[test]
    fn the_latest_round_trip_time_stands_for_sums_that_nobody_made() {
        let ack = Feedback { rtt: Some(Dur::from_millis(16)), ..Feedback::default() };
        assert_eq!(ack.rtts().mean_rtt(), Some(Dur::from_millis(16)));
        let report = Feedback { sums: Sums { n: 2, y: 4000, ..Sums::default() }, ..ack };
        assert_eq!(report.rtts().mean_rtt(), Some(Dur::from_millis(32)));
        assert_eq!(Feedback::default().rtts(), Sums::default());
    }

    #[test]
    fn a_window_sends_itself_per_round_trip() {
        assert_eq!(Control::window(50_000).rate_over(Dur::from_millis(50)), Rate::from_bytes_per_s(1e6));
        let paced = Control { cwnd: 50_000, rate: Some(Rate::from_mbps(1.0)) };
        assert_eq!(paced.rate_over(Dur::from_millis(50)), Rate::from_mbps(1.0));
    }
}
