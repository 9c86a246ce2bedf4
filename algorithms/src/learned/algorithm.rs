//! An algorithm that runs a flow by a policy alone.
//!
//! ```text
//!  report ─▶ monitor ─▶ (interval over?) ─▶ observation ─▶ ask ─▶ answer at once ─▶ decide ─▶ actuator
//!              │                                            └ none yet: short reports until the deadline
//!              ├─▶ guard: heavy loss, timeout, no answers ─▶ the actuator's rule governs
//!              └─▶ probe of the base, where the schema asks for it ─▶ half of the window for two round trips
//! ```
//!
//! Whatever the policy answers, a flow asks for at most twice what its path has ever delivered and for no
//! less than two packets per round trip; a full short buffer that loses is a ceiling, an empty queue a floor
//! ([`certificate::clamp`]: what certificates prove, for what they do not cover); its last action stays in force while
//! answers are late or absent, and [`Guard`] says when a rule takes over.

use super::actuator::{Actuator, FIRST_INTERVAL};
use super::flow_policy::{Answer, FlowPolicy, deadline};
use super::guard::Guard;
use super::monitor::Monitor;
use super::probe_rtt::ProbeRtt;
use super::report::Sample;
use crate::{Algorithm, Applied, Commands, FlowInfo, Report, Telemetry};
use anole_model::{Bounds, Dur, Rate, Time};
use anole_policies::certificate;
use anole_policies::schema::Interval;
use anole_policies::{Decision, Observation};

/// The first report comes with the first ACK, us: it brings the first round-trip time.
const FIRST_REPORT_US: u32 = 1_000;
/// Reports are at least this far apart …
pub(super) const SHORTEST: Dur = Dur::from_millis(1);
/// … and decisions at most.
const LONGEST: Dur = Dur::from_millis(10_000);
/// While an answer is awaited reports come this many times per interval: half of them before its deadline.
const POLLS: u64 = 8;
/// A report is early by the jitter of its way; a decision is not put off for this part of the interval.
pub(super) const EARLY: u64 = 16;
/// No flow asks for more than this many times what its path has ever delivered: what slow start asks for.
const MAX_OVER_DELIVERED: f64 = 2.0;
/// Before much was delivered: this many initial windows per round-trip time.
const FIRST_WINDOWS: f64 = 4.0;
/// What is left of what the path delivers in its smallest round-trip time when the rule takes over after
/// heavy loss: CUBIC's β (RFC 9438).
const CUT: f64 = 0.7;

/// A flow that a policy runs.
pub(super) struct Learned {
    flow: FlowInfo,
    interval: Interval,
    policy: Box<dyn FlowPolicy>,
    actuator: Box<dyn Actuator>,
    monitor: Monitor,
    guard: Guard,
    probe: Option<ProbeRtt>,
    /// The rule governs.
    ruled: bool,
    /// What the last question was about, and when its answer is due.
    asked: Option<(Observation, Time)>,
    /// The first round-trip time was measured.
    begun: bool,
    next_decision: Time,
    last_report: Option<Time>,
    telemetry: Telemetry,
}

impl Learned {
    /// The algorithm of a flow: a policy that decides so often, what puts its decisions into effect, and after how
    /// long without its smallest round-trip time the window is halved to see it.
    pub fn new(
        flow: FlowInfo,
        interval: Interval,
        policy: Box<dyn FlowPolicy>,
        actuator: Box<dyn Actuator>,
        guard: Guard,
        probe_after: Option<Dur>,
    ) -> Learned {
        Learned {
            flow,
            interval,
            policy,
            actuator,
            monitor: Monitor::new(flow.mss),
            guard,
            probe: probe_after.map(ProbeRtt::new),
            ruled: false,
            asked: None,
            begun: false,
            next_decision: Time::ZERO,
            last_report: None,
            telemetry: Telemetry { applied: Applied::default(), decisions: 0, inferences: 0 },
        }
    }

    fn srtt(&self) -> Dur {
        self.monitor.srtt().unwrap_or(FIRST_INTERVAL)
    }

    /// Time between two decisions.
    fn interval(&self) -> Dur {
        let least = Dur::from_secs_f64(1e-3 * self.interval.ms);
        least.max(self.srtt().mul_f64(self.interval.rtts)).max(SHORTEST).min(LONGEST)
    }

    /// No flow may ask for more.
    fn ceiling(&self) -> Rate {
        let first = Rate::from_bytes_in(u64::from(self.flow.init_cwnd), self.srtt()) * FIRST_WINDOWS;
        (self.monitor.max_delivery() * MAX_OVER_DELIVERED).max(first)
    }

    /// The interval is over: features, and a question if its answer would count.
    fn decide(&mut self, now: Time, out: &mut Commands) {
        let (rate, cwnd) = self.actuator.in_force(&self.monitor);
        let Some(seen) = self.monitor.observe(rate, cwnd) else { return };
        self.next_decision = now + self.interval();
        if self.asked.take().is_some() {
            self.no_answer(now, out);
        }
        let due = deadline(now, self.interval());
        self.policy.observe(&seen);
        if self.actuator.is_starting() {
            self.actuator.step_up(self.ceiling(), &self.monitor, out);
        } else if self.guard.policy_is_wanted() && !self.is_probing() {
            self.policy.ask(now, due);
            self.asked = Some((seen, due));
            self.telemetry.inferences += 1;
            self.take_answer(now, out);
        }
    }

    /// Puts the answer into effect, if there is one.
    fn take_answer(&mut self, now: Time, out: &mut Commands) {
        let Some((seen, _)) = self.asked else { return };
        // The window may have moved since the question.
        let (rate, cwnd) = self.actuator.in_force(&self.monitor);
        let seen = Observation { rate, cwnd, ..seen };
        let Some(answer) = self.policy.poll(now, &seen) else { return };
        self.asked = None;
        match answer {
            Answer::Decided { decision, fresh } => {
                self.guard.answered();
                self.ruled = self.guard.rule_governs();
                let decision = certificate::clamp(decision, &seen);
                self.actuator.apply(&decision, self.ceiling(), &self.monitor, out);
                self.telemetry.decisions += u64::from(fresh);
            }
            Answer::Unusable => self.no_answer(now, out),
        }
    }

    fn no_answer(&mut self, now: Time, out: &mut Commands) {
        self.guard.absent();
        if self.guard.rule_governs() && !self.ruled {
            let (_, cwnd) = self.actuator.in_force(&self.monitor);
            self.yield_to_rule(now, cwnd, false, out);
        }
    }

    fn yield_to_rule(&mut self, now: Time, cwnd: u64, timeout: bool, out: &mut Commands) {
        self.ruled = true;
        let cwnd = Bounds::DEFAULT.cwnd(cwnd, self.flow.mss);
        self.actuator.yield_to_rule(now, cwnd, timeout, &self.monitor, out);
    }

    /// Gives the flow to the rule after heavy loss or a timeout, and back when the hold is over.
    fn obey_guard(&mut self, now: Time, sample: &Sample, out: &mut Commands) {
        let packets = sample.acked / u64::from(self.flow.mss.max(1));
        if self.guard.judge(now, sample.lost, packets, sample.timeout, self.srtt()) {
            self.asked = None;
            let (_, in_force) = self.actuator.in_force(&self.monitor);
            let delivered = self.monitor.delivery_rate();
            let fits = delivered.bytes_in(self.monitor.recent_rtt().unwrap_or(FIRST_INTERVAL)) * CUT;
            // In an outage nothing is delivered, which says nothing of the path: the rule takes its own decrease.
            let cwnd = if sample.timeout { in_force } else { in_force.min(fits as u64) };
            self.yield_to_rule(now, cwnd, sample.timeout, out);
        } else if self.ruled {
            if self.guard.rule_governs() {
                self.actuator.follow_rule(now, sample, &self.monitor, out);
            } else {
                self.ruled = false;
            }
        }
    }

    fn is_probing(&self) -> bool {
        self.probe.as_ref().is_some_and(ProbeRtt::is_under_way)
    }

    /// Halves the window and gives it back, where the schema asks for that.
    fn probe_rtt(&mut self, now: Time, sample: &Sample, out: &mut Commands) {
        let (_, cwnd) = self.actuator.in_force(&self.monitor);
        let (srtt, ceiling) = (self.srtt(), self.ceiling());
        let policy_governs = self.begun && !self.ruled && !self.actuator.is_starting();
        let Some(probe) = &mut self.probe else { return };
        if sample.has_rtt() {
            probe.saw(now, Dur::from_micros(sample.min_rtt_us));
        }
        if !policy_governs {
            probe.cancel();
        } else if let Some(window) = probe.window(now, cwnd, srtt) {
            self.asked = None;
            if let (false, Some(least)) = (probe.is_under_way(), probe.least()) {
                self.monitor.believe_rtt(least);
            }
            self.actuator.apply(&Decision::Cwnd(window), ceiling, &self.monitor, out);
        }
    }

    /// When the next report is wanted.
    fn next_report(&self, now: Time) -> Dur {
        let interval = self.interval();
        let mut wait = if self.begun { self.next_decision.since(now) } else { SHORTEST };
        if self.asked.as_ref().is_some_and(|&(_, due)| now < due) {
            wait = wait.min(interval / POLLS);
        }
        if self.ruled || self.actuator.is_starting() {
            wait = wait.min(self.srtt());
        }
        if self.guard.is_silent() {
            // The smoothed round-trip time may be that of an outage: the first ACK after it is told at once.
            wait = SHORTEST;
        }
        if let Some(ends) = self.probe.as_ref().and_then(ProbeRtt::ends) {
            wait = wait.min(ends.since(now));
        }
        wait.max(SHORTEST).min(LONGEST)
    }

    fn count_time(&mut self, now: Time) {
        let passed = now.since(self.last_report.replace(now).unwrap_or(now));
        let applied = &mut self.telemetry.applied;
        if self.ruled || self.actuator.is_starting() {
            applied.rule += passed;
        } else {
            applied.learned += passed;
        }
    }
}

impl Algorithm for Learned {
    fn start(&mut self, now: Time, out: &mut Commands) {
        self.last_report = Some(now);
        self.actuator.start(FIRST_REPORT_US, out);
    }

    fn on_report(&mut self, now: Time, report: &Report<'_>, out: &mut Commands) {
        let Some(sample) = self.actuator.read(now, report) else { return };
        self.count_time(now);
        self.monitor.add(now, &sample);
        if let (false, Some(srtt)) = (self.begun, self.monitor.srtt()) {
            self.begun = true;
            self.next_decision = now + self.interval();
            self.monitor.forget();
            self.actuator.on_first_rtt(srtt, out);
        }
        let was_starting = self.actuator.is_starting();
        self.actuator.on_report(now, &sample, &self.monitor, out);
        if was_starting && !self.actuator.is_starting() {
            // What start-up overshot shows within two round trips, and is not the policy's doing; the
            // policy is asked what to make of it at once.
            self.guard.forgive(now + self.srtt() * 2);
            self.next_decision = now;
        }
        if !self.actuator.is_starting() {
            self.obey_guard(now, &sample, out);
        }
        self.probe_rtt(now, &sample, out);
        self.take_answer(now, out);
        if self.begun && now + self.interval() / EARLY >= self.next_decision {
            self.decide(now, out);
        }
        // Every report is answered: the datapath takes silence for the agent's death.
        let wait = self.next_report(now).as_micros() as u32;
        self.actuator.set_interval(wait, out);
    }

    fn telemetry(&self) -> Telemetry {
        self.telemetry
    }
}
