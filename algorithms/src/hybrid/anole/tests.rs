//! Transitions of the whole algorithm, driven by reports as the datapath would send them.

use super::drain::Reason;
use super::*;
use crate::learned::{Answer, FlowPolicy, Observation, Shipped};
use anole_laws::Law;
use anole_policies::Decision;

const MSS: u32 = 1000;
const RTT: Dur = Dur::from_millis(50);
const RATE_MBPS: f64 = 40.0;

/// A policy that always answers this share of the rate in force.
struct Scale {
    factor: f64,
    asked: bool,
}

impl FlowPolicy for Scale {
    fn observe(&mut self, _seen: &Observation) {}
    fn ask(&mut self, _now: Time, _deadline: Time) {
        self.asked = true;
    }
    fn poll(&mut self, _now: Time, seen: &Observation) -> Option<Answer> {
        let decision = Decision::Rate(self.factor * seen.rate.bytes_per_s());
        std::mem::take(&mut self.asked).then_some(Answer::Decided { decision, fresh: true })
    }
}

/// What a window told, in the terms of a test.
#[derive(Clone, Copy)]
struct Seen {
    phase: u64,
    /// Slope of the round-trip time over the window.
    slope: f64,
    rtt_ms: f64,
    lost: u64,
    timeout: bool,
    acked: u64,
}

fn quiet(phase: u64) -> Seen {
    Seen { phase, slope: 0.0, rtt_ms: 50.0, lost: 0, timeout: false, acked: 500_000 }
}

struct Bench {
    anole: Anole,
    now: Time,
    out: Commands,
}

impl Bench {
    /// Anole at 40 Mbps, in its first probing stage.
    fn probing(learned: LearnedSlot) -> Bench {
        let flow = FlowInfo { mss: MSS, init_cwnd: 10 * MSS };
        let rule = RuleSlot::build("reno", flow, 1).unwrap();
        let mut bench = Bench {
            anole: Anole::new(flow, AnoleParams::default(), rule, learned),
            now: Time::ZERO,
            out: Commands::default(),
        };
        bench.anole.start(bench.now, &mut bench.out);
        bench.ramp_report(1, 500_000);
        assert!(matches!(bench.anole.stage, Stage::Drain(_)));
        bench.window(Seen { acked: 250_000, ..quiet(2) });
        assert!(matches!(bench.anole.stage, Stage::Check(_)));
        bench.window(Seen { acked: 250_000, ..quiet(2) });
        assert!(matches!(bench.anole.stage, Stage::Probing(_)));
        assert!((bench.anole.rate.mbps() - RATE_MBPS).abs() < 1e-9, "{}", bench.anole.rate);
        bench
    }

    /// A round trip of a ramp, and the window after it.
    fn ramp_report(&mut self, ended: u64, cwnd: u64) {
        self.now += RTT;
        self.out.clear();
        let values = [250_000, 0, 0, 50_000, 50_000, 50_000, ended, cwnd];
        let report = Report { program: &ramp_program::PROGRAM, values: &values };
        self.anole.on_report(self.now, &report, &mut self.out);
    }

    /// A report about 100 packets sent over 25 ms.
    fn values(&self, seen: Seen) -> [u64; 16] {
        let n = if seen.acked > 0 { 100 } else { 0 };
        let (mut t, mut y, mut tt, mut ty, mut yy, mut min, mut late) = (0, 0, 0, 0, 0, u64::MAX, u64::MAX);
        for i in 0..n {
            let at_us = i * 250;
            let rtt_us = (seen.rtt_ms * 1e3 + seen.slope * at_us as f64) as u64;
            let (a, b) = (at_us / 16, rtt_us / 16);
            (t, y, tt, ty, yy) = (t + a, y + b, tt + a * a, ty + a * b, yy + b * b);
            min = min.min(rtt_us);
            late = if i < n / 2 { late } else { late.min(rtt_us) };
        }
        let window = 4 * u64::from(self.anole.cycle) + seen.phase;
        let elapsed = seen.acked / 5; // 40 Mbps are 5 bytes per µs
        let covered = n * 1250;
        let timeout = u64::from(seen.timeout);
        let last = (seen.rtt_ms * 1e3) as u64;
        [
            window, seen.acked, covered, seen.lost, seen.lost, timeout, elapsed, last, min, late, n, t, y,
            tt, ty, yy,
        ]
    }

    fn window(&mut self, seen: Seen) {
        self.report(&self.values(seen));
    }

    /// The end of a drain in 50 ms, with so many bytes acknowledged and the last packet so long under way.
    fn drained(&mut self, acked: u64, last_rtt_ms: u64) {
        let mut values = self.values(quiet(2));
        (values[1], values[6], values[7], values[9]) =
            (acked, 50_000, last_rtt_ms * 1000, last_rtt_ms * 1000);
        self.report(&values);
    }

    fn report(&mut self, values: &[u64; 16]) {
        self.now += RTT;
        self.out.clear();
        let report = Report { program: &anole_cycle::PROGRAM, values };
        self.anole.on_report(self.now, &report, &mut self.out);
    }

    fn field(&self, name: &str) -> Option<u32> {
        self.out.fields().iter().find(|(r, _)| r.name == name).map(|&(_, value)| value)
    }

    fn mbps(&self, name: &str) -> f64 {
        f64::from(self.field(name).unwrap()) * 8e-6
    }
}

fn scale(factor: f64) -> LearnedSlot {
    LearnedSlot::new(Some(Box::new(Scale { factor, asked: false })))
}

#[test]
fn starts_in_slow_start_and_adopts_a_running_flow_gently() {
    let start = |packets| {
        let flow = FlowInfo { mss: MSS, init_cwnd: packets * MSS };
        let rule = RuleSlot::build("cubic", flow, 1).unwrap();
        let mut out = Commands::default();
        Anole::new(flow, AnoleParams::default(), rule, LearnedSlot::new(None)).start(Time::ZERO, &mut out);
        assert_eq!(out.program().map(|p| p.name), Some("ramp"));
        out.fields().iter().find(|(r, _)| r.name == "gain_16").unwrap().1
    };
    assert_eq!((start(10), start(400)), (16, 4));
}

/// A round trip of the law in which its window was delivered and the round-trip time was `rtt_ms`.
fn law_round(bench: &mut Bench, rtt_ms: u64, lost: u64) {
    let rtt_us = rtt_ms * 1000;
    bench.now += Dur::from_micros(rtt_us);
    bench.out.clear();
    let cwnd = bench.anole.track.control().cwnd;
    let mut values = [0; rate_hold::PROGRAM.reports.len()];
    values[..7].copy_from_slice(&[cwnd, lost, 0, rtt_us, rtt_us, rtt_us, 100]);
    (values[12], values[13]) = (cwnd * 1_000_000 / rtt_us, cwnd);
    let report = Report { program: &rate_hold::PROGRAM, values: &values };
    bench.anole.on_report(bench.now, &report, &mut bench.out);
}

/// Anole where the law governs, because the model failed.
fn tracking() -> Bench {
    let mut bench = Bench::probing(scale(1.1));
    let mut alarms = 0;
    while bench.anole.stage != Stage::Track {
        bench.window(Seen { rtt_ms: 200.0, ..quiet(3) });
        alarms += 1;
        assert!(alarms < 9);
    }
    bench
}

#[test]
fn any_number_of_lost_packets_can_be_reported_to_the_law() {
    let mut bench = tracking();
    law_round(&mut bench, 50, u64::MAX);
    assert!(bench.field("Cwnd").is_some_and(|cwnd| cwnd >= 2 * MSS));
}

#[test]
fn where_the_model_fails_the_law_governs_until_rounds_go_as_forecast_and_a_trial_does_too() {
    let mut bench = tracking();
    assert_eq!(bench.out.program().map(|p| p.name), Some("rate-hold"));
    let mut rounds = 0;
    while bench.anole.stage == Stage::Track {
        // The queue is this flow's own: what exceeds 250 kB.
        let cwnd = bench.anole.track.control().cwnd;
        law_round(&mut bench, (cwnd / 5_000).max(50), 0);
        rounds += 1;
        assert!(rounds < 400);
    }
    assert!(rounds > 16, "{rounds}");
    assert!(bench.anole.path.min_rtt() < RTT.mul_f64(1.1), "{}", bench.anole.path.min_rtt());
    assert_eq!(bench.out.program().map(|p| p.name), Some("anole-cycle"));
}

#[test]
fn a_ramp_goes_on_until_it_ends() {
    let mut bench = Bench::probing(LearnedSlot::new(None));
    bench.anole.start(bench.now, &mut bench.out);
    bench.ramp_report(0, 250_000);
    assert!(matches!(bench.anole.stage, Stage::Ramp(_)));
    bench.ramp_report(1, 500_000);
    assert!(matches!(bench.anole.stage, Stage::Drain(_)));
    assert_eq!((bench.field("phase"), bench.out.program().map(|p| p.name)), (Some(2), Some("anole-cycle")));
}

#[test]
fn an_application_with_less_to_send_than_the_window_neither_ends_a_ramp_nor_sets_its_rate() {
    let mut bench = Bench::probing(LearnedSlot::new(None));
    bench.anole.start(bench.now, &mut bench.out);
    for _ in 0..20 {
        bench.ramp_report(0, 1_000_000);
    }
    assert!(matches!(bench.anole.stage, Stage::Ramp(_)));
    // Delays rise: a quarter of the window was delivered in each round trip.
    bench.ramp_report(1, 1_000_000);
    assert_eq!(bench.anole.stage, Stage::Track);
    assert!(bench.anole.rate > Rate::from_bytes_in(900_000, RTT), "{:?}", bench.anole.rate);
}

#[test]
fn probing_ends_in_an_evaluation_of_both_candidates_lower_first() {
    let mut bench = Bench::probing(scale(1.1));
    bench.window(quiet(2));
    assert!(matches!(bench.anole.stage, Stage::Evaluation(_)));
    assert!((bench.mbps("high") - 44.0).abs() < 0.1, "{}", bench.mbps("high"));
    assert!(bench.mbps("low") <= bench.mbps("high"));
    assert!((bench.mbps("hold") - RATE_MBPS).abs() < 0.1);
    assert_eq!(bench.anole.telemetry().inferences, 2);
}

#[test]
fn an_absent_policy_leaves_its_place_to_the_rate_in_force() {
    let mut bench = Bench::probing(LearnedSlot::new(None));
    bench.window(quiet(2));
    assert!(matches!(bench.anole.stage, Stage::Evaluation(_)));
    assert!((bench.mbps("low") - RATE_MBPS).abs() < 0.1 || (bench.mbps("high") - RATE_MBPS).abs() < 0.1);
}

/// Answers with the rate in force, but not before the next report.
#[derive(Default)]
struct Late(Option<Time>);

impl FlowPolicy for Late {
    fn observe(&mut self, _seen: &Observation) {}
    fn ask(&mut self, now: Time, _deadline: Time) {
        self.0 = Some(now);
    }
    fn poll(&mut self, now: Time, seen: &Observation) -> Option<Answer> {
        self.0.take_if(|asked| *asked < now)?;
        let decision = Decision::Rate(1.1 * seen.rate.bytes_per_s());
        Some(Answer::Decided { decision, fresh: true })
    }
}

impl Bench {
    fn is_waiting(&self) -> bool {
        matches!(self.anole.stage, Stage::Probing(Probing { waits_until: Some(_) }))
    }
}

#[test]
fn a_silent_policy_is_waited_for_until_its_deadline_and_then_hardly() {
    let mut bench = Bench::probing(LearnedSlot::build("fault:absent", &Shipped, 1).unwrap());
    // Each window of the test spans a round trip; the first one asks about 100 ms.
    let verdict_of_the_stage = Seen { rtt_ms: 52.0, ..quiet(2) };
    bench.window(verdict_of_the_stage);
    assert!(bench.is_waiting());
    assert_eq!(bench.field("hold_us"), Some(10_000), "the shortest window");
    let verdict = bench.anole.verdict;
    bench.now = bench.now - Dur::from_millis(10);
    bench.window(quiet(2));
    assert!(bench.is_waiting(), "40 ms of 50");
    assert_eq!(bench.anole.verdict, verdict, "a short hold tells less than the stage did");
    bench.window(quiet(2));
    assert!(matches!(bench.anole.stage, Stage::Evaluation(_)));
    bench.window(quiet(0));
    bench.window(Seen { slope: 0.1, ..quiet(1) });
    bench.window(quiet(2));
    assert!(bench.is_waiting(), "it may have come back");
    bench.now = bench.now - Dur::from_millis(43);
    bench.window(quiet(2));
    assert!(matches!(bench.anole.stage, Stage::Evaluation(_)), "a single hold");
}

#[test]
fn a_late_answer_is_taken_after_one_short_hold_even_from_one_that_was_silent() {
    for was_silent in [false, true] {
        let mut bench = Bench::probing(LearnedSlot::new(Some(Box::new(Late::default()))));
        bench.anole.learned.answered(!was_silent);
        bench.window(quiet(2));
        assert!(bench.is_waiting());
        bench.window(quiet(2));
        assert!(matches!(bench.anole.stage, Stage::Evaluation(_)));
        assert!((bench.mbps("high") - 44.0).abs() < 0.1, "{}", bench.mbps("high"));
        assert!(bench.anole.learned.answers());
    }
}

#[test]
fn an_answer_that_is_no_rate_costs_confidence_until_the_policy_is_deprecated() {
    let mut bench = Bench::probing(LearnedSlot::build("fault:nan", &Shipped, 1).unwrap());
    for _ in 0..10 {
        bench.window(quiet(2));
        bench.window(quiet(0));
        bench.window(Seen { slope: 0.05, ..quiet(1) });
        if matches!(bench.anole.stage, Stage::Acceleration(_)) {
            assert!(!bench.anole.learned.confidence.is_active());
            return;
        }
    }
    panic!("the policy was never deprecated");
}

#[test]
fn no_congestion_on_an_empty_queue_starts_a_gentle_ramp() {
    let mut bench = Bench::probing(scale(1.1));
    bench.window(quiet(2));
    bench.window(quiet(0));
    bench.window(quiet(1));
    assert!(matches!(bench.anole.stage, Stage::Ramp(_)));
    assert_eq!(bench.field("gain_16"), Some(4));
}

#[test]
fn no_congestion_on_the_queue_aimed_at_keeps_the_rate() {
    let mut bench = Bench::probing(scale(1.1));
    let aim = bench.anole.target_queue().target.as_millis_f64();
    for window in [2, 0, 1] {
        bench.window(Seen { rtt_ms: 50.0 + aim * 1.5, ..quiet(window) });
    }
    assert!(matches!(bench.anole.stage, Stage::Probing(_)));
    assert!((bench.mbps("hold") - 40.0).abs() < 0.1, "{}", bench.mbps("hold"));
}

#[test]
fn a_queue_longer_than_tolerated_makes_the_larger_flow_yield_first() {
    let mut bench = Bench::probing(scale(1.0));
    let queued = |phase| Seen { rtt_ms: 62.0, ..quiet(phase) };
    for window in [2, 0, 1] {
        bench.window(queued(window));
    }
    assert!(matches!(bench.anole.stage, Stage::Drain(_)));
    let before = bench.anole.rate;
    bench.drained(250_000, 62);
    let queue = |mbps| bench.anole.target_queue_at(Rate::from_mbps(mbps));
    // The queue is 2.1 times as long as that from which on the flow drains: 21 % are backoff.
    assert!((queue(40.0).drains - 0.1).abs() < 0.002);
    assert!((bench.anole.rate.bytes_per_s() / before.bytes_per_s() - 0.79).abs() < 0.01);
    // They are more than 40 Mbps tolerate (10 ms) and less than 2 Mbps do (20 ms).
    assert!(queue(40.0).tolerated < 0.24 && queue(2.0).drains > 0.24);
    // Drains that do not shorten it are repeated; with the fourth in a row the flow yields once more.
    for repeated in 1..=3 {
        bench.window(queued(2));
        assert!(matches!(bench.anole.stage, Stage::Drain(drain) if drain.repeated == repeated));
        let (before, queues) = (bench.anole.rate, 0.24 / bench.anole.target_queue().drains);
        bench.drained(250_000, 62);
        let kept = if repeated < 3 { 1.0 } else { 1.0 - 0.1 * queues };
        assert!((bench.anole.rate.bytes_per_s() / before.bytes_per_s() - kept).abs() < 0.01);
    }
}

#[test]
fn no_congestion_on_a_short_standing_queue_climbs() {
    let mut bench = Bench::probing(scale(1.1));
    let aim = bench.anole.target_queue().target.as_millis_f64();
    for window in [2, 0, 1] {
        bench.window(Seen { rtt_ms: 50.0 + aim * 0.75, ..quiet(window) });
    }
    assert!(matches!(bench.anole.stage, Stage::Probing(_)));
    assert!(bench.mbps("hold") > 44.0, "{}", bench.mbps("hold"));
    assert_eq!((bench.anole.climbs, bench.anole.source.0), (1, Source::Inferred));
}

#[test]
fn congestion_at_the_high_rate_keeps_near_the_optimum_and_probes() {
    let mut bench = Bench::probing(scale(1.1));
    bench.window(quiet(2));
    bench.window(quiet(0));
    bench.window(Seen { slope: 0.1, ..quiet(1) });
    assert!(matches!(bench.anole.stage, Stage::Probing(_)));
    assert!((bench.mbps("hold") - 40.0).abs() < 2.5, "{}", bench.mbps("hold"));
    assert_eq!((bench.field("hold_us").unwrap() / 1000, bench.anole.telemetry.decisions), (153, 1));
}

#[test]
fn a_long_queue_is_drained_before_probing() {
    let mut bench = Bench::probing(scale(1.1));
    bench.window(quiet(2));
    bench.window(Seen { rtt_ms: 80.0, ..quiet(0) });
    bench.window(Seen { rtt_ms: 80.0, ..quiet(1) });
    assert!(matches!(bench.anole.stage, Stage::Drain(Drain { reason: Reason::Queue, .. })));
    assert!(bench.mbps("hold") < 0.75 * bench.anole.rate.mbps());
    bench.window(Seen { rtt_ms: 80.0, ..quiet(2) });
    assert!(matches!(bench.anole.stage, Stage::Check(_)));
    assert!((bench.mbps("hold") - bench.anole.rate.mbps()).abs() < 0.01);
    bench.window(quiet(2));
    assert!(matches!(bench.anole.stage, Stage::Probing(_)));
}

#[test]
fn a_poor_policy_is_deprecated_accelerated_past_and_tried_again() {
    let mut bench = Bench::probing(scale(3.0));
    let mut evaluations = 0;
    while evaluations < 9 && !matches!(bench.anole.stage, Stage::Acceleration(_)) {
        bench.window(Seen { rtt_ms: 54.0, ..quiet(2) });
        bench.window(Seen { rtt_ms: 54.0, ..quiet(0) });
        bench.window(Seen { slope: 0.2, ..quiet(1) });
        evaluations += 1;
    }
    assert_eq!(evaluations, 3);
    assert_eq!(bench.field("hold_us").unwrap() / 1000, 104, "two round trips");
    bench.window(quiet(2));
    let before = bench.anole.rate;
    bench.window(quiet(2));
    assert!(bench.anole.rate > before);
    bench.window(quiet(2));
    assert!(matches!(bench.anole.stage, Stage::Evaluation(_)), "activated again");
}

#[test]
fn a_window_without_acks_leaves_the_rate() {
    let mut bench = Bench::probing(scale(1.1));
    bench.window(quiet(2));
    let before = bench.anole.rate;
    bench.window(Seen { acked: 0, ..quiet(0) });
    bench.window(Seen { acked: 0, ..quiet(1) });
    assert!(matches!(bench.anole.stage, Stage::Probing(_)));
    assert_eq!((bench.anole.rate, bench.anole.source.0), (before, Source::Previous));
}

#[test]
fn a_lost_report_of_the_high_window_ends_the_evaluation_with_what_is_known() {
    let mut bench = Bench::probing(scale(1.1));
    bench.window(quiet(2));
    bench.window(quiet(0));
    bench.window(quiet(2));
    assert!(!matches!(bench.anole.stage, Stage::Evaluation(_)));
    assert_eq!(bench.anole.telemetry.decisions, 1);
}

#[test]
fn a_report_that_may_be_about_both_windows_judges_neither_rate() {
    let mut bench = Bench::probing(scale(1.1));
    bench.window(quiet(2));
    let before = bench.anole.rate;
    bench.window(Seen { slope: 0.2, ..quiet(1) });
    let evidence = bench.anole.explain().unwrap();
    assert!(evidence.rule.is_none() && evidence.learned.is_none());
    assert!(matches!(bench.anole.stage, Stage::Probing(_)));
    assert_eq!((bench.anole.rate, bench.anole.telemetry.decisions), (before, 1));
}

#[test]
fn a_timeout_halves_the_rate_and_starts_over_only_when_nothing_arrived() {
    for (acked, factor) in [(0, 0.5), (500_000, 1.0)] {
        let mut bench = Bench::probing(scale(1.1));
        bench.window(quiet(2));
        bench.window(Seen { timeout: true, acked, ..quiet(0) });
        assert_eq!(matches!(bench.anole.stage, Stage::Ramp(_)), acked == 0);
        assert!((bench.anole.rate.mbps() - RATE_MBPS * factor).abs() < 0.01, "{}", bench.anole.rate);
    }
}

#[test]
fn slow_start_goes_on_from_half_its_window_after_a_timeout() {
    let mut bench = Bench::probing(scale(1.1));
    bench.anole.ramp(super::ramp::SLOW_START, 80_000, &mut bench.out);
    let values = [9000, 20, 1, 50_000, 50_000, 50_000, 0, 100_000];
    bench.out.clear();
    let report = Report { program: &ramp_program::PROGRAM, values: &values };
    bench.anole.on_report(bench.now, &report, &mut bench.out);
    assert!(matches!(bench.anole.stage, Stage::Ramp(_)));
    assert_eq!(bench.field("Cwnd"), Some(50_000));
}

#[test]
fn a_drain_is_no_longer_than_eight_smallest_round_trip_times() {
    let mut bench = Bench::probing(scale(1.1));
    bench.anole.enter_drain(Reason::Overload, 0.5, Dur::from_millis(1200), &mut bench.out);
    assert!(bench.field("hold_us").is_some_and(|us| us <= 8 * 50_000), "{:?}", bench.field("hold_us"));
}

#[test]
fn reports_of_an_earlier_cycle_and_of_the_ramp_are_ignored() {
    let mut bench = Bench::probing(scale(1.1));
    let stale = bench.values(quiet(2));
    bench.window(quiet(2));
    let stage = bench.anole.stage;
    bench.out.clear();
    let report = Report { program: &anole_cycle::PROGRAM, values: &stale };
    bench.anole.on_report(bench.now, &report, &mut bench.out);
    bench.ramp_report(1, 500_000);
    assert_eq!(bench.anole.stage, stage);
    assert!(bench.out.is_empty());
}

#[test]
fn one_cycle_costs_three_reports_and_two_messages() {
    let mut bench = Bench::probing(scale(1.02));
    let mut messages = 0;
    for seen in [quiet(2), quiet(0), Seen { slope: 0.02, ..quiet(1) }] {
        bench.window(Seen { rtt_ms: 54.0, ..seen });
        messages += u32::from(!bench.out.is_empty());
    }
    assert!(matches!(bench.anole.stage, Stage::Probing(_)));
    assert_eq!(messages, 2);
}

#[test]
fn an_alarm_drains_and_takes_the_rate_that_the_drain_tells() {
    let mut bench = Bench::probing(scale(1.1));
    bench.window(quiet(2));
    assert!(bench.field("alarm_us").unwrap() > 90_000, "armed");
    bench.window(Seen { rtt_ms: 100.0, ..quiet(3) });
    assert!(matches!(bench.anole.stage, Stage::Drain(Drain { reason: Reason::Overload, .. })));
    assert!((bench.mbps("hold") - 20.0).abs() < 0.1, "{}", bench.mbps("hold"));
    assert_eq!(bench.field("alarm_us"), None, "off while the queue is drained");
    // 125 kB came back in 50 ms: 20 Mbps.
    bench.drained(125_000, 100);
    assert!(matches!(bench.anole.stage, Stage::Check(_)));
    assert!((bench.anole.rate.mbps() - 20.0).abs() < 1e-6, "{}", bench.anole.rate);
}

#[test]
fn a_host_that_stood_still_costs_one_drain_and_nothing_of_the_rate() {
    let mut bench = Bench::probing(scale(1.1));
    bench.window(quiet(2));
    let before = bench.anole.rate;
    bench.window(Seen { rtt_ms: 100.0, acked: 125_000, ..quiet(3) });
    assert!(matches!(bench.anole.stage, Stage::Drain(Drain { reason: Reason::Overload, .. })));
    bench.drained(125_000, 50);
    assert_eq!(bench.anole.rate, before);
    bench.window(quiet(2));
    // What looked like a queue is no reason to yield either.
    bench.window(quiet(2));
    for phase in [0, 1] {
        bench.window(Seen { rtt_ms: 80.0, ..quiet(phase) });
    }
    assert!(matches!(bench.anole.stage, Stage::Drain(Drain { reason: Reason::Queue, .. })));
    let before = bench.anole.rate;
    bench.drained(125_000, 51);
    assert_eq!(bench.anole.rate, before);
}

#[test]
fn a_ramp_ends_on_loss_and_on_a_plateau_but_not_on_a_little_loss() {
    let end_of_reports = |acked: &[u64], lost: u64, elapsed_us: u64| {
        let mut bench = Bench::probing(LearnedSlot::new(None));
        bench.anole.start(bench.now, &mut bench.out);
        for (i, &acked) in acked.iter().enumerate() {
            bench.now += RTT;
            let values = [acked, lost, 0, elapsed_us, 50_000, 50_000, 0, 100_000 << i];
            let report = Report { program: &ramp_program::PROGRAM, values: &values };
            bench.anole.on_report(bench.now, &report, &mut bench.out);
            if !matches!(bench.anole.stage, Stage::Ramp(_)) {
                return Some(i + 1);
            }
        }
        None
    };
    let end_of = |acked: &[u64], lost| end_of_reports(acked, lost, 50_000);
    let growing: Vec<u64> = (0..6).map(|i| 300_000 << i).collect();
    assert_eq!(end_of(&growing, 0), None);
    assert_eq!(end_of(&growing, 9), None);
    assert_eq!(end_of(&growing, 60), Some(1));
    assert_eq!(end_of(&[300_000; 9], 0), Some(4));
    // A few ACKs and a pause of the application tell no rate.
    for elapsed_us in [1_000, 1_000_000] {
        assert_eq!(end_of_reports(&[3_000; 9], 0, elapsed_us), None, "{elapsed_us} us");
    }
}

#[test]
fn an_application_that_pauses_in_the_drain_after_a_ramp_tells_no_rate() {
    for (elapsed_us, kept) in [(50_000, false), (4_000_000, true)] {
        let mut bench = Bench::probing(LearnedSlot::new(None));
        bench.anole.start(bench.now, &mut bench.out);
        bench.ramp_report(1, 500_000);
        assert!(matches!(bench.anole.stage, Stage::Drain(Drain { reason: Reason::Ramp, .. })));
        let before = bench.anole.rate;
        let mut values = bench.values(Seen { rtt_ms: if kept { 50.0 } else { 80.0 }, ..quiet(2) });
        (values[1], values[6]) = (50_000, elapsed_us);
        bench.report(&values);
        assert_eq!(bench.anole.rate == before, kept, "{before} became {}", bench.anole.rate);
    }
}

#[test]
fn a_rate_that_the_application_leaves_unused_is_not_accelerated() {
    let accelerated = |acked: u64| {
        let mut bench = Bench::probing(LearnedSlot::new(None));
        bench.anole.enter(Stage::Acceleration(Acceleration::default()));
        (0..9).for_each(|_| bench.anole.learned.confidence.judge(0.0, &AnoleParams::default().thresholds()));
        let before = bench.anole.rate;
        let mut values = bench.values(quiet(2));
        values[1] = acked;
        bench.report(&values);
        bench.anole.rate > before
    };
    assert_eq!([500_000, 100_000].map(accelerated), [true, false]);
}

#[test]
fn a_path_that_was_away_starts_over_with_nothing_of_what_it_carried() {
    let mut bench = Bench::probing(scale(1.1));
    bench.anole.unmoved = 3;
    bench.window(Seen { timeout: true, acked: 0, ..quiet(2) });
    assert!(matches!(bench.anole.stage, Stage::Ramp(_)));
    assert_eq!((bench.anole.path.top(), bench.anole.unmoved), (Rate::ZERO, 0));
    // A ramp that is over before it told a rate leaves the one in force.
    let rate = bench.anole.rate;
    bench.now += RTT;
    let values = [3_000, 0, 0, 1_000, 50_000, 50_000, 1, 250_000];
    let report = Report { program: &ramp_program::PROGRAM, values: &values };
    bench.anole.on_report(bench.now, &report, &mut bench.out);
    assert!((bench.anole.rate.mbps() / rate.mbps() - 2.0).abs() < 1.1, "{rate} became {}", bench.anole.rate);
}

#[test]
fn a_slow_start_that_loses_packets_while_the_round_trip_time_falls_has_joined_others() {
    for (rtts_us, lost, joined) in [
        ([50_000, 47_000, 50_000], 1, true),
        ([50_000, 47_000, 50_000], 0, false),
        ([50_000, 48_000, 50_000], 1, false),
    ] {
        let mut bench = Bench::probing(LearnedSlot::new(None));
        bench.anole.start(bench.now, &mut bench.out);
        for (i, rtt) in rtts_us.into_iter().enumerate() {
            bench.now += RTT;
            let values = [300_000 << i, lost, 0, 50_000, rtt, rtt, u64::from(i == 2), 600_000 << i];
            let report = Report { program: &ramp_program::PROGRAM, values: &values };
            bench.anole.on_report(bench.now, &report, &mut bench.out);
        }
        assert_eq!(bench.anole.stage == Stage::Track, joined, "{rtts_us:?}, {lost} lost");
    }
}

#[test]
fn a_change_of_programs_that_was_lost_is_made_again() {
    let mut bench = Bench::probing(scale(1.1));
    let stale = bench.values(quiet(2));
    bench.window(quiet(2));
    let report = Report { program: &anole_cycle::PROGRAM, values: &stale };
    // Those that were on their way already are late as well.
    for _ in 0..2 * LOST_AFTER_REPORTS {
        bench.now += Dur::from_micros(1_000);
        bench.out.clear();
        bench.anole.on_report(bench.now, &report, &mut bench.out);
        assert!(bench.out.is_empty());
    }
    bench.now += RTT;
    bench.anole.on_report(bench.now, &report, &mut bench.out);
    assert_eq!(bench.out.program().map(|p| p.name), Some("ramp"));
    assert!((bench.anole.rate.mbps() - RATE_MBPS).abs() < 1e-9);
}
