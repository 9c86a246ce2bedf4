//! Competition: where others keep a queue that this flow's drains do not shorten, the rule-based candidate
//! governs alone, until the flow has the path for itself again.

use super::decision::{Choice, Source};
use super::params::Params;
use super::window::Window;
use super::{Anole, Stage};
use anole_model::{Bounds, Dur, Rate, Time};
use anole_programs::Commands;
use anole_programs::anole_cycle::control;

/// Paced at this many times window over round-trip time: the window governs.
const PACE: f64 = 1.25;
/// The rate held in a truce, share of the rate.
const TRUCE_SHARE: f64 = 0.5;
/// Share of the path from which a flow is alone. Beside one equal flow it would measure a half.
const ALONE: f64 = 0.65;
/// A round-trip time that fell to this share of what it was has lost somebody.
const FALL: f64 = 0.85;
/// Reports from a loss to the test: by then packets leave at the rate at which they arrive.
const SETTLED: u32 = 2;
/// No alarm, µs.
const NO_ALARM_US: u32 = 2_000_000_000;

/// Whether others keep a queue: the drains made since it was last short.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Crowd {
    short_at: Time,
    drains: u32,
    /// The rate before the first of them.
    rate: Rate,
}

impl Crowd {
    /// At the start.
    pub fn new() -> Crowd {
        Crowd { short_at: Time::ZERO, drains: 0, rate: Rate::ZERO }
    }

    /// The queue was short.
    pub fn saw_short_queue(&mut self, now: Time) {
        *self = Crowd { short_at: now, ..Crowd::new() };
    }

    /// A drain begins at this rate in force.
    pub fn saw_drain(&mut self, rate: Rate) {
        self.rate = if self.drains == 0 { rate } else { self.rate };
        self.drains += 1;
    }

    /// True when the queue has not been short for so long that it has to be drained.
    pub fn is_due(&self, now: Time, params: &Params) -> bool {
        now.since(self.short_at).as_secs_f64() > params.crowd_s
    }
}

/// A competition under way.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Competition {
    /// The window up to which it grows by a share per round trip, until something is lost.
    grow_to: f64,
    /// The longest round-trip time since the last truce.
    longest: Dur,
    /// Reports since the last truce.
    since: u32,
    /// Reports until the next one, if one is due.
    truce_in: Option<u32>,
    /// A truce is held: the round-trip time before it, and the smallest one then known.
    truce: Option<(Dur, Dur)>,
}

impl Anole {
    /// True when drains have shown that others keep the queue.
    pub(super) fn is_crowded_out(&self, now: Time) -> bool {
        f64::from(self.crowd.drains) >= self.params.crowd && self.crowd.is_due(now, &self.params)
    }

    /// Lets the rule-based candidate govern.
    pub(super) fn compete(&mut self, now: Time, out: &mut Commands) {
        self.climbs = 0;
        self.verdict = None;
        let rate = self.crowd.rate.max(self.rate);
        self.crowd.saw_short_queue(now);
        self.apply(now, Choice { rate, source: Source::Rule, climb: false });
        self.classic.resume(self.cap(rate, 1.0));
        self.stage = Stage::Competition(Competition { truce_in: Some(0), ..Competition::default() });
        self.follow_classic(out);
    }

    /// A report of the competition.
    pub(super) fn on_competition(
        &mut self,
        now: Time,
        mut state: Competition,
        window: &Window,
        out: &mut Commands,
    ) {
        let rtt = window.last_rtt;
        self.path.saw_rtt(now, rtt, rtt);
        if let Some((before, min)) = state.truce {
            let share = window.gradient.map_or(0.0, |g| -g.slope) / (1.0 - TRUCE_SHARE);
            let empty = |rtt: Dur| rtt <= min + self.standing().aim;
            let known = self.path.min_rtt() >= min.mul_f64(0.98);
            let still = window.significant_gradient(self.rate, self.flow.mss, &self.params).is_none();
            let gone = empty(before) && empty(window.last_rtt) && known && still;
            let again = empty(window.last_rtt) && !empty(before);
            if std::env::var("DBG").is_ok() {
                eprintln!("{now:?} rate {:.1} deliv {:.1} {before:?} {:?} {min:?} share {share:.2} gone {gone} lost {}", self.rate.mbps(), self.path.delivery_rate().mbps(), window.last_rtt, window.lost);
            }
            if gone || (share > ALONE && window.lost == 0) {
                return self.leave_competition(now, window, out);
            }
            let room = self.params.hungry / share.max(self.params.least);
            state = Competition::default();
            if room > 1.0 && window.lost == 0 {
                state.grow_to = self.classic.cwnd() as f64 * room;
            }
            if again { state.truce_in = Some(0); }
        } else {
            state.since += 1;
            let fell = rtt < state.longest.mul_f64(FALL);
            if state.truce_in.is_none() && (window.lost > 0 || fell || f64::from(state.since) > self.params.gone) {
                state.truce_in = Some(SETTLED);
            }
            state.longest = state.longest.max(rtt);
            if window.lost > 0 {
                state.grow_to = 0.0;
            }
            let grown = (self.classic.cwnd() as f64 * (1.0 + self.params.ramp_gain)).min(state.grow_to);
            if grown > self.classic.cwnd() as f64 {
                self.classic.resume(grown.min(f64::from(u32::MAX)) as u32);
            }
        }
        self.follow_classic(out);
        match state.truce_in {
            Some(0) => {
                state.truce = Some((window.last_rtt, self.path.min_rtt()));
                self.hold(self.rate * TRUCE_SHARE, window.last_rtt.max(self.path.min_rtt()) * 2, out);
            }
            due => state.truce_in = due.map(|n| n - 1),
        }
        self.stage = Stage::Competition(state);
    }

    /// The candidate's window, for a round trip.
    fn follow_classic(&mut self, out: &mut Commands) {
        let window = self.classic.cwnd().min(u64::from(u32::MAX)) as u32;
        self.rate = Bounds::DEFAULT.clamp(Rate::from_bytes_in(u64::from(window), self.path.srtt()));
        self.hold(self.rate * PACE, self.path.srtt(), out);
        out.set(control::ALARM_US, NO_ALARM_US).cwnd(Bounds::DEFAULT.cwnd(u64::from(window), self.flow.mss));
    }

    /// The path is free: what queue is left is this flow's own.
    fn leave_competition(&mut self, now: Time, window: &Window, out: &mut Commands) {
        self.apply(now, Choice { rate: self.path.top(), source: Source::Previous, climb: false });
        self.classic.resume(self.cap(self.rate, 1.0));
        self.crowd.saw_short_queue(now);
        self.enter_hold(now, window.last_rtt, out);
    }
}
