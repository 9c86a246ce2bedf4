//! Exploration: the classic law drives from the base rate, while the policy watches and proposes.
//!
//! The policy is asked every half round trip, and multiplies the base rate. The ACKs that it sees are of packets sent at the
//! base rate of the cycle before, which was held for k round trips: they tell of the path, not of the rate to go on from.
//!
//! Startup is an exploration without a policy or an end: it lasts while the classic law is in slow start, or drains what that has queued.

use super::super::slot::{Proposal, RuleSlot};
use super::{Libra, REPORTS_PER_RTT, SLOW_START_GAIN, Stage, register_us};
use anole_model::{Bounds, Rate, Time};
use anole_programs::Commands;
use anole_programs::libra_cycle::control;
use std::task::Poll;

/// Monitor intervals of the policy per round trip (the paper leaves them open): a policy that needs an answer's time
/// has spoken before one round trip is over.
const QUESTIONS_PER_RTT: u64 = 2;
/// A report is early by the jitter of its way; a stage does not go on for this part of a round trip.
const EARLY: u64 = 16;

/// Of the queue that a base rate leaves, the window that a classic law without a rate of its own goes on from keeps this
/// part: with all of it every resumption would confirm the queue.
const QUEUE_KEPT: f64 = 0.5;

/// An exploration under way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Exploration {
    pub began: Time,
    /// When the policy is asked next.
    asks: Time,
    /// The policy has proposed a rate in this exploration.
    fresh: bool,
}

impl Libra {
    /// A report while the classic law starts.
    pub(super) fn start_up(&mut self, now: Time, out: &mut Commands) {
        let over = match &self.rule {
            Some(rule) => !rule.is_starting(),
            None => true,
        };
        if over && self.monitor.srtt().is_some() {
            let first = Rate::from_bytes_in(u64::from(self.flow.init_cwnd), self.srtt());
            self.base = self.rule.as_ref().map_or(first, |rule| rule.cruising_rate(self.srtt()));
            // What was delivered so far is what a rate is bounded by.
            let _ = self.monitor.observe(self.base, self.window_of(self.base));
            self.base = self.bounded(self.base);
            return self.explore(now, out);
        }
        self.drive(out);
    }

    /// The exploration begins, at the base rate.
    pub(super) fn explore(&mut self, now: Time, out: &mut Commands) {
        self.resume_rule(now);
        self.monitor.forget();
        let asks = now + self.span() / QUESTIONS_PER_RTT;
        self.stage = Stage::Exploration(Exploration { began: now, asks, fresh: false });
        self.drive(out);
    }

    /// The classic law goes on from the base rate, undisturbed if it is near.
    fn resume_rule(&mut self, now: Time) {
        let (srtt, base) = (self.srtt(), self.base);
        let least = self.monitor.recent_rtt().unwrap_or(srtt);
        let paces = self.rule.as_ref().is_some_and(RuleSlot::paces);
        let rtt = if paces { srtt } else { least + (srtt - least).mul_f64(QUEUE_KEPT) };
        let cwnd = u64::from(Bounds::DEFAULT.cwnd_for(base, rtt, 1.0, self.flow.mss));
        let keep = self.params.keep_epoch * base.bytes_per_s();
        if let Some(rule) = &mut self.rule
            && (rule.rate(srtt).bytes_per_s() - base.bytes_per_s()).abs() > keep
        {
            rule.resume(now, base, cwnd);
        }
    }

    /// Puts in force what drives the exploration: the classic law, or the policy where there is none.
    fn drive(&self, out: &mut Commands) {
        let (rate, cwnd) = match &self.rule {
            Some(rule) => {
                let gain = if rule.in_slow_start() { SLOW_START_GAIN } else { 1.0 };
                (rule.rate(self.srtt()) * gain, Bounds::DEFAULT.cwnd(rule.cwnd(), self.flow.mss))
            }
            None => (self.driven(), self.cap(self.driven())),
        };
        if self.monitor.srtt().is_some() {
            out.set_rate(control::HOLD, Bounds::DEFAULT.clamp(rate));
        }
        out.set(control::HOLD_US, register_us(self.span() / REPORTS_PER_RTT)).cwnd(cwnd);
    }

    /// What a clean-slate flow explores at: the policy's rate once it has spoken.
    fn driven(&self) -> Rate {
        match self.stage {
            Stage::Exploration(Exploration { fresh: true, .. }) => self.learned_candidate(),
            _ => self.base,
        }
    }

    /// A report during exploration.
    pub(super) fn on_explored(&mut self, now: Time, mut exploration: Exploration, out: &mut Commands) {
        let slack = self.span() / EARLY;
        self.take_answer(now, &mut exploration);
        let lasted = now.since(exploration.began) + slack;
        let over = lasted >= self.span().mul_f64(self.params.explore_rtts);
        if !over && now + slack >= exploration.asks {
            exploration.asks = now + self.span() / QUESTIONS_PER_RTT;
            self.ask(now);
            self.take_answer(now, &mut exploration);
        }
        self.stage = Stage::Exploration(exploration);
        if over || (exploration.fresh && self.diverged()) {
            self.evaluate(now, exploration.began, out);
        } else {
            self.drive(out);
        }
    }

    /// Asks the policy; without an ACK its last proposal stays.
    fn ask(&mut self, now: Time) {
        let cwnd = self.window_of(self.base);
        if let Some(seen) = self.monitor.observe(self.base, cwnd)
            && seen.acks > 0.0
        {
            self.learned.ask(now, &seen);
        }
    }

    fn take_answer(&mut self, now: Time, exploration: &mut Exploration) {
        if let Poll::Ready(Proposal::Rate(rate)) = self.learned.poll(now, self.base) {
            self.proposed = Some(rate);
            exploration.fresh = true;
        }
    }

    /// |x_rl − x_cl| ≥ th_1.
    fn diverged(&self) -> bool {
        let apart = self.learned_candidate().bytes_per_s() - self.classic_candidate().bytes_per_s();
        self.rule.is_some() && apart.abs() >= self.params.diverge * self.base.bytes_per_s()
    }
}
