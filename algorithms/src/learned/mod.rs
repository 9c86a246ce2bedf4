//! Algorithms that a trained policy drives by itself.
//!
//! Every interval (the schema's, in ms and round-trip times) what was measured becomes features, the
//! policy is asked, and its answer is put into effect by the drive that its kind of action needs:
//!
//! | action | program | drive |
//! |---|---|---|
//! | a rate or a window | `rate-hold` | [`hold`] |
//! | a factor on CUBIC's window | `orca` | [`orca`] |
//! | parameters of an executor | `spine` | [`spine`] |
//!
//! ```text
//!  report ─▶ measure ─▶ (interval over?) ─▶ features ─▶ ask ─▶ answer at once ─▶ decide ─▶ drive
//!              │                                         └ none yet: short reports until the deadline
//!              └─▶ guard: heavy loss, timeout, no answers ─▶ the drive's rule governs
//! ```
//!
//! Whatever the policy answers, a flow asks for at most twice what its path has ever delivered and for no
//! less than two packets per round trip; its last action stays in force while answers are late or absent,
//! and [`guard`] says when a rule takes over.

mod drive;
mod fault;
mod guard;
mod hold;
mod measure;
mod mind;
mod orca;
mod specs;
mod spine;
mod watch;

pub(crate) use specs::{ASTRAEA, AURORA, INDIGO, LIBRA_RL, ORCA, SAGE, SPINE};
pub use watch::Watch;

use crate::policy::deadline;
use crate::{Algorithm, Applied, Commands, FlowInfo, Report, Telemetry};
use anole_laws::parameters;
use anole_model::{Bounds, Dur, Rate, Time};
use anole_policies::schema::Interval;
use anole_policies::{Features, Observation, Schema};
use drive::{Drive, FIRST_INTERVAL};
use guard::Guard;
use measure::Measured;
use mind::{Answer, Mind};

parameters! {
    /// What a user may change.
    struct Params {
        guard = 1.0, 0.0..=1.0, "1: a rule takes over after heavy loss; 0: only after a timeout or without answers (for training).";
        growth = 0.1, 0.0..=0.5, "Spine: growth per round trip until the first loss (Spine, start-up).";
        rebase = 0.0, 0.0..=1.0, "Orca: 1: each action begins an epoch of CUBIC; 0: CUBIC's clock goes on, as in Linux.";
    }
}

/// The first report comes with the first ACK, us: it brings the first round-trip time.
const FIRST_REPORT_US: u32 = 1_000;
/// Reports are at least this far apart …
const SHORTEST: Dur = Dur::from_millis(1);
/// … and decisions at most.
const LONGEST: Dur = Dur::from_millis(10_000);
/// While an answer is awaited reports come this many times per interval: half of them before its deadline.
const POLLS: u64 = 8;
/// A report is early by the jitter of its way; a decision is not put off for this part of the interval.
const EARLY: u64 = 16;
/// No flow asks for more than this many times what its path has ever delivered: what slow start asks for.
const MAX_OVER_DELIVERED: f64 = 2.0;
/// Before much was delivered: this many initial windows per round-trip time.
const FIRST_WINDOWS: f64 = 4.0;
/// What is left of what the path delivers in its smallest round-trip time when the rule takes over after
/// heavy loss: CUBIC's β (RFC 9438).
const CUT: f64 = 0.7;
/// A hierarchical network's last output is above this when it was triggered.
const TRIGGERED: f32 = 0.5;

/// A flow that a policy drives.
struct Learned {
    flow: FlowInfo,
    interval: Interval,
    /// The last output says whether the others are new.
    has_trigger: bool,
    features: Features,
    mind: Mind,
    drive: Box<dyn Drive>,
    measured: Measured,
    guard: Guard,
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
    fn new(flow: FlowInfo, schema: &Schema, mind: Mind, drive: Box<dyn Drive>, params: &Params) -> Self {
        Learned {
            flow,
            interval: schema.interval,
            has_trigger: matches!(schema.network, anole_policies::schema::Network::Hierarchical { .. }),
            features: Features::new(schema),
            mind,
            drive,
            measured: Measured::new(flow.mss),
            guard: Guard::new(params.guard > 0.5),
            ruled: false,
            asked: None,
            begun: false,
            next_decision: Time::ZERO,
            last_report: None,
            telemetry: Telemetry { applied: Applied::default(), decisions: 0, inferences: 0 },
        }
    }

    fn srtt(&self) -> Dur {
        self.measured.srtt().unwrap_or(FIRST_INTERVAL)
    }

    /// Time between two decisions.
    fn interval(&self) -> Dur {
        let least = Dur::from_secs_f64(1e-3 * self.interval.ms);
        least.max(self.srtt().mul_f64(self.interval.rtts)).max(SHORTEST).min(LONGEST)
    }

    /// No flow may ask for more.
    fn ceiling(&self) -> Rate {
        let first = Rate::from_bytes_in(u64::from(self.flow.init_cwnd), self.srtt()) * FIRST_WINDOWS;
        (self.measured.max_delivery() * MAX_OVER_DELIVERED).max(first)
    }

    /// The interval is over: features, and a question if its answer would count.
    fn decide(&mut self, now: Time, out: &mut Commands) {
        let (rate, cwnd) = self.drive.in_force(&self.measured);
        let Some(seen) = self.measured.observe(rate, cwnd) else { return };
        self.next_decision = now + self.interval();
        if self.asked.take().is_some() {
            self.no_answer(now, out);
        }
        let due = deadline(now, self.interval());
        let input = self.features.push(&seen);
        if self.drive.is_starting() {
            self.drive.step_up(out);
        } else if self.guard.policy_is_wanted() {
            self.mind.ask(now, due, &seen, input);
            self.asked = Some((seen, due));
            self.telemetry.inferences += 1;
            self.take_answer(now, out);
        }
    }

    /// Puts the answer into effect, if there is one.
    fn take_answer(&mut self, now: Time, out: &mut Commands) {
        let Some((seen, _)) = self.asked else { return };
        // The window may have moved since the question.
        let (rate, cwnd) = self.drive.in_force(&self.measured);
        let Some(answer) = self.mind.poll(now, &Observation { rate, cwnd, ..seen }) else { return };
        self.asked = None;
        match answer {
            Answer::Decided(decision, applied, last) => {
                self.guard.answered();
                self.ruled = self.guard.rule_governs();
                self.features.decided(&applied);
                self.drive.apply(&decision, self.ceiling(), &self.measured, out);
                self.telemetry.decisions += u64::from(!self.has_trigger || last > TRIGGERED);
            }
            Answer::Unusable => self.no_answer(now, out),
        }
    }

    fn no_answer(&mut self, now: Time, out: &mut Commands) {
        self.guard.absent();
        if self.guard.rule_governs() && !self.ruled {
            let (_, cwnd) = self.drive.in_force(&self.measured);
            self.yield_to_rule(now, cwnd, false, out);
        }
    }

    fn yield_to_rule(&mut self, now: Time, cwnd: u64, timeout: bool, out: &mut Commands) {
        self.ruled = true;
        let cwnd = Bounds::DEFAULT.cwnd(cwnd, self.flow.mss);
        self.drive.yield_to_rule(now, cwnd, timeout, &self.measured, out);
    }

    /// Gives the flow to the rule after heavy loss or a timeout, and back when the hold is over.
    fn obey_guard(&mut self, now: Time, sample: &measure::Sample, out: &mut Commands) {
        let packets = sample.acked / u64::from(self.flow.mss.max(1));
        if self.guard.judge(now, sample.lost, packets, sample.timeout, self.srtt()) {
            self.asked = None;
            let (_, in_force) = self.drive.in_force(&self.measured);
            let delivered = self.measured.delivery_rate();
            let fits = delivered.bytes_in(self.measured.recent_rtt().unwrap_or(FIRST_INTERVAL)) * CUT;
            self.yield_to_rule(now, in_force.min(fits as u64), sample.timeout, out);
        } else if self.ruled {
            if self.guard.rule_governs() {
                self.drive.follow_rule(now, sample, &self.measured, out);
            } else {
                self.ruled = false;
            }
        }
    }

    /// When the next report is wanted.
    fn next_report(&self, now: Time) -> Dur {
        let interval = self.interval();
        let mut wait = if self.begun { self.next_decision.since(now) } else { SHORTEST };
        if self.asked.as_ref().is_some_and(|&(_, due)| now < due) {
            wait = wait.min(interval / POLLS);
        }
        if self.ruled || self.drive.is_starting() {
            wait = wait.min(self.srtt());
        }
        wait.max(SHORTEST).min(LONGEST)
    }

    fn count_time(&mut self, now: Time) {
        let passed = now.since(self.last_report.replace(now).unwrap_or(now));
        let applied = &mut self.telemetry.applied;
        if self.ruled || self.drive.is_starting() {
            applied.rule += passed;
        } else {
            applied.learned += passed;
        }
    }
}

impl Algorithm for Learned {
    fn start(&mut self, now: Time, out: &mut Commands) {
        self.last_report = Some(now);
        self.drive.start(FIRST_REPORT_US, out);
    }

    fn on_report(&mut self, now: Time, report: &Report<'_>, out: &mut Commands) {
        if report.program.name != self.drive.program().name {
            return;
        }
        let Some(sample) = self.drive.read(report.values) else { return };
        self.count_time(now);
        self.measured.add(now, &sample);
        if let (false, Some(srtt)) = (self.begun, self.measured.srtt()) {
            self.begun = true;
            self.next_decision = now + self.interval();
            self.measured.forget();
            self.drive.on_first_rtt(srtt, out);
        }
        let was_starting = self.drive.is_starting();
        self.drive.on_report(now, &sample, &self.measured, out);
        if was_starting && !self.drive.is_starting() {
            // What start-up overshot shows within two round trips, and is not the policy's doing; the
            // policy is asked what to make of it at once.
            self.guard.forgive(now + self.srtt() * 2);
            self.next_decision = now;
        }
        if !self.drive.is_starting() {
            self.obey_guard(now, &sample, out);
        }
        self.take_answer(now, out);
        if self.begun && now + self.interval() / EARLY >= self.next_decision {
            self.decide(now, out);
        }
        // Every report is answered: the datapath takes silence for the agent's death.
        let wait = self.next_report(now).as_micros() as u32;
        self.drive.set_interval(wait, out);
    }

    fn telemetry(&self) -> Telemetry {
        self.telemetry
    }
}
