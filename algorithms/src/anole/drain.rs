//! Drain: for one round trip the rate is held below the one decided on, to work off a queue.
//!
//! Anole eq. 9: max(RTTmin/RTT, 0.5)·x for one round trip drains this flow's share of the queue,
//! (RTT − RTTmin)·x. Here it drains down to the standing queue that an inferred rate aims at, and serves
//! two more purposes:
//! - after a ramp the queue that ended it still delivers at full speed, so that the ACKs of the drain
//!   tell the rate to go on with;
//! - a smallest round-trip time that nothing has confirmed for long is measured on the emptied queue.

use super::path::Path;
use super::{Anole, Choice, Params, Source, Stage, Window};
use anole_model::{Dur, Rate, Time};
use anole_programs::Commands;

/// A drain never goes below this share of the rate (Anole eq. 9).
const MIN_SHARE: f64 = 0.5;
/// The share of the rate held to confirm the smallest round-trip time: one round trip of it drains more
/// than the queue that is tolerated.
const CONFIRM_SHARE: f64 = 0.7;
/// Loss counts as passed through the bottleneck up to one packet in this many acknowledged.
const OWN_LOSS_DIVISOR: u64 = 10;

/// What a drain is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The queue is longer than tolerated.
    Queue,
    /// A ramp has ended.
    Ramp,
    /// The smallest round-trip time is stale.
    Confirm,
}

/// A drain under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Drain {
    pub reason: Reason,
    /// The round-trip time before it.
    pub before: Dur,
}

/// Which drain is due before `rate` is held, and at which rate. `None` when the queue is tolerable.
pub(super) fn due(now: Time, rate: Rate, rtt: Dur, path: &Path, params: &Params) -> Option<(Reason, Rate)> {
    let ratio = rtt.as_secs_f64() / path.min_rtt().as_secs_f64().max(1e-9);
    let target = 1.0 + params.fill * params.mu;
    if ratio > 1.0 + params.mu {
        Some((Reason::Queue, rate * (target / ratio).max(MIN_SHARE)))
    } else if path.min_rtt_is_stale(now, params) {
        Some((Reason::Confirm, rate * CONFIRM_SHARE))
    } else {
        None
    }
}

/// The share of the rate held after a ramp that grew by `gain` per round trip and ended at `rtt`: by
/// the time the end is known the packets in flight have grown by `gain` once more.
pub(super) fn after_ramp(gain: f64, rtt: Dur, path: &Path, params: &Params) -> f64 {
    let ratio = rtt.as_secs_f64() / path.min_rtt().as_secs_f64().max(1e-9);
    ((1.0 + params.fill * params.mu) / ratio.max(1.0 + gain)).clamp(MIN_SHARE, 1.0)
}

impl Anole {
    /// Holds `rate` for one round trip.
    pub(super) fn enter_drain(&mut self, reason: Reason, rate: Rate, before: Dur, out: &mut Commands) {
        self.stage = Stage::Drain(Drain { reason, before });
        self.hold(rate, self.path.srtt(), out);
    }

    /// The round trip is over; whether the drain had its effect is seen by the packets sent from now on.
    pub(super) fn on_drained(&mut self, now: Time, drain: Drain, window: &Window, out: &mut Commands) {
        if drain.reason == Reason::Ramp && window.acked > 0 {
            // Packets that the path loses behind the bottleneck passed it too.
            let lost =
                window.lost.saturating_mul(u64::from(self.flow.mss)).min(window.acked / OWN_LOSS_DIVISOR);
            let rate = Rate::from_bytes_in(window.acked.saturating_add(lost), window.elapsed);
            self.apply(now, Choice { rate, source: Source::Previous, climb: false });
        }
        self.enter_probing(Some(drain), out);
    }

    /// Takes the smallest round-trip time after a drain.
    pub(super) fn after_drain(&mut self, now: Time, drain: Drain, min: Dur) {
        match drain.reason {
            Reason::Queue => self.path.saw_drain(now, drain.before, min),
            Reason::Confirm => self.path.confirm_min_rtt(now, min, &self.params),
            Reason::Ramp => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_queue_is_drained_by_at_most_half() {
        let (params, mut path) = (Params::default(), Path::new());
        path.saw_rtt(Time::ZERO, Dur::from_millis(55), Dur::from_millis(50));
        let due_mbps = |rtt_ms| {
            let rtt = Dur::from_millis(rtt_ms);
            due(Time::ZERO, Rate::from_mbps(48.0), rtt, &path, &params)
                .map(|(reason, rate)| (reason, rate.mbps()))
        };
        assert_eq!(due_mbps(60), None);
        let (reason, light) = due_mbps(80).unwrap();
        assert!((light - 48.0 * 55.0 / 80.0).abs() < 1e-6 && reason == Reason::Queue, "{light}");
        assert_eq!(due_mbps(500), Some((Reason::Queue, 24.0)));
    }

    #[test]
    fn a_stale_round_trip_time_is_confirmed() {
        let (params, mut path) = (Params::default(), Path::new());
        path.saw_rtt(Time::ZERO, Dur::from_millis(55), Dur::from_millis(50));
        let later = Time::ZERO + Dur::from_secs_f64(11.0);
        let due = due(later, Rate::from_mbps(48.0), Dur::from_millis(55), &path, &params);
        assert_eq!(due, Some((Reason::Confirm, Rate::from_mbps(48.0) * CONFIRM_SHARE)));
    }
}
