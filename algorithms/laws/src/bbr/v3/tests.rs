//! The stages, by hand-made feedback of a path of 2 MB/s and 50 ms.

use super::*;

const FLOW: FlowStart = FlowStart { mss: 1000, init_cwnd: 10_000, seed: 1 };

struct Bench {
    law: Bbr3,
    now: Time,
}

impl Bench {
    fn new() -> Bench {
        Bench { law: Bbr3::new(FLOW), now: Time::ZERO }
    }

    /// A round of 50 ms.
    fn round(&mut self, rate: u64, lost: u64, in_flight: u64) {
        self.now += Dur::from_millis(50);
        let rtt = Some(Dur::from_millis(50));
        let seen = Feedback {
            acked: rate / 20,
            lost,
            rtt,
            min_rtt: rtt,
            samples: 1,
            delivery_rate: Some(Rate::from_bytes_per_s(rate as f64)),
            in_flight: Some(in_flight),
            elapsed: Dur::from_millis(50),
            ..Feedback::default()
        };
        self.law.on_feedback(self.now, &seen);
    }

    fn cruising() -> Bench {
        let mut bench = Bench::new();
        for rate in [500_000, 1_000_000, 2_000_000, 2_000_000, 2_000_000, 2_000_000] {
            bench.round(rate, 0, 150_000);
        }
        assert!(matches!(bench.law.stage, Stage::Drain { .. }));
        bench.round(2_000_000, 0, 100_000);
        bench.round(2_000_000, 0, 100_000);
        bench.expect(Phase::Cruise);
        bench
    }

    fn expect(&self, phase: Phase) {
        assert!(
            matches!(self.law.stage, Stage::ProbeBw(cycle) if cycle.phase() == phase),
            "{:?}",
            self.law.stage
        );
    }

    fn until(&mut self, phase: Phase, lost: u64) {
        for _ in 0..70 {
            if matches!(self.law.stage, Stage::ProbeBw(cycle) if cycle.phase() == phase) {
                return;
            }
            self.round(2_000_000, lost, 100_000);
        }
        self.expect(phase);
    }
}

#[test]
fn start_up_paces_at_its_gain_and_ends_on_a_plateau() {
    let mut bench = Bench::new();
    bench.round(500_000, 0, 25_000);
    let rate = bench.law.control().rate.unwrap().bytes_per_s();
    assert!((rate / (0.99 * 2.77 * 500_000.0) - 1.0).abs() < 1e-9, "{rate}");
    let bench = Bench::cruising();
    assert_eq!((bench.law.control().cwnd, bench.law.gain()), (200_000, 1.0));
}

#[test]
fn a_random_loss_while_cruising_keeps_what_the_round_brought() {
    let mut bench = Bench::cruising();
    bench.round(2_000_000, 1, 100_000);
    assert_eq!(bench.law.bounds.shortterm, Some((Rate::from_bytes_per_s(2e6), 140_000)));
    assert!(bench.law.control().cwnd <= 140_000);
    bench.until(Phase::Refill, 0);
    assert_eq!(bench.law.bounds.shortterm, None);
}

#[test]
fn what_is_lost_in_a_recovery_leaves_the_window() {
    let mut bench = Bench::cruising();
    bench.round(2_000_000, 1, 100_000);
    let before = bench.law.control().cwnd;
    let seen = Feedback { acked: 1000, lost: 5, in_flight: Some(50_000), ..Feedback::default() };
    bench.law.on_feedback(bench.now, &seen);
    assert_eq!(bench.law.control().cwnd, before - 5000);
}

#[test]
fn a_probe_that_loses_more_than_two_percent_lowers_the_ceiling_and_ends() {
    let mut bench = Bench::cruising();
    bench.until(Phase::Up, 0);
    assert_eq!(bench.law.gain(), 1.25);
    bench.round(2_000_000, 5, 120_000);
    bench.expect(Phase::Down);
    assert_eq!(bench.law.bounds.longterm, Some(125_000));
    bench.until(Phase::Cruise, 0);
    // Headroom of 15 %.
    assert_eq!(bench.law.target_cwnd(), 106_250);
}

#[test]
fn a_bandwidth_is_forgotten_after_two_cycles_be_their_probes_lossy_and_their_queues_drained_at_once() {
    for lossy in [0, 5] {
        let mut bench = Bench::cruising();
        for _ in 0..200 {
            let up = matches!(bench.law.stage, Stage::ProbeBw(cycle) if cycle.phase() == Phase::Up);
            bench.round(1_000_000, if up { lossy } else { 0 }, 50_000);
        }
        assert_eq!(bench.law.model.bandwidth().bytes_per_s(), 1e6, "{lossy} lost");
    }
}

#[test]
fn a_probe_within_two_percent_goes_on() {
    let mut bench = Bench::cruising();
    bench.until(Phase::Up, 0);
    bench.round(2_000_000, 2, 110_000);
    bench.expect(Phase::Up);
    assert_eq!(bench.law.bounds.longterm, None);
}

#[test]
fn the_round_trip_time_is_probed_with_half_a_product_after_five_seconds() {
    let mut bench = Bench::cruising();
    let rtt = Some(Dur::from_millis(60));
    for _ in 0..120 {
        bench.now += Dur::from_millis(50);
        let seen = Feedback {
            acked: 100_000,
            rtt,
            min_rtt: rtt,
            delivery_rate: Some(Rate::from_bytes_per_s(2e6)),
            in_flight: Some(100_000),
            ..Feedback::default()
        };
        bench.law.on_feedback(bench.now, &seen);
        if let Stage::ProbeRtt { .. } = bench.law.stage {
            assert!((5.0..6.0).contains(&bench.now.as_secs_f64()), "{:?}", bench.now);
            assert_eq!(bench.law.control().cwnd, 50_000);
            return;
        }
    }
    panic!("{:?}", bench.law.stage);
}

#[test]
fn a_round_of_start_up_that_loses_six_packets_and_two_percent_ends_it() {
    let mut bench = Bench::new();
    bench.round(500_000, 0, 25_000);
    bench.round(1_000_000, 5, 50_000);
    assert!(bench.law.in_slow_start());
    bench.round(2_000_000, 6, 150_000);
    assert!(matches!(bench.law.stage, Stage::Drain { .. }));
    assert_eq!(bench.law.bounds.longterm, Some(100_000));
}

#[test]
fn a_queue_that_does_not_drain_is_left_after_three_rounds() {
    let mut bench = Bench::cruising();
    bench.law.stage = Stage::Drain { rounds: 0 };
    for _ in 0..4 {
        assert!(matches!(bench.law.stage, Stage::Drain { .. }));
        bench.round(2_000_000, 0, 150_000);
    }
    bench.expect(Phase::Down);
}

/// A flow at the bound that a failed probe has set, as it begins the next one.
fn held() -> Bench {
    let mut bench = Bench::cruising();
    bench.until(Phase::Up, 0);
    bench.round(2_000_000, 5, 120_000);
    bench.until(Phase::Up, 0);
    bench.law.window.set(125_000);
    bench
}

#[test]
fn the_probe_after_one_that_failed_ends_at_the_bound_and_the_next_follows_at_once() {
    let mut bench = held();
    bench.round(2_000_000, 0, 125_000);
    bench.expect(Phase::Down);
    bench.round(2_000_000, 0, 100_000);
    bench.expect(Phase::Refill);
}

#[test]
fn a_probe_that_the_bound_holds_goes_on_and_raises_it_by_more_each_round() {
    let mut bench = held();
    bench.round(2_000_000, 0, 125_000);
    bench.until(Phase::Up, 0);
    // Rounds that do not reach it leave it as it is, and do not count.
    for _ in 0..2 {
        bench.round(2_000_000, 0, 20_000);
        bench.expect(Phase::Up);
        assert_eq!(bench.law.bounds.longterm, Some(125_000));
    }
    let raised: Vec<u64> = (0..6)
        .map(|_| {
            let bound = bench.law.bounds.longterm.unwrap();
            // An ACK has just made room.
            bench.round(2_000_000, 0, bound - 10_000);
            bench.expect(Phase::Up);
            bench.law.bounds.longterm.unwrap() - bound
        })
        .collect();
    assert_eq!(raised, [1000, 2000, 4000, 8000, 16_000, 32_000]);
}

#[test]
fn after_idle_the_first_round_trip_time_counts_and_none_is_probed_for() {
    let mut bench = Bench::cruising();
    bench.now += Dur::from_millis(12_000);
    let rtt = Some(Dur::from_millis(60));
    let seen = Feedback { acked: 1000, rtt, min_rtt: rtt, in_flight: Some(9000), ..Feedback::default() };
    bench.law.on_feedback(bench.now, &Feedback { elapsed: Dur::from_millis(12_000), ..seen });
    assert!(matches!(bench.law.stage, Stage::ProbeBw(_)), "{:?}", bench.law.stage);
}

#[test]
fn a_timeout_takes_the_window_until_something_is_acknowledged() {
    let mut bench = Bench::cruising();
    bench.law.on_feedback(bench.now, &Feedback { timeout: true, lost: 100, ..Feedback::default() });
    assert_eq!(bench.law.control().cwnd, 1000);
    bench.round(20_000, 0, 1000);
    assert_eq!(bench.law.control().cwnd, 70_000);
}

#[test]
fn a_probe_may_be_said_to_have_lost_more_than_can_be_counted() {
    let mut bench = Bench::cruising();
    bench.until(Phase::Up, 0);
    bench.round(2_000_000, u64::MAX, 100_000);
    assert!(bench.law.bounds.longterm.is_some());
}
