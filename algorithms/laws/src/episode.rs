//! Which losses belong to one congestion event.
//!
//! A sender that finds a loss has sent for a round trip since that packet, and the queue that dropped it may have
//! dropped more of those: they are the same event, and the window decreases once (RFC 5681 §3.2, RFC 9438 §4.6).
//! TCP tells them apart by sequence numbers (RFC 6675's RecoveryPoint); feedback has none, so the event is measured
//! in time. A sender that keeps a share β of its window is silent for 1 − β of a round trip, so that the packet after
//! the last one of the old window leaves that much later, and its ACK, which shows the last loss, comes a round trip
//! after that: the event lasts (2 − β) round trips.
//!
//! A timeout comes later than that, and its event is measured in bytes: it belongs to the decrease already made until
//! what was in flight then has been acknowledged (the recovery point of RFC 6675 §5 in another unit), and after a
//! timeout until anything is, since that packet has been sent again by the timer already (RFC 5681 §3.1).

use anole_model::{Dur, Time};

/// The round-trip time before the first sample (RFC 9002 §6.2.2, kInitialRtt).
const UNKNOWN_RTT: Dur = Dur::from_millis(333);

/// The congestion event under way, if there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Episode {
    until: Option<Time>,
    /// Bytes to be acknowledged before a timeout is another event.
    unrepaired: u64,
}

impl Episode {
    /// A loss makes a decrease of a window of `cwnd` bytes that keeps the share `kept` of it; `rtt` is zero where none was
    /// measured.
    pub fn begin(&mut self, now: Time, rtt: Dur, kept: f64, cwnd: u64) {
        let rtt = if rtt.is_zero() { UNKNOWN_RTT } else { rtt };
        self.until = Some(now + rtt.mul_f64(2.0 - kept));
        self.unrepaired = cwnd;
    }

    /// `bytes` were acknowledged.
    pub fn on_ack(&mut self, bytes: u64) {
        self.unrepaired = self.unrepaired.saturating_sub(bytes);
    }

    /// A timeout fired. True when it belongs to the decrease already made; otherwise one is due that keeps the share
    /// `kept`.
    pub fn on_timeout(&mut self, now: Time, rtt: Dur, kept: f64) -> bool {
        let again = self.unrepaired > 0;
        // What is lost of the packets that it sends again belongs to it as well.
        self.begin(now, rtt, kept, 1);
        again
    }

    /// True when a loss found now belongs to the decrease already made.
    pub fn covers(&self, now: Time) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_a_decrease_takes_the_longer_its_event() {
        let ends_ms = |kept| {
            let mut episode = Episode::default();
            episode.begin(Time::ZERO, Dur::from_millis(80), kept, 10_000);
            (0..200).find(|&ms| !episode.covers(Time::from_micros(ms * 1000)))
        };
        assert_eq!([ends_ms(1.0), ends_ms(0.75), ends_ms(0.5)], [80, 100, 120].map(Some));
        assert!(!Episode::default().covers(Time::ZERO));
    }

    #[test]
    fn a_timeout_is_of_the_same_event_until_the_flight_is_repaired_and_after_a_timeout_until_anything_is() {
        let (now, rtt) = (Time::ZERO, Dur::from_millis(80));
        let mut episode = Episode::default();
        assert!(!episode.on_timeout(now, rtt, 0.5));
        assert!(episode.on_timeout(now, rtt, 0.5));
        episode.on_ack(1);
        episode.begin(now, rtt, 0.5, 10_000);
        episode.on_ack(9_999);
        let later = now + rtt * 5;
        assert!(!episode.covers(later) && episode.on_timeout(later, rtt, 0.5));
        assert!(episode.covers(later + rtt), "a loss of what is sent again");
        episode.on_ack(1_000);
        assert!(!episode.on_timeout(later, rtt, 0.5));
    }
}
