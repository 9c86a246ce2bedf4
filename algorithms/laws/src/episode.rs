//! Which losses belong to one congestion event.
//!
//! A sender that finds a loss has sent for a round trip since that packet, and the queue that dropped it may have
//! dropped more of those: they are the same event, and the window decreases once (RFC 5681 §3.2, RFC 9438 §4.6).
//! TCP tells them apart by sequence numbers (RFC 6675's RecoveryPoint); feedback has none, so the event is measured
//! in time. A sender that keeps a share β of its window is silent for 1 − β of a round trip, so that the packet after
//! the last one of the old window leaves that much later, and its ACK, which shows the last loss, comes a round trip
//! after that: the event lasts (2 − β) round trips.

use anole_model::{Dur, Time};

/// The round-trip time before the first sample (RFC 9002 §6.2.2, kInitialRtt).
const UNKNOWN_RTT: Dur = Dur::from_millis(333);

/// The congestion event under way, if there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Episode {
    until: Option<Time>,
}

impl Episode {
    /// A decrease is made now that keeps the share `kept` of the window; `rtt` is zero where none was measured.
    pub fn begin(&mut self, now: Time, rtt: Dur, kept: f64) {
        let rtt = if rtt.is_zero() { UNKNOWN_RTT } else { rtt };
        self.until = Some(now + rtt.mul_f64(2.0 - kept));
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
            episode.begin(Time::ZERO, Dur::from_millis(80), kept);
            (0..200).find(|&ms| !episode.covers(Time::from_micros(ms * 1000)))
        };
        assert_eq!([ends_ms(1.0), ends_ms(0.75), ends_ms(0.5)], [80, 100, 120].map(Some));
        assert!(!Episode::default().covers(Time::ZERO));
    }
}
