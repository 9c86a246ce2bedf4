//! Who governs a flow: the policy, or the rule that stands in for it.
//!
//! ```text
//!            MAX_ABSENT questions in a row without a usable answer
//!         ┌──────────────────────────────────────────────▶┐
//!     ┌────────┐              an answer                ┌──────┐
//!     │ policy │ ◀──────────────────────────────────── │ rule │
//!     └────────┘                                       └──────┘
//!         └──────────────────────────────────────────────▶┘
//!            heavy loss or a timeout: for HOLD_RTTS round trips, twice as many each time it recurs
//!            (after a timeout counted from the next acknowledgement)
//! ```
//!
//! A policy may be any function at all, so that nothing it was taught protects the network. Heavy loss is
//! more than a fifth of two round trips' packets: twice what policies are trained for and more than BBR
//! sends through, so that the path's own loss hardly ever meets it, whereas a rate of 1.25 times the
//! capacity does. The hold doubles when the policy causes it again within ten times the last one: what a
//! policy that always overloads its path does to it then vanishes beside the rule.

use anole_model::{Dur, Time};

/// Questions in a row without a usable answer after which the rule takes over: a tenth of a second at
/// Orca's pace, a round trip or a few at the others'.
pub(super) const MAX_ABSENT: u32 = 5;
/// Share of packets lost that no policy may cause.
const HEAVY_LOSS: f64 = 0.2;
/// Packets on which that share is judged at least: with a true share of a tenth, two hundred show a fifth
/// once in a hundred thousand times.
const JUDGED_PACKETS: u64 = 200;
/// Round trips on which it is judged at least.
const JUDGED_RTTS: u64 = 2;
/// Round trips under the rule after the first offence …
const HOLD_RTTS: u64 = 8;
/// … and after many.
const MAX_HOLD_RTTS: u64 = 512;
/// An offence within this many times the last hold is a repeated one.
const REPEATS_WITHIN: u64 = 10;

/// What the guard knows.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    /// False: only absent answers and timeouts matter.
    watches_loss: bool,
    absent: u32,
    held_until: Option<Time>,
    /// A timeout happened, and nothing was acknowledged since: the hold begins when something is.
    silent: bool,
    hold_rtts: u64,
    /// An offence before this time is a repeated one.
    probation_ends: Time,
    /// Losses are judged from this time on.
    judged_from: Time,
    lost: u64,
    sent: u64,
}

impl Guard {
    /// The policy governs.
    pub fn new(watches_loss: bool) -> Guard {
        Guard {
            watches_loss,
            absent: 0,
            held_until: None,
            silent: false,
            hold_rtts: HOLD_RTTS,
            probation_ends: Time::ZERO,
            judged_from: Time::ZERO,
            lost: 0,
            sent: 0,
        }
    }

    /// True while the rule governs.
    pub fn rule_governs(&self) -> bool {
        self.held_until.is_some() || self.absent >= MAX_ABSENT
    }

    /// True while nothing is acknowledged after a timeout.
    pub fn is_silent(&self) -> bool {
        self.held_until.is_some() && self.silent
    }

    /// True while answers count.
    pub fn policy_is_wanted(&self) -> bool {
        self.held_until.is_none()
    }

    /// A question had no usable answer.
    pub fn absent(&mut self) {
        self.absent = self.absent.saturating_add(1);
    }

    /// A question had an answer.
    pub fn answered(&mut self) {
        self.absent = 0;
    }

    /// What happened up to `from` is not the policy's doing.
    pub fn forgive(&mut self, from: Time) {
        (self.judged_from, self.lost, self.sent) = (from, 0, 0);
    }

    /// Takes what a report told. True when the rule has to take over now.
    pub fn judge(&mut self, now: Time, lost: u64, acked: u64, timeout: bool, srtt: Dur) -> bool {
        if let Some(until) = self.held_until {
            let speaks_again = self.silent && acked > 0 && !timeout;
            self.silent = (self.silent || timeout) && !speaks_again;
            if speaks_again {
                self.held_until = Some(now + srtt * self.hold_rtts);
            }
            if speaks_again || self.silent || now < until {
                return false;
            }
            self.held_until = None;
            self.probation_ends = now + srtt * self.hold_rtts.saturating_mul(REPEATS_WITHIN);
            self.forgive(now);
            return false;
        }
        let offence = timeout || (self.watches_loss && self.is_heavy(now, lost, acked, srtt));
        if offence {
            let repeated = now < self.probation_ends;
            self.hold_rtts = if repeated { (2 * self.hold_rtts).min(MAX_HOLD_RTTS) } else { HOLD_RTTS };
            self.held_until = Some(now + srtt * self.hold_rtts);
            self.silent = timeout;
        }
        offence
    }

    /// Counts packets, and judges them when there are enough.
    fn is_heavy(&mut self, now: Time, lost: u64, acked: u64, srtt: Dur) -> bool {
        if now < self.judged_from {
            return false;
        }
        self.lost = self.lost.saturating_add(lost);
        self.sent = self.sent.saturating_add(lost).saturating_add(acked);
        if self.sent < JUDGED_PACKETS || now < self.judged_from + srtt * JUDGED_RTTS {
            return false;
        }
        let heavy = self.lost as f64 > HEAVY_LOSS * self.sent as f64;
        self.forgive(now);
        heavy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SRTT: Dur = Dur::from_millis(50);

    fn at(ms: u64) -> Time {
        Time::from_micros(ms * 1000)
    }

    #[test]
    fn five_absent_answers_give_way_to_the_rule_and_one_answer_ends_that() {
        let mut guard = Guard::new(true);
        for _ in 1..MAX_ABSENT {
            guard.absent();
        }
        assert!(!guard.rule_governs());
        guard.absent();
        assert!(guard.rule_governs() && guard.policy_is_wanted());
        guard.answered();
        assert!(!guard.rule_governs());
    }

    #[test]
    fn a_tenth_lost_is_borne_and_a_quarter_is_not() {
        let mut guard = Guard::new(true);
        for ms in (0..10_000).step_by(50) {
            assert!(!guard.judge(at(ms), 10, 90, false, SRTT));
        }
        let tripped = (10_000..10_200).step_by(50).find(|&ms| guard.judge(at(ms), 25, 75, false, SRTT));
        assert!(tripped.is_some() && guard.rule_governs() && !guard.policy_is_wanted());
    }

    #[test]
    fn a_policy_that_always_overloads_hardly_governs() {
        let (mut guard, mut governed) = (Guard::new(true), 0);
        for ms in (0..1_000_000).step_by(50) {
            let rule = guard.rule_governs();
            governed += u64::from(!rule);
            let (lost, acked) = if rule { (0, 100) } else { (100, 100) };
            guard.judge(at(ms), lost, acked, false, SRTT);
        }
        assert!(governed < 20_000 / 50, "{governed} of 20000 round trips");
    }

    #[test]
    fn after_a_timeout_the_hold_begins_with_the_next_acknowledgement() {
        let mut guard = Guard::new(true);
        assert!(guard.judge(at(0), 10, 0, true, SRTT));
        assert!(!guard.judge(at(3000), 2, 0, true, SRTT) && guard.is_silent());
        assert!(!guard.judge(at(6000), 0, 2, false, SRTT) && !guard.is_silent());
        assert!(!guard.judge(at(6399), 0, 10, false, SRTT) && guard.rule_governs());
        assert!(!guard.judge(at(6400), 0, 10, false, SRTT) && !guard.rule_governs());
    }

    #[test]
    fn without_the_watch_only_a_timeout_matters() {
        let mut guard = Guard::new(false);
        assert!((0..100).all(|ms| !guard.judge(at(ms * 50), 100, 0, false, SRTT)));
        assert!(guard.judge(at(5000), 0, 0, true, SRTT));
    }
}
