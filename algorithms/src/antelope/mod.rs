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
//! - [`selector`]: units and choice together, for these arms or for laws of somebody else (the agent's `--switch linux`).
//!
//! Deviations from the paper:
//! - nothing is switched during the slow start of a flow that begins, or begins again after a timeout: the next would go
//!   on from a window that has not found the path's capacity;
//! - the two round trips after a switch are not judged, since their ACKs are still of packets of the one before;
//! - a model predicts the mean reward of the round trips that follow, not of the next 20 ACKs, which were sent
//!   before it could be heeded (`training/antelope.py`).

mod arms;
mod choice;
mod selector;
mod unit;

#[cfg(test)]
mod tests;

use crate::alone::feedback;
use crate::{Algorithm, Build, BuildError, Commands, FlowInfo, Program, Report, Spec, Telemetry};
use anole_laws::{Feedback, parameters};
use anole_model::{Dur, Time};
use anole_programs::rate_hold::{self, control};
pub use arms::ARMS;
use arms::{Arms, DEFAULT_ARM, STARTING_REPORTS};
use choice::{Choice, Rein};
pub use selector::{Decision, Governed, Selector, Stretch};
pub use unit::DataUnit;

/// The first report comes with the first ACK, us.
const FIRST_REPORT_US: u32 = 1_000;
/// The next ones come as often in a round trip as the laws ask, within these bounds, us.
const INTERVAL_US: core::ops::RangeInclusive<u64> = 1_000..=1_000_000;

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
    /// Whether something was recommended after it: not in slow start, unless it is a later one, nor soon after a switch.
    pub judged: bool,
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
    arms: Arms,
    selector: Selector,
    /// Data units are told.
    logs: bool,
    /// A pacing rate is in force.
    paces: bool,
    judgement: Option<Judgement>,
    telemetry: Telemetry,
}

impl Antelope {
    fn build(what: &Build, rules: Option<Choice>) -> Result<Box<dyn Algorithm>, BuildError> {
        let params = AntelopeParams::with(&what.params)?;
        let selector = Selector::build(what, rules)?;
        let first = selector.first().unwrap_or(DEFAULT_ARM);
        let arms = Arms::build(what.flow, what.seed, first)?;
        Ok(Box::new(Antelope::new(what.flow, params, arms, selector)))
    }

    fn new(flow: FlowInfo, params: AntelopeParams, arms: Arms, selector: Selector) -> Antelope {
        Antelope {
            flow,
            arms,
            selector,
            logs: params.log > 0.0,
            paces: false,
            judgement: None,
            telemetry: Telemetry::default(),
        }
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
        let unit = self.selector.missing_acks();
        let eighth =
            u64::from(self.arms.in_force().cwnd) / u64::from(self.flow.mss.max(1)) / STARTING_REPORTS;
        let acks = if self.arms.in_slow_start() { unit.min(eighth.max(1)) } else { unit };
        (acks - 1) as u32
    }

    fn take(&mut self, now: Time, seen: &Feedback) {
        self.arms.feed(now, seen);
        let pacing = self.arms.pacing();
        let srtt = self.arms.srtt().unwrap_or(Dur::ZERO);
        let flow = Governed { arm: self.arms.current(), starting: self.arms.in_slow_start(), srtt };
        let Some(decision) = self.selector.feed(now, seen, pacing, &flow) else { return };
        self.telemetry.decisions += 1;
        self.telemetry.inferences += u64::from(decision.judgement.judged);
        self.judgement = Some(decision.judgement);
        if let Some(next) = decision.switch_to {
            self.arms.switch(now, next);
            self.selector.switched(now, srtt);
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
        self.judgement.take().filter(|_| self.logs)
    }

    fn telemetry(&self) -> Telemetry {
        self.telemetry
    }
}
