//! Libra: a classic law and a learned policy each propose a rate, and a utility decides which becomes the base of the
//! next cycle.
//!
//! Du et al., "A Unified Congestion Control Framework for Diverse Application Preferences and Network Conditions",
//! CoNEXT 2021, algorithm 1.
//!
//! ```text
//!  ┌─────────┐ slow start  ┌─────────────┐ k RTTs, or      ┌────────────┐        ┌──────────────┐
//!  │ Startup │ ──────────▶ │ Exploration │ the candidates  │ Evaluation │ ─────▶ │ Exploitation │
//!  └─────────┘ is over     └─────────────┘ ──────────────▶ └────────────┘ 2 × ½  └──────────────┘
//!                                 ▲        are far apart                  RTT           │ k RTTs
//!                                 └─────────── the best of three is the base ───────────┘
//! ```
//! - [`exploration`]: the classic law drives from the base rate x_prev; the policy watches and proposes x_rl.
//! - [`trial`]: evaluation and exploitation. Each candidate runs for half a round trip, the lower first, then x_prev
//!   goes on while the ACKs of both return; the best of x_prev, x_cl and x_rl, by their utilities, becomes x_prev.
//! - The datapath's program `libra-cycle` switches the rates and sorts the ACKs by the time their packets were sent:
//!   [`window`].
//!
//! The classic laws and policies are those of every hybrid. `c-libra` and `b-libra` have CUBIC and BBR, `libra` any law
//! (`--classic`); `cl-libra`, clean slate, has none: the policy drives the exploration, against x_prev.
//!
//! Deviations from the paper:
//! - an application that sends less than a rate allows says nothing about it: x_prev stays, as without ACKs; what a full
//!   window kept from being sent counts as lost;
//! - a window that lost more than half of its packets bounds the next x_prev by what got through of it: candidates of half of it
//!   and more would flood the path for cycles;
//! - a candidate lies between half and twice x_prev, so that a test harms nobody for long, and asks for at most twice
//!   what the path ever delivered;
//! - the classic law is told of what happens in every stage, since its filters would age otherwise; its rate counts in
//!   the exploration only;
//! - losses that the classic law's reduced rate did not cause are not told to it: the candidates and the base rate fill the
//!   queue as well, and it would be cut for one loss after the other before its rate is in force again;
//! - the classic law goes on undisturbed while x_prev is near its own rate: what it remembers of its last decreases is what
//!   makes flows alike;
//! - stages are as long as on a path of 10 ms where the path is shorter.

mod exploration;
mod params;
#[cfg(test)]
mod tests;
mod trial;
mod window;

use super::slot::{LearnedSlot, RuleSlot};
use super::utility::Weights;
use crate::learned::{Monitor, Reader, Sample};
use crate::{Algorithm, Build, BuildError, Commands, FlowInfo, Preference, Report, Spec, Telemetry};
use anole_laws::Feedback;
use anole_model::{Bounds, Dur, Rate, Time};
use anole_programs::libra_cycle::{self, control};
use exploration::Exploration;
use params::LibraParams;
pub use params::utility;
use trial::Trial;
use window::{Sent, Window};

const SUMMARY: &str =
    "Each cycle the best of a classic law's rate, a policy's and the last one, by their utilities";

/// Libra over any law.
pub(crate) const LIBRA: Spec = Spec {
    name: "libra",
    kind: "hybrid",
    summary: SUMMARY,
    programs: &[&libra_cycle::PROGRAM],
    parameters: LibraParams::PARAMETERS,
    source: "Du et al., CoNEXT 2021, doi 10.1145/3485983.3494840",
    takes_classic: true,
    takes_policy: true,
    builder: &|what| build(Some(what.classic.as_deref().unwrap_or("cubic")), what),
};
/// Libra over CUBIC.
pub(crate) const C_LIBRA: Spec = Spec {
    name: "c-libra",
    summary: "Libra over CUBIC",
    takes_classic: false,
    builder: &|what| build(Some("cubic"), what),
    ..LIBRA
};
/// Libra over BBR.
pub(crate) const B_LIBRA: Spec = Spec {
    name: "b-libra",
    summary: "Libra over BBR",
    takes_classic: false,
    builder: &|what| build(Some("bbr"), what),
    ..LIBRA
};
/// Libra over nothing.
pub(crate) const CL_LIBRA: Spec = Spec {
    name: "cl-libra",
    summary: "Clean-slate Libra: the policy inside the cycle, without a classic law",
    takes_classic: false,
    builder: &|what| build(None, what),
    ..LIBRA
};

/// The learned slot beside a classic law, when nothing is named …
const DEFAULT_POLICY: &str = "libra";
/// … and without one, where the policy has to find the path's rate by itself.
const CLEAN_POLICY: &str = "libra-rl";
/// The window is a cap where a rate is paced: twice what it needs in the smallest recent round-trip time.
const CAP_GAIN: f64 = 2.0;
/// Pacing over window in slow start (Linux, tcp_pacing_ss_ratio).
const SLOW_START_GAIN: f64 = 2.0;
/// The smallest rate, packets per round trip: fewer give no feedback.
const MIN_PACKETS_PER_RTT: f64 = 2.0;
/// Of so many round trips the delivery rate is that of their ACKs: the policy is asked after half a one, less what a report
/// may be early, and the datapath's rate would span packets of the candidates.
const DELIVERY_RTTS: f64 = 0.4;
/// No rate exceeds this many times what the path has delivered: what slow start asks for.
const MAX_OVER_DELIVERED: f64 = 2.0;
/// Shorter round trips are taken for this long: the agent would spend more on reports than the hosts on the traffic.
const SHORTEST_SPAN: Dur = Dur::from_millis(10);
/// No stage is as long as more round trips of this.
const LONGEST_SPAN: Dur = Dur::from_millis(4_000);
/// Before the first round-trip time it is taken to be this.
const UNKNOWN_RTT: Dur = Dur::from_millis(100);
/// The first report comes with the first ACK, us.
const FIRST_REPORT_US: u32 = 1_000;
/// Reports per round trip while the classic law drives: it answers a loss within a quarter of one.
const REPORTS_PER_RTT: u64 = 4;
/// Reports in a row of a cycle that should have ended, after which the program is started again.
const LOST_AFTER_REPORTS: u32 = 4;
/// Cycles are counted in 20 bits, which leaves room for the window in a u32 register.
const CYCLE_MASK: u32 = (1 << 20) - 1;

fn build(classic: Option<&str>, what: &Build) -> Result<Box<dyn Algorithm>, BuildError> {
    let params = LibraParams::with(&what.params)?.over(classic);
    let rule = classic.map(|name| RuleSlot::build(name, what.flow, what.seed)).transpose()?;
    let default = if classic.is_some() { DEFAULT_POLICY } else { CLEAN_POLICY };
    let policy = what.policy.as_deref().unwrap_or(default);
    let learned = LearnedSlot::build(policy, &*what.policies, what.seed)?;
    Ok(Box::new(Libra::new(what.flow, params, rule, learned)))
}

/// Whose rate the base is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Classic,
    Learned,
    Previous,
}

/// What the flow does now.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// The classic law is in slow start, or drains what that has queued; without one, no round-trip time is known yet.
    Startup,
    /// The classic law drives.
    Exploration(Exploration),
    /// The candidates run, and their ACKs are awaited.
    Trial(Trial),
}

struct Libra {
    flow: FlowInfo,
    params: LibraParams,
    /// Of the utility, as the application prefers.
    weights: Weights,
    rule: Option<RuleSlot>,
    learned: LearnedSlot,
    reader: Reader,
    monitor: Monitor,
    /// x_prev.
    base: Rate,
    /// x_rl, once there was one.
    proposed: Option<Rate>,
    stage: Stage,
    cycle: u32,
    /// Whose rate the base is, and since when.
    source: (Source, Time),
    /// When the classic law was told of a loss, until an exploration has passed at the rate that it was cut to.
    cut: Option<Time>,
    /// Reports in a row of a cycle that should have ended.
    ignored: u32,
    telemetry: Telemetry,
}

impl Libra {
    fn new(flow: FlowInfo, params: LibraParams, rule: Option<RuleSlot>, learned: LearnedSlot) -> Libra {
        Libra {
            flow,
            params,
            weights: params.weights(Preference::Default),
            rule,
            learned,
            reader: Reader::new(&libra_cycle::PROGRAM),
            monitor: Monitor::new(flow.mss).with_enough_rtts(DELIVERY_RTTS),
            base: Rate::from_bytes_in(u64::from(flow.init_cwnd), UNKNOWN_RTT),
            proposed: None,
            stage: Stage::Startup,
            cycle: 0,
            source: (Source::Classic, Time::ZERO),
            cut: None,
            ignored: 0,
            telemetry: Telemetry::default(),
        }
    }

    fn srtt(&self) -> Dur {
        self.monitor.srtt().unwrap_or(UNKNOWN_RTT)
    }

    /// The round trip that stages are measured by.
    fn span(&self) -> Dur {
        self.srtt().clamp(SHORTEST_SPAN, LONGEST_SPAN)
    }

    /// A rate within its bounds.
    fn bounded(&self, rate: Rate) -> Rate {
        let delivered = self.monitor.max_delivery();
        let highest = if delivered > Rate::ZERO { delivered * MAX_OVER_DELIVERED } else { rate };
        let packets = MIN_PACKETS_PER_RTT * f64::from(self.flow.mss);
        let least = Rate::from_bytes_per_s(packets / self.srtt().as_secs_f64().max(1e-6));
        Bounds::DEFAULT.clamp(rate.min(highest).max(least))
    }

    /// The window that caps a paced rate: no rate queues more than one bandwidth-delay product of its own, in which a queue
    /// that has stood for a second or two counts as path.
    fn cap(&self, rate: Rate) -> u32 {
        let rtt = self.monitor.recent_rtt().unwrap_or(UNKNOWN_RTT);
        Bounds::DEFAULT.cwnd_for(rate, rtt, CAP_GAIN, self.flow.mss)
    }

    /// What a rate sends per round trip, bytes.
    fn window_of(&self, rate: Rate) -> u64 {
        u64::from(Bounds::DEFAULT.cwnd_for(rate, self.srtt(), 1.0, self.flow.mss))
    }

    /// The time up to now belongs to whose rate was the base.
    fn account(&mut self, now: Time, next: Source) {
        let (source, since) = std::mem::replace(&mut self.source, (next, now));
        let applied = &mut self.telemetry.applied;
        *match source {
            Source::Classic => &mut applied.rule,
            Source::Learned => &mut applied.learned,
            Source::Previous => &mut applied.previous,
        } += now.since(since);
    }

    /// What was reported of the cycle before is late from now on.
    fn next_cycle(&mut self) {
        self.cycle = (self.cycle + 1) & CYCLE_MASK;
    }

    /// The program anew, without a trial.
    fn run_program(&mut self, out: &mut Commands) {
        self.next_cycle();
        out.run(&libra_cycle::PROGRAM)
            .set(control::PHASE, 3)
            .set(control::WINDOW_US, 0)
            .set(control::CYCLE, self.cycle);
    }

    /// The losses of a report that the classic law answers for. After the first its rate is cut, but it is in force again
    /// with the next exploration only: until the ACKs of that one, what is lost was sent at other rates. One that paces
    /// takes losses for what they are of any rate.
    fn losses_of_rule(&mut self, now: Time, lost: u64, window: &Window) -> u64 {
        let explored_since = |cut: Time| match &self.stage {
            Stage::Trial(trial) => {
                window.cycle == self.cycle && window.sent == Sent::Exploring && trial.explored_since(cut)
            }
            Stage::Startup | Stage::Exploration(_) => false,
        };
        if self.stage == Stage::Startup || self.rule.as_ref().is_none_or(RuleSlot::paces) {
            return lost;
        }
        if self.cut.is_none_or(explored_since) {
            self.cut = (lost > 0).then_some(now);
            return lost;
        }
        0
    }

    /// Tells the classic law what happened since the last report.
    fn feed(&mut self, now: Time, sample: &Sample, window: &Window) {
        let lost = self.losses_of_rule(now, sample.lost, window);
        let delivery_rate = Some(sample.rate_in).filter(|&rate| rate > 0);
        let delivery_rate = delivery_rate.map(|rate| Rate::from_bytes_per_s(rate as f64));
        let rtt = |us: u64| (1..=window::LONGEST_RTT_US).contains(&us).then(|| Dur::from_micros(us));
        let seen = Feedback {
            acked: sample.acked,
            lost,
            timeout: sample.timeout,
            rtt: rtt(sample.rtt_us),
            min_rtt: rtt(sample.min_rtt_us),
            samples: sample.sums[0] as u64,
            delivery_rate: delivery_rate
                .or_else(|| (sample.acked > 0).then(|| Rate::from_bytes_in(sample.acked, sample.elapsed))),
            in_flight: Some(sample.inflight),
            elapsed: sample.elapsed,
            ..Feedback::default()
        };
        if let Some(rule) = &mut self.rule {
            rule.feed(now, &seen);
        }
    }

    /// A timeout says that nothing arrives any more, unless something did.
    fn on_timeout(&mut self, now: Time, acked: u64, out: &mut Commands) {
        let factor = if acked == 0 { 0.5 } else { 1.0 };
        self.base = self.bounded(self.base * factor);
        self.run_program(out);
        self.explore(now, out);
    }

    /// A report of the cycle before is late, once or twice; when they go on, the change of programs was lost on its way.
    fn ignore(&mut self, now: Time, out: &mut Commands) {
        self.ignored += 1;
        if self.ignored >= LOST_AFTER_REPORTS {
            self.ignored = 0;
            self.run_program(out);
            self.explore(now, out);
        }
    }
}

/// A span as a register takes it: an hour at most.
fn register_us(span: Dur) -> u32 {
    span.as_micros().min(3_600_000_000) as u32
}

impl Algorithm for Libra {
    fn start(&mut self, now: Time, out: &mut Commands) {
        self.source.1 = now;
        self.run_program(out);
        out.cwnd(Bounds::DEFAULT.cwnd(u64::from(self.flow.init_cwnd), self.flow.mss))
            .set(control::HOLD_US, FIRST_REPORT_US);
    }

    fn on_report(&mut self, now: Time, report: &Report<'_>, out: &mut Commands) {
        let Some(sample) = self.reader.read(now, report) else { return };
        let Some(window) = Window::read(report.values) else { return };
        self.monitor.add(now, &sample);
        self.feed(now, &sample, &window);
        if window.cycle != self.cycle {
            return self.ignore(now, out);
        }
        self.ignored = 0;
        match self.stage {
            Stage::Startup => self.start_up(now, out),
            _ if sample.timeout => self.on_timeout(now, sample.acked, out),
            Stage::Exploration(exploration) => self.on_explored(now, exploration, out),
            Stage::Trial(trial) => self.on_trial(now, trial, &window, out),
        }
    }

    fn prefer(&mut self, preference: Preference) -> bool {
        self.weights = self.params.weights(preference);
        true
    }

    fn telemetry(&self) -> Telemetry {
        Telemetry { inferences: self.learned.inferences(), ..self.telemetry }
    }
}
