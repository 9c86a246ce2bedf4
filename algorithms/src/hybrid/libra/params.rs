//! The constants of Libra, each with its source; "Libra" is Du et al., CoNEXT 2021.

use super::super::utility::Weights;
use crate::Preference;
use anole_laws::parameters;
use anole_model::Rate;

parameters! {
    /// What a user may change.
    pub struct LibraParams {
        // Utility.
        t = 0.9, 0.1..=1.0, "Exponent of the rate in the utility (Libra eq. 1).";
        alpha = 1.0, 0.001..=1000.0, "Weight of the rate (Libra eq. 1).";
        beta = 900.0, 0.0..=100000.0, "Weight of the delay gradient (Libra eq. 1).";
        gamma = 11.35, 0.0..=10000.0, "Weight of the loss rate (Libra eq. 1).";
        tolerance = 0.025, 0.0..=1.0, "Slope that does not count, at the default preference; in proportion to alpha over beta (chosen: a slope of a thousandth cancels what any rate earns, so that the factors of the preferences alone change nothing; with 0.025 each is told from the next, and the default queues 2 ms).";
        // Cycle.
        explore_rtts = 0.0, 0.0..=16.0, "k: round trips of exploration and of exploitation, of which no less than two where it is more than one; 0: 3 over BBR, else 1 (Libra §4.3).";
        interval_rtts = 0.5, 0.1..=4.0, "Length of an evaluation interval, round trips (Libra §7).";
        diverge = 0.0, 0.0..=10.0, "th_1: distance of the candidates that ends the exploration, share of the base rate; 0: 0.1 over BBR, else 0.3 (Libra §4.3 has 0.3; chosen: a flow over BBR, whose explorations last longer, takes the less of a link that it shares with CUBIC, the sooner they end; with 0.2 Jain's index is 0.94, with 0.1 0.99).";
        keep_epoch = 0.28, 0.0..=1.0, "The classic law goes on undisturbed while the base rate is this near to its own (chosen: what a law remembers of its last decreases is what makes flows alike; with 0.25 a flow over BBR takes 0.59 of a link that it shares with CUBIC, from 0.35 on one over CUBIC 0.44).";
    }
}

/// The utility of a rate by equation 1 with the default weights; `slope` is that of the round-trip time, s/s, and `loss` a
/// share.
pub fn utility(rate: Rate, slope: f64, loss: f64) -> f64 {
    let params = LibraParams::default();
    params.utility(&params.weights(Preference::Default), rate, slope, loss)
}

impl LibraParams {
    /// What a 0 leaves to the classic law that drives.
    pub fn over(self, classic: Option<&str>) -> LibraParams {
        // Its three phases of probing (Libra §4.3).
        let (explore_rtts, diverge) = if classic == Some("bbr") { (3.0, 0.1) } else { (1.0, 0.3) };
        let chosen = |given: f64, own: f64| if given > 0.0 { given } else { own };
        LibraParams {
            explore_rtts: chosen(self.explore_rtts, explore_rtts),
            diverge: chosen(self.diverge, diverge),
            ..self
        }
    }

    /// Equation 1.
    pub fn utility(&self, weights: &Weights, rate: Rate, slope: f64, loss: f64) -> f64 {
        weights.utility(rate, slope, self.gamma * rate.mbps() * loss)
    }

    /// Slope of the round-trip time that does not count.
    pub fn tolerated(&self, weights: &Weights) -> f64 {
        self.tolerance * (weights.alpha / self.alpha) * (self.beta / weights.beta.max(f64::MIN_POSITIVE))
    }

    /// Weights of the utility of a flow with this preference.
    pub fn weights(&self, preference: Preference) -> Weights {
        let (rate, delay) = preference.factors();
        Weights { t: self.t, alpha: self.alpha * rate, beta: self.beta * delay }
    }
}
