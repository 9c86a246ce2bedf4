//! HyStart++ (RFC 9406): leaving slow start before the queue overflows.
//!
//! A round is one round trip. When the smallest RTT of a round exceeds that of the round before by a
//! threshold, slow start becomes conservative (it grows a quarter as fast); five conservative rounds
//! later it ends, unless the RTT fell again in between, which takes it back to full growth.
//!
//! ```text
//!  Standard ── RTT rose ──▶ Conservative ── 5 rounds ──▶ (congestion avoidance)
//!      ▲                         │
//!      └──────── RTT fell ───────┘
//! ```
//!
//! Deviations: rounds are told apart by time (one RTT after the round's start) and not by sequence
//! numbers, which feedback does not carry; and growth per ACK is not limited to L = 8 packets, since
//! ACKs arrive here in batches and a transport paces.

use anole_model::{Dur, Time};

/// RFC 9406 §4.3: MIN_RTT_THRESH, below which a rise of the RTT is noise.
const MIN_RTT_THRESHOLD: Dur = Dur::from_millis(4);
/// RFC 9406 §4.3: MAX_RTT_THRESH, from which on a rise always counts.
const MAX_RTT_THRESHOLD: Dur = Dur::from_millis(16);
/// RFC 9406 §4.3: MIN_RTT_DIVISOR, the fraction of the RTT that the threshold is.
const RTT_THRESHOLD_DIVISOR: u64 = 8;
/// RFC 9406 §4.3: N_RTT_SAMPLE, samples that a round needs before its minimum counts.
const ROUND_SAMPLES: u64 = 8;
/// RFC 9406 §4.3: CSS_GROWTH_DIVISOR.
const CONSERVATIVE_GROWTH_DIVISOR: f64 = 4.0;
/// RFC 9406 §4.3: CSS_ROUNDS.
const CONSERVATIVE_ROUNDS: u32 = 5;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Phase {
    #[default]
    Standard,
    /// The RTT when it began, and the rounds that it has lasted.
    Conservative { baseline: Dur, rounds: u32 },
}

/// The state of one slow start.
#[derive(Clone, Debug, Default)]
pub struct HyStart {
    phase: Phase,
    round_end: Option<Time>,
    last_round_min: Option<Dur>,
    round_min: Option<Dur>,
    samples: u64,
}

impl HyStart {
    /// A slow start that has seen no round trip.
    pub fn new() -> HyStart {
        HyStart::default()
    }

    /// Takes the smallest of `samples` RTT samples. `None`: slow start is over; otherwise the factor on its growth.
    pub fn on_rtt(&mut self, now: Time, rtt: Dur, samples: u64) -> Option<f64> {
        if self.round_end.is_none_or(|end| now >= end) {
            self.start_round(now, rtt)?;
        }
        self.round_min = Some(self.round_min.map_or(rtt, |min| min.min(rtt)));
        self.samples = self.samples.saturating_add(samples);
        if self.samples >= ROUND_SAMPLES {
            self.judge();
        }
        Some(match self.phase {
            Phase::Standard => 1.0,
            Phase::Conservative { .. } => 1.0 / CONSERVATIVE_GROWTH_DIVISOR,
        })
    }

    fn start_round(&mut self, now: Time, rtt: Dur) -> Option<()> {
        if let (Phase::Conservative { rounds, .. }, Some(_)) = (&mut self.phase, self.round_end) {
            *rounds += 1;
            if *rounds >= CONSERVATIVE_ROUNDS {
                return None;
            }
        }
        self.last_round_min = self.round_min.take();
        self.round_end = Some(now + rtt);
        self.samples = 0;
        Some(())
    }

    fn judge(&mut self) {
        let Some(min) = self.round_min else { return };
        match self.phase {
            Phase::Standard => {
                let Some(last) = self.last_round_min else { return };
                let threshold = (last / RTT_THRESHOLD_DIVISOR).clamp(MIN_RTT_THRESHOLD, MAX_RTT_THRESHOLD);
                if min >= last + threshold {
                    self.phase = Phase::Conservative { baseline: min, rounds: 0 };
                }
            }
            Phase::Conservative { baseline, .. } if min < baseline => self.phase = Phase::Standard,
            Phase::Conservative { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `rounds` rounds of ten samples each and returns the last answer.
    fn feed(hystart: &mut HyStart, now: &mut Time, rtt: Dur, rounds: u32) -> Option<f64> {
        let mut growth = Some(1.0);
        for _ in 0..rounds * 10 {
            growth = hystart.on_rtt(*now, rtt, 1);
            *now += rtt / 10;
        }
        growth
    }

    #[test]
    fn a_rising_rtt_ends_slow_start_after_five_conservative_rounds() {
        let (mut hystart, mut now) = (HyStart::new(), Time::ZERO);
        assert_eq!(feed(&mut hystart, &mut now, Dur::from_millis(50), 10), Some(1.0));
        assert_eq!(feed(&mut hystart, &mut now, Dur::from_millis(60), 3), Some(0.25));
        assert_eq!(feed(&mut hystart, &mut now, Dur::from_millis(60), 5), None);
    }

    #[test]
    fn a_falling_rtt_takes_it_back() {
        let (mut hystart, mut now) = (HyStart::new(), Time::ZERO);
        feed(&mut hystart, &mut now, Dur::from_millis(50), 3);
        assert_eq!(feed(&mut hystart, &mut now, Dur::from_millis(60), 3), Some(0.25));
        assert_eq!(feed(&mut hystart, &mut now, Dur::from_millis(50), 2), Some(1.0));
    }

    #[test]
    fn a_rise_below_the_threshold_is_noise() {
        let (mut hystart, mut now) = (HyStart::new(), Time::ZERO);
        feed(&mut hystart, &mut now, Dur::from_millis(20), 3);
        // An eighth of 20 ms is 2.5 ms, so the smallest threshold, 4 ms, applies.
        assert_eq!(feed(&mut hystart, &mut now, Dur::from_micros(23_900), 3), Some(1.0));
    }
}
