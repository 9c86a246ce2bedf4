//! Evaluation and exploitation: the lower candidate runs for half a round trip, the higher one for another, then the base
//! rate for k round trips, in which the ACKs of all three return; the best becomes the base.

use super::window::{Sent, Test, Window};
use super::{Libra, Source, Stage, register_us};
use anole_model::{Bounds, Dur, Rate, Time};
use anole_programs::Commands;
use anole_programs::libra_cycle::{self, control};

/// Candidates lie within these shares of the base rate.
const TESTED: (f64, f64) = (0.5, 2.0);
/// A window is at least this many packets of the lower rate long: fewer have no slope.
const MIN_PACKETS: f64 = 6.0;
/// A window has no more samples than these: what one burst of a wireless link brings together counts once.
const MAX_SAMPLES: u64 = 32;
/// Of k round trips of exploitation the first is over when the ACKs of the higher candidate have come.
const ACKS_RTTS: f64 = 1.0;

/// A rate, whose it is, and its utility once known.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Candidate {
    rate: Rate,
    source: Source,
    utility: Option<f64>,
}

/// A trial under way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Trial {
    base: Candidate,
    low: Candidate,
    high: Candidate,
    /// The most that got through of rates that flooded the path.
    through: Option<Rate>,
    /// When the exploration began, and how long an evaluation interval is.
    explored: Time,
    length: Dur,
}

impl Trial {
    /// Whether the exploration before it began since then.
    pub fn explored_since(&self, then: Time) -> bool {
        self.explored >= then
    }

    /// Whether the base has a utility.
    #[cfg(test)]
    pub fn is_base_known(&self) -> bool {
        self.base.utility.is_some()
    }

    /// The best of the three; the base where a candidate could not be evaluated, or is no better.
    fn best(&self) -> Candidate {
        let (Some(base), Some(low), Some(high)) = (self.base.utility, self.low.utility, self.high.utility)
        else {
            return self.base;
        };
        let (candidate, utility) = if high > low { (self.high, high) } else { (self.low, low) };
        if utility > base { candidate } else { self.base }
    }
}

impl Libra {
    /// x_cl, or x_prev where there is no classic law.
    pub(super) fn classic_candidate(&self) -> Rate {
        self.rule.as_ref().map_or(self.base, |rule| self.testable(rule.rate(self.srtt())))
    }

    /// x_rl, or x_prev where the policy never spoke.
    pub(super) fn learned_candidate(&self) -> Rate {
        self.proposed.map_or(self.base, |rate| self.testable(rate))
    }

    fn testable(&self, rate: Rate) -> Rate {
        self.bounded(rate.clamp(self.base * TESTED.0, self.base * TESTED.1))
    }

    /// The evaluation begins, after an exploration that began then.
    pub(super) fn evaluate(&mut self, now: Time, began: Time, out: &mut Commands) {
        let candidate = |rate, source| Candidate { rate, source, utility: None };
        let classic = if self.rule.is_some() { Source::Classic } else { Source::Previous };
        let classic = candidate(self.classic_candidate(), classic);
        let learned = candidate(self.learned_candidate(), Source::Learned);
        let (low, high) = if classic.rate <= learned.rate { (classic, learned) } else { (learned, classic) };
        let before = now.since(began);
        let packets = MIN_PACKETS * f64::from(self.flow.mss) / low.rate.bytes_per_s().max(1.0);
        let length = self.span().mul_f64(self.params.interval_rtts).max(Dur::from_secs_f64(packets));
        self.next_cycle();
        let rest = self.span().mul_f64((self.params.explore_rtts - ACKS_RTTS).max(1.0));
        out.run(&libra_cycle::PROGRAM)
            .set(control::CYCLE, self.cycle)
            .set_rate(control::LOW, Bounds::DEFAULT.clamp(low.rate))
            .set_rate(control::HIGH, Bounds::DEFAULT.clamp(high.rate))
            .set_rate(control::HOLD, self.bounded(self.base))
            .set(control::BEFORE_US, register_us(before))
            .set(control::SINCE_US, register_us(before))
            .set(control::WINDOW_US, register_us(length))
            .set(control::HOLD_US, register_us(rest))
            .set(control::GAP_US, register_us(length / MAX_SAMPLES))
            .cwnd(self.cap(self.base.max(high.rate)));
        let base = candidate(self.base, Source::Previous);
        self.stage = Stage::Trial(Trial { base, low, high, through: None, explored: began, length });
    }

    /// A report during evaluation or exploitation.
    pub(super) fn on_trial(&mut self, now: Time, mut trial: Trial, window: &Window, out: &mut Commands) {
        let tested = match window.sent {
            // Of a longer exploration the last round trip is told, whose ACKs came in the evaluation.
            Sent::Exploring => Some((&mut trial.base, window.elapsed)),
            Sent::Low => Some((&mut trial.low, trial.length)),
            Sent::High => Some((&mut trial.high, trial.length)),
            Sent::Since => None,
        };
        if let Some((candidate, length)) = tested {
            let min_rtt = self.monitor.recent_rtt().unwrap_or_default();
            let test = Test { rate: candidate.rate, length, min_rtt, mss: self.flow.mss };
            candidate.utility = window.utility(&test, &self.weights, &self.params);
            if let Some(through) = window.through(&test) {
                trial.through = Some(trial.through.map_or(through, |most| most.max(through)));
            }
        }
        self.stage = Stage::Trial(trial);
        let over = match window.sent {
            Sent::High => self.params.explore_rtts <= ACKS_RTTS,
            sent => sent == Sent::Since,
        };
        if over {
            self.decide(now, &trial, out);
        }
    }

    fn decide(&mut self, now: Time, trial: &Trial, out: &mut Commands) {
        self.telemetry.decisions += 1;
        let best = trial.best();
        self.base = self.bounded(trial.through.map_or(best.rate, |through| best.rate.min(through)));
        self.account(now, best.source);
        self.explore(now, out);
    }
}
