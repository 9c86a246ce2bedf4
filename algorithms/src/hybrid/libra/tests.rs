//! The cycle, report by report: 50 ms, a policy that wants twice the rate, or half.

use super::*;
use anole_programs::{RATE, Register};

const FLOW: FlowInfo = FlowInfo { mss: 1000, init_cwnd: 10_000 };
const RTT_US: u64 = 50_000;

/// What the datapath was told last.
struct Bench {
    libra: Libra,
    now: Time,
    /// The round-trip time of the next reports, us.
    rtt_us: u64,
    out: Commands,
}

impl Bench {
    /// A flow that begins.
    fn starting(policy: &str, classic: Option<&str>) -> Bench {
        let rule = classic.map(|name| RuleSlot::build(name, FLOW, 1).unwrap());
        let learned = LearnedSlot::build(policy, &crate::learned::Shipped, 1).unwrap();
        let libra = Libra::new(FLOW, LibraParams::default().over(None), rule, learned);
        let mut bench = Bench { libra, now: Time::ZERO, rtt_us: RTT_US, out: Commands::default() };
        bench.libra.start(bench.now, &mut bench.out);
        bench
    }

    /// A flow that has left slow start, on its first exploration.
    fn new(policy: &str, classic: Option<&str>) -> Bench {
        let mut bench = Bench::starting(policy, classic);
        for lost in [0, 0, 0, 0, 1] {
            if bench.libra.stage == Stage::Startup {
                bench.report(3, 25_000, lost, RTT_US / 4);
            }
        }
        assert!(matches!(bench.libra.stage, Stage::Exploration(_)));
        bench
    }

    /// So many bytes acknowledged and packets lost in a window of this length.
    fn report(&mut self, window: u64, acked: u64, lost: u64, elapsed_us: u64) {
        self.report_of(self.libra.cycle, window, acked, lost, elapsed_us);
    }

    fn report_of(&mut self, cycle: u32, window: u64, acked: u64, lost: u64, elapsed_us: u64) {
        let mut values = [0; 16];
        let n = acked / 1000;
        let (t, y, rtt) = (n * 100, self.rtt_us / 16, self.rtt_us);
        for (name, value) in [
            ("window", 4 * u64::from(cycle) + window),
            ("acked", acked),
            ("lost", lost),
            ("elapsed_us", elapsed_us),
            ("rtt_us", rtt),
            ("min_rtt_us", if acked > 0 { rtt } else { u64::MAX }),
            ("late_us", if acked > 0 { rtt } else { u64::MAX }),
            ("n", n),
            ("sum_t", t),
            ("sum_rtt", n * y),
            ("sum_tt", 2 * t * 100),
            ("sum_trtt", t * y),
            ("sum_rttrtt", n * y * y),
            ("rate_in", acked * 1_000_000 / elapsed_us),
        ] {
            values[libra_cycle::PROGRAM.report(name).unwrap()] = value;
        }
        self.now += Dur::from_micros(elapsed_us);
        self.out.clear();
        let report = Report { program: &libra_cycle::PROGRAM, values: &values };
        self.libra.on_report(self.now, &report, &mut self.out);
    }

    /// Explores until the trial begins.
    fn explore(&mut self) {
        for _ in 0..16 {
            if matches!(self.libra.stage, Stage::Trial(_)) {
                return;
            }
            self.report(3, 25_000, 0, RTT_US / 4);
        }
        panic!("no trial");
    }

    /// Reports the three windows of a trial: what was sent arrives, but for so many packets.
    fn trial(&mut self, lost: [u64; 3]) {
        let sent = |register| (f64::from(self.told(register)) * 0.025) as u64;
        let windows = [100_000, sent(control::LOW), sent(control::HIGH)];
        for (window, (acked, lost)) in windows.into_iter().zip(lost).enumerate() {
            self.report(window as u64, acked.saturating_sub(1000 * lost), lost, RTT_US / 2);
        }
    }

    fn told(&self, register: Register) -> u32 {
        self.out.fields().iter().find(|(known, _)| *known == register).map_or(0, |(_, value)| *value)
    }
}

#[test]
fn the_lower_rate_is_tried_first_and_the_base_is_held_behind_both() {
    for policy in ["fault:low", "fault:high"] {
        let mut bench = Bench::new(policy, Some("cubic"));
        bench.explore();
        let [low, high, hold] = [control::LOW, control::HIGH, control::HOLD].map(|r| bench.told(r));
        assert!(low < high, "{policy}: {low} {high}");
        assert_eq!(hold, bench.libra.base.bytes_per_s().round() as u32, "{policy}");
        assert_eq!(bench.told(RATE), 0);
    }
}

#[test]
fn over_bbr_the_first_base_is_its_bandwidth_and_not_what_drains_the_queue_of_start_up() {
    let mut bench = Bench::starting("none", Some("bbr"));
    for _ in 0..40 {
        if bench.libra.stage == Stage::Startup {
            bench.report(3, 25_000, 0, RTT_US / 4);
        }
    }
    assert!(matches!(bench.libra.stage, Stage::Exploration(_)));
    assert_eq!(bench.libra.base, Rate::from_bytes_per_s(2e6 * 0.99));
}

#[test]
fn candidates_that_are_far_apart_end_the_exploration() {
    let mut bench = Bench::new("fault:high", Some("cubic"));
    let began = bench.now;
    bench.explore();
    assert!(bench.now.since(began) < Dur::from_micros(RTT_US), "{:?}", bench.now.since(began));
    let mut bench = Bench::new("none", Some("cubic"));
    let began = bench.now;
    bench.explore();
    assert_eq!(bench.now.since(began), Dur::from_micros(RTT_US));
}

#[test]
fn the_base_is_evaluated_however_long_the_exploration_was() {
    let mut bench = Bench::new("none", Some("cubic"));
    bench.libra.params.explore_rtts = 3.0;
    bench.explore();
    assert_eq!(bench.told(control::BEFORE_US), 150_000);
    assert_eq!(bench.told(control::SINCE_US), 150_000, "a report tells how long it is itself");
    // What came in the round trip behind the exploration, at the base rate.
    let acked = f64::from(bench.told(control::HOLD)) * 0.05;
    bench.report(0, acked as u64, 0, RTT_US);
    assert!(matches!(bench.libra.stage, Stage::Trial(trial) if trial.is_base_known()));
}

#[test]
fn the_best_of_three_is_the_next_base() {
    let base_after = |lost| {
        let mut bench = Bench::new("fault:high", Some("cubic"));
        bench.explore();
        let rates =
            [control::HOLD, control::LOW, control::HIGH].map(|register| f64::from(bench.told(register)));
        bench.trial(lost);
        assert!(matches!(bench.libra.stage, Stage::Exploration(_)));
        let base = bench.libra.base.bytes_per_s();
        rates.iter().position(|rate| (rate - base).abs() < 0.02 * base)
    };
    assert_eq!(base_after([0, 0, 0]), Some(2));
    assert_eq!(base_after([0, 10, 10]), Some(0));
    assert_eq!(base_after([0, 20, 60]), None, "what got through of a flood");
}

/// A loss counts again when it is of packets that were sent after the cut.
#[test]
fn the_classic_law_is_cut_once_for_a_queue_that_its_rate_did_not_cause() {
    let mut bench = Bench::new("none", Some("cubic"));
    let cwnd = |bench: &Bench| bench.libra.rule.as_ref().unwrap().cwnd();
    bench.explore();
    bench.trial([0, 0, 0]);
    let first = cwnd(&bench);
    bench.report(3, 25_000, 1, RTT_US / 4);
    let cut = cwnd(&bench);
    assert!(cut < first, "{cut} of {first}");
    bench.explore();
    for window in 0..2 {
        bench.report(window, 100_000, 5, RTT_US / 2);
        assert!(cwnd(&bench) >= cut, "window {window}: {} of {cut}", cwnd(&bench));
    }
    bench.report(2, 100_000, 5, RTT_US / 2);
    bench.explore();
    let before = cwnd(&bench);
    bench.report(0, 100_000, 5, RTT_US / 2);
    assert!((cwnd(&bench) as f64) < 0.8 * before as f64, "{} of {before}", cwnd(&bench));
}

#[test]
fn the_classic_law_goes_on_with_half_the_queue() {
    let mut bench = Bench::new("none", Some("cubic"));
    bench.rtt_us = 2 * RTT_US;
    for _ in 0..3 {
        bench.report(3, 50_000, 0, RTT_US / 4);
    }
    assert_eq!(bench.libra.srtt().as_micros() / 1000, 2 * RTT_US / 1000);
    bench.libra.base = Rate::from_bytes_per_s(8e6);
    bench.libra.explore(bench.now, &mut bench.out);
    let cwnd = bench.libra.rule.as_ref().unwrap().cwnd() as f64;
    let half = 8e6 * 1.5 * RTT_US as f64 * 1e-6;
    assert!((cwnd / half - 1.0).abs() < 0.01, "{cwnd} of {half}");
}

#[test]
fn without_the_acks_of_a_candidate_the_base_stays() {
    let mut bench = Bench::new("fault:high", Some("cubic"));
    bench.explore();
    let base = bench.libra.base;
    for window in 0..3 {
        bench.report(window, if window == 1 { 0 } else { 100_000 }, 0, RTT_US / 2);
    }
    assert_eq!(bench.libra.base, base);
}

#[test]
fn a_clean_slate_flow_holds_its_policy_against_its_base() {
    let mut bench = Bench::new("fault:high", None);
    bench.explore();
    assert_eq!(bench.told(control::LOW), bench.told(control::HOLD));
    assert!(bench.told(control::HIGH) > bench.told(control::LOW));
}

#[test]
fn a_change_of_programs_that_was_lost_is_made_again() {
    let mut bench = Bench::new("none", Some("cubic"));
    let before = bench.libra.cycle;
    bench.explore();
    for _ in 1..LOST_AFTER_REPORTS {
        bench.report_of(before, 3, 25_000, 0, RTT_US / 4);
        assert!(bench.out.is_empty());
    }
    bench.report_of(before, 3, 25_000, 0, RTT_US / 4);
    assert_eq!(bench.out.program().map(|program| program.name), Some("libra-cycle"));
    assert!(matches!(bench.libra.stage, Stage::Exploration(_)));
}

#[test]
fn a_preference_changes_what_counts() {
    let mut bench = Bench::new("none", Some("cubic"));
    let before = bench.libra.weights;
    assert!(bench.libra.prefer(Preference::La2));
    assert_eq!(bench.libra.weights, Weights { beta: 3.0 * before.beta, ..before });
    assert!(bench.libra.prefer(Preference::Default));
    assert_eq!(bench.libra.weights, before);
}
