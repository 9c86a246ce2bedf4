//! PCC Vivace (Dong et al., *PCC Vivace: Online-Learning Congestion Control*, NSDI 2018): gradient ascent on a utility of rate,
//! delay gradient and loss.
//!
//! ```text
//! u(x) = x^0.9 − b·x·d(RTT)/dt − c·x·L        x in Mbps, b = 900, c = 11.35                       (§4.1, eq. 1)
//! starting:  the rate doubles every interval until u falls, and goes back to the one before          (§5.1)
//! learning:  an interval at r(1 + ε) and one at r(1 − ε), in random order, ε = 0.05
//!            g = (u(r(1 + ε)) − u(r(1 − ε)))/(2·ε·r),   r += m(τ)·θ·g                              (§5.2, eq. 6)
//! m(τ) = τ up to 3, then 2·τ − 3: τ steps in a row in one direction (confidence amplifier)
//! |step| ≤ (0.05 + 0.1·k)·r: k grows while steps reach the bound, 0 after a turn (change boundary)
//! ```
//! An interval lasts a round trip. The delay gradient is a least-squares slope; below 0.01 (§4.2) or two of its standard
//! errors it is noise.
//!
//! Deviations: the slope's standard error counts, without which jitter alone makes the rate fall; x is the rate asked for;
//! an interval without enough packets back tells nothing (the pair is repeated, starting ends); where more than a fifth is
//! lost, the rate falls to what comes back at once, as it does at the end of starting; a timeout halves the rate; the window
//! is twice rate times round-trip time.

use super::monitor::{Monitor, Outcome, PAST};
use super::{Climb, Pace, REPORTS_PER_RTT};
use crate::{Control, Feedback, FlowStart, Law, LawSpec, parameters};
use anole_model::{Rate, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

parameters! {
    /// What a user may change.
    pub struct Params {
        t = 0.9, 0.01..=1.0, "Exponent of the rate in the utility (§4.1).";
        b = 900.0, 0.0..=100000.0, "Weight of the delay gradient; 0 is the loss-based utility (§4.1).";
        c = 11.35, 0.0..=100000.0, "Weight of the loss (§4.1).";
        epsilon = 0.05, 0.001..=0.5, "Share of the rate by which tests differ from it (§5.2).";
        theta = 1.0, 0.001..=100.0, "Step per gradient, Mbps (§5.2).";
    }
}

/// Vivace in the registry.
pub const SPEC: LawSpec = LawSpec {
    name: "vivace",
    summary: "PCC Vivace: climbs the gradient of a utility of rate, delay gradient and loss",
    source: "Dong et al., NSDI 2018",
    parameters: Params::PARAMETERS,
    build: |flow, given| Ok(Box::new(Vivace::new(flow, Params::with(given)?))),
};

/// The change boundary: its base and its step, share of the rate (§5.2: ω0, δ).
const BOUND: (f64, f64) = (0.05, 0.1);
/// The amplifier is τ up to here, and 2τ − 3 from there (§5.2).
const SLOW_STEPS: u32 = 3;
/// An interval lasts so many round trips.
const INTERVAL_RTTS: f64 = 1.0;
/// What an interval is for.
const HOLD: u8 = 0;
const STARTING: u8 = 1;
const HIGHER: u8 = 2;
const LOWER: u8 = 3;

/// How large the next step may be.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Stride {
    up: bool,
    /// Steps in a row in this direction.
    steps: u32,
    /// Steps in a row that reached the bound.
    bounded: u32,
}

impl Stride {
    /// The change of a rate, Mbps, for this gradient times θ.
    fn step(&mut self, rate: f64, gradient: f64) -> f64 {
        if (gradient > 0.0) != self.up || self.steps == 0 {
            *self = Stride { up: gradient > 0.0, steps: 0, bounded: 0 };
        }
        self.steps = self.steps.saturating_add(1);
        let amplifier =
            if self.steps <= SLOW_STEPS { self.steps } else { self.steps.saturating_mul(2) - SLOW_STEPS };
        let (asked, bound) = (f64::from(amplifier) * gradient, BOUND.0 + BOUND.1 * f64::from(self.bounded));
        let most = bound * rate;
        // Below the bound k falls to the smallest that would have let the step pass.
        let needed = ((asked.abs() / rate - BOUND.0) / BOUND.1).ceil().max(0.0) as u32;
        self.bounded = if asked.abs() > most { self.bounded.saturating_add(1) } else { needed };
        asked.clamp(-most, most)
    }
}

/// What the flow does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// Before the end of slow start.
    Starting(Climb),
    /// Tests: purposes still to come, and utilities at the higher and the lower rate.
    Learning { ahead: [u8; 2], higher: Option<f64>, lower: Option<f64> },
}

/// Vivace's rate.
#[derive(Clone, Debug)]
pub struct Vivace {
    params: Params,
    pace: Pace,
    /// The rate around which tests are, once starting is over.
    base: Rate,
    monitor: Monitor,
    stage: Stage,
    stride: Stride,
    random: Pcg64Mcg,
}

impl Vivace {
    /// Starts with the initial window per round trip.
    pub fn new(flow: FlowStart, params: Params) -> Vivace {
        Vivace {
            params,
            pace: Pace::new(flow),
            base: Rate::ZERO,
            monitor: Monitor::default(),
            stage: Stage::Starting(Climb::default()),
            stride: Stride::default(),
            random: Pcg64Mcg::seed_from_u64(flow.seed),
        }
    }

    fn utility(&self, outcome: &Outcome) -> f64 {
        let (x, Params { t, b, c, .. }) = (outcome.rate.mbps(), self.params);
        x.powf(t) - b * x * outcome.slope - c * x * outcome.loss
    }

    /// A pair of tests around this rate comes next.
    fn learn_at(&mut self, rate: Rate) {
        self.monitor.outdate();
        self.base = self.pace.set(rate);
        let ahead = if self.random.random_range(0..2) == 0 { [HIGHER, LOWER] } else { [LOWER, HIGHER] };
        self.stage = Stage::Learning { ahead, higher: None, lower: None };
    }

    /// An interval of this purpose is over, whose outcome is known or not.
    fn judge(&mut self, purpose: u8, outcome: Option<Outcome>) {
        let Some(outcome) = outcome else {
            return match self.stage {
                _ if purpose == PAST => {}
                Stage::Starting(_) => self.learn_at(self.pace.half()),
                Stage::Learning { .. } => self.learn_at(self.base),
            };
        };
        if let Some(rate) = outcome.overload() {
            self.monitor.clear();
            self.stride = Stride::default();
            return self.learn_at(rate);
        }
        let utility = self.utility(&outcome);
        match (&mut self.stage, purpose) {
            (Stage::Starting(climb), STARTING) => {
                if let Some(best) = climb.judge(outcome, utility) {
                    self.learn_at(best.carried());
                }
            }
            // Tests are over before it: one was forgotten.
            (Stage::Learning { .. }, HOLD) => self.learn_at(self.base),
            (Stage::Learning { higher, .. }, HIGHER) => *higher = Some(utility),
            (Stage::Learning { lower, .. }, LOWER) => *lower = Some(utility),
            _ => {}
        }
        if let Stage::Learning { higher: Some(higher), lower: Some(lower), .. } = self.stage {
            let base = self.base.mbps();
            let gradient = (higher - lower) / (2.0 * self.params.epsilon * base);
            let step = self.stride.step(base, self.params.theta * gradient);
            self.learn_at(Rate::from_mbps(base + step));
        }
    }

    /// The next interval begins.
    fn begin(&mut self, now: Time) {
        let (epsilon, base) = (self.params.epsilon, self.base);
        let (purpose, rate) = match &mut self.stage {
            Stage::Starting(Climb { last: None }) if self.monitor.is_empty() => {
                (STARTING, self.pace.rate.unwrap_or(Rate::ZERO))
            }
            Stage::Starting(_) => (STARTING, self.pace.rate.unwrap_or(Rate::ZERO) * 2.0),
            Stage::Learning { ahead, .. } => {
                let purpose = ahead[0];
                *ahead = [ahead[1], HOLD];
                let factor = match purpose {
                    HIGHER => 1.0 + epsilon,
                    LOWER => 1.0 - epsilon,
                    _ => 1.0,
                };
                (purpose, base * factor)
            }
        };
        let rate = self.pace.set(rate);
        self.monitor.begin(now, rate, purpose, self.pace.interval(rate, INTERVAL_RTTS));
    }
}

impl Law for Vivace {
    fn on_feedback(&mut self, now: Time, seen: &Feedback) {
        self.pace.saw(seen);
        if self.pace.rate.is_none() {
            return;
        }
        if seen.timeout {
            self.monitor.clear();
            self.stride = Stride::default();
            self.learn_at(self.pace.half());
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
        self.stride = Stride::default();
        self.learn_at(from.rate_over(self.pace.rtt()));
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
    use anole_model::Dur;

    const FLOW: FlowStart = FlowStart { mss: 1000, init_cwnd: 10_000, seed: 1 };

    #[test]
    fn the_utility_is_that_of_the_paper() {
        let vivace = Vivace::new(FLOW, Params::default());
        let u = |mbps: f64, slope, loss| {
            vivace.utility(&Outcome { rate: Rate::from_mbps(mbps), slope, loss, ..Outcome::default() })
        };
        assert!((u(100.0, 0.0, 0.0) - 63.0957).abs() < 1e-3);
        assert!((u(100.0, 0.01, 0.02) - (63.0957 - 900.0 - 22.7)).abs() < 1e-3);
    }

    #[test]
    fn steps_are_amplified_in_one_direction_and_bounded() {
        let mut stride = Stride::default();
        let steps: Vec<f64> = (0..5).map(|_| stride.step(1000.0, 1.0)).collect();
        assert_eq!(steps, [1.0, 2.0, 3.0, 5.0, 7.0]);
        assert_eq!(stride.step(1000.0, -1.0), -1.0);
        // 5 % at first, 10 % more each time that the bound is reached.
        let mut stride = Stride::default();
        let steps: Vec<f64> = (0..3).map(|_| stride.step(100.0, -1000.0)).collect();
        assert!(steps.iter().zip([-5.0, -15.0, -25.0]).all(|(a, b)| (a - b).abs() < 1e-9), "{steps:?}");
        assert_eq!((stride.step(100.0, 1.0), stride.bounded), (1.0, 0));
    }

    /// A fluid link of 20 Mbps and 50 ms with so much queue, fed by the law at its rate; reports of an eighth of a round trip.
    fn over_a_link(seconds: f64) -> (Vivace, Vec<f64>, f64) {
        let (mut law, mut rates, mut queue_s) = (Vivace::new(FLOW, Params::default()), Vec::new(), 0.0f64);
        let tick = Dur::from_micros(6250);
        let (mut sent, mut now) = (Vec::new(), Time::ZERO);
        while now.as_secs_f64() < seconds {
            now += tick;
            let mbps = law.pace.rate.map_or(1.6, |rate| rate.mbps());
            let before = queue_s;
            queue_s = (queue_s + (mbps / 20.0 - 1.0) * tick.as_secs_f64()).clamp(0.0, 0.1);
            sent.push((mbps, before, queue_s));
            if sent.len() > 8 {
                let (mbps, before, after) = sent[sent.len() - 9];
                // What arrives is the rate or the capacity; the round-trip time rises evenly meanwhile.
                let arrived = mbps.min(20.0);
                let mut sums = crate::regression::Sums::default();
                for part in 0..10u64 {
                    let rtt = 0.05 + before + (after - before) * part as f64 / 10.0;
                    let one = crate::regression::Sums::one(Dur::from_secs_f64(rtt));
                    sums.append(&one, tick.mul_f64(part as f64 / 10.0));
                }
                let acked = (arrived * 1e6 / 8.0 * tick.as_secs_f64()) as u64;
                let rtt = Some(Dur::from_millis(50));
                law.on_feedback(
                    now,
                    &Feedback { acked, rtt, min_rtt: rtt, samples: 10, sums, ..Feedback::default() },
                );
                rates.push(law.pace.rate.unwrap().mbps());
            }
        }
        (law, rates, queue_s)
    }

    #[test]
    fn it_finds_the_capacity_of_a_link_and_keeps_the_queue_short() {
        let (law, rates, queue_s) = over_a_link(20.0);
        let mean = rates[rates.len() / 2..].iter().sum::<f64>() / (rates.len() / 2) as f64;
        assert!((mean / 20.0 - 1.0).abs() < 0.08 && queue_s < 0.03, "{mean} Mbps, {queue_s} s");
        assert!(!law.in_slow_start());
    }

    #[test]
    fn tests_that_tell_nothing_are_repeated() {
        let mut law = Vivace::new(FLOW, Params::default());
        law.learn_at(Rate::from_mbps(20.0));
        let begin = |law: &mut Vivace| {
            law.begin(Time::ZERO);
            matches!(law.stage, Stage::Learning { ahead: [HIGHER | LOWER, HOLD], .. })
        };
        assert!(begin(&mut law));
        law.judge(PAST, None);
        assert!(!begin(&mut law));
        law.judge(HIGHER, None);
        assert!(begin(&mut law));
        law.judge(HOLD, Some(Outcome { rate: law.base, throughput: law.base, ..Outcome::default() }));
        assert!(begin(&mut law));
    }

    #[test]
    fn a_timeout_halves_the_rate() {
        let (mut law, _, _) = over_a_link(20.0);
        let rate = law.pace.rate.unwrap().mbps();
        law.on_feedback(Time::from_secs_f64(20.1), &Feedback { timeout: true, ..Feedback::default() });
        assert!((law.base.mbps() / rate - 0.5).abs() < 1e-9);
    }
}
