//! Data units: what 20 ACKs showed, and what that is worth.
//!
//! Antelope, Table I and equations 1 and 2. With η = 1 and units of Kbps, milliseconds and packets
//!
//! ```text
//! reward = ((throughput − η·lost) / delay') / (pacing_max / delay_min)
//! delay' = delay_min while delay ≤ δ·delay_min, else delay;  δ = 2, 4, 8, … from one data unit to the next
//! ```
//!
//! Deviations: delay is the mean round-trip time of the unit; pacing rates count without gains, so that neither looking for
//! capacity nor the headroom of a law that leaves pacing to the transport costs reward for good; a unit lasts a millisecond
//! at least, so that a fast flow reports no more often than a thousand times a second.

use anole_laws::Feedback;
use anole_model::{Dur, Rate};
use serde::Serialize;

/// ACKs of a data unit (Antelope §IV-A).
pub(super) const ACKS: u64 = 20;
/// A shorter unit becomes one of more ACKs.
const SHORTEST: Dur = Dur::from_millis(1);
/// No unit has more ACKs.
const MOST_ACKS: u64 = 10_000;
/// η, Kbps per lost packet.
const ETA: f64 = 1.0;
/// δ of the first data unit, and the largest.
const DELTA: (f64, f64) = (2.0, 1e9);

/// Statistics of a data unit, in the order in which models take them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct DataUnit {
    /// Mean round-trip time, ms.
    pub rtt_ms: f64,
    /// ACKs.
    pub acks: f64,
    /// Packets found lost.
    pub lost: f64,
    /// Its length, ms.
    pub time_ms: f64,
    /// The largest pacing rate of the flow so far, Kbps.
    pub pacing_max_kbps: f64,
    /// What was acknowledged over its length, Kbps.
    pub throughput_kbps: f64,
    /// The smallest round-trip time of the flow so far, ms.
    pub delay_min_ms: f64,
}

impl DataUnit {
    /// Values of a row.
    pub const WIDTH: usize = 7;

    /// What a model takes.
    pub fn row(&self) -> [f32; DataUnit::WIDTH] {
        let DataUnit { rtt_ms, acks, lost, time_ms, pacing_max_kbps, throughput_kbps, delay_min_ms } = *self;
        [rtt_ms, acks, lost, time_ms, pacing_max_kbps, throughput_kbps, delay_min_ms]
            .map(|value| value as f32)
    }

    /// The mean of its parts of 20 ACKs, and a millisecond at least: what models know.
    fn shortened(self) -> DataUnit {
        let share = (ACKS as f64 / self.acks).max(1e3 * SHORTEST.as_secs_f64() / self.time_ms);
        let share = if share < 1.0 { share } else { 1.0 };
        let DataUnit { acks, lost, time_ms, .. } = self;
        DataUnit { acks: share * acks, lost: share * lost, time_ms: share * time_ms, ..self }
    }

    /// Equation 1.
    fn reward(&self, delta: f64) -> f64 {
        let delay = if self.rtt_ms <= delta * self.delay_min_ms { self.delay_min_ms } else { self.rtt_ms };
        let earned = (self.throughput_kbps - ETA * self.lost) / delay;
        let best = self.pacing_max_kbps / self.delay_min_ms;
        let reward = earned / best;
        if reward.is_finite() { reward } else { 0.0 }
    }
}

/// Makes data units of reports.
#[derive(Clone, Debug)]
pub(super) struct Units {
    acks: u64,
    lost: u64,
    acked: u64,
    elapsed: Dur,
    /// Sum of the round-trip times, s.
    rtts_s: f64,
    pacing_max: Rate,
    delay_min: Option<Dur>,
    delta: f64,
    /// ACKs that make the next unit.
    wanted: u64,
    /// Who reports sums up whole round trips.
    of_round_trips: bool,
}

impl Units {
    pub fn new() -> Units {
        Units {
            acks: 0,
            lost: 0,
            acked: 0,
            elapsed: Dur::ZERO,
            rtts_s: 0.0,
            pacing_max: Rate::ZERO,
            delay_min: None,
            delta: DELTA.0,
            wanted: ACKS,
            of_round_trips: false,
        }
    }

    /// Of reports that come once in some round trips, however many ACKs those have.
    pub fn of_round_trips() -> Units {
        Units { of_round_trips: true, ..Units::new() }
    }

    /// ACKs that complete the unit that is open; never 0.
    pub fn missing(&self) -> u64 {
        self.wanted.saturating_sub(self.acks).max(1)
    }

    /// Takes a report of a flow that paces at `pacing`; gives the unit that it completes, with its reward.
    pub fn add(&mut self, seen: &Feedback, pacing: Rate) -> Option<(DataUnit, f64)> {
        let rtts = seen.rtts();
        self.acks = self.acks.saturating_add(rtts.n);
        self.lost = self.lost.saturating_add(seen.lost);
        self.acked = self.acked.saturating_add(seen.acked);
        self.elapsed += seen.elapsed;
        if let Some(mean) = rtts.mean_rtt() {
            self.rtts_s += mean.as_secs_f64() * rtts.n as f64;
        }
        self.pacing_max = self.pacing_max.max(pacing);
        self.delay_min = self.delay_min.into_iter().chain(seen.min_rtt.filter(|rtt| !rtt.is_zero())).min();
        if self.acks < self.wanted {
            return None;
        }
        let unit = DataUnit {
            rtt_ms: 1e3 * self.rtts_s / self.acks as f64,
            acks: self.acks as f64,
            lost: self.lost as f64,
            time_ms: 1e3 * self.elapsed.as_secs_f64(),
            pacing_max_kbps: 1e3 * self.pacing_max.mbps(),
            throughput_kbps: 1e3 * Rate::from_bytes_in(self.acked, self.elapsed).mbps(),
            delay_min_ms: 1e3 * self.delay_min.unwrap_or(Dur::ZERO).as_secs_f64(),
        };
        let reward = unit.reward(self.delta);
        let share = SHORTEST.as_secs_f64() / self.elapsed.as_secs_f64().max(1e-6);
        let wanted = (self.acks as f64 * share) as u64;
        let next = Units {
            wanted: wanted.clamp(ACKS, MOST_ACKS),
            delta: (2.0 * self.delta).min(DELTA.1),
            ..Units::new()
        };
        let of_round_trips = self.of_round_trips;
        *self = Units { pacing_max: self.pacing_max, delay_min: self.delay_min, of_round_trips, ..next };
        Some((if of_round_trips { unit.shortened() } else { unit }, reward))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anole_laws::regression::Sums;

    /// `n` ACKs of 1000 bytes with a round trip of `rtt_ms`, over `ms`.
    fn acks(n: u64, rtt_ms: u64, ms: u64, lost: u64) -> Feedback {
        let rtt = Dur::from_millis(rtt_ms);
        let one = Sums::one(rtt);
        Feedback {
            acked: 1000 * n,
            lost,
            rtt: Some(rtt),
            min_rtt: Some(rtt),
            samples: n,
            sums: Sums { n, y: one.y * n, ..one },
            elapsed: Dur::from_millis(ms),
            ..Feedback::default()
        }
    }

    #[test]
    fn twenty_acks_make_a_unit_with_the_papers_statistics_and_reward() {
        let (mut units, pacing) = (Units::new(), Rate::from_mbps(32.0));
        assert_eq!(units.add(&acks(15, 10, 15, 0), pacing), None);
        assert_eq!(units.missing(), 5);
        let (unit, reward) = units.add(&acks(5, 18, 5, 100), Rate::from_mbps(8.0)).unwrap();
        // 20 kB in 20 ms.
        let expected = [12.0, 20.0, 100.0, 20.0, 32_000.0, 8_000.0, 10.0];
        for (value, expected) in unit.row().into_iter().zip(expected) {
            assert!((value - expected).abs() < 0.01 * expected, "{unit:?}");
        }
        assert!((reward - (8_000.0 - 100.0) / 32_000.0).abs() < 1e-6, "12 ms are within twice 10: {reward}");
    }

    #[test]
    fn what_delay_costs_ends_as_the_flow_grows_long() {
        let (mut units, pacing) = (Units::new(), Rate::from_mbps(8.0));
        let mut reward = |rtt| units.add(&acks(20, rtt, 20, 0), pacing).unwrap().1;
        assert!((reward(10) - 1.0).abs() < 0.01);
        // δ is 4, then 8.
        assert!((reward(50) - 0.2).abs() < 0.01);
        assert!((reward(50) - 1.0).abs() < 0.01);
    }

    #[test]
    fn a_fast_flow_has_longer_units() {
        let mut units = Units::new();
        let brief = Feedback { elapsed: Dur::from_micros(100), ..acks(20, 1, 0, 0) };
        assert!(units.add(&brief, Rate::ZERO).is_some_and(|(_, reward)| reward == 0.0));
        assert_eq!(units.missing(), 200);
    }
}
