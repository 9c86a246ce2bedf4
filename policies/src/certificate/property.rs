//! What a policy has to do in situations that anybody can judge; the certificate proves it of a network, and at run time
//! [`clamp`] sees to it.

use crate::action::Decision;
use crate::observation::Observation;

/// Round-trip time over the smallest one at which a queue is certain, whatever the jitter …
pub const QUEUED: f64 = 1.05;
/// … up to that of a full buffer of half a bandwidth-delay product: a short one.
pub const SHORT_BUFFER: f64 = 1.5;
/// Share lost from which the buffer is taken to be full: twice what CUBIC bears at 100 packets per round trip.
pub const FULL_LOSS: f64 = 0.02;
/// Round-trip time over the smallest one up to which there is no queue.
pub const EMPTY: f64 = 1.02;

/// What a flow went through, where that demands something of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Situation {
    /// The buffer is short and full, and it loses: the rate must not rise.
    FullShortBuffer,
    /// The queue is empty and nothing is lost: the rate must not fall below what is delivered.
    EmptyQueue,
}

impl Situation {
    /// The situation, if it is one of them.
    pub fn of(seen: &Observation) -> Option<Situation> {
        let stretch = seen.rtt.as_secs_f64() / seen.min_rtt.as_secs_f64().max(1e-6);
        // A flow that has just asked for less than is still being delivered has answered already.
        if seen.rate < seen.delivery_rate {
            return None;
        }
        if (QUEUED..=SHORT_BUFFER).contains(&stretch) && seen.loss_rate >= FULL_LOSS {
            return Some(Situation::FullShortBuffer);
        }
        (stretch <= EMPTY && seen.lost == 0.0 && seen.acks > 0.0).then_some(Situation::EmptyQueue)
    }
}

/// The decision, within what its situation allows. A decision about registers moves no window by itself and stays.
pub fn clamp(decision: Decision, seen: &Observation) -> Decision {
    let Some(situation) = Situation::of(seen) else { return decision };
    let delivered = seen.delivery_rate.bytes_per_s();
    match (situation, decision) {
        (Situation::FullShortBuffer, Decision::Rate(rate)) => {
            Decision::Rate(rate.min(seen.rate.bytes_per_s()))
        }
        (Situation::FullShortBuffer, Decision::Cwnd(cwnd)) => Decision::Cwnd(cwnd.min(seen.cwnd as f64)),
        (Situation::EmptyQueue, Decision::Rate(rate)) => Decision::Rate(rate.max(delivered)),
        (Situation::EmptyQueue, Decision::Cwnd(cwnd)) => {
            // No more than is in force: a window that others keep short (an application, a receiver) is no fault.
            let needed = (delivered * seen.rtt.as_secs_f64()).min(seen.cwnd as f64);
            Decision::Cwnd(cwnd.max(needed))
        }
        (_, decision @ Decision::Parameters(_)) => decision,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anole_model::{Dur, Rate};

    fn seen(rtt_ms: u64, lost: u64) -> Observation {
        let rate = Rate::from_bytes_per_s(1e6);
        let loss_rate = if lost > 0 { 0.05 } else { 0.0 };
        let delivery_rate = Rate::from_bytes_per_s(0.9e6);
        Observation {
            rtt: Dur::from_millis(rtt_ms),
            lost: lost as f64,
            loss_rate,
            delivery_rate,
            ..Observation::quiet(rate)
        }
    }

    #[test]
    fn situations_are_told_by_delay_and_loss() {
        let of = |rtt_ms, lost| Situation::of(&seen(rtt_ms, lost));
        assert_eq!(of(50, 0), Some(Situation::EmptyQueue));
        assert_eq!([of(50, 3), of(55, 0), of(100, 3)], [None; 3]);
        assert_eq!(of(60, 3), Some(Situation::FullShortBuffer));
        // What was sent before is still being delivered.
        let slowed = Observation { rate: Rate::from_bytes_per_s(0.5e6), ..seen(60, 3) };
        assert_eq!(Situation::of(&slowed), None);
    }

    #[test]
    fn a_full_short_buffer_is_a_ceiling_and_an_empty_queue_a_floor() {
        let (full, empty, between) = (seen(60, 3), seen(50, 0), seen(55, 0));
        assert_eq!(clamp(Decision::Rate(2e6), &full), Decision::Rate(1e6));
        assert_eq!(clamp(Decision::Rate(5e5), &full), Decision::Rate(5e5));
        assert_eq!(clamp(Decision::Cwnd(1e9), &full), Decision::Cwnd(50_000.0));
        assert_eq!(clamp(Decision::Rate(5e5), &empty), Decision::Rate(0.9e6));
        assert_eq!(clamp(Decision::Cwnd(1e3), &empty), Decision::Cwnd(45_000.0));
        for decision in [Decision::Rate(2e6), Decision::Cwnd(1e3), Decision::Parameters(vec![1.0])] {
            assert_eq!(clamp(decision.clone(), &between), decision);
        }
        let parameters = Decision::Parameters(vec![1.0]);
        assert_eq!(clamp(parameters.clone(), &full), parameters);
    }
}
