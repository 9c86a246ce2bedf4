//! BBR's model of the path: the bandwidth of the bottleneck and the round-trip time without a queue. Version 1 takes the largest
//! delivery rate of ten rounds, version 3 that of two cycles, which the caller counts.

use super::NOMINAL_RTT;
use crate::Control;
use crate::filter::WindowedMax;
use anole_model::{Bounds, Dur, Rate, Time};

/// Rounds over which the bandwidth is the largest delivery rate (BBR: 10).
const BANDWIDTH_ROUNDS: u64 = 10;
/// Age at which the smallest round-trip time is measured anew (BBR: 10 s).
const MIN_RTT_AGE: Dur = Dur::from_millis(10_000);
/// The same in version 3 (draft-ietf-ccwg-bbr §2.14.2, ProbeRTTInterval: 5 s).
const MIN_RTT_AGE_3: Dur = Dur::from_millis(5_000);
/// No round-trip time is longer; a larger figure is no measurement.
const LONGEST_RTT: Dur = Dur::from_millis(60_000);

/// The model.
#[derive(Clone, Debug)]
pub(super) struct Model {
    /// The delivery rates of late rounds.
    rates: WindowedMax<Rate>,
    /// Cycles so far, where rates grow old by them and not by rounds.
    cycles: Option<u64>,
    round: u64,
    /// How much of the present round has passed.
    passed: Dur,
    min_rtt: Option<Dur>,
    min_rtt_at: Time,
    /// In version 3, the smallest round-trip time until the last measurement, and when it was seen last: it counts for as long as in
    /// version 1.
    before: Option<(Dur, Time)>,
    /// While the round-trip time is measured anew: true, and the smallest sample of that time.
    measuring: (bool, Option<Dur>),
}

impl Model {
    /// Nothing is known yet.
    pub fn new() -> Model {
        Model {
            // A rate of so many rounds ago still counts (tcp_bbr.c's minmax).
            rates: WindowedMax::new(BANDWIDTH_ROUNDS + 1),
            cycles: None,
            round: 0,
            passed: Dur::ZERO,
            min_rtt: None,
            before: None,
            min_rtt_at: Time::ZERO,
            measuring: (false, None),
        }
    }

    /// The same, where the bandwidth is the largest rate of so many cycles.
    pub fn over_cycles(cycles: u64) -> Model {
        Model { rates: WindowedMax::new(cycles), cycles: Some(0), ..Model::new() }
    }

    /// A cycle is over.
    pub fn next_cycle(&mut self) {
        self.cycles = self.cycles.map(|cycles| cycles + 1);
    }

    /// What rates grow old by.
    fn age(&self) -> u64 {
        self.cycles.unwrap_or(self.round)
    }

    /// The flow begins; the round-trip time cannot be old yet.
    pub fn start(&mut self, now: Time) {
        self.min_rtt_at = now;
    }

    /// Goes on from what another controller has applied: the bandwidth is its rate. A round-trip time that was being measured
    /// meanwhile, in a flight that need not have been empty, is what was seen.
    pub fn resume(&mut self, now: Time, from: Control) {
        if self.measuring.0 {
            self.end_measuring(now);
        }
        self.min_rtt_at = self.min_rtt_at.max(now);
        let rate = from.rate_over(self.min_rtt().unwrap_or(NOMINAL_RTT));
        self.rates.clear();
        self.rates.push(self.age(), Bounds::DEFAULT.clamp(rate));
    }

    /// The smallest round-trip time stays what it is, as a connection keeps it when its congestion control changes
    /// (tcp_bbr.c, bbr_init): what was measured meanwhile may hold the queue of the law that governed.
    pub fn forget_measuring(&mut self) {
        self.measuring = (false, None);
    }

    /// Rounds so far.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// The bandwidth of the bottleneck; nothing before the first delivery.
    pub fn bandwidth(&self) -> Rate {
        self.rates.max().unwrap_or(Rate::ZERO)
    }

    /// The smallest round-trip time, once one was measured.
    pub fn min_rtt(&self) -> Option<Dur> {
        self.min_rtt.map(|rtt| self.before.map_or(rtt, |(before, _)| before.min(rtt)))
    }

    /// The bandwidth-delay product, bytes.
    pub fn bdp(&self) -> u64 {
        self.min_rtt().map_or(0, |rtt| self.bandwidth().bytes_in(rtt) as u64)
    }

    /// Counts rounds, by the datapath's clock. True when one is over.
    pub fn time_passed(&mut self, span: Dur, rtt: Dur) -> bool {
        self.passed += span;
        let over = self.passed >= rtt;
        if over {
            self.round += 1;
            // What a report goes on after the end of a round belongs to the next one.
            self.passed = Dur::from_micros(self.passed.as_micros() % rtt.as_micros().max(1));
        }
        over
    }

    /// A round begins now, whatever there was of the last one (tcp_bbr.c, where a recovery begins).
    pub fn begin_round(&mut self) {
        self.passed = Dur::ZERO;
    }

    /// Takes the largest delivery rate of a report; nothing delivered tells nothing.
    pub fn saw_delivery(&mut self, rate: Rate) {
        if rate > Rate::ZERO {
            self.rates.push(self.age(), rate);
        }
    }

    /// The same for a time in which the flow did not try to use the bandwidth: it can only be larger, and
    /// larger rates do not grow old meanwhile.
    pub fn saw_limited_delivery(&mut self, rate: Rate) {
        if rate > self.bandwidth() {
            self.rates.push_keeping(self.age(), rate);
        }
    }

    /// Takes the smallest round-trip time of a round.
    pub fn saw_rtt(&mut self, now: Time, rtt: Dur) {
        if rtt.is_zero() || rtt > LONGEST_RTT {
            return;
        }
        self.before = self.before.filter(|(_, seen)| now.since(*seen) <= MIN_RTT_AGE);
        if let (true, fresh) = &mut self.measuring {
            *fresh = Some(fresh.map_or(rtt, |known| known.min(rtt)));
        }
        if self.min_rtt.is_none_or(|known| rtt <= known) {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = now;
        }
    }

    /// The same; after idle a smallest round-trip time that is too old is this one, which is measured in an empty flight.
    pub fn saw_rtt_after(&mut self, now: Time, rtt: Dur, idle: bool) {
        let anew = idle && self.min_rtt_is_stale(now);
        if anew {
            self.begin_measuring();
        }
        self.saw_rtt(now, rtt);
        if anew {
            self.end_measuring(now);
        }
    }

    /// True when the smallest round-trip time is too old.
    pub fn min_rtt_is_stale(&self, now: Time) -> bool {
        let age = if self.cycles.is_some() { MIN_RTT_AGE_3 } else { MIN_RTT_AGE };
        now.since(self.min_rtt_at) > age
    }

    /// Begins to measure the smallest round-trip time anew.
    pub fn begin_measuring(&mut self) {
        self.measuring = (true, None);
    }

    /// Ends it: the smallest sample since stands for the path, if there was one.
    pub fn end_measuring(&mut self, now: Time) {
        if self.cycles.is_some() {
            self.before = self.min_rtt.map(|rtt| (rtt, self.min_rtt_at));
        }
        self.min_rtt = self.measuring.1.or(self.min_rtt);
        self.min_rtt_at = now;
        self.measuring = (false, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deliver(model: &mut Model, mbps: f64) {
        model.time_passed(Dur::from_millis(50), Dur::from_millis(50));
        model.saw_delivery(Rate::from_mbps(mbps));
    }

    #[test]
    fn the_bandwidth_is_the_largest_rate_of_ten_rounds() {
        let mut model = Model::new();
        deliver(&mut model, 50.0);
        for _ in 0..10 {
            deliver(&mut model, 40.0);
            assert_eq!(model.bandwidth().mbps(), 50.0);
        }
        deliver(&mut model, 30.0);
        assert_eq!(model.bandwidth().mbps(), 40.0);
        for _ in 0..9 {
            deliver(&mut model, 20.0);
            assert_eq!(model.bandwidth().mbps(), 40.0);
        }
        deliver(&mut model, 20.0);
        assert_eq!(model.bandwidth().mbps(), 30.0);
    }

    #[test]
    fn version_3_takes_the_smaller_of_two_measurements() {
        let mut model = Model::over_cycles(2);
        let seen: Vec<_> = [50, 70, 60, 80]
            .iter()
            .map(|&ms| {
                model.begin_measuring();
                model.saw_rtt(Time::ZERO, Dur::from_millis(ms));
                model.end_measuring(Time::ZERO);
                model.min_rtt().unwrap().as_micros() / 1000
            })
            .collect();
        assert_eq!(seen, [50, 50, 60, 60]);
        // Samples as short as the last measurement renew that one alone.
        model.saw_rtt(Time::from_micros(10_000_001), Dur::from_millis(80));
        assert_eq!(model.min_rtt(), Some(Dur::from_millis(80)));
    }

    #[test]
    fn parts_of_a_round_add_up() {
        let mut model = Model::new();
        let part = |model: &mut Model, ms| model.time_passed(Dur::from_millis(ms), Dur::from_millis(50));
        assert!(!part(&mut model, 30) && part(&mut model, 20) && !part(&mut model, 30));
        assert_eq!(model.round, 1);
        // Reports that are a little shorter than a round are a round each, but for one in many.
        for _ in 0..50 {
            part(&mut model, 49);
        }
        assert_eq!(model.round, 50);
    }

    #[test]
    fn a_rate_that_was_not_tried_for_counts_only_when_larger() {
        let mut model = Model::new();
        deliver(&mut model, 50.0);
        for _ in 0..20 {
            model.saw_limited_delivery(Rate::from_mbps(10.0));
        }
        assert_eq!(model.bandwidth().mbps(), 50.0);
        model.saw_limited_delivery(Rate::from_mbps(60.0));
        assert_eq!(model.bandwidth().mbps(), 60.0);
    }

    #[test]
    fn nothing_measured_is_no_product() {
        let mut model = Model::new();
        model.saw_delivery(Rate::from_mbps(8.0));
        model.saw_rtt(Time::ZERO, Dur::MAX);
        assert_eq!(model.bdp(), 0);
        model.saw_rtt(Time::ZERO, Dur::from_millis(50));
        assert_eq!(model.bdp(), 50_000);
    }

    #[test]
    fn a_path_that_became_longer_while_another_controller_governed_is_as_long_as_was_seen() {
        let at = |s: f64| Time::from_secs_f64(s);
        let mut model = Model::new();
        model.saw_rtt(at(0.0), Dur::from_millis(20));
        model.begin_measuring();
        model.saw_rtt(at(15.0), Dur::from_millis(150));
        model.resume(at(30.0), Control::window(150_000));
        assert_eq!((model.min_rtt(), model.bdp()), (Some(Dur::from_millis(150)), 150_000));
        assert!(!model.min_rtt_is_stale(at(40.0)));
    }

    #[test]
    fn a_round_trip_time_measured_anew_may_be_longer() {
        let at = |s: f64| Time::from_secs_f64(s);
        let mut model = Model::new();
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
