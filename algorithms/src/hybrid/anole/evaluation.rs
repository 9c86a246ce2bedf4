//! Evaluation: two rates run for half a round trip each, the lower one first, and what their ACKs tell
//! is gathered until both have been judged.

use super::super::confidence::Confidence;
use super::super::interval::{MonitorInterval, Phase};
use super::decision::{Choice, Evidence, Source, decide};
use super::params::AnoleParams;
use super::verdict::Verdict;
use super::{Anole, CAP_GAIN, CYCLE_MASK, IDLE_SHARE, Stage};
use anole_model::{Bounds, Dur, Rate, Time};
use anole_programs::anole_cycle::control;
use anole_programs::{Commands, anole_cycle};

/// Whose rate runs in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Rule,
    Learned,
    /// The rate in force, in the place of a candidate that has none.
    Previous,
}

/// A rate and whose it is.
pub(super) type Test = (Who, Rate);

/// An evaluation under way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Evaluation {
    low: Test,
    high: Test,
    length: Dur,
    /// True once the lower rate's window has been reported.
    low_told: bool,
    /// What is known so far.
    pub evidence: Evidence,
    /// True when the application sent far less than it was allowed in a window.
    pub idle: bool,
}

/// A window is at least this many packets of the lower rate long: fewer have no slope (deviation for
/// slow paths, where half a round trip holds less).
const MIN_PACKETS: f64 = 6.0;
/// A window has no more samples than these: enough for a slope, and far enough apart that what one burst
/// of a wireless link brings together counts once (bursts of 2 to 8 ms in half a round trip of 50 ms).
const MAX_SAMPLES: u64 = 32;
/// No window is shorter: on a path with hardly any delay the agent would spend more on reports than the hosts
/// on the traffic (at 1 Gbit/s over 50 µs, a third of the processor time with 1 ms, a fifth with 4), to learn the
/// hosts' jitter. On paths of 1 ms it uses 98 % where 4 ms use 99.9.
const SHORTEST_WINDOW: Dur = Dur::from_millis(10);
/// No window is longer.
const MAX_WINDOW: Dur = Dur::from_millis(2_000);

impl Evaluation {
    /// Orders two rates; `previous` is what is known about the rate in force.
    pub fn new(a: Test, b: Test, previous: Option<Verdict>, srtt: Dur, mss: u32) -> Evaluation {
        let (low, high) = if a.1 <= b.1 { (a, b) } else { (b, a) };
        let packets = Dur::from_secs_f64(MIN_PACKETS * f64::from(mss) / low.1.bytes_per_s().max(1.0));
        let length = (srtt / 2).max(packets).clamp(SHORTEST_WINDOW, MAX_WINDOW);
        let evidence = Evidence { previous, ..Evidence::default() };
        Evaluation { low, high, length, low_told: false, evidence, idle: false }
    }

    /// Starts the program on it. `hold` follows the two windows.
    pub fn start(&self, cycle: u32, hold: Rate, hold_for: Dur, out: &mut Commands) {
        out.run(&anole_cycle::PROGRAM)
            .set_rate(control::LOW, Bounds::DEFAULT.clamp(self.low.1))
            .set_rate(control::HIGH, Bounds::DEFAULT.clamp(self.high.1))
            .set_rate(control::HOLD, Bounds::DEFAULT.clamp(hold))
            .set(control::WINDOW_US, register_us(self.length))
            .set(control::GAP_US, gap_us(self.length))
            .set(control::HOLD_US, register_us(hold_for))
            .set(control::CYCLE, cycle);
    }

    /// The larger of the two rates.
    pub fn highest(&self) -> Rate {
        self.high.1
    }

    /// The rate that the report of this phase is about. One of the higher rate may hold the samples of the lower one too if
    /// that did not come: a report that cannot be sent is in the next one.
    pub fn test(&self, phase: Phase) -> Option<Test> {
        match phase {
            Phase::Low => Some(self.low),
            Phase::High => self.low_told.then_some(self.high),
            Phase::Hold | Phase::Alarm => None,
        }
    }

    /// Takes the verdict on one of the two windows, if there is one.
    pub fn take(&mut self, (who, rate): Test, window: &MonitorInterval, verdict: Option<Verdict>) {
        match who {
            Who::Rule => self.evidence.rule = verdict,
            Who::Learned => self.evidence.learned = verdict,
            // Half a round trip tells less than the whole probing stage did, but more recently.
            Who::Previous => self.evidence.previous = verdict.or(self.evidence.previous),
        }
        self.low_told |= window.phase == Phase::Low;
        let sent = window.covered as f64;
        self.idle |= window.lost == 0 && verdict.is_some() && sent < IDLE_SHARE * rate.bytes_in(self.length);
    }
}

/// The least time between two samples of a window of this length.
pub(super) fn gap_us(window: Dur) -> u32 {
    (window / MAX_SAMPLES).as_micros().min(1_000_000_000) as u32
}

/// A span as a register takes it: at least [`SHORTEST_WINDOW`], and an hour at most.
pub(super) fn register_us(span: Dur) -> u32 {
    span.max(SHORTEST_WINDOW).as_micros().min(3_600_000_000) as u32
}

/// Brings a candidate's rate near enough to the rate in force to be tested without harm.
pub(super) fn testable(candidate: Rate, current: Rate, params: &AnoleParams) -> Rate {
    candidate.clamp(current * params.low_test, current * params.high_test)
}

impl Anole {
    /// Tests the candidates against the rate in force.
    pub(super) fn evaluate(&mut self, learned: Option<Rate>, out: &mut Commands) {
        let rule = (Who::Rule, testable(self.rule_rate(), self.rate, &self.params));
        let other = match learned {
            Some(rate) => (Who::Learned, testable(rate, self.rate, &self.params)),
            None => (Who::Previous, self.rate),
        };
        let evaluation = Evaluation::new(rule, other, self.verdict, self.path.srtt(), self.flow.mss);
        self.cycle = (self.cycle + 1) & CYCLE_MASK;
        let hold_for = self.path.srtt().mul_f64(self.params.probing_rtts);
        evaluation.start(self.cycle, self.rate, hold_for, out);
        self.arm(out);
        out.cwnd(self.cap(self.rate.max(evaluation.highest()), CAP_GAIN));
        self.enter(Stage::Evaluation(evaluation));
    }

    /// The evaluation is over: judges the candidates, decides, and goes on at the rate decided on.
    pub(super) fn decide(
        &mut self,
        now: Time,
        evaluation: &Evaluation,
        window: &MonitorInterval,
        out: &mut Commands,
    ) {
        self.telemetry.decisions += 1;
        let evidence = &evaluation.evidence;
        self.evidence = Some(*evidence);
        if let Some(best) = evidence.best() {
            let (weights, thresholds) = (self.params.weights(), self.params.thresholds());
            let judge = |confidence: &mut Confidence, verdict: Option<Verdict>| {
                if let Some(v) = verdict {
                    let share = weights.share(v.utility, best.utility, best.rate);
                    confidence.judge(share, &thresholds);
                }
            };
            judge(&mut self.rule.confidence, evidence.rule);
            judge(&mut self.learned.confidence, evidence.learned);
        }
        let mut choice = decide(
            evidence,
            self.rate,
            self.climbs,
            self.unmoved,
            self.target_queue().target,
            &mut self.path,
            &self.params,
        );
        let moved = evidence.best().is_none() || evidence.ascending().iter().any(|v| v.congested());
        self.unmoved = if moved { 0 } else { self.unmoved + 1 };
        if choice.climb && evaluation.idle {
            choice = Choice { rate: self.rate, source: Source::Previous, climb: false };
        }
        self.climbs = if choice.climb { self.climbs + 1 } else { 0 };
        self.apply(now, choice);
        let free = choice.climb && evidence.queue_is_empty(self.target_queue().target, self.path.min_rtt());
        if free && self.patience.may_ramp(self.path.delivery_rate()) {
            return self.ramp(self.params.ramp_gain, self.cap(self.rate, 1.0), out);
        }
        // The least, for jitter makes no queue.
        let rtt = window.rtt.map_or(self.path.srtt(), |(_, least)| least);
        self.enter_hold(now, rtt, out);
    }
}
