//! Antelope: whole algorithms are chosen from, again and again, while a flow runs.
//!
//! Zhou et al., "Antelope: A Framework for Dynamic Selection of Congestion Control Algorithms", ICNP 2021.
//!
//! ```text
//!  ACKs ──▶ data unit (20 ACKs) ──▶ one model per algorithm predicts the next reward ──▶ the largest, M times in a row
//!               │                                                                             │
//!               └── reward of the unit before ──▶ log for training                            ▼
//!                                                                       the algorithm that governs, state carried over
//! ```
//! - [`unit`]: statistics and reward of a data unit; the datapath's program `rate-hold` counts the ACKs.
//! - [`arms`]: the algorithms, laws of `anole-laws`, and how one takes over from another.
//! - [`choice`]: models, the rules of Rein, or chance (to learn from).
//!
//! Deviations from the paper:
//! - nothing is switched while the algorithm that governs is in slow start: the next would go on from a window that has
//!   not found the path's capacity;
//! - the two round trips after a switch are not judged, since their ACKs are still of packets of the one before;
//! - a model predicts the mean reward of the round trips that follow, not of the next 20 ACKs, which were sent
//!   before it could be heeded (`training/antelope.py`).

mod arms;
mod choice;
mod unit;

#[cfg(test)]
mod tests;

use crate::alone::feedback;
use crate::{Algorithm, Build, BuildError, Commands, FlowInfo, Program, Report, Spec, Telemetry};
use anole_laws::{Feedback, parameters};
use anole_model::{Dur, Rate, Time};
use anole_programs::rate_hold::{self, control};
pub use arms::ARMS;
use arms::{Arms, DEFAULT_ARM, STARTING_REPORTS};
use choice::{Choice, Rein};
pub use unit::DataUnit;
use unit::Units;

/// The first report comes with the first ACK, us.
const FIRST_REPORT_US: u32 = 1_000;
/// The next ones come as often in a round trip as the laws ask, within these bounds, us.
const INTERVAL_US: core::ops::RangeInclusive<u64> = 1_000..=1_000_000;
/// Round trips after a switch that are not judged.
const UNJUDGED_RTTS: f64 = 2.0;

const RUNS: &[&Program] = &[&rate_hold::PROGRAM];

/// Antelope with its models.
pub(crate) const ANTELOPE: Spec = Spec {
    name: "antelope",
    kind: "learned",
    summary: "Chooses among BBR, C2TCP, CUBIC, Illinois, Vegas and Westwood by predicted rewards, while the flow runs",
    programs: RUNS,
    parameters: AntelopeParams::PARAMETERS,
    source: "Zhou et al., ICNP 2021",
    takes_classic: false,
    takes_policy: true,
    builder: &|what| Antelope::build(what, None),
};
/// The same algorithms chosen by rules.
pub(crate) const REIN: Spec = Spec {
    name: "rein",
    kind: "rule",
    summary: "Chooses CUBIC, BBR in small buffers, Westwood where losses come without a queue",
    source: "Chen et al. (Rein), as Antelope (ICNP 2021) compares with it; the rules that tell networks apart are ours",
    takes_policy: false,
    builder: &|what| Antelope::build(what, Some(Choice::Rein(Rein::default()))),
    ..ANTELOPE
};

parameters! {
    /// What a user may change.
    struct AntelopeParams {
        patience = 2.0, 1.0..=100.0, "M: recommendations in a row that a switch takes (Antelope §IV-A).";
        first = -1.0, -1.0..=5.0, "The algorithm at the start: 0 bbr, 1 c2tcp, 2 cubic, 3 illinois, 4 vegas, 5 westwood; -1: what is known of the address, else cubic.";
        explore = 0.0, 0.0..=100000.0, "Switches at random, every so many data units on the mean: to learn from; 0: never.";
        log = 0.0, 0.0..=1.0, "1: results carry every data unit with its algorithm and reward.";
    }
}

/// A data unit that is over, as models learn from it.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Judgement {
    /// When it ended.
    pub at_s: f64,
    /// The algorithm that governed.
    pub arm: &'static str,
    /// Its statistics.
    #[serde(flatten)]
    pub unit: DataUnit,
    /// Its reward (Antelope eq. 1).
    pub reward: f64,
    /// The smoothed round-trip time, ms.
    pub srtt_ms: f64,
}

struct Antelope {
    flow: FlowInfo,
    params: AntelopeParams,
    arms: Arms,
    choice: Choice,
    units: Units,
    /// A pacing rate is in force.
    paces: bool,
    /// What was recommended last, and how often in a row.
    recommended: (usize, u32),
    /// Units are judged from here on.
    judged_from: Time,
    /// Data units under each arm.
    served: [u64; ARMS.len()],
    judgement: Option<Judgement>,
    telemetry: Telemetry,
}

impl Antelope {
    fn build(what: &Build, rules: Option<Choice>) -> Result<Box<dyn Algorithm>, BuildError> {
        let params = AntelopeParams::with(&what.params)?;
        let choice = match rules {
            _ if params.explore > 0.0 => Choice::random(what.seed, params.explore),
            Some(rules) => rules,
            None => Choice::Models(
                what.policies
                    .boosters(what.policy.as_deref(), DataUnit::WIDTH)
                    .map_err(|error| BuildError::Policy(error.to_string()))?,
            ),
        };
        let first = if params.first < 0.0 { DEFAULT_ARM } else { params.first as usize };
        Ok(Box::new(Antelope::new(what.flow, what.seed, params, choice, first)?))
    }

    fn new(
        flow: FlowInfo,
        seed: u64,
        params: AntelopeParams,
        choice: Choice,
        first: usize,
    ) -> Result<Antelope, BuildError> {
        let arms = Arms::build(flow, seed, first)?;
        Ok(Antelope {
            flow,
            params,
            recommended: (arms.current(), 0),
            arms,
            choice,
            units: Units::new(),
            paces: false,
            judged_from: Time::ZERO,
            served: [0; ARMS.len()],
            judgement: None,
            telemetry: Telemetry::default(),
        })
    }

    fn hold(&mut self, out: &mut Commands) {
        let held = self.arms.in_force();
        out.cwnd(held.cwnd);
        self.paces |= self.arms.paces();
        if let Some(rate) = held.rate.filter(|_| self.paces) {
            out.rate(rate);
        }
        out.set(control::GROW, u32::from(!self.paces && self.arms.in_slow_start()));
    }

    /// A report comes with the last ACK of a data unit; in slow start with every eighth of the window, for the last ACKs of
    /// a flight would else be told with the next.
    fn most_acks(&self) -> u32 {
        let unit = self.units.missing();
        let eighth =
            u64::from(self.arms.in_force().cwnd) / u64::from(self.flow.mss.max(1)) / STARTING_REPORTS;
        let acks = if self.arms.in_slow_start() { unit.min(eighth.max(1)) } else { unit };
        (acks - 1) as u32
    }

    /// Takes the reward of a data unit and what the choice makes of it.
    fn judge(&mut self, now: Time, unit: &DataUnit, reward: f64) {
        let current = self.arms.current();
        self.telemetry.decisions += 1;
        self.served[current] += 1;
        self.judgement = Some(Judgement {
            at_s: now.as_secs_f64(),
            arm: ARMS[current],
            unit: *unit,
            reward,
            srtt_ms: 1e3 * self.arms.srtt().unwrap_or(Dur::ZERO).as_secs_f64(),
        });
        if self.arms.in_slow_start() || now < self.judged_from {
            self.recommended.1 = 0;
            return;
        }
        self.telemetry.inferences += 1;
        let next = self.choice.recommend(unit, current);
        self.recommended = match self.recommended {
            (last, times) if last == next => (last, times.saturating_add(1)),
            _ => (next, 1),
        };
        if next != current && self.recommended.1 >= self.choice.patience(self.params.patience as u32) {
            self.arms.switch(now, next);
            let rtt = self.arms.srtt().unwrap_or(Dur::ZERO).as_secs_f64();
            self.judged_from = now + Dur::from_secs_f64(UNJUDGED_RTTS * rtt);
        }
    }

    fn take(&mut self, now: Time, seen: &Feedback) {
        self.arms.feed(now, seen);
        let pacing = self.arms.in_force().rate.unwrap_or(Rate::ZERO);
        if let Some((unit, reward)) = self.units.add(seen, pacing) {
            self.judge(now, &unit, reward);
        }
    }
}

impl Algorithm for Antelope {
    fn start(&mut self, _now: Time, out: &mut Commands) {
        out.run(&rate_hold::PROGRAM);
        self.hold(out);
        out.set(control::INTERVAL_US, FIRST_REPORT_US);
        out.set(control::MOST_ACKS, self.most_acks());
    }

    fn on_report(&mut self, now: Time, report: &Report<'_>, out: &mut Commands) {
        if report.program.name != rate_hold::PROGRAM.name {
            return;
        }
        let Some(seen) = rate_hold::Report::read(report.values) else { return };
        self.take(now, &feedback(&seen));
        self.hold(out);
        let interval_us = seen.rtt_us / self.arms.reports_per_rtt();
        out.set(control::INTERVAL_US, interval_us.clamp(*INTERVAL_US.start(), *INTERVAL_US.end()) as u32);
        out.set(control::MOST_ACKS, self.most_acks());
    }

    fn judgement(&mut self) -> Option<Judgement> {
        self.judgement.take().filter(|_| self.params.log > 0.0)
    }

    fn telemetry(&self) -> Telemetry {
        self.telemetry
    }
}
