//! The competitor detector: a queue that drains do not shorten belongs to others.
//!
//! A flow that keeps its queue short starves beside one that fills the buffer (CUBIC, Reno). Flows of this
//! algorithm all drain, and the queue goes; a queue that [`DRAINS`] drains in a row and `standing_s` seconds
//! have not shortened has another owner. The sign needs no true smallest round-trip time: a flow that starts
//! under CUBIC's queue takes it for the path, but sees it grow.

use super::params::Params;
use anole_model::{Dur, Rate, Time};

/// Drains since the queue was last short, from which on it belongs to others: more than the drains of a new flow of
/// this algorithm's slow start take.
const DRAINS: u32 = 6;
/// A queue has not stood for long before this many of the smallest round-trip times: two cycles.
const STANDING_RTTS: u64 = 10;
/// Whether others keep a queue: the drains made since it was last short.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CompetitorDetector {
    short_at: Time,
    drains: u32,
    /// The rate before the first of them.
    rate: Rate,
}

impl CompetitorDetector {
    /// The queue is short.
    pub fn none(now: Time) -> CompetitorDetector {
        CompetitorDetector { short_at: now, drains: 0, rate: Rate::ZERO }
    }

    /// A drain begins; `rate` was in force before.
    pub fn saw_drain(&mut self, rate: Rate) {
        self.rate = if self.drains == 0 { rate } else { self.rate };
        self.drains = self.drains.saturating_add(1);
    }

    /// True when the queue has not been short for long.
    pub fn stands(&self, now: Time, min_rtt: Dur, params: &Params) -> bool {
        now.since(self.short_at) > Dur::from_secs_f64(params.standing_s).max(min_rtt * STANDING_RTTS)
    }

    /// True when drains have shown that others keep the queue.
    pub fn fires(&self, now: Time, min_rtt: Dur, params: &Params) -> bool {
        self.drains >= DRAINS && self.stands(now, min_rtt, params)
    }

    /// The rate before the first of the drains.
    pub fn rate(&self) -> Rate {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Dur = Dur::from_millis(50);

    fn at(s: f64) -> Time {
        Time::ZERO + Dur::from_secs_f64(s)
    }

    #[test]
    fn a_queue_stands_after_three_seconds_or_ten_round_trips_and_no_longer_once_short() {
        let params = Params::default();
        let detector = CompetitorDetector::none(at(1.0));
        assert!(!detector.stands(at(3.9), RTT, &params) && detector.stands(at(4.1), RTT, &params));
        assert!(!detector.stands(at(5.9), RTT * 10, &params) && detector.stands(at(6.1), RTT * 10, &params));
        assert!(!CompetitorDetector::none(at(6.0)).stands(at(6.1), RTT * 10, &params));
    }

    #[test]
    fn the_rate_before_the_first_drain_is_kept() {
        let mut detector = CompetitorDetector::none(Time::ZERO);
        for mbps in [30.0, 27.0, 24.0] {
            detector.saw_drain(Rate::from_mbps(mbps));
        }
        assert_eq!((detector.drains, detector.rate), (3, Rate::from_mbps(30.0)));
    }
}
