//! Drain: the rate is held below the one decided on, to work off a queue.
//!
//! Anole eq. 9: max(RTTmin/RTT, 0.5)·x for one round trip drains this flow's share of the queue,
//! (RTT − RTTmin)·x. Deviations:
//! - the queue is drained down to the standing queue that an inferred rate aims at, and where half of the
//!   rate would need longer than a round trip for that, for as long as it needs;
//! - one round trip later the last packet of the drain tells what came of it; a queue that is still long
//!   is drained again at once;
//! - fairness back-off: a flow that drains a queue gives up a share of its rate for good, the more the longer: flows
//!   with more than their part of the path are the first to find the queue too long, and find it longer (see
//!   [`super::target_queue`]). The fourth drain in a row and later ones give up as much
//!   again where the one before had no effect;
//! - what one report shows may be a host that stood still: a flow yields, and believes an overload, only if a round
//!   trip later, before the drain can have had an effect, the queue is still there;
//! - after a ramp, and when an alarm shows an overload, the queue delivers at the flow's full share, so
//!   that the ACKs of the drain tell the rate to go on with. It is the rate of eq. 7, x/(1 + ΔD);
//! - a smallest round-trip time that nothing has confirmed for long is measured on the emptied queue.

use super::path::Path;
use super::target_queue::TargetQueue;
use super::{Anole, AnoleParams, Choice, MonitorInterval, Source, Stage};
use anole_model::{Dur, Rate, Time};
use anole_programs::Commands;

/// A drain never goes below this share of the rate (Anole eq. 9).
pub(super) const MIN_SHARE: f64 = 0.5;
/// A drain is no drain above this share: flows that aim at long queues drain too.
const MAX_SHARE: f64 = 0.9;
/// The share of the rate held to confirm the smallest round-trip time: where flows share a queue, one round trip of it
/// shows what this flow has in it.
const CONFIRM_SHARE: f64 = 0.1;
/// A drain is computed as if it held back this share of the rate at least.
const LEAST_DRAINED: f64 = 0.3;
/// A drain never lasts longer than this, round trips: what it was computed from may be wrong.
const LONGEST_DRAIN_RTTS: u64 = 2;
/// Nor than so many smallest round-trip times: that one may be of an outage.
const LONGEST_DRAIN_BASES: u64 = 8;
/// A flow yields for no more than this many of the queues that it tolerates: a burst of others is no share.
const MOST_BACKOFF: f64 = 3.0;
/// A drain should shorten the queue by this share of what it promised: where flows share a queue each drains its own part.
const SHORTENS: f64 = 0.02;
/// From this many drains in a row on, one that follows one without effect yields as well: flows that share a queue are out of
/// step at first.
const REPEATS: u32 = 3;
/// Loss counts as passed through the bottleneck up to one packet in this many acknowledged.
const OWN_LOSS_DIVISOR: u64 = 10;

/// What a drain is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The queue is longer than the one from which on it drains.
    Queue,
    /// A ramp has ended.
    Ramp,
    /// The round-trip time has exceeded the alarm.
    Overload,
    /// The smallest round-trip time is stale, or losses are taken for the path's own that would not be if it were false.
    Confirm,
}

/// A drain under way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Drain {
    pub reason: Reason,
    /// The round-trip time before it.
    pub before: Dur,
    /// Drains in a row before it.
    pub repeated: u32,
    /// The last of these had no effect.
    pub in_vain: bool,
    /// The rate in force before the first of them.
    pub from: Rate,
}

/// Which drain is due before a rate is held, and the share of the rate to hold. `None` when the queue is
/// tolerable.
pub(super) fn due(
    now: Time,
    rtt: Dur,
    queue: TargetQueue,
    path: &Path,
    params: &AnoleParams,
) -> Option<(Reason, f64)> {
    let ratio = rtt.as_secs_f64() / path.min_rtt().as_secs_f64().max(1e-9);
    if ratio > 1.0 + queue.drains {
        let share = (path.min_rtt() + queue.target).as_secs_f64() / rtt.as_secs_f64();
        Some((Reason::Queue, share.clamp(MIN_SHARE, MAX_SHARE)))
    } else if path.min_rtt_is_stale(now, params) || path.own_loss.needs_proof() {
        Some((Reason::Confirm, CONFIRM_SHARE))
    } else {
        None
    }
}

/// The share of the rate held after a ramp that grew by `gain` per round trip and ended at `rtt`: by
/// the time the end is known the packets in flight have grown by `gain` once more.
pub(super) fn after_ramp(gain: f64, rtt: Dur, aim: Dur, path: &Path) -> f64 {
    let base = path.min_rtt().as_secs_f64();
    let ratio = rtt.as_secs_f64() / base.max(1e-9);
    ((base + aim.as_secs_f64()) / base.max(1e-9) / ratio.max(1.0 + gain)).clamp(MIN_SHARE, 1.0)
}

impl Anole {
    /// Which drain is due.
    pub(super) fn drain_due(&self, now: Time, rtt: Dur) -> Option<(Reason, f64)> {
        due(now, rtt, self.target_queue(), &self.path, &self.params)
    }

    /// Holds `share` of the rate until the queue seen at a round-trip time of `before` is worked off.
    pub(super) fn enter_drain(&mut self, reason: Reason, share: f64, before: Dur, out: &mut Commands) {
        self.drain(Drain { reason, before, repeated: 0, in_vain: false, from: self.rate }, share, out);
    }

    pub(super) fn drain(&mut self, drain: Drain, share: f64, out: &mut Commands) {
        let target = self.path.min_rtt() + self.target_queue().target;
        let needed = (drain.before - target).mul_f64(1.0 / (1.0 - share).max(LEAST_DRAINED));
        let base = self.path.min_rtt();
        let longest = (drain.before.max(base) * LONGEST_DRAIN_RTTS).min(base * LONGEST_DRAIN_BASES);
        let span = needed.max(base).min(longest);
        self.enter(Stage::Drain(drain));
        self.hold(self.rate * share, span, out);
    }

    /// By how much of [`SHORTENS`] a round-trip time after a drain shows a shorter queue; `None` where it promised nothing.
    pub(super) fn effect(&self, drain: &Drain, after: Dur) -> Option<f64> {
        let promised = drain.before - (self.path.min_rtt() + self.target_queue().target);
        (!promised.is_zero())
            .then(|| (drain.before - after).as_secs_f64() / (SHORTENS * promised.as_secs_f64()))
    }

    /// The queue at this round-trip time, in queues from which on it drains.
    fn queues(&self, rtt: Dur) -> f64 {
        let ratio = rtt.as_secs_f64() / self.path.min_rtt().as_secs_f64().max(1e-9);
        (ratio - 1.0) / self.target_queue().drains
    }

    /// The drain is over; the rate decided on, or the one that the drain told, is in force again.
    pub(super) fn on_drained(
        &mut self,
        now: Time,
        drain: Drain,
        window: &MonitorInterval,
        out: &mut Commands,
    ) {
        // Packets that the path loses behind the bottleneck passed it too.
        let lost = window.lost.saturating_mul(u64::from(self.flow.mss)).min(window.acked / OWN_LOSS_DIVISOR);
        let delivered = Rate::from_bytes_in(window.acked.saturating_add(lost), window.elapsed);
        // The last ACKs are of packets sent before the drain: a queue that one of them did not meet was none.
        let queues = self.queues(window.late_rtt.min(drain.before));
        if drain.reason == Reason::Ramp && self.path.own_loss.is_usual(window.all_loss(self.flow.mss)) {
            self.patience.did_no_harm();
        }
        let told = match drain.reason {
            // What an application has tells nothing of the path.
            Reason::Ramp => (!self.is_idle(window, self.rate * MIN_SHARE)).then_some(delivered),
            Reason::Overload if drain.repeated == 0 && queues <= 1.0 => Some(drain.from),
            Reason::Overload => Some(delivered.clamp(self.rate * MIN_SHARE, self.rate)),
            Reason::Queue
                if queues > 1.0 && (drain.repeated == 0 || drain.repeated >= REPEATS && drain.in_vain) =>
            {
                let kept = 1.0 - self.params.backoff * queues.min(MOST_BACKOFF);
                self.set_rate(now, self.rate * kept, self.source.0);
                None
            }
            Reason::Queue | Reason::Confirm => None,
        };
        if let Some(rate) = told.filter(|rate| *rate > Rate::ZERO) {
            self.apply(now, Choice { rate, source: Source::Inferred, climb: false });
        }
        self.enter(Stage::Check(drain));
        self.hold(self.rate, self.path.min_rtt().mul_f64(1.0 + self.params.mu), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: TargetQueue = TargetQueue { target: Dur::from_millis(5), tolerated: 0.2, drains: 0.2 };

    #[test]
    fn a_long_queue_is_drained_by_at_most_half() {
        let (params, mut path) = (AnoleParams::default(), Path::new());
        path.saw_rtt(Time::ZERO, Dur::from_millis(55), Dur::from_millis(50));
        let due_at = |rtt_ms| due(Time::ZERO, Dur::from_millis(rtt_ms), QUEUE, &path, &params);
        assert_eq!(due_at(60), None);
        let (reason, share) = due_at(80).unwrap();
        assert!((share - 55.0 / 80.0).abs() < 1e-9 && reason == Reason::Queue, "{share}");
        assert_eq!(due_at(500), Some((Reason::Queue, 0.5)));
    }

    #[test]
    fn a_stale_round_trip_time_is_confirmed() {
        let (params, mut path) = (AnoleParams::default(), Path::new());
        path.saw_rtt(Time::ZERO, Dur::from_millis(55), Dur::from_millis(50));
        let later = Time::ZERO + Dur::from_secs_f64(11.0);
        assert_eq!(
            due(later, Dur::from_millis(55), QUEUE, &path, &params),
            Some((Reason::Confirm, CONFIRM_SHARE))
        );
    }

    #[test]
    fn a_ramp_is_followed_by_a_drain_of_what_it_will_have_queued() {
        let mut path = Path::new();
        path.saw_rtt(Time::ZERO, Dur::from_millis(55), Dur::from_millis(50));
        let share = |gain| after_ramp(gain, Dur::from_millis(55), QUEUE.target, &path);
        assert!((share(1.0) - 0.55).abs() < 1e-9 && (share(0.25) - 0.88).abs() < 1e-9);
    }
}
