//! How much of what the bottleneck carries is this flow's.
//!
//! Above capacity ΔD = (x + R − C)/C (Anole eq. 4), so that two rates x₁ < x₂ under one standing queue tell it without C and
//! R:
//!
//! ```text
//! x₂/(x₂ + R) = x₂ · (ΔD₂ − ΔD₁)/(x₂ − x₁) / (1 + ΔD₂)
//! ```
//! Alone it is 1, whatever the rates. A queue is kept for the other flows' sake ([`super::target_queue`]); a flow alone needs
//! next to none.

use anole_model::Rate;

/// A queue stands where the round-trip time exceeds the smallest one by more than this share.
const STANDS: f64 = 0.01;
/// Rates nearer to each other than this share are not compared …
const APART: f64 = 0.04;
/// … nor are slopes that leave a larger error of the share.
const MAX_ERROR: f64 = 0.15;
/// Weight of a new share in the one believed.
const GAIN: f64 = 0.5;
/// A flow is alone from this share on: three shares of 1 in a row.
const ALONE: f64 = 0.85;

/// What one rate told.
#[derive(Clone, Copy, Debug)]
struct Told {
    bytes_per_s: f64,
    slope: f64,
    error: f64,
    queued: bool,
}

/// The share, and the last rate that told something.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    believed: f64,
    last: Option<Told>,
}

impl Share {
    /// Takes what a rate showed: its gradient with the error, if one was measured, and its round-trip time over the smallest.
    pub fn saw(&mut self, rate: Rate, gradient: Option<(f64, f64)>, rtt_ratio: f64) {
        if let Some(share) = self.told(rate, gradient, rtt_ratio) {
            self.believed += GAIN * (share - self.believed);
        }
    }

    /// The share that it tells beside the rate before.
    fn told(&mut self, rate: Rate, gradient: Option<(f64, f64)>, rtt_ratio: f64) -> Option<f64> {
        let (slope, error) = gradient?;
        let bytes_per_s = rate.bytes_per_s();
        let told = Told { bytes_per_s, slope, error, queued: rtt_ratio > 1.0 + STANDS };
        let before = self.last.replace(told)?;
        let (low, high) = if before.bytes_per_s < bytes_per_s { (before, told) } else { (told, before) };
        let (x, apart) = (high.bytes_per_s, high.bytes_per_s - low.bytes_per_s);
        if !low.queued || apart <= APART * x || high.slope <= -1.0 {
            return None;
        }
        let per_slope = x / apart / (1.0 + high.slope);
        if per_slope * low.error.hypot(high.error) > MAX_ERROR {
            return None;
        }
        Some((per_slope * (high.slope - low.slope)).clamp(0.0, 1.0))
    }

    /// True where the bottleneck carries nobody else.
    pub fn is_alone(&self) -> bool {
        self.believed >= ALONE
    }

    /// Nothing is believed any more.
    pub fn forget(&mut self) {
        *self = Share::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After rates, Mbps, at a bottleneck of 48 Mbps beside flows of `others`.
    fn after(rates: &[f64], others: f64, error: f64, rtt_ratio: f64) -> Share {
        let mut share = Share::default();
        for &mbps in rates {
            let gradient = (mbps + others - 48.0) / 48.0;
            share.saw(Rate::from_mbps(mbps), Some((gradient, error)), rtt_ratio);
        }
        share
    }

    #[test]
    fn three_pairs_of_rates_tell_that_the_flow_is_alone() {
        assert!(!after(&[44.0, 50.0, 46.0], 0.0, 0.001, 1.1).is_alone());
        assert!(after(&[44.0, 50.0, 46.0, 49.0], 0.0, 0.001, 1.1).is_alone());
    }

    #[test]
    fn one_of_two_is_not_alone() {
        let share = after(&[22.0, 26.0, 22.0, 26.0, 22.0, 26.0], 24.0, 0.001, 1.1);
        assert!((share.believed - 0.5).abs() < 0.05, "{share:?}");
    }

    #[test]
    fn rates_too_near_slopes_too_uncertain_and_an_empty_queue_tell_nothing() {
        let (near, apart) = ([48.0, 49.0, 48.0, 49.0], [44.0, 50.0, 44.0, 50.0]);
        for (rates, error, rtt_ratio) in [(near, 0.001, 1.1), (apart, 0.02, 1.1), (apart, 0.001, 1.0)] {
            let share = after(&rates, 0.0, error, rtt_ratio);
            assert_eq!(share.believed, 0.0, "{rates:?} {error} {rtt_ratio}");
        }
    }
}
