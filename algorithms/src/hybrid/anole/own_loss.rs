//! The loss that a path has anyway, and what exceeds it.
//!
//! Above capacity packets that find no room in the queue are dropped instead of delayed, so that loss in excess of the
//! path's own tells what a delay gradient would have told.

use super::super::interval::Loss;

/// Gain of the loss that the path has anyway: eight evaluations.
const LOSS_GAIN: f64 = 1.0 / 8.0;
/// The path is never taken to lose more than this by itself: above it links are called broken, and a
/// flow that has overloaded its path from the start must not mistake that for the path's own loss.
const MAX_OWN_LOSS: f64 = 0.1;
/// A path may lose this much though it has lost nothing so far.
const LEAST_OWN_LOSS: f64 = 0.01;
/// Loss has to exceed the path's own by this much to be laid at the rate's door.
const MIN_EXCESS: f64 = 0.02;
/// More is not believed at once: it halves the rate already.
const MAX_EXCESS: f64 = 0.5;

/// Share of packets that a path loses whatever the rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct OwnLoss {
    share: f64,
}

impl OwnLoss {
    /// Takes the loss met by the lower of the rates tested: the least that the path loses.
    pub fn learn(&mut self, loss: Loss) {
        if loss.sent > 0 {
            self.share += (loss.share().min(MAX_OWN_LOSS) - self.share) * LOSS_GAIN;
        }
    }

    /// The share lost because of the rate, where it is significantly more than the path loses anyway: by z
    /// times the error that a window of this size has on a path that loses nothing for the rate's sake.
    pub fn excess(&self, loss: Loss, z: f64) -> Option<f64> {
        let own = self.share.max(LEAST_OWN_LOSS);
        let error = (own * (1.0 - own) / loss.sent.max(1) as f64).sqrt();
        let excess = loss.share() - self.share;
        (excess > (z * error).max(MIN_EXCESS)).then_some(excess.min(MAX_EXCESS))
    }

    /// True when no more is lost than the path loses anyway.
    pub fn is_usual(&self, loss: Loss) -> bool {
        loss.share() <= self.share + MIN_EXCESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(evaluations: u32, lost: u64) -> OwnLoss {
        let mut own = OwnLoss::default();
        for _ in 0..evaluations {
            own.learn(Loss { lost, sent: 1000 });
        }
        own
    }

    #[test]
    fn what_is_lost_at_low_rates_is_the_paths_own_up_to_a_tenth() {
        let own = after(100, 50);
        assert!(
            own.is_usual(Loss { lost: 60, sent: 1000 })
                && own.excess(Loss { lost: 60, sent: 1000 }, 3.0).is_none()
        );
        let excess = own.excess(Loss { lost: 250, sent: 1000 }, 3.0).unwrap();
        assert!((excess - 0.2).abs() < 1e-3, "{excess}");
        let broken = after(100, 900);
        assert!(broken.excess(Loss { lost: 900, sent: 1000 }, 3.0).is_some());
    }

    #[test]
    fn a_few_packets_prove_no_excess() {
        let own = OwnLoss::default();
        assert_eq!(own.excess(Loss { lost: 1, sent: 20 }, 3.0), None);
        assert!(own.excess(Loss { lost: 50, sent: 500 }, 3.0).is_some());
        assert_eq!(own.excess(Loss::default(), 3.0), None);
    }
}
