//! The utility of a rate, and how two utilities compare.
//!
//! ```text
//! u(x) = α·x^t − β·x·max(ΔD, 0) − penalty        x in Mbps
//! ```
//! The penalty is each algorithm's own: Anole's for a queue (eq. 1), Libra's for loss.
//!
//! Utilities can be negative, and then a share u/u_max is no measure: it exceeds one for the worse of the
//! two. Here the share is 1 − (u_max − u)/max(|u_max|, α·x^t), brought into 0…1, with x the rate that has
//! u_max. For a positive u_max of a rate without congestion that is u/u_max, as in the paper; else it
//! measures the shortfall against what the best rate would earn or against the loss it makes, the larger.

use anole_model::Rate;

/// Weights of the terms that hybrids share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Weights {
    /// t: exponent of the rate.
    pub t: f64,
    /// α: weight of the rate.
    pub alpha: f64,
    /// β: weight of the delay gradient.
    pub beta: f64,
}

impl Weights {
    /// The utility of a rate whose delay gradient is `gradient`, less `penalty`.
    pub fn utility(&self, rate: Rate, gradient: f64, penalty: f64) -> f64 {
        self.earnings(rate) - self.beta * rate.mbps() * gradient.max(0.0) - penalty
    }

    /// The first term: what a rate earns where nothing is congested.
    pub fn earnings(&self, rate: Rate) -> f64 {
        self.alpha * rate.mbps().powf(self.t)
    }

    /// du/dx of the first term, the only one that counts below capacity.
    pub fn slope(&self, rate: Rate) -> f64 {
        self.alpha * self.t * rate.mbps().max(LEAST_MBPS).powf(self.t - 1.0)
    }

    /// The share that `utility` reaches of the best, `best`, which the rate `best_rate` has; 0…1.
    pub fn share(&self, utility: f64, best: f64, best_rate: Rate) -> f64 {
        let scale = best.abs().max(self.earnings(best_rate)).max(f64::MIN_POSITIVE);
        (1.0 - (best - utility) / scale).clamp(0.0, 1.0)
    }
}

/// The slope grows without bound towards a rate of nothing; below this rate it does not grow any more.
const LEAST_MBPS: f64 = 0.01;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WEIGHTS: Weights = Weights { t: 0.9, alpha: 1.0, beta: 900.0 };

    #[test]
    fn figures_of_the_paper() {
        let u = |mbps, gradient| WEIGHTS.utility(Rate::from_mbps(mbps), gradient, 0.0);
        assert!((u(48.0, 0.0) - 32.59).abs() < 0.01);
        assert!((u(48.0, 0.001) - (32.59 - 43.2)).abs() < 0.01);
        assert_eq!(u(48.0, -0.5), u(48.0, 0.0));
    }

    #[test]
    fn the_share_is_the_papers_where_nothing_is_congested() {
        let (best, other) = (Rate::from_mbps(48.0), Rate::from_mbps(40.0));
        let (u_best, u_other) = (WEIGHTS.earnings(best), WEIGHTS.earnings(other));
        assert!((WEIGHTS.share(u_other, u_best, best) - u_other / u_best).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn the_share_never_inverts(a in -1e6..1e6f64, b in -1e6..1e6f64, best in 0.0..1e6f64, mbps in 0.0..1e4f64) {
            let (top, rate) = (a.max(b) + best, Rate::from_mbps(mbps));
            let (x, y) = (WEIGHTS.share(a, top, rate), WEIGHTS.share(b, top, rate));
            prop_assert!((0.0..=1.0).contains(&x) && (a <= b) == (x <= y) || x == y);
            prop_assert_eq!(WEIGHTS.share(top, top, rate), 1.0);
        }
    }
}
