//! The loss that a path has anyway, and what exceeds it.
//!
//! Above capacity packets that find no room in the queue are dropped instead of delayed, so that loss in excess of the
//! path's own tells what a delay gradient would have told.

use super::super::interval::{Loss, Z};
use anole_model::{Dur, Rate, Time};

/// What is left of the counts of late after a report.
const RECENT: f64 = 0.85;
/// What is left of the path's own counts after a report with an empty queue, and after another: what is known ages.
const AGED: (f64, f64) = (0.97, 0.99);
/// Packets with an empty queue below which nothing is known of the path's own loss.
const KNOWN: f64 = 20.0;
/// Packets lost by the path itself, from which on it is known to lose: they fade with age.
const LEAST_LOST: f64 = 0.5;
/// The path is never taken to lose more than this by itself: above it links are called broken.
const MAX_OWN_LOSS: f64 = 0.1;
/// A path may lose this much though it has lost nothing so far; more has to be proved …
const LEAST_OWN_LOSS: f64 = 0.01;
/// … again after this long …
const PROVED_FOR: Dur = Dur::from_millis(10_000);
/// … and at a rate so many times as high.
const PROVED_UP_TO: f64 = 2.0;
/// Loss has to exceed the path's own by this much to be laid at the rate's door.
const MIN_EXCESS: f64 = 0.02;
/// More is not believed at once: it halves the rate already.
const MAX_EXCESS: f64 = 0.5;
/// Packets of late from which on they tell more than one window.
const ENOUGH: f64 = 10.0;
/// Standard errors by which the loss of late has to exceed the path's own.
const ERRORS: f64 = 2.0;

/// Packets lost and sent, decaying.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Count {
    lost: f64,
    sent: f64,
}

impl Count {
    fn add(&mut self, kept: f64, seen: Loss) {
        self.lost = self.lost * kept + seen.lost as f64;
        self.sent = self.sent * kept + seen.sent as f64;
    }

    fn share(&self) -> f64 {
        (self.lost / self.sent.max(1.0)).min(1.0)
    }
}

/// Share of packets that a path loses whatever the rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct OwnLoss {
    recent: Count,
    own: Count,
    /// When, and at which rate, an all but empty window last found the base no shorter.
    proved: Option<(Time, Rate)>,
}

impl OwnLoss {
    /// Takes what was lost since the last report at a rate, and what of it at a low one with an empty queue.
    pub fn saw(&mut self, now: Time, rate: Rate, loss: Loss, own: Option<Loss>) {
        self.proved =
            self.proved.filter(|(at, from)| now.since(*at) < PROVED_FOR && rate <= *from * PROVED_UP_TO);
        self.recent.add(RECENT, loss);
        let kept = if own.is_some() { AGED.0 } else { AGED.1 };
        self.own.add(kept, own.unwrap_or_default());
    }

    /// True when the path seems to lose more than is believed without a proof.
    pub fn needs_proof(&self) -> bool {
        self.proved.is_none() && self.own.sent >= KNOWN && self.own.share() > LEAST_OWN_LOSS
    }

    /// An all but empty window of a flow with this rate has ended: if it found the base no shorter, what was counted stands.
    pub fn prove(&mut self, now: Time, rate: Rate) {
        if self.needs_proof() {
            self.proved = Some((now, rate));
        }
    }

    /// True when the path is known to lose by itself.
    pub fn is_known(&self) -> bool {
        self.own.sent >= KNOWN && self.own.lost >= LEAST_LOST
    }

    /// There was a queue where none was seen.
    pub fn refute(&mut self) {
        (self.own, self.proved) = (Count::default(), None);
    }

    fn share(&self) -> f64 {
        let most = if self.proved.is_some() { MAX_OWN_LOSS } else { LEAST_OWN_LOSS };
        if self.own.sent < KNOWN { 0.0 } else { self.own.share().min(most) }
    }

    /// The share lost because of the rate of late, where it is significantly more than the path loses anyway.
    pub fn recent_excess(&self) -> Option<f64> {
        let share = self.recent.share();
        let error = (share * (1.0 - share) / self.recent.sent.max(1.0)).sqrt();
        let excess = share - self.share();
        (self.recent.sent >= ENOUGH && excess > (ERRORS * error).max(MIN_EXCESS))
            .then_some(excess.min(MAX_EXCESS))
    }

    /// The same in a window, by [`Z`] times the error that a window of this size has on a path that loses nothing for the
    /// rate's sake.
    pub fn excess(&self, loss: Loss) -> Option<f64> {
        let own = self.share().max(LEAST_OWN_LOSS);
        let error = (own * (1.0 - own) / loss.sent.max(1) as f64).sqrt();
        let excess = loss.share() - self.share();
        (excess > (Z * error).max(MIN_EXCESS)).then_some(excess.min(MAX_EXCESS))
    }

    /// True when no more is lost than the path loses anyway.
    pub fn is_usual(&self, loss: Loss) -> bool {
        loss.share() <= self.share() + MIN_EXCESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(evaluations: u32, lost: u64) -> OwnLoss {
        let mut own = OwnLoss::default();
        for _ in 0..evaluations {
            saw(&mut own, 0, 1.0, lost);
            own.prove(Time::ZERO, Rate::from_mbps(1.0));
        }
        own
    }

    /// A report of a thousand packets, at a time, s, and a rate, Mbps.
    fn saw(own: &mut OwnLoss, s: u64, mbps: f64, lost: u64) {
        let loss = Loss { lost, sent: 1000 };
        own.saw(Time::from_micros(s * 1_000_000), Rate::from_mbps(mbps), loss, Some(loss));
    }

    #[test]
    fn what_is_lost_at_low_rates_is_the_paths_own_up_to_a_tenth() {
        let own = after(100, 50);
        assert!(
            own.is_usual(Loss { lost: 60, sent: 1000 })
                && own.excess(Loss { lost: 60, sent: 1000 }).is_none()
        );
        let excess = own.excess(Loss { lost: 250, sent: 1000 }).unwrap();
        assert!((excess - 0.2).abs() < 1e-3, "{excess}");
        let broken = after(100, 900);
        assert!(broken.excess(Loss { lost: 900, sent: 1000 }).is_some());
    }

    #[test]
    fn more_than_a_hundredth_is_believed_once_proved_for_ten_seconds_and_up_to_twice_the_rate() {
        let loss = Loss { lost: 60, sent: 1000 };
        let mut own = OwnLoss::default();
        saw(&mut own, 0, 1.0, 60);
        assert!(own.needs_proof() && !own.is_usual(loss) && own.excess(loss).is_some());
        own.prove(Time::ZERO, Rate::from_mbps(1.0));
        for (s, mbps, believed) in [(9, 1.9, true), (10, 1.9, false), (9, 2.1, false)] {
            let mut own = own;
            saw(&mut own, s, mbps, 60);
            assert_eq!((!own.needs_proof(), own.is_usual(loss)), (believed, believed), "{s} s, {mbps} Mbps");
        }
        own.refute();
        own.prove(Time::ZERO, Rate::from_mbps(1.0));
        assert!(!own.needs_proof() && !own.is_usual(loss), "nothing is counted yet");
        let mut usual = OwnLoss::default();
        saw(&mut usual, 0, 1.0, 9);
        assert!(!usual.needs_proof());
    }

    #[test]
    fn a_few_packets_prove_no_excess() {
        let own = OwnLoss::default();
        assert_eq!(own.excess(Loss { lost: 1, sent: 20 }), None);
        assert!(own.excess(Loss { lost: 50, sent: 500 }).is_some());
        assert_eq!(own.excess(Loss::default()), None);
    }
}
