//! The constants of Libra, each with its source; "Libra" is Du et al., CoNEXT 2021.

use super::super::utility::Weights;
use crate::Preference;
use anole_laws::parameters;

parameters! {
    /// What a user may change.
    pub struct Params {
        // Utility.
        t = 0.9, 0.1..=1.0, "Exponent of the rate in the utility (Libra eq. 1).";
        alpha = 1.0, 0.001..=1000.0, "Weight of the rate (Libra eq. 1).";
        beta = 900.0, 0.0..=100000.0, "Weight of the delay gradient (Libra eq. 1).";
        gamma = 11.35, 0.0..=10000.0, "Weight of the loss rate (Libra eq. 1).";
        z = 3.0, 0.0..=10.0, "Standard errors that a slope has to exceed (chosen: as in Anole; with the weight of 900 every noise would count).";
        // Cycle.
        explore_rtts = 0.0, 0.0..=16.0, "k: round trips of exploration and of exploitation; 0: 3 over BBR, else 1 (Libra §4.3).";
        interval_rtts = 0.5, 0.1..=4.0, "Length of an evaluation interval, round trips (Libra §7).";
        diverge = 0.3, 0.01..=10.0, "th_1: distance of the candidates that ends the exploration, share of the base rate (Libra §4.3).";
        keep_epoch = 0.5, 0.0..=1.0, "The classic law goes on undisturbed while the base rate is this near to its own (chosen: what it remembers of its last decreases is what makes flows alike: Jain's index beside CUBIC is 0.98 with 0.1 and 0.995 with 0.5, at 2 % less throughput alone).";
    }
}

impl Params {
    /// Weights of the utility of a flow with this preference.
    pub fn weights(&self, preference: Preference) -> Weights {
        let (rate, delay) = preference.factors();
        Weights { t: self.t, alpha: self.alpha * rate, beta: self.beta * delay }
    }
}
