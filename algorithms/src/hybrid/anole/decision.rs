//! The decision at the end of an evaluation: which rate is applied next.
//!
//! ```text
//!   neither candidate evaluated ───────────────▶ keep r
//!   no window saw congestion ──────────────────▶ climb by eq. 10 from the highest rate; keep r where
//!                                                the queue aimed at stands already
//!   a candidate's utility reaches T·U_max ─────▶ apply the better candidate
//!   otherwise ─────────────────────────────────▶ infer (see `inference`)
//! ```
//! Deviations from the paper, each because it cost throughput or delay in measurements:
//! - without congestion anywhere all rates are below the optimum, and comparing them teaches nothing, so
//!   the climb comes before the comparison with T;
//! - where a gradient was significant the inference has all it needs, and a candidate is applied only if
//!   its utility is also within `margin` of what the inferred rate promises (α·x^t): else a policy that
//!   is always low drags the flow down whenever r is a little too high;
//! - an inferred rate aims at a standing queue (see [`super::target_queue`]), because a half-RTT test of a low rate
//!   else leaves the link idle;
//! - a long queue is drained whichever way r was chosen, not only in situations I and II.

use super::inference::infer;
use super::params::AnoleParams;
use super::path::Path;
use super::verdict::Verdict;
use anole_model::{Dur, Rate};

/// Where a rate came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The rule-based candidate.
    Rule,
    /// The learned candidate.
    Learned,
    /// An inference or a climb.
    Inferred,
    /// The rate before, kept.
    Previous,
}

/// What an evaluation has in hand: a verdict for each rate that was evaluated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Evidence {
    pub rule: Option<Verdict>,
    pub learned: Option<Verdict>,
    pub previous: Option<Verdict>,
}

/// A decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Choice {
    pub rate: Rate,
    pub source: Source,
    /// True when the rate is a climb: nothing was congested.
    pub climb: bool,
}

/// The largest correction of an inferred rate towards its standing queue, share of the rate.
const MAX_CORRECTION: f64 = 0.05;
/// Largest climb in one cycle, share of the rate: one test of the high rate.
const LARGEST_CLIMB: f64 = 0.25;

/// A queue below this share of the one aimed at is empty.
const EMPTY_SHARE: f64 = 0.5;

impl Evidence {
    /// The verdicts in ascending order of their rates, and how many there are.
    pub fn ascending(&self) -> Vec<Verdict> {
        let mut all: Vec<Verdict> = [self.rule, self.learned, self.previous].into_iter().flatten().collect();
        all.sort_by(|a, b| a.rate.bytes_per_s().total_cmp(&b.rate.bytes_per_s()));
        all
    }

    /// The verdict with the largest utility.
    pub fn best(&self) -> Option<Verdict> {
        let all = [self.rule, self.learned, self.previous];
        all.into_iter().flatten().max_by(|a, b| a.utility.total_cmp(&b.utility))
    }

    /// True when three windows in a row, the probing stage and both tests, met no queue.
    pub fn queue_is_empty(&self, aim: Dur, min_rtt: Dur) -> bool {
        let all = [self.rule, self.learned, self.previous];
        let limit = EMPTY_SHARE * aim.as_secs_f64() / min_rtt.as_secs_f64().max(1e-9);
        let empty = |v: &Verdict| v.rtt_ratio < 1.0 + limit;
        self.previous.is_some() && all.iter().flatten().all(empty)
    }

    /// The candidate with the larger utility.
    fn better_candidate(&self) -> Option<(Verdict, Source)> {
        let rule = self.rule.map(|v| (v, Source::Rule));
        let learned = self.learned.map(|v| (v, Source::Learned));
        [rule, learned].into_iter().flatten().max_by(|(a, _), (b, _)| a.utility.total_cmp(&b.utility))
    }
}

/// Evaluations in a row in which no test moved the queue, after which no queue is believed to stand.
const UNMOVED: u32 = 3;

/// Decides what follows `current`. `climbs` counts the climbs made in a row so far: the confidence
/// amplifier of eq. 10 doubles with each.
pub(super) fn decide(
    evidence: &Evidence,
    current: Rate,
    climbs: u32,
    unmoved: u32,
    aim: Dur,
    path: &mut Path,
    params: &AnoleParams,
) -> Choice {
    let keep = Choice { rate: current, source: Source::Previous, climb: false };
    let (Some((candidate, source)), Some(best)) = (evidence.better_candidate(), evidence.best()) else {
        return keep;
    };
    let ascending = evidence.ascending();
    if !ascending.iter().any(|v| v.congested()) {
        if unmoved < UNMOVED && mean_queue(&ascending) * path.min_rtt().as_secs_f64() > aim.as_secs_f64() {
            return keep;
        }
        let from = ascending.last().map_or(current, |v| v.rate);
        return Choice { rate: climb(from, climbs, params), source: Source::Inferred, climb: true };
    }
    let acceptable = params.weights().share(candidate.utility, best.utility, best.rate) >= params.accept;
    let measured = ascending.iter().any(|v| v.significant && v.gradient > 0.0);
    let earned = candidate.utility;
    let candidate = Choice { rate: candidate.rate, source, climb: false };
    if acceptable && !measured {
        return candidate;
    }
    let Some(rate) = infer(&ascending, current, path) else { return keep };
    if acceptable && earned >= (1.0 - params.margin) * params.weights().earnings(rate) {
        return candidate;
    }
    Choice { rate: rate * correction(aim, path, params), source: Source::Inferred, climb: false }
}

/// The mean queue of the verdicts, share of the smallest round-trip time.
fn mean_queue(all: &[Verdict]) -> f64 {
    all.iter().map(|v| v.rtt_ratio - 1.0).sum::<f64>() / all.len().max(1) as f64
}

/// Eq. 10: r + γ·du/dr, γ doubled with every climb in a row, the step bounded.
fn climb(from: Rate, climbs: u32, params: &AnoleParams) -> Rate {
    let gamma = params.gamma_mbps * f64::from(1u32 << climbs.min(16));
    let step = (gamma * params.weights().slope(from)).min(LARGEST_CLIMB * from.mbps());
    from + Rate::from_mbps(step)
}

/// The factor that brings the queue to the one aimed at by the next decision, N + 2 round trips from now.
fn correction(aim: Dur, path: &Path, params: &AnoleParams) -> f64 {
    let target = aim.as_secs_f64();
    let horizon = (params.probing_rtts + 2.0) * path.srtt().as_secs_f64();
    1.0 + ((target - path.queue().as_secs_f64()) / horizon).clamp(-MAX_CORRECTION, MAX_CORRECTION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anole_model::{Dur, Time};

    fn judged(mbps: f64, gradient: f64, ratio: f64) -> Option<Verdict> {
        let gradient = (gradient != 0.0).then_some(gradient);
        Some(Verdict::new(Rate::from_mbps(mbps), gradient, ratio, 0.2, &AnoleParams::default()))
    }

    fn path() -> Path {
        let mut path = Path::new();
        path.saw_delivery(6_000_000, Dur::from_secs_f64(1.0));
        path.saw_rtt(Time::ZERO, Dur::from_millis(55), Dur::from_millis(50));
        path
    }

    fn decide_at_48(evidence: Evidence, climbs: u32) -> Choice {
        decide(
            &evidence,
            Rate::from_mbps(48.0),
            climbs,
            0,
            Dur::from_millis(5),
            &mut path(),
            &AnoleParams::default(),
        )
    }

    #[test]
    fn nothing_evaluated_keeps_the_rate() {
        let evidence = Evidence { previous: judged(48.0, 0.0, 1.0), ..Evidence::default() };
        let choice = decide_at_48(evidence, 0);
        assert_eq!((choice.rate.mbps(), choice.source), (48.0, Source::Previous));
    }

    #[test]
    fn without_congestion_the_rate_climbs_and_ever_faster() {
        let evidence = Evidence {
            rule: judged(40.0, 0.0, 1.0),
            learned: judged(50.0, -0.01, 1.1),
            previous: judged(48.0, 0.0, 1.0),
        };
        let step = |climbs| decide_at_48(evidence, climbs).rate.mbps() - 50.0;
        assert!((step(0) - AnoleParams::default().weights().slope(Rate::from_mbps(50.0))).abs() < 1e-9);
        assert!((step(2) - 4.0 * step(0)).abs() < 1e-9);
        assert_eq!(step(12), 12.5);
        let large = AnoleParams { gamma_mbps: 1000.0, ..AnoleParams::default() };
        assert_eq!(climb(Rate::from_mbps(8.0), 0, &large).mbps(), 10.0, "a quarter, whatever the parameter");
        assert!(decide_at_48(evidence, 0).climb);
    }

    #[test]
    fn a_candidate_within_t_of_the_best_is_applied() {
        let evidence = Evidence {
            rule: judged(46.0, 0.0, 1.0),
            learned: judged(60.0, 0.25, 1.1),
            previous: judged(52.0, 0.08, 1.1),
        };
        let choice = decide_at_48(evidence, 0);
        assert_eq!((choice.rate.mbps(), choice.source, choice.climb), (46.0, Source::Rule, false));
    }

    #[test]
    fn two_poor_candidates_lead_to_an_inference() {
        let evidence = Evidence {
            rule: judged(38.0, 0.0, 1.0),
            learned: judged(60.0, 0.25, 1.1),
            previous: judged(48.0, 0.0, 1.1),
        };
        let choice = decide_at_48(evidence, 0);
        assert_eq!(choice.source, Source::Inferred);
        assert!((choice.rate.mbps() - 48.0).abs() < 0.5, "{choice:?}");
    }
}
