//! Confidence in a candidate (Anole algorithm 2).
//!
//! ```text
//!              η·y < η_off
//!   activated ─────────────▶ deprecated      activated:  η ← min(1, η·y), y = u/u_max + θ
//!             ◀─────────────                 deprecated: η ← η + Δη every two round trips
//!               η > η_on
//! ```
//! Deviation: one evaluation takes at most a fifth of the confidence, so that only a candidate that is
//! poor repeatedly is deprecated, as the text asks; with utilities near zero or below, y alone would
//! deprecate on a single bad window.

/// What confidence is judged by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Thresholds {
    /// η_off: below, a candidate is deprecated.
    pub off: f64,
    /// η_on: above, it is activated again.
    pub on: f64,
    /// Δη: regained every two round trips.
    pub step: f64,
}

/// θ: shortfall in utility that costs no confidence (Anole eq. 11 leaves it open).
const THETA: f64 = 0.1;
/// Largest loss of confidence in one evaluation: from 1 it takes three to fall below 0.6.
const MIN_FACTOR: f64 = 0.8;

/// Confidence in one candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Confidence {
    eta: f64,
    active: bool,
}

impl Confidence {
    /// Full confidence.
    pub fn new() -> Confidence {
        Confidence { eta: 1.0, active: true }
    }

    /// η, 0…1.
    pub fn value(&self) -> f64 {
        self.eta
    }

    /// True while the candidate takes part.
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// An evaluation gave the candidate this share of the best utility; an answer that is no rate at all
    /// has the share 0.
    pub fn judge(&mut self, share: f64, thresholds: &Thresholds) {
        if !self.active {
            return;
        }
        self.eta = (self.eta * (share + THETA).max(MIN_FACTOR)).min(1.0);
        if self.eta < thresholds.off {
            self.eta = thresholds.off;
            self.active = false;
        }
    }

    /// Two round trips have passed.
    pub fn recover(&mut self, thresholds: &Thresholds) {
        if self.active {
            return;
        }
        self.eta += thresholds.step;
        // Half a step of slack, so that sums of tenths end where they should.
        self.active = self.eta > thresholds.on + thresholds.step * 0.5;
        self.eta = self.eta.min(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THRESHOLDS: Thresholds = Thresholds { off: 0.6, on: 0.8, step: 0.1 };

    #[test]
    fn poor_thrice_is_deprecated_and_returns_after_three_recoveries() {
        let mut c = Confidence::new();
        for _ in 0..2 {
            c.judge(0.0, &THRESHOLDS);
            assert!(c.is_active());
        }
        c.judge(0.0, &THRESHOLDS);
        assert!(!c.is_active());
        for active in [false, false, true] {
            c.recover(&THRESHOLDS);
            assert_eq!(c.is_active(), active);
        }
    }

    #[test]
    fn a_shortfall_within_theta_costs_nothing_and_good_windows_repair() {
        let mut c = Confidence::new();
        c.judge(0.9, &THRESHOLDS);
        assert_eq!(c, Confidence::new());
        c.judge(0.7, &THRESHOLDS);
        assert!(c.eta < 1.0);
        for _ in 0..3 {
            c.judge(1.0, &THRESHOLDS);
        }
        assert_eq!(c, Confidence::new());
    }
}
