//! `delay-target`: a hand-written rule, not learned, that fills the learned slot until a trained policy
//! does.
//!
//! It steers the queue towards a small target: of the delivery rate d, the queueing delay
//! q = srtt − min_rtt and the target q* it makes the rate d·(1 + g·(q* − q)/srtt), so that the error is
//! worked off over 1/g round trips. With no queue at all it asks for more than the path has delivered,
//! which is how it finds new capacity.

use super::flow_policy::{Answer, FlowPolicy};
use anole_model::Time;
use anole_policies::Observation;

/// Target queueing delay as a share of the smallest round-trip time: half of what Anole's utility
/// tolerates (its µ is 0.2).
const TARGET_SHARE: f64 = 0.1;
/// The queue's error is worked off over this many round trips: the length of one control cycle.
const ROUNDS: f64 = 4.0;
/// Largest change asked for at once; beyond it a linear rule has nothing to say.
const MAX_STEP: f64 = 0.25;

/// The rule.
#[derive(Debug, Default)]
pub(super) struct DelayTarget {
    rate: f64,
    asked: bool,
}

impl FlowPolicy for DelayTarget {
    fn observe(&mut self, seen: &Observation) {
        let (srtt, min_rtt) = (seen.srtt.as_secs_f64(), seen.min_rtt.as_secs_f64());
        let error = (1.0 + TARGET_SHARE) * min_rtt - srtt;
        let step = if srtt > 0.0 { (error / (srtt * ROUNDS)).clamp(-MAX_STEP, MAX_STEP) } else { 0.0 };
        self.rate = seen.delivery_rate.bytes_per_s() * (1.0 + step);
    }

    fn ask(&mut self, _now: Time, _deadline: Time) {
        self.asked = true;
    }

    fn poll(&mut self, _now: Time, _seen: &Observation) -> Option<Answer> {
        std::mem::take(&mut self.asked).then(|| Answer::rate(self.rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anole_model::{Dur, Rate};
    use anole_policies::Decision;

    fn ask(srtt_ms: u64) -> f64 {
        let mut policy = DelayTarget::default();
        let seen = Observation {
            srtt: Dur::from_millis(srtt_ms),
            min_rtt: Dur::from_millis(100),
            ..Observation::quiet(Rate::from_bytes_per_s(1000.0))
        };
        policy.observe(&seen);
        assert_eq!(policy.poll(Time::ZERO, &seen), None);
        policy.ask(Time::ZERO, Time::ZERO);
        let answer = policy.poll(Time::ZERO, &seen);
        assert_eq!(policy.poll(Time::ZERO, &seen), None);
        let Some(Answer::Decided { decision: Decision::Rate(rate), .. }) = answer else {
            panic!("{answer:?}")
        };
        rate
    }

    #[test]
    fn asks_for_more_below_the_target_and_for_less_above() {
        assert!(ask(100) > 1000.0);
        assert_eq!(ask(110), 1000.0);
        assert!(ask(120) < 1000.0);
        assert!(ask(100_000) >= 750.0);
        assert_eq!(ask(0), 1000.0);
    }
}
