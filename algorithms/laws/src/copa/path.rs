//! The round-trip times that Copa goes by: the smallest of late, the smallest and the largest of a longer while (§2.1, §2.2).

use crate::filter::WindowedMax;
use anole_model::{Dur, Time};
use std::cmp::Reverse;

/// The smallest round-trip time counts for this long (§2.1: 10 s), in steps.
const LEAST_STEP: Dur = Dur::from_millis(100);
const LEAST_STEPS: u64 = 100;
/// The largest counts for this many smoothed round-trip times (§2.2).
const LARGEST_RTTS: u64 = 4;
/// The standing one counts for one over this of a smoothed round-trip time (§2.1).
const STANDING_SHARE: u64 = 2;
/// Step of both.
const STEP: Dur = Dur::from_millis(1);
/// Weight of a new sample in the smoothed round-trip time (RFC 6298).
const SMOOTHING: f64 = 0.125;
/// The queue is nearly empty below this share of the range of round-trip times (§2.2 has 0.1: see the deviations).
const NEARLY_EMPTY: f64 = 0.2;
/// No round-trip time is longer.
const LONGEST_RTT: Dur = Dur::from_millis(60_000);

#[derive(Clone, Debug)]
pub(super) struct Path {
    srtt: Dur,
    least: WindowedMax<Reverse<Dur>>,
    standing: WindowedMax<Reverse<Dur>>,
    largest: WindowedMax<Dur>,
}

impl Path {
    /// Nothing is known.
    pub fn new() -> Path {
        Path {
            srtt: Dur::ZERO,
            least: WindowedMax::new(LEAST_STEPS),
            standing: WindowedMax::new(1),
            largest: WindowedMax::new(1),
        }
    }

    /// Takes the smallest and the latest round-trip time of what feedback covers.
    pub fn saw(&mut self, now: Time, least: Dur, latest: Dur) {
        let sane = |rtt: Dur| !rtt.is_zero() && rtt <= LONGEST_RTT;
        if !sane(least) || !sane(latest) {
            return;
        }
        self.srtt = match self.srtt.is_zero() {
            true => latest,
            false => self.srtt.mul_f64(1.0 - SMOOTHING) + latest.mul_f64(SMOOTHING),
        };
        let since = |step: Dur| now.as_nanos() / step.as_nanos();
        let steps = |span: Dur| (span.as_nanos() / STEP.as_nanos()).max(1);
        self.least.push(since(LEAST_STEP), Reverse(least));
        self.standing.set_span(steps(self.srtt / STANDING_SHARE));
        self.standing.push(since(STEP), Reverse(least));
        self.largest.set_span(steps(self.srtt * LARGEST_RTTS));
        self.largest.push(since(STEP), latest.max(least));
    }

    /// A round-trip time was seen.
    pub fn is_known(&self) -> bool {
        !self.srtt.is_zero()
    }

    pub fn srtt(&self) -> Dur {
        self.srtt
    }

    pub fn least(&self) -> Dur {
        self.least.max().map_or(Dur::ZERO, |least| least.0)
    }

    pub fn standing(&self) -> Dur {
        self.standing.max().map_or(Dur::ZERO, |standing| standing.0)
    }

    /// How long the standing queue is.
    pub fn queue(&self) -> Dur {
        self.standing() - self.least()
    }

    /// The queue is as good as empty (§2.2).
    pub fn is_nearly_empty(&self) -> bool {
        let range = self.largest.max().map_or(Dur::ZERO, |largest| largest - self.least());
        self.queue().as_secs_f64() <= NEARLY_EMPTY * range.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standing_time_is_of_half_a_round_trip_and_the_least_of_ten_seconds() {
        let mut path = Path::new();
        let mut at = |ms: u64, rtt_ms: u64| {
            path.saw(Time::from_micros(ms * 1000), Dur::from_millis(rtt_ms), Dur::from_millis(rtt_ms));
            (path.standing().as_micros() / 1000, path.least().as_micros() / 1000, path.is_nearly_empty())
        };
        assert_eq!(at(0, 40), (40, 40, true));
        assert_eq!(at(10, 80), (40, 40, true));
        // srtt is 49.4 ms by then: 24 ms count.
        assert_eq!(at(30, 80), (80, 40, false));
        assert_eq!(at(140, 43), (43, 40, true));
        assert_eq!(at(9_900, 60), (60, 40, false));
        assert_eq!(at(10_001, 60), (60, 43, false));
    }
}
