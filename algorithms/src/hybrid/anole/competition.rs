//! Competition: where others keep a queue that this flow's drains do not shorten, the rule-based candidate
//! governs alone, until the flow has the path for itself again.
//!
//! It begins when the [`super::detector`] fires.
//!
//! ```text
//!        RTT fell, loss, or PERIOD reports        2 RTTs of half the rate
//!  ┌────────┐ ────────────────────────▶ ┌───────┐ ──────▶ share > ALONE, or nothing queued: leave
//!  │ follow │   SETTLED reports later   │ truce │
//!  └────────┘ ◀──────────────────────── └───────┘ else: grow to `competing_share`, unless something is lost
//! ```
//! What the truce tells: with half of this flow's packets left out, the queue's slope is −x/2C (eq. 4), so
//! that the share of the path, x/C, is measured whoever the others are. Falls of the round-trip time and losses
//! are seen by all flows at about the same time; flows of this algorithm hold their truces together, each sees
//! the fall of all as if it were its own, and they leave together.
//!
//! CUBIC beside CUBIC keeps for minutes the shares that it started with (18 to 25 % for the second one in
//! four of six buffers, simulation). A flow that measured less than `competing_share` therefore grows by
//! `ramp_gain` per round trip up to it, or until something is lost.

use super::super::interval::MonitorInterval;
use super::decision::{Choice, Source};
use super::detector::CompetitorDetector;
use super::params::Params;
use super::{Anole, Stage};
use anole_model::{Bounds, Dur, Rate, Time};
use anole_programs::Commands;
use anole_programs::anole_cycle::control;

/// A queue up to this many of those aimed at is short.
const SHORT_TARGETS: f64 = 1.5;
/// Paced at this many times window over round-trip time: the window governs.
const PACE: f64 = 1.25;
/// The rate held in a truce, share of the rate.
const TRUCE_SHARE: f64 = 0.5;
/// Round trips of a truce: the second one tells about the first.
const TRUCE_RTTS: u64 = 2;
/// Share of the path from which a flow leaves: beside one equal flow it would measure a half.
const ALONE: f64 = 0.65;
/// A smaller share is not told from noise.
const LEAST_SHARE: f64 = 0.1;
/// A round-trip time that fell to this share of what it was has lost somebody; a truce of one flow of two
/// takes an eighth.
const FALL: f64 = 0.85;
/// Reports from a loss or fall to the truce: by then others have made their decrease.
const SETTLED: u32 = 2;
/// Reports from one truce to the next where nothing happens: truces cost a twentieth of the rate.
const PERIOD: u32 = 20;
/// The smallest round-trip time is confirmed by another one this near below it, share.
const CONFIRMS: f64 = 0.98;
/// No alarm, µs.
const NO_ALARM_US: u32 = 2_000_000_000;

/// A competition under way.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Competition {
    /// The window up to which it grows by a share per round trip, bytes.
    grow_to: f64,
    /// The longest round-trip time since the last truce.
    longest: Dur,
    /// Reports since the last truce.
    reports: u32,
    /// Reports until the next one, if one is due.
    truce_in: Option<u32>,
    /// A truce is held: the round-trip time before it, and the smallest one then known.
    truce: Option<(Dur, Dur)>,
}

impl Competition {
    /// A round trip without a truce is over: what follows from a round-trip time and from losses.
    fn watch(&mut self, rtt: Dur, lost: u64) {
        self.reports += 1;
        let fell = rtt < self.longest.mul_f64(FALL);
        if self.truce_in.is_none() && (lost > 0 || fell || self.reports > PERIOD) {
            self.truce_in = Some(SETTLED);
        }
        self.longest = self.longest.max(rtt);
        if lost > 0 {
            self.grow_to = 0.0;
        }
    }

    /// A truce told this share of the path, with this window: what follows.
    fn after_truce(share: f64, cwnd: u64, params: &Params) -> Competition {
        let room = params.competing_share / share.max(LEAST_SHARE);
        Competition { grow_to: cwnd as f64 * room, ..Competition::default() }
    }
}

impl Anole {
    /// Notes a queue that is short, when it is.
    pub(super) fn watch_queue(&mut self, now: Time, rtt: Dur) {
        if rtt - self.path.min_rtt() <= self.target_queue().target.mul_f64(SHORT_TARGETS) {
            self.detector = CompetitorDetector::none(now);
        }
    }

    /// True when the queue has not been short for long.
    pub(super) fn queue_stands(&self, now: Time) -> bool {
        self.detector.stands(now, self.path.min_rtt(), &self.params)
    }

    /// Lets the rule-based candidate govern, from the rate before the drains on; begins with a truce.
    pub(super) fn compete(&mut self, now: Time, out: &mut Commands) {
        self.climbs = 0;
        self.verdict = None;
        let rate = self.detector.rate().max(self.rate);
        self.detector = CompetitorDetector::none(now);
        self.apply(now, Choice { rate, source: Source::Rule, climb: false });
        self.resume_rule(now, rate);
        self.enter(Stage::Competition(Competition { truce_in: Some(0), ..Competition::default() }));
        self.follow_rule(now, out);
    }

    /// A report of the competition.
    pub(super) fn on_competition(
        &mut self,
        now: Time,
        mut state: Competition,
        window: &MonitorInterval,
        out: &mut Commands,
    ) {
        // The window is as long as the round trip: few of the packets sent in it have been acknowledged.
        let rtt = window.last_rtt;
        self.path.saw_rtt(now, rtt, rtt);
        if let Some((before, min)) = state.truce {
            let share = window.gradient.map_or(0.0, |g| -g.slope) / (1.0 - TRUCE_SHARE);
            let short = |rtt: Dur| rtt <= min + self.target_queue().target;
            let still = window.significant_gradient(self.params.z).is_none();
            let known = self.path.min_rtt() >= min.mul_f64(CONFIRMS);
            if window.lost == 0 && (share > ALONE || short(before) && short(rtt) && still && known) {
                return self.leave_competition(now, rtt, out);
            }
            state = match window.lost {
                0 => Competition::after_truce(share, self.rule.cwnd(), &self.params),
                _ => Competition::default(),
            };
            // A second one tells whether the queue is gone, or what was taken for the path shrinks further.
            state.truce_in = (short(rtt) && !short(before)).then_some(0);
        } else {
            state.watch(rtt, window.lost);
        }
        self.grow_rule(now, state.grow_to);
        self.follow_rule(now, out);
        match state.truce_in {
            Some(0) => {
                let before = rtt.max(self.path.min_rtt());
                state.truce = Some((before, self.path.min_rtt()));
                // While the round-trip time falls, the window asks for more than the path delivers.
                let carried = self.rate.min(self.path.top());
                self.hold(carried * TRUCE_SHARE, before * TRUCE_RTTS, out);
            }
            due => state.truce_in = due.map(|reports| reports - 1),
        }
        self.enter(Stage::Competition(state));
    }

    /// A round trip of growth towards a window of this many bytes.
    fn grow_rule(&mut self, now: Time, to: f64) {
        let cwnd = self.rule.cwnd() as f64;
        let grown = (cwnd * (1.0 + self.params.ramp_gain)).min(to);
        if grown > cwnd {
            let cwnd = grown.min(f64::from(u32::MAX)) as u64;
            self.rule.resume(now, Rate::from_bytes_in(cwnd, self.path.srtt()), cwnd);
        }
    }

    /// The candidate's window, for a round trip.
    fn follow_rule(&mut self, now: Time, out: &mut Commands) {
        let cwnd = Bounds::DEFAULT.cwnd(self.rule.cwnd(), self.flow.mss);
        self.set_rate(now, Rate::from_bytes_in(u64::from(cwnd), self.path.srtt()), Source::Rule);
        self.hold(self.rate * PACE, self.path.srtt(), out);
        out.set(control::ALARM_US, NO_ALARM_US).cwnd(cwnd);
    }

    /// The path is free: what queue is left is this flow's own.
    fn leave_competition(&mut self, now: Time, rtt: Dur, out: &mut Commands) {
        self.detector = CompetitorDetector::none(now);
        self.apply(now, Choice { rate: self.path.top(), source: Source::Previous, climb: false });
        self.resume_rule(now, self.rate);
        self.enter_hold(now, rtt, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Dur = Dur::from_millis(50);

    /// Reports from these round-trip times and losses on, until the truce is held.
    fn reports_until_truce(mut seen: impl Iterator<Item = (Dur, u64)>) -> u32 {
        let mut state = Competition::default();
        for n in 1.. {
            let (rtt, lost) = seen.next().unwrap();
            state.watch(rtt, lost);
            match state.truce_in {
                Some(0) => return n,
                due => state.truce_in = due.map(|reports| reports - 1),
            }
        }
        unreachable!()
    }

    #[test]
    fn a_truce_follows_a_loss_a_fall_or_a_period() {
        let steady = || std::iter::repeat((RTT * 2, 0));
        assert_eq!(reports_until_truce(steady()), PERIOD + 1 + SETTLED);
        assert_eq!(reports_until_truce(steady().take(3).chain([(RTT * 2, 1)]).chain(steady())), 4 + SETTLED);
        let fallen = std::iter::repeat((RTT, 0));
        assert_eq!(reports_until_truce(steady().take(3).chain(fallen)), 4 + SETTLED);
    }

    #[test]
    fn a_small_share_grows_up_to_the_one_wanted_and_a_large_one_does_not() {
        let params = Params::default();
        let room = |share| Competition::after_truce(share, 100_000, &params).grow_to;
        assert!((room(params.competing_share / 2.0) - 200_000.0).abs() < 1.0 && room(0.5) < 100_000.0);
        assert_eq!(room(-1.0), room(LEAST_SHARE), "an unmeasured share is no reason for unbounded growth");
        let mut state = Competition::after_truce(0.1, 100_000, &params);
        state.watch(RTT, 1);
        assert_eq!(state.grow_to, 0.0);
    }
}
