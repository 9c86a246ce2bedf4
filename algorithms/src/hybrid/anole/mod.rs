//! Anole: three rates compete, the rule-based candidate's, the learned candidate's and the one in force.
//!
//! Han et al., "Anole: A Pragmatic Blend of Classic and Learning-Based Algorithms in Congestion Control",
//! IEEE Transactions on Computers 2025.
//!
//! ```text
//!        RTT rises, loss, plateau                      effect seen
//!  ┌──────┐ ──────────────▶ ┌───────┐ ────▶ ┌───────┐ ─────────────▶ ┌─────────┐
//!  │ Ramp │                 │ Drain │       │ Check │                │ Probing │ ◀──┐
//!  └──────┘                 └───────┘ ◀──── └───────┘                └─────────┘    │
//!     ▲                      ▲     ▲    queue still long                  │ N RTTs  │
//!     │                      │     │                                      ▼         │
//!     │ capacity is free     │     │ queue long, RTTmin stale   ┌────────────┐      │
//!     └───────────────────── │ ────┴─────────────────────────── │ Evaluation │ ─────┤
//!                            │                         decision └────────────┘      │
//!      alarm, in any stage ──┘                                       ▲ trusted      │
//!      that has it armed                                             │ again        │
//!                                          a candidate is     ┌──────────────┐      │
//!                                          deprecated: ─────▶ │ Acceleration │ ◀────┘
//!                                          instead of Probing └──────────────┘
//!
//!                     trust in the model lost  ┌───────┐ steady rounds, and a trial that goes as forecast
//!   Probing, Acceleration, Check, an alarm ──▶ │ Track │ ────────────────────────────────────────────────▶ Drain, Probing
//!                                              └───────┘
//! ```
//! One file per stage: [`ramp`], [`evaluation`] (with [`decision`] and [`inference`]), [`drain`], [`check`],
//! [`probing`], [`acceleration`], [`track`]; what makes them change: [`alarm`] and [`trust`];
//! what they know: [`path`] with its [`own_loss`] and [`share`], the [`target_queue`], the [`verdict`] on a rate, [`params`]. The deviations from the paper are listed in the file that has them; those of this file:
//! - slow start ends on a rising round-trip time, and the rate it leaves is what the path delivers while
//!   the queue drains, not (r_cl + r_rl)/2: the window of slow start is twice what the path holds;
//! - free capacity, shown by a climb when no window met any queue, starts a gentle ramp, since
//!   steps of eq. 10 alone need seconds to find a doubled capacity;
//! - a policy that has not answered when probing ends is waited for, at most until its deadline; then the
//!   cycle tests the rate in force in its place. An answer that is no rate counts against its confidence.

mod acceleration;
mod alarm;
mod check;
mod decision;
mod drain;
mod evaluation;
mod explain;
mod inference;
mod own_loss;
mod params;
mod path;
mod probing;
mod ramp;
mod share;
mod target_queue;
#[cfg(test)]
mod tests;
mod track;
mod trust;
mod verdict;

use super::interval::{MonitorInterval, Phase};
use super::slot::{LearnedSlot, RuleSlot};
use crate::{
    Algorithm, Applied, Build, BuildError, Commands, Explanation, FlowInfo, Report, Spec, Telemetry, learned,
};
use acceleration::Acceleration;
use anole_laws::{Feedback, Track};
use anole_model::{Bounds, Dur, Rate, Time};
use anole_programs::anole_cycle::control;
use anole_programs::{anole_cycle, ramp as ramp_program, rate_hold};
use decision::{Choice, Evidence, Source};
use drain::Drain;
use evaluation::{Evaluation, gap_us, register_us};
use params::AnoleParams;
use path::Path;
use probing::Probing;
use ramp::{Patience, Ramp};
use target_queue::TargetQueue;
use trust::Trust;
use verdict::Verdict;

/// Anole in the registry.
pub(crate) const SPEC: Spec = Spec {
    name: "anole",
    kind: "hybrid",
    summary: "The better of a rule-based and a learned rate, or an inferred one where both are poor",
    programs: &[&anole_cycle::PROGRAM, &ramp_program::PROGRAM, &rate_hold::PROGRAM],
    parameters: AnoleParams::PARAMETERS,
    source: "Han et al., IEEE TC 2025, doi 10.1109/TC.2025.3566872",
    takes_classic: true,
    takes_policy: true,
    builder: &build,
};

/// The rule slot when nothing is named (Anole §IV).
const DEFAULT_RULE: &str = "cubic";
/// The window is a cap only: twice what the rate needs, so that pacing governs.
const CAP_GAIN: f64 = 2.0;
/// A window larger than this at the start is that of a running flow, packets; it is not doubled but
/// grown gently.
const ADOPTED_PACKETS: u32 = 64;
/// The smallest rate, packets per round trip: fewer give no feedback.
const MIN_PACKETS_PER_RTT: f64 = 2.0;
/// What a timeout leaves of the rate and the window where nothing arrives any more.
const LEFT_BY_TIMEOUT: f64 = 0.5;
/// Reports in a row of a program that should have ended, after which it is changed once more, if they span a round trip.
const LOST_AFTER_REPORTS: u32 = 4;
/// Where less than this share of what the rate allows was sent the application had no more.
const IDLE_SHARE: f64 = 0.6;

fn build(what: &Build) -> Result<Box<dyn Algorithm>, BuildError> {
    let params = AnoleParams::with(&what.params)?;
    let rule = RuleSlot::build(what.classic.as_deref().unwrap_or(DEFAULT_RULE), what.flow, what.seed)?;
    let policy = what.policy.as_deref().unwrap_or(learned::DEFAULT);
    let policy = LearnedSlot::build(policy, &*what.policies, what.seed)?;
    Ok(Box::new(Anole::new(what.flow, params, rule, policy)))
}

/// What the flow does now.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "one per flow, copied once per report")]
enum Stage {
    /// Exponential growth.
    Ramp(Ramp),
    /// The candidates run for half a round trip each.
    Evaluation(Evaluation),
    /// A queue is worked off for one round trip.
    Drain(Drain),
    /// The rate decided on is applied until the last packet of a drain has told whether it helped.
    Check(Drain),
    /// The rate decided on is applied for N round trips.
    Probing(Probing),
    /// Additive steps while a candidate is deprecated.
    Acceleration(Acceleration),
    /// A window law governs while the model of the path does not hold.
    Track,
}

impl Stage {
    /// True where `next` makes sense after this stage. Every stage may end in a drain (an alarm) and in a ramp (the change
    /// of programs was lost), and every one but the ramp in probing or acceleration (a timeout).
    fn may_lead_to(&self, next: &Stage) -> bool {
        match next {
            Stage::Ramp(_) | Stage::Drain(_) | Stage::Track => true,
            Stage::Probing(_) | Stage::Acceleration(_) => !matches!(self, Stage::Ramp(_)),
            Stage::Check(_) => matches!(self, Stage::Drain(_)),
            Stage::Evaluation(_) => {
                matches!(self, Stage::Probing(_) | Stage::Acceleration(_) | Stage::Evaluation(_))
            }
        }
    }
}

struct Anole {
    flow: FlowInfo,
    params: AnoleParams,
    path: Path,
    rule: RuleSlot,
    learned: LearnedSlot,
    /// r: the rate in force.
    rate: Rate,
    /// Where it came from, and since when.
    source: (Source, Time),
    /// The verdict on it, from the last probing stage.
    verdict: Option<Verdict>,
    stage: Stage,
    cycle: u32,
    climbs: u32,
    /// Evaluations in a row in which no test moved the queue.
    unmoved: u32,
    patience: Patience,
    /// How much the model of the path is believed, and what governs when it is not.
    trust: Trust,
    track: Track,
    /// Reports in a row of a program that should have ended, and when the first of them came.
    ignored: (u32, Time),
    /// What the last report's decision rested on, if it led to one.
    evidence: Option<Evidence>,
    telemetry: Telemetry,
    explanation: Option<Explanation>,
}

impl Anole {
    fn new(flow: FlowInfo, params: AnoleParams, rule: RuleSlot, learned: LearnedSlot) -> Anole {
        let path = Path::new();
        Anole {
            flow,
            params,
            rule,
            learned,
            rate: Rate::from_bytes_in(u64::from(flow.init_cwnd), path.srtt()),
            path,
            source: (Source::Rule, Time::ZERO),
            verdict: None,
            stage: Stage::Acceleration(Acceleration::default()),
            cycle: 0,
            climbs: 0,
            unmoved: 0,
            patience: Patience::default(),
            trust: Trust::new(),
            track: track::new_track(flow, &params),
            ignored: (0, Time::ZERO),
            evidence: None,
            telemetry: Telemetry::default(),
            explanation: None,
        }
    }

    /// A report of the program before is late, once or twice; when they go on, the change of programs was
    /// lost on its way, and the rate in force is the place to start from again.
    fn ignore(&mut self, now: Time, out: &mut Commands) {
        let (before, since) = self.ignored;
        let since = if before == 0 { now } else { since };
        self.ignored = (before + 1, since);
        if before + 1 >= LOST_AFTER_REPORTS && now.since(since) >= self.path.srtt() {
            self.ignored.0 = 0;
            self.ramp(self.params.ramp_gain, self.cap(self.rate, 1.0), out);
        }
    }

    /// Tells the rule-based candidate what happened since the last report.
    fn feed_rule(&mut self, now: Time, seen: Feedback) {
        let (rtt, delivery_rate) = (Some(self.path.srtt()), Some(self.path.delivery_rate()));
        self.rule.feed(now, &Feedback { rtt, delivery_rate, ..seen });
    }

    /// The rate of the rule-based candidate.
    fn rule_rate(&self) -> Rate {
        self.rule.rate(self.path.srtt())
    }

    /// The rule-based candidate goes on from this rate.
    fn resume_rule(&mut self, now: Time, rate: Rate) {
        let cwnd = u64::from(self.cap(rate, 1.0));
        self.rule.resume(now, rate, cwnd);
    }

    fn on_window(&mut self, now: Time, window: &MonitorInterval, out: &mut Commands) {
        if let Some((mean, min)) = window.rtt {
            self.path.saw_rtt(now, mean, min);
        }
        // The short holds of a wait span too few packets to tell a rate.
        if !matches!(self.stage, Stage::Probing(Probing { waits_until: Some(_) })) {
            self.path.saw_delivery(window.acked, window.elapsed);
        }
        self.feed_rule(now, window.feedback());
        let low = match self.stage {
            Stage::Evaluation(_) => window.phase == Phase::Low,
            stage => matches!(stage, Stage::Drain(_)),
        };
        let own = (low && self.path.is_empty_at(window.late_rtt)).then(|| window.loss(self.flow.mss));
        self.path.own_loss.saw(now, self.rate, window.all_loss(self.flow.mss), own);
        if window.timeout {
            return self.on_timeout(now, window, out);
        }
        if self.doubts(window) {
            return self.enter_track(now, out);
        }
        if window.phase == Phase::Alarm {
            return self.on_alarm(now, window, out);
        }
        match (self.stage, window.phase) {
            (Stage::Evaluation(mut evaluation), phase) => {
                if let Some(test) = evaluation.test(phase) {
                    let verdict = self.judge(window, test.1);
                    evaluation.take(test, window, verdict);
                    self.enter(Stage::Evaluation(evaluation));
                }
                // A window of the rate held means that the report of the higher one was lost.
                if phase != Phase::Low {
                    self.decide(now, &evaluation, window, out);
                }
            }
            (Stage::Drain(drain), Phase::Hold) => self.on_drained(now, drain, window, out),
            (Stage::Check(drain), Phase::Hold) => self.on_checked(now, drain, window, out),
            (Stage::Probing(probing), Phase::Hold) => self.on_probed(now, probing, window, out),
            (Stage::Acceleration(acceleration), Phase::Hold) => {
                self.accelerate(now, acceleration, window, out);
            }
            // A window that was under way when the stage changed (after a timeout).
            (_, _) => {}
        }
    }

    /// What evaluations have told is of a path that was another.
    fn forget_evaluations(&mut self) {
        (self.climbs, self.unmoved, self.verdict) = (0, 0, None);
    }

    /// True where less went than a rate allows, nothing was lost and no queue stands: the application had no more.
    fn is_idle(&self, window: &MonitorInterval, rate: Rate) -> bool {
        let tolerated = self.path.min_rtt().mul_f64(1.0 + self.target_queue().tolerated);
        let used = window.acked as f64 >= IDLE_SHARE * rate.bytes_in(window.elapsed);
        !used && window.lost == 0 && window.late_rtt <= tolerated
    }

    /// A timeout says that nothing arrives any more, unless something did: slow start, then, up to half of what was in force.
    fn on_timeout(&mut self, now: Time, window: &MonitorInterval, out: &mut Commands) {
        self.forget_evaluations();
        self.trust.forget_yielding();
        if window.acked == 0 {
            let cwnd = self.cap(self.rate, LEFT_BY_TIMEOUT);
            self.set_rate(now, self.rate * LEFT_BY_TIMEOUT, Source::Previous);
            return self.ramp(ramp::SLOW_START, cwnd, out);
        }
        self.apply(now, Choice { rate: self.rate, source: Source::Previous, climb: false });
        self.enter_probing(out);
    }

    /// Puts a decided rate in force, and the rule-based candidate on it unless it is near already.
    fn apply(&mut self, now: Time, choice: Choice) {
        self.set_rate(now, choice.rate, choice.source);
        let own = self.rule_rate().bytes_per_s();
        if (own - self.rate.bytes_per_s()).abs() > self.params.keep_epoch * self.rate.bytes_per_s() {
            self.resume_rule(now, self.rate);
        }
    }

    /// The one door through which a rate comes into force: within its bounds and above its floor, and its time accounted
    /// for.
    fn set_rate(&mut self, now: Time, rate: Rate, source: Source) {
        self.account(now, source);
        let least = Rate::from_bytes_per_s(
            MIN_PACKETS_PER_RTT * f64::from(self.flow.mss) / self.path.srtt().as_secs_f64().max(1e-6),
        );
        self.rate = Bounds::DEFAULT.clamp(rate.max(least));
    }

    /// The one way from a stage to the next, or on in the same.
    fn enter(&mut self, next: Stage) {
        debug_assert!(self.stage.may_lead_to(&next), "{} to {}", self.stage.name(), next.name());
        self.stage = next;
    }

    fn account(&mut self, now: Time, next: Source) {
        let (source, since) = self.source;
        *slot(&mut self.telemetry.applied, source) += now.since(since);
        self.source = (next, now);
    }

    /// The window that carries `rate` with `gain` to spare.
    fn cap(&self, rate: Rate, gain: f64) -> u32 {
        Bounds::DEFAULT.cwnd_for(rate, self.path.srtt(), gain, self.flow.mss)
    }

    /// Goes on at the rate in force: first a drain if the queue is long or the smallest round-trip time
    /// has to be confirmed, then probing or acceleration.
    fn enter_hold(&mut self, now: Time, rtt: Dur, out: &mut Commands) {
        match self.drain_due(now, rtt) {
            Some((reason, share)) => self.enter_drain(reason, share, rtt, out),
            None => self.enter_probing(out),
        }
    }

    /// Changes to the cycle's program, with a rate held first.
    fn start_cycle(&mut self, out: &mut Commands) {
        self.cycle = (self.cycle + 1) & CYCLE_MASK;
        out.run(&anole_cycle::PROGRAM)
            .set(control::CYCLE, self.cycle)
            .set(control::PHASE, HOLDS)
            .set(control::WINDOW_US, 0);
    }

    /// Holds the rate in force for N round trips, or until the next step while a candidate is deprecated.
    fn enter_probing(&mut self, out: &mut Commands) {
        self.arm(out);
        if self.rule.confidence.is_active() && self.learned.confidence.is_active() {
            self.enter(Stage::Probing(Probing::default()));
            self.hold(self.rate, self.path.srtt().mul_f64(self.params.probing_rtts), out);
        } else {
            self.enter(Stage::Acceleration(Acceleration::default()));
            self.hold(self.rate, self.path.srtt() * 2, out);
        }
    }

    fn hold(&self, rate: Rate, span: Dur, out: &mut Commands) {
        out.set_rate(control::HOLD, Bounds::DEFAULT.clamp(rate))
            .set(control::HOLD_US, register_us(span))
            .set(control::GAP_US, gap_us(span));
        out.cwnd(self.cap(rate.max(self.rate), CAP_GAIN));
    }

    /// The verdict of an interval on a rate.
    fn judge(&mut self, interval: &MonitorInterval, rate: Rate) -> Option<Verdict> {
        let tolerated = self.target_queue().tolerated;
        let verdict = Verdict::of(interval, rate, tolerated, &self.path, self.flow.mss, &self.params)?;
        self.path.share.saw(rate, verdict.measured, verdict.rtt_ratio);
        Some(verdict)
    }

    /// The queue wanted at the rate in force.
    fn target_queue(&self) -> TargetQueue {
        self.target_queue_at(self.rate)
    }

    /// The queue wanted at another rate.
    fn target_queue_at(&self, rate: Rate) -> TargetQueue {
        TargetQueue::of(rate, &self.path, self.flow.mss, &self.params)
    }
}

/// Cycles are counted in 20 bits, which leaves room for the window in a u32 register.
const CYCLE_MASK: u32 = (1 << 20) - 1;
/// The phase of the cycle in which a rate is held.
const HOLDS: u32 = 2;

fn slot(applied: &mut Applied, source: Source) -> &mut Dur {
    match source {
        Source::Rule => &mut applied.rule,
        Source::Learned => &mut applied.learned,
        Source::Inferred => &mut applied.inferred,
        Source::Previous => &mut applied.previous,
    }
}

impl Algorithm for Anole {
    fn start(&mut self, now: Time, out: &mut Commands) {
        self.source.1 = now;
        let adopted = self.flow.init_cwnd > ADOPTED_PACKETS.saturating_mul(self.flow.mss);
        let gain = if adopted { self.params.ramp_gain } else { 1.0 };
        let cwnd = Bounds::DEFAULT.cwnd(u64::from(self.flow.init_cwnd), self.flow.mss);
        self.ramp(gain, cwnd, out);
    }

    fn on_report(&mut self, now: Time, report: &Report<'_>, out: &mut Commands) {
        let ramping = matches!(self.stage, Stage::Ramp(_));
        let before = (self.stage.name(), self.rate);
        self.evidence = None;
        if report.program.name == ramp_program::PROGRAM.name {
            match ramp_program::Report::read(report.values) {
                Some(seen) if ramping => self.on_ramp_report(now, &seen, out),
                _ => return self.ignore(now, out),
            }
        } else if report.program.name == rate_hold::PROGRAM.name {
            match rate_hold::Report::read(report.values) {
                Some(seen) if self.stage == Stage::Track => self.on_track_report(now, &seen, out),
                _ => return self.ignore(now, out),
            }
        } else if report.program.name == anole_cycle::PROGRAM.name {
            match MonitorInterval::read(report.values) {
                Some(window) if !ramping && self.stage != Stage::Track && window.cycle == self.cycle => {
                    self.on_window(now, &window, out)
                }
                _ => return self.ignore(now, out),
            }
        }
        self.ignored.0 = 0;
        if self.evidence.is_some() || (self.stage.name(), self.rate) != before {
            self.explanation = Some(self.explanation(now));
        }
    }

    fn explain(&mut self) -> Option<Explanation> {
        self.explanation.take()
    }

    fn telemetry(&self) -> Telemetry {
        Telemetry { inferences: self.learned.inferences(), ..self.telemetry }
    }
}
