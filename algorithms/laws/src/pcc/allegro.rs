//! PCC Allegro (Dong et al., *PCC: Re-architecting Congestion Control for Consistent High Performance*, NSDI 2015): randomised
//! controlled trials of rates, judged by a utility of throughput and loss.
//!
//! ```text
//! u = T·sigmoid(L − 0.05) − x·L,  sigmoid(y) = 1/(1 + e^(100·y)),  T what came back, Mbps       (§2.2)
//!
//!            u falls: the rate before                   both pairs agree
//!  Starting ─────────────────────────▶ Decision making ──────────────────▶ Rate adjusting
//!   x doubles every interval               ▲  │ else ε += 0.01, 0.05 at most    │ r(n) = r(n−1)·(1 ± n·0.01)
//!                                          ├──┘                                 │
//!                                          └────────── u falls: the rate before ┘
//! ```
//! Decision making tests r(1 + ε) and r(1 − ε) in two pairs, each in random order, ε = 0.01 at first; the rate moves where
//! the same one wins both (§3.2). An interval lasts 1.7 to 2.2 round trips, drawn anew, and 10 packets at least (§3.1).
//!
//! A loss of less than 5 % is tolerated, and delay is no signal: a flow fills the buffer.
//!
//! Deviations: steps upwards are 5 % at most; otherwise as [`super::vivace`]'s.

use super::monitor::{Monitor, Outcome, PAST};
use super::{Climb, Pace, REPORTS_PER_RTT};
use crate::{Control, Feedback, FlowStart, Law, LawSpec, params};
use anole_model::{Rate, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Allegro in the registry.
pub const SPEC: LawSpec = LawSpec {
    name: "allegro",
    summary: "PCC Allegro: randomised trials of rates, judged by throughput and loss",
    source: "Dong et al., NSDI 2015",
    parameters: &[],
    build: |flow, given| {
        params::check(SPEC.parameters, given)?;
        Ok(Box::new(Allegro::new(flow)))
    },
};

/// Loss at which the sigmoid is a half, and its steepness (§2.2).
const TOLERATED_LOSS: f64 = 0.05;
const STEEPNESS: f64 = 100.0;
/// The smallest and the largest ε (§3.2).
const EPSILON: (f64, f64) = (0.01, 0.05);
/// Length of an interval, round trips (§3.1).
const INTERVAL_RTTS: (f64, f64) = (1.7, 2.2);
/// The largest step down of the adjusting; upwards it is the largest ε (chosen: the queue hides an overshoot until it is full).
const LARGEST_CUT: f64 = 0.5;
/// Tests of a decision.
const TESTS: usize = 4;
/// What an interval is for: nothing, a climb, or a test.
const HOLD: u8 = 0;
const CLIMB: u8 = 1;
const HIGHER: u8 = 2;
const LOWER: u8 = 3;

/// What the flow does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Starting(Climb),
    /// Tests begun and heard of, and the balance of the pairs: higher minus lower.
    Deciding {
        order: [u8; TESTS],
        begun: usize,
        utilities: [Option<f64>; TESTS],
    },
    /// The direction, and steps begun.
    Adjusting {
        climb: Climb,
        sign: f64,
        n: u32,
    },
}

/// Allegro's rate.
#[derive(Clone, Debug)]
pub struct Allegro {
    pace: Pace,
    /// The rate around which tests are, once starting is over.
    base: Rate,
    epsilon: f64,
    monitor: Monitor,
    stage: Stage,
    random: Pcg64Mcg,
}

/// Mbps that an interval was worth.
fn utility(outcome: &Outcome) -> f64 {
    let (x, loss) = (outcome.rate.mbps(), outcome.loss);
    let sigmoid = 1.0 / (1.0 + (STEEPNESS * (loss - TOLERATED_LOSS)).exp());
    outcome.throughput.mbps() * sigmoid - x * loss
}

impl Allegro {
    /// Starts with the initial window per round trip.
    pub fn new(flow: FlowStart) -> Allegro {
        Allegro {
            pace: Pace::new(flow),
            base: Rate::ZERO,
            epsilon: EPSILON.0,
            monitor: Monitor::default(),
            stage: Stage::Starting(Climb::default()),
            random: Pcg64Mcg::seed_from_u64(flow.seed),
        }
    }

    /// Tests around this rate come next.
    fn decide_at(&mut self, rate: Rate, epsilon: f64) {
        self.monitor.outdate();
        self.base = self.pace.set(rate);
        self.epsilon = epsilon.min(EPSILON.1);
        let mut pair = || if self.random.random_range(0..2) == 0 { [HIGHER, LOWER] } else { [LOWER, HIGHER] };
        let ([a, b], [c, d]) = (pair(), pair());
        self.stage = Stage::Deciding { order: [a, b, c, d], begun: 0, utilities: [None; TESTS] };
    }

    /// An interval of this purpose is over, whose outcome is known or not.
    fn judge(&mut self, purpose: u8, outcome: Option<Outcome>) {
        let Some(outcome) = outcome else {
            return match self.stage {
                _ if purpose == PAST => {}
                Stage::Starting(_) => self.decide_at(self.pace.half(), EPSILON.0),
                Stage::Deciding { .. } => self.decide_at(self.base, self.epsilon),
                Stage::Adjusting { .. } => self.decide_at(self.base, EPSILON.0),
            };
        };
        if let Some(rate) = outcome.overload() {
            self.monitor.clear();
            return self.decide_at(rate, EPSILON.0);
        }
        match &mut self.stage {
            Stage::Starting(climb) if purpose == CLIMB => {
                if let Some(best) = climb.judge(outcome, utility(&outcome)) {
                    self.decide_at(best.carried(), EPSILON.0);
                }
            }
            Stage::Adjusting { climb, .. } if purpose == CLIMB => {
                if let Some(best) = climb.judge(outcome, utility(&outcome)) {
                    self.decide_at(best.rate, EPSILON.0);
                }
            }
            // Tests are over before it: one was forgotten.
            Stage::Deciding { .. } if purpose == HOLD => self.decide_at(self.base, self.epsilon),
            Stage::Deciding { order, utilities, .. } => {
                let free = (0..TESTS).find(|&n| order[n] == purpose && utilities[n].is_none());
                if let Some(n) = free {
                    utilities[n] = Some(utility(&outcome));
                }
                self.decide();
            }
            _ => {}
        }
    }

    /// Moves the rate once all tests are known.
    fn decide(&mut self) {
        let Stage::Deciding { order, utilities: [Some(a), Some(b), Some(c), Some(d)], .. } = self.stage
        else {
            return;
        };
        let sign =
            |first: u8, x: f64, y: f64| if first == HIGHER { (x - y).signum() } else { (y - x).signum() };
        let signs = (sign(order[0], a, b), sign(order[2], c, d));
        if signs.0 != signs.1 {
            return self.decide_at(self.base, self.epsilon + EPSILON.0);
        }
        let winner = if signs.0 > 0.0 { HIGHER } else { LOWER };
        let utility = if order[0] == winner { a } else { b };
        self.base = self.pace.set(self.base * (1.0 + signs.0 * self.epsilon));
        let climb = Climb { last: Some((Outcome { rate: self.base, ..Outcome::default() }, utility)) };
        self.stage = Stage::Adjusting { climb, sign: signs.0, n: 0 };
    }

    /// The next interval begins.
    fn begin(&mut self, now: Time) {
        let (base, epsilon) = (self.base, self.epsilon);
        let current = self.pace.rate.unwrap_or(Rate::ZERO);
        let (purpose, rate) = match &mut self.stage {
            Stage::Starting(Climb { last: None }) if self.monitor.is_empty() => (CLIMB, current),
            Stage::Starting(_) => (CLIMB, current * 2.0),
            Stage::Deciding { order, begun, .. } => {
                let purpose = order.get(*begun).copied().unwrap_or(HOLD);
                *begun = (*begun + 1).min(TESTS);
                let factor = match purpose {
                    HIGHER => 1.0 + epsilon,
                    LOWER => 1.0 - epsilon,
                    _ => 1.0,
                };
                (purpose, base * factor)
            }
            Stage::Adjusting { sign, n, .. } => {
                *n = n.saturating_add(1);
                let most = if *sign > 0.0 { EPSILON.1 } else { LARGEST_CUT };
                let step = (f64::from(*n) * EPSILON.0).min(most);
                (CLIMB, current * (1.0 + *sign * step))
            }
        };
        let rate = self.pace.set(rate);
        let rtts = self.random.random_range(INTERVAL_RTTS.0..INTERVAL_RTTS.1);
        self.monitor.begin(now, rate, purpose, self.pace.interval(rate, rtts));
    }
}

impl Law for Allegro {
    fn on_feedback(&mut self, now: Time, seen: &Feedback) {
        self.pace.saw(seen);
        if self.pace.rate.is_none() {
            return;
        }
        if seen.timeout {
            self.monitor.clear();
            self.decide_at(self.pace.half(), EPSILON.0);
        }
        self.monitor.take(now, self.pace.rtt(), seen);
        while let Some((purpose, outcome)) = self.monitor.next(self.pace.flow.mss) {
            self.judge(purpose, outcome);
        }
        if self.monitor.is_over(now) {
            self.begin(now);
        }
    }

    fn control(&self) -> Control {
        self.pace.control()
    }

    fn resume(&mut self, _now: Time, from: Control) {
        self.monitor.clear();
        self.decide_at(from.rate_over(self.pace.rtt()), EPSILON.0);
    }

    fn in_slow_start(&self) -> bool {
        matches!(self.stage, Stage::Starting(_))
    }

    fn reports_per_rtt(&self) -> u32 {
        REPORTS_PER_RTT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: FlowStart = FlowStart { mss: 1000, init_cwnd: 10_000, seed: 1 };

    fn outcome(mbps: f64, loss: f64) -> Outcome {
        let throughput = Rate::from_mbps(mbps * (1.0 - loss));
        Outcome { rate: Rate::from_mbps(mbps), throughput, loss, slope: 0.0 }
    }

    #[test]
    fn the_utility_tolerates_five_percent_of_loss() {
        let u = |loss| utility(&outcome(100.0, loss));
        assert!((u(0.0) - 99.33).abs() < 0.01, "{}", u(0.0));
        assert!((u(0.05) - (95.0 / 2.0 - 5.0)).abs() < 1e-9);
        assert!(u(0.02) > 91.0 && u(0.1) < 0.0);
    }

    /// A decision at 100 Mbps, in which higher rates are worth `higher` and lower ones `lower` in each pair.
    fn decide(pairs: [(f64, f64); 2]) -> Allegro {
        let mut law = Allegro::new(FLOW);
        law.decide_at(Rate::from_mbps(100.0), EPSILON.0);
        let Stage::Deciding { order, .. } = law.stage else { panic!() };
        for (n, purpose) in order.into_iter().enumerate() {
            let (higher, lower) = pairs[n / 2];
            let mbps = if purpose == HIGHER { higher } else { lower };
            law.judge(purpose, Some(outcome(mbps, 0.0)));
        }
        law
    }

    #[test]
    fn the_rate_moves_where_both_pairs_agree() {
        let up = decide([(101.0, 99.0), (101.0, 99.0)]);
        assert!((up.base.mbps() - 101.0).abs() < 1e-9);
        assert!(matches!(up.stage, Stage::Adjusting { sign: 1.0, .. }));
        let down = decide([(50.0, 99.0), (50.0, 99.0)]);
        assert!((down.base.mbps() - 99.0).abs() < 1e-9);
        let torn = decide([(101.0, 99.0), (50.0, 99.0)]);
        assert_eq!((torn.base.mbps(), torn.epsilon), (100.0, 0.02));
    }

    #[test]
    fn tests_that_tell_nothing_are_repeated() {
        let mut law = decide([(101.0, 99.0), (50.0, 99.0)]);
        let begin = |law: &mut Allegro| {
            law.begin(Time::ZERO);
            matches!(law.stage, Stage::Deciding { begun: 1, .. })
        };
        assert!(begin(&mut law));
        law.judge(PAST, None);
        assert!(!begin(&mut law));
        law.judge(LOWER, None);
        assert!(begin(&mut law));
        law.judge(HOLD, Some(outcome(100.0, 0.0)));
        assert!(begin(&mut law) && law.epsilon == 0.02);
    }

    #[test]
    fn adjusting_goes_on_by_growing_steps_until_the_utility_falls() {
        let mut law = decide([(101.0, 99.0), (101.0, 99.0)]);
        law.pace.rtt = Some(anole_model::Dur::from_millis(50));
        let rates: Vec<f64> = (0..3)
            .map(|n| {
                law.begin(Time::from_micros(n * 200_000));
                law.pace.rate.unwrap().mbps()
            })
            .collect();
        let expected = [101.0 * 1.01, 101.0 * 1.01 * 1.02, 101.0 * 1.01 * 1.02 * 1.03];
        assert!(rates.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{rates:?}");
        law.judge(CLIMB, Some(outcome(rates[0], 0.0)));
        law.judge(CLIMB, Some(outcome(rates[1], 0.2)));
        assert!((law.base.mbps() - rates[0]).abs() < 1e-6 && matches!(law.stage, Stage::Deciding { .. }));
    }
}
