//! The target queue: the standing queue that a flow aims at.
//!
//! It grows as the flow's rate shrinks, as a delay with 1/√x. Flows that share a queue see the same delay: to the larger
//! flow it is longer than it tolerates, and it drains and backs off, while the smaller one goes on. That is what makes
//! flows converge; a queue of one length for all would leave their shares as they are, since eq. 7 gives way in
//! proportion. A flow that has the path for itself ([`super::share`]) needs no more than its tests of other rates show.

use super::params::AnoleParams;
use super::path::Path;
use anole_model::{Dur, Rate};

/// The time whose packets the standing queue is measured by, the same for every flow: flows with unequal
/// round-trip times aim at equal queues where their rates are equal. It is the paper's usual round-trip time.
const REFERENCE: Dur = Dur::from_millis(50);
/// What a flow alone aims at, share of the smallest round-trip time.
const ALONE: f64 = 0.03;
/// What is left of µ, beyond which a flow drains, where it is not known to be alone.
const SHARED: f64 = 0.5;
/// Queues tolerated per queue aimed at: tests of other rates come on top of it.
const TOLERATED_TARGETS: f64 = 2.0;
/// No standing queue is aimed at beyond this, s: a slow flow's few packets take long.
const MAX_TARGET_S: f64 = 1.0;

/// The queue that a flow wants to stand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TargetQueue {
    /// What it aims at, as a delay.
    pub target: Dur,
    /// What its utility tolerates (µ of eq. 2), share of the smallest round-trip time: never less than twice
    /// what it aims at.
    pub tolerated: f64,
    /// Where it drains, the same: flows that share a queue have no use for the part of µ that tests need.
    pub drains: f64,
}

impl TargetQueue {
    /// That of a flow of this rate: `fill`·√n packets, n those sent in [`REFERENCE`]; never more than µ of the smallest
    /// round-trip time, or [`ALONE`] of it where the flow is, or a packet.
    pub fn of(rate: Rate, path: &Path, mss: u32, params: &AnoleParams) -> TargetQueue {
        let min_rtt = path.min_rtt();
        let most = if path.share.is_alone() { ALONE } else { params.mu };
        let packet_s = f64::from(mss) / rate.bytes_per_s().max(1.0);
        let tolerable = (most * min_rtt.as_secs_f64() / packet_s).max(1.0);
        let packets = (params.fill * (REFERENCE.as_secs_f64() / packet_s).sqrt()).min(tolerable);
        let target = Dur::from_secs_f64((packets * packet_s).min(MAX_TARGET_S));
        let share = target.as_secs_f64() / min_rtt.as_secs_f64().max(1e-9);
        let tolerated = |mu: f64| mu.max(TOLERATED_TARGETS * share);
        let drains = if path.share.is_alone() { params.mu } else { SHARED * params.mu };
        TargetQueue { target, tolerated: tolerated(params.mu), drains: tolerated(drains) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anole_model::Time;

    #[test]
    fn the_slower_the_flow_the_longer_its_queue() {
        let mut path = Path::new();
        path.saw_rtt(Time::ZERO, Dur::from_millis(50), Dur::from_millis(50));
        let target = |mbps| {
            let queue = TargetQueue::of(Rate::from_mbps(mbps), &path, 1250, &AnoleParams::default());
            (queue.target.as_millis_f64() * 10.0).round() / 10.0
        };
        // 0.8 of the root of the 200, 50 and 5 packets sent in 50 ms, but no more than a fifth of the round trip.
        assert_eq!([target(40.0), target(10.0), target(1.0)], [2.8, 5.7, 10.0]);
    }
}
