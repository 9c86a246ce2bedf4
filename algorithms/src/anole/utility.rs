//! The utility of a rate, and how two utilities compare.
//!
//! u(x) = α·x^t − β·x·max(ΔD, 0) − λ·x·(RTT/RTTmin)·[RTT/RTTmin > 1 + µ]   (Anole eq. 1, x in Mbps)
//! A gradient counts only when it is significant. Loss has no term: loss alone must not lower u.
//!
//! Utilities can be negative, and then a share u/u_max is no measure: it exceeds one for the worse of the
//! two. Here the share is 1 − (u_max − u)/max(|u_max|, α·x^t), brought into 0…1, with x the rate that has
//! u_max. For a positive u_max of a rate without congestion that is u/u_max, as in the paper; else it
//! measures the shortfall against what the best rate would earn or against the loss it makes, the larger.

use super::params::Params;
use anole_model::Rate;

/// What the ACKs of one window told about one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Verdict {
    /// The rate that was in force.
    pub rate: Rate,
    /// Its delay gradient where significant, else 0.
    pub gradient: f64,
    /// True when a gradient could be told from noise.
    pub significant: bool,
    /// The shortest round-trip time of the window over the smallest one known: jitter makes no queue.
    pub rtt_ratio: f64,
    /// The queue tolerated, share of the smallest round-trip time.
    pub tolerated: f64,
    /// Its utility.
    pub utility: f64,
    /// The slope and its error as measured.
    pub measured: Option<(f64, f64)>,
}

impl Verdict {
    /// Judges a rate by its significant gradient (if any) and its round-trip time.
    pub fn new(
        rate: Rate,
        gradient: Option<f64>,
        rtt_ratio: f64,
        tolerated: f64,
        params: &Params,
    ) -> Verdict {
        let x = rate.mbps();
        let growth = gradient.unwrap_or(0.0).max(0.0);
        let queue = if rtt_ratio > 1.0 + tolerated { params.lambda * x * rtt_ratio } else { 0.0 };
        let utility = earnings(rate, params) - params.beta * x * growth - queue;
        Verdict {
            rate,
            gradient: gradient.unwrap_or(0.0),
            significant: gradient.is_some(),
            rtt_ratio,
            tolerated,
            utility,
            measured: None,
        }
    }

    /// True when the rate met a growing queue or a long one.
    pub fn congested(&self) -> bool {
        self.gradient > 0.0 || self.queue_is_long()
    }

    /// True when the queue exceeds what the utility tolerates (I_Q of eq. 2).
    pub fn queue_is_long(&self) -> bool {
        self.rtt_ratio > 1.0 + self.tolerated
    }
}

/// The first term: what a rate earns where nothing is congested.
pub(super) fn earnings(rate: Rate, params: &Params) -> f64 {
    params.alpha * rate.mbps().powf(params.t)
}

/// du/dr of the first term, the only one that counts below capacity.
pub(super) fn slope(rate: Rate, params: &Params) -> f64 {
    params.alpha * params.t * rate.mbps().max(0.01).powf(params.t - 1.0)
}

/// The share of the best utility that another one reaches, 0…1.
pub(super) fn share(utility: f64, best: &Verdict, params: &Params) -> f64 {
    let scale = best.utility.abs().max(earnings(best.rate, params)).max(f64::MIN_POSITIVE);
    (1.0 - (best.utility - utility) / scale).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn judge(mbps: f64, gradient: f64, ratio: f64) -> Verdict {
        Verdict::new(Rate::from_mbps(mbps), Some(gradient), ratio, 0.2, &Params::default())
    }

    #[test]
    fn figures_of_the_paper() {
        assert!((judge(48.0, 0.0, 1.0).utility - 32.59).abs() < 0.01);
        assert!((judge(48.0, 0.001, 1.0).utility - (32.59 - 43.2)).abs() < 0.01);
        assert!((judge(48.0, 0.0, 1.5).utility - (32.59 - 792.0)).abs() < 0.01);
        assert_eq!(judge(48.0, -0.5, 1.2).utility, judge(48.0, 0.0, 1.0).utility);
    }

    #[test]
    fn the_share_is_the_papers_where_nothing_is_congested() {
        let (best, other) = (judge(48.0, 0.0, 1.0), judge(40.0, 0.0, 1.0));
        let expected = other.utility / best.utility;
        assert!((share(other.utility, &best, &Params::default()) - expected).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn the_share_never_inverts(a in -1e6..1e6f64, b in -1e6..1e6f64, best in 0.0..1e6f64, mbps in 0.0..1e4f64) {
            let params = Params::default();
            let top = Verdict { utility: a.max(b) + best, ..judge(mbps, 0.0, 1.0) };
            let (x, y) = (share(a, &top, &params), share(b, &top, &params));
            prop_assert!((0.0..=1.0).contains(&x) && (a <= b) == (x <= y) || x == y);
            prop_assert_eq!(share(top.utility, &top, &params), 1.0);
        }
    }
}
