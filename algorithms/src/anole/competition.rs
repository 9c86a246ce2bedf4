//! Competition: where others keep a queue that this flow's drains do not shorten, the rule-based candidate
//! governs alone, until the flow has the path for itself again.

use super::decision::{Choice, Source};
use super::drain::Reason;
use super::window::{Phase, Window};
use super::{Anole, CYCLE_MASK, Stage, register_us};
use anole_model::{Bounds, Dur, Rate, Time};
use anole_programs::anole_cycle::control;
use anole_programs::{Commands, anole_cycle};

/// Paced at this many times window over round-trip time: the window governs.
const PACE: f64 = 1.25;
/// The lower rate of a test, share of the rate.
const TEST_SHARE: f64 = 0.5;
/// Share of the path from which a flow is alone. Beside one equal flow it would measure a half.
const ALONE: f64 = 0.75;
/// A round-trip time that fell to this share of what it was has lost somebody.
const FALL: f64 = 0.85;
/// Reports from a loss to the test: by then packets leave at the rate at which they arrive.
const SETTLED: u32 = 2;
/// Reports from one test to the next where nothing happens.
const PERIOD: u32 = 10;
/// No alarm, µs.
const NO_ALARM_US: u32 = 2_000_000_000;

/// Drains in a row that left the queue long.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Crowd {
    drains: u32,
    /// When the first of them began, and the rate before it.
    since: Time,
    rate: Rate,
}

impl Crowd {
    /// A drain begins at this rate in force.
    pub fn begins(&mut self, now: Time, rate: Rate) {
        if self.drains == 0 {
            self.rate = rate;
            self.since = now;
        }
    }

    /// A drain left a long queue, or not.
    pub fn ended(&mut self, long: bool) {
        self.drains = if long { self.drains + 1 } else { 0 };
    }
}

/// A competition under way.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Competition {
    /// Nothing was lost yet.
    growing: bool,
    /// The longest round-trip time since the last test.
    longest: Dur,
    /// Reports in a row without a queue.
    gone: u32,
    /// Reports since the last test.
    since: u32,
    /// Reports until the next test, if one is due.
    test_in: Option<u32>,
    /// A test runs; the slope of its lower rate, once known.
    test: Option<Option<f64>>,
}

impl Anole {
    /// True when drains have shown that others keep the queue.
    pub(super) fn is_crowded_out(&self, now: Time) -> bool {
        f64::from(self.crowd.drains) >= self.params.crowd
            && now.since(self.crowd.since).as_secs_f64() >= self.params.crowd_s
    }

    /// Lets the rule-based candidate govern.
    pub(super) fn compete(&mut self, now: Time, out: &mut Commands) {
        self.climbs = 0;
        self.verdict = None;
        let rate = self.crowd.rate.max(self.rate);
        self.crowd = Crowd::default();
        self.apply(now, Choice { rate, source: Source::Rule, climb: false });
        self.classic.resume(self.cap(rate, 1.0));
        self.stage = Stage::Competition(Competition { growing: true, ..Competition::default() });
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
        let slope = window.gradient.map(|g| g.slope);
        match (state.test, window.phase) {
            (Some(_), Phase::Low) => state.test = slope.map(Some),
            (Some(low), Phase::High) => {
                let share = low.zip(slope).map(|(low, high)| (high - low) / (1.0 - TEST_SHARE));
                if std::env::var("DBG").is_ok() {
                    eprintln!("{now:?} share {share:?} {low:?} {slope:?}");
                }
                if share.is_some_and(|share| share > ALONE) {
                    return self.leave_competition(now, window, out);
                }
                state = Competition { growing: state.growing && share.is_some_and(|s| s < self.params.hungry), ..Competition::default() };
                self.follow_classic(out);
            }
            _ => {
                let rtt = window.rtt.map_or(window.last_rtt, |(_, least)| least);
                let queue = rtt - self.path.min_rtt();
                let gone = queue <= self.standing().aim;
                state.gone = if gone { state.gone + 1 } else { 0 };
                if f64::from(state.gone) >= self.params.gone {
                    return self.leave_competition(now, window, out);
                }
                state.since += 1;
                let fell = rtt < state.longest.mul_f64(FALL);
                if state.test_in.is_none() && (window.lost > 0 || fell || state.since > PERIOD) {
                    state.test_in = Some(SETTLED);
                }
                state.longest = state.longest.max(rtt);
                state.growing &= window.lost == 0;
                if state.growing {
                    let grown = self.classic.cwnd() as f64 * (1.0 + self.params.ramp_gain);
                    self.classic.resume(grown.min(f64::from(u32::MAX)) as u32);
                }
                state.test = None;
                match state.test_in {
                    Some(0) => {
                        state.test = Some(None);
                        self.test_share(out);
                    }
                    due => {
                        state.test_in = due.map(|n| n - 1);
                        self.follow_classic(out);
                    }
                }
            }
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

    /// Half of the rate, then all of it, each for half a round trip.
    fn test_share(&mut self, out: &mut Commands) {
        self.cycle = (self.cycle + 1) & CYCLE_MASK;
        let rate = Bounds::DEFAULT.clamp(self.rate);
        out.run(&anole_cycle::PROGRAM)
            .set_rate(control::LOW, rate * TEST_SHARE)
            .set_rate(control::HIGH, rate)
            .set_rate(control::HOLD, rate)
            .set(control::WINDOW_US, register_us(self.path.srtt() / 2))
            .set(control::GAP_US, super::gap_us(self.path.srtt() / 2))
            .set(control::HOLD_US, register_us(self.path.srtt()))
            .set(control::CYCLE, self.cycle)
            .cwnd(Bounds::DEFAULT.cwnd(self.classic.cwnd(), self.flow.mss));
    }

    /// The path is free: what queue is left is this flow's own.
    fn leave_competition(&mut self, now: Time, window: &Window, out: &mut Commands) {
        let rate = self.path.delivery_rate().min(self.rate);
        self.apply(now, Choice { rate, source: Source::Previous, climb: false });
        self.classic.resume(self.cap(self.rate, 1.0));
        let rtt = window.rtt.map_or(self.path.srtt(), |(mean, _)| mean);
        let target = (self.path.min_rtt() + self.standing().aim).as_secs_f64();
        let share = (target / rtt.as_secs_f64().max(1e-6)).clamp(TEST_SHARE, 1.0);
        self.enter_drain(now, Reason::Overload, share, rtt, out);
    }
}
