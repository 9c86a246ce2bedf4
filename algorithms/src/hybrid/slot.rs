//! The two candidates of a hybrid: a law, and a learned policy that proposes a rate.

use super::confidence::Confidence;
use crate::learned::{self, Answer, FlowPolicy, Observation, deadline};
use crate::{BuildError, FlowInfo, rule_names};
use anole_laws::{Control, Feedback, Law};
use anole_model::names::nearest;
use anole_model::{Dur, Rate, Time};
use anole_policies::{Decision, Policies};
use std::collections::BTreeMap;
use std::task::Poll;

/// The rule-based candidate.
pub(super) struct RuleSlot {
    law: Box<dyn Law>,
    pub confidence: Confidence,
}

impl RuleSlot {
    /// The law with this name, in slow start.
    pub fn build(name: &str, flow: FlowInfo, seed: u64) -> Result<RuleSlot, BuildError> {
        let Some(spec) = anole_laws::find(name) else {
            let nearest = nearest(name, rule_names());
            return Err(BuildError::UnknownClassic { name: name.to_string(), nearest });
        };
        let law = (spec.build)(flow.of_law(seed), &BTreeMap::new())?;
        Ok(RuleSlot { law, confidence: Confidence::new() })
    }

    /// Takes what happened since the last report.
    pub fn feed(&mut self, now: Time, seen: &Feedback) {
        self.law.on_feedback(now, seen);
    }

    /// The rate that it proposes.
    pub fn rate(&self, srtt: Dur) -> Rate {
        self.law.control().rate_over(srtt)
    }

    /// True while it grows exponentially.
    pub fn in_slow_start(&self) -> bool {
        self.law.in_slow_start()
    }

    /// True while it grows exponentially, or drains what that has queued.
    pub fn is_starting(&self) -> bool {
        self.law.is_starting()
    }

    /// The rate that it takes the path to have.
    pub fn cruising_rate(&self, srtt: Dur) -> Rate {
        self.law.cruising_rate().unwrap_or_else(|| self.rate(srtt))
    }

    /// The window that it proposes, bytes.
    pub fn cwnd(&self) -> u64 {
        self.law.control().cwnd
    }

    /// True if it paces at a rate of its own, and its window is a bound on what is in flight.
    pub fn paces(&self) -> bool {
        self.law.control().rate.is_some()
    }

    /// Goes on from another rate and the window that carries it.
    pub fn resume(&mut self, now: Time, rate: Rate, cwnd: u64) {
        self.law.resume(now, Control { cwnd, rate: Some(rate) });
    }
}

/// A policy may change the rate by no more than this factor; anything beyond is no rate.
const SANE_FACTOR: f64 = 10.0;

/// The learned candidate; the slot may be empty.
pub(super) struct LearnedSlot {
    policy: Option<Box<dyn FlowPolicy>>,
    /// What the last question was about, until it is answered.
    asked: Option<Observation>,
    pub confidence: Confidence,
    /// False when the last question had no answer in time.
    answers: bool,
    /// Runs of the policy so far.
    inferences: u64,
}

impl LearnedSlot {
    /// The policy, if there is one.
    pub fn new(policy: Option<Box<dyn FlowPolicy>>) -> LearnedSlot {
        LearnedSlot { policy, asked: None, confidence: Confidence::new(), answers: true, inferences: 0 }
    }

    /// The policy with this name.
    pub fn build(name: &str, policies: &dyn Policies, seed: u64) -> Result<LearnedSlot, BuildError> {
        Ok(LearnedSlot::new(learned::proposer(name, policies, seed)?))
    }

    /// Runs of the policy so far.
    pub fn inferences(&self) -> u64 {
        self.inferences
    }

    /// Asks the policy about an interval.
    pub fn ask(&mut self, now: Time, seen: &Observation) {
        if let Some(policy) = &mut self.policy {
            policy.observe(seen);
            policy.ask(now, deadline(now, seen.interval));
            self.asked = Some(*seen);
            self.inferences += 1;
        }
    }

    /// Until when an answer about an `interval` is waited for; a policy that let its last deadline pass gets `grace`.
    pub fn deadline(&self, now: Time, interval: Dur, grace: Dur) -> Time {
        if self.answers { deadline(now, interval) } else { now + grace }
    }

    /// The answer to the last question: pending, a rate, or none. An empty slot has none at once; so has a policy
    /// whose answer is no rate beside `current`.
    pub fn poll(&mut self, now: Time, current: Rate) -> Poll<Proposal> {
        let Some(policy) = &mut self.policy else { return Poll::Ready(Proposal::None) };
        let Some(seen) = self.asked else { return Poll::Pending };
        let Some(answer) = policy.poll(now, &seen) else { return Poll::Pending };
        self.asked = None;
        let rate = proposed(&answer, seen.srtt).filter(|rate| {
            let current = current.bytes_per_s();
            (current / SANE_FACTOR..=current * SANE_FACTOR).contains(rate)
        });
        Poll::Ready(rate.map_or(Proposal::Unusable, |rate| Proposal::Rate(Rate::from_bytes_per_s(rate))))
    }

    /// True when the last question had an answer in time.
    #[cfg(test)]
    pub fn answers(&self) -> bool {
        self.answers
    }

    /// Notes whether the last question had a usable answer in time.
    pub fn answered(&mut self, in_time: bool) {
        self.answers = in_time;
    }
}

/// The rate of an answer, bytes/s: a window is what it sends per round trip.
fn proposed(answer: &Answer, srtt: Dur) -> Option<f64> {
    match answer {
        Answer::Decided { decision: Decision::Rate(rate), .. } => Some(*rate),
        Answer::Decided { decision: Decision::Cwnd(cwnd), .. } => Some(cwnd / srtt.as_secs_f64().max(1e-6)),
        Answer::Decided { decision: Decision::Parameters(_), .. } | Answer::Unusable => None,
    }
}

/// What the learned candidate answered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Proposal {
    /// A rate.
    Rate(Rate),
    /// No rate: not a number, or absurd.
    Unusable,
    /// There is no policy.
    None,
}

impl Proposal {
    /// The rate, if it is one.
    pub fn rate(self) -> Option<Rate> {
        match self {
            Proposal::Rate(rate) => Some(rate),
            Proposal::Unusable | Proposal::None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::Shipped;

    const FLOW: FlowInfo = FlowInfo { mss: 1000, init_cwnd: 10_000 };

    #[test]
    fn every_law_is_a_candidate_and_a_wrong_name_is_corrected() {
        for name in rule_names() {
            assert_eq!(RuleSlot::build(name, FLOW, 1).unwrap().law.control().cwnd, 10_000);
        }
        let error = RuleSlot::build("qubic", FLOW, 1).err().unwrap();
        assert_eq!(error.to_string(), "unknown rule-based candidate \"qubic\"; did you mean cubic?");
    }

    #[test]
    fn what_is_no_rate_is_told_from_no_answer() {
        let now = Time::ZERO;
        let current = Rate::from_mbps(8.0);
        let proposal = |name| {
            let mut slot = LearnedSlot::build(name, &Shipped, 1).unwrap();
            slot.ask(now, &Observation::quiet(current));
            slot.poll(now, current)
        };
        assert_eq!(proposal("none"), Poll::Ready(Proposal::None));
        assert_eq!(proposal("fault:absent"), Poll::Pending);
        assert_eq!(proposal("fault:nan"), Poll::Ready(Proposal::Unusable));
        assert_eq!(proposal("fault:high"), Poll::Ready(Proposal::Rate(current * 2.0)));
    }

    #[test]
    fn a_policy_that_was_late_is_waited_for_less() {
        let mut slot = LearnedSlot::new(None);
        let (interval, grace) = (Dur::from_millis(100), Dur::from_millis(5));
        assert_eq!(slot.deadline(Time::ZERO, interval, grace), Time::from_micros(50_000));
        slot.answered(false);
        assert_eq!(slot.deadline(Time::ZERO, interval, grace), Time::from_micros(5_000));
    }
}
