//! BBR's model of the path: the bandwidth of the bottleneck and the round-trip time without a queue.

use anole_model::{Dur, Rate, Time};
use std::collections::VecDeque;

/// Rounds over which the bandwidth is the largest delivery rate (BBR: 10).
const BANDWIDTH_ROUNDS: usize = 10;
/// Age at which the smallest round-trip time is measured anew (BBR: 10 s).
const MIN_RTT_AGE: Dur = Dur::from_millis(10_000);
/// No round-trip time is longer; a larger figure is no measurement.
const LONGEST_RTT: Dur = Dur::from_millis(60_000);

/// The model.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    /// Delivery rates of the last rounds.
    rates: VecDeque<Rate>,
    min_rtt: Option<Dur>,
    min_rtt_at: Time,
    /// While the round-trip time is measured anew: true, and the smallest sample of that time.
    measuring: (bool, Option<Dur>),
}

impl Model {
    /// The bandwidth of the bottleneck.
    pub fn bandwidth(&self) -> Rate {
        self.rates.iter().fold(Rate::ZERO, |most, &rate| most.max(rate))
    }

    /// The smallest round-trip time, once one was measured.
    pub fn min_rtt(&self) -> Option<Dur> {
        self.min_rtt
    }

    /// The bandwidth-delay product, bytes.
    pub fn bdp(&self) -> u64 {
        self.min_rtt.map_or(0, |rtt| self.bandwidth().bytes_in(rtt) as u64)
    }

    /// Starts with a bandwidth that nothing was measured of.
    pub fn assume(&mut self, now: Time, rate: Rate) {
        self.saw_delivery(rate);
        self.min_rtt_at = now;
    }

    /// Takes the delivery rate of a round; nothing delivered tells nothing.
    pub fn saw_delivery(&mut self, rate: Rate) {
        if rate > Rate::ZERO {
            self.rates.push_back(rate);
        }
        if self.rates.len() > BANDWIDTH_ROUNDS {
            self.rates.pop_front();
        }
    }

    /// Takes the smallest round-trip time of a round.
    pub fn saw_rtt(&mut self, now: Time, rtt: Dur) {
        if rtt.is_zero() || rtt > LONGEST_RTT {
            return;
        }
        if let (true, fresh) = &mut self.measuring {
            *fresh = Some(fresh.map_or(rtt, |known| known.min(rtt)));
        }
        if self.min_rtt.is_none_or(|known| rtt <= known) {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = now;
        }
    }

    /// True when the smallest round-trip time is too old.
    pub fn min_rtt_is_stale(&self, now: Time) -> bool {
        now.since(self.min_rtt_at) > MIN_RTT_AGE
    }

    /// Begins to measure the smallest round-trip time anew.
    pub fn begin_measuring(&mut self) {
        self.measuring = (true, None);
    }

    /// Ends it: the smallest sample since stands for the path, if there was one.
    pub fn end_measuring(&mut self, now: Time) {
        self.min_rtt = self.measuring.1.or(self.min_rtt);
        self.min_rtt_at = now;
        self.measuring = (false, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bandwidth_is_the_largest_rate_of_ten_rounds() {
        let mut model = Model::default();
        model.saw_delivery(Rate::from_mbps(50.0));
        for _ in 0..9 {
            model.saw_delivery(Rate::from_mbps(40.0));
            assert_eq!(model.bandwidth().mbps(), 50.0);
        }
        model.saw_delivery(Rate::from_mbps(30.0));
        assert_eq!(model.bandwidth().mbps(), 40.0);
    }

    #[test]
    fn nothing_measured_is_no_product() {
        let mut model = Model::default();
        model.saw_delivery(Rate::from_mbps(8.0));
        model.saw_rtt(Time::ZERO, Dur::MAX);
        assert_eq!(model.bdp(), 0);
        model.saw_rtt(Time::ZERO, Dur::from_millis(50));
        assert_eq!(model.bdp(), 50_000);
    }

    #[test]
    fn a_round_trip_time_measured_anew_may_be_longer() {
        let at = |s: f64| Time::from_secs_f64(s);
        let mut model = Model::default();
        model.saw_rtt(at(0.0), Dur::from_millis(50));
        assert!(model.min_rtt_is_stale(at(10.1)) && !model.min_rtt_is_stale(at(10.0)));
        model.begin_measuring();
        model.saw_rtt(at(10.2), Dur::from_millis(70));
        model.saw_rtt(at(10.3), Dur::from_millis(60));
        assert_eq!(model.min_rtt(), Some(Dur::from_millis(50)));
        model.end_measuring(at(10.4));
        assert_eq!((model.min_rtt(), model.min_rtt_is_stale(at(20.0))), (Some(Dur::from_millis(60)), false));
        model.begin_measuring();
        model.end_measuring(at(20.0));
        assert_eq!(model.min_rtt(), Some(Dur::from_millis(60)));
    }
}
