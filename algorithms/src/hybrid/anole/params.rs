//! The constants of Anole, each with its source; "Anole" is Han et al., IEEE TC 2025.

use super::super::confidence::Thresholds;
use super::super::utility::Weights;
use anole_laws::parameters;

parameters! {
    /// What a user may change.
    pub struct AnoleParams {
        // Utility.
        t = 0.9, 0.1..=1.0, "Exponent of the rate in the utility (Anole §IV).";
        alpha = 1.0, 0.001..=1000.0, "Weight of the rate (Anole §IV).";
        beta = 900.0, 0.0..=100000.0, "Weight of the delay gradient (Anole §IV).";
        lambda = 11.0, 0.0..=10000.0, "Weight of the queue (Anole §IV prints it as gamma).";
        mu = 0.2, 0.01..=5.0, "Queue that the utility tolerates, share of the smallest round-trip time (Anole eq. 2 leaves it open; half of it covers a half-RTT test of a rate 20 % low).";
        // Decision.
        accept = 0.85, 0.0..=1.0, "T: share of the largest utility at which a candidate is applied (Anole §IV).";
        margin = 0.05, 0.0..=1.0, "A candidate may promise this much less than an inferred rate (chosen: the error of an inference with noisy gradients).";
        gamma_mbps = 1.0, 0.0..=1000.0, "First step of a climb per unit of du/dr, Mbps (Anole eq. 10 leaves it open).";
        fill = 0.8, 0.0..=10.0, "Target queue, packets per root of the packets sent in 50 ms (chosen: feeds the link while a low rate is tested, and grows as a flow's share shrinks; of 60 runs of four flows the largest distance from a share is 40 % on the mean, 51 at 0.7, 47 at 0.9).";
        backoff = 0.1, 0.0..=0.3, "Fairness back-off: share of its rate that a flow gives up for a queue as long as the one it drains at, up to three times that for a longer one (chosen: Jain's index of four flows is 0.87 at 0, 0.93 at 0.05 and 0.1, 0.84 at 0.16; more costs the share beside CUBIC as well).";
        low_test = 0.8, 0.1..=1.0, "Smallest rate tested, share of the rate in force (chosen: half a round trip of it costs a tenth of the window).";
        high_test = 1.25, 1.0..=4.0, "Largest rate tested, share of the rate in force (chosen: half a round trip of it adds an eighth of the window to the queue).";
        // Confidence.
        eta_off = 0.6, 0.0..=1.0, "Confidence below which a candidate is deprecated (Anole algorithm 2; the text swaps the two).";
        eta_on = 0.8, 0.0..=1.0, "Confidence above which it is activated again (Anole algorithm 2; the text swaps the two).";
        eta_step = 0.1, 0.001..=1.0, "Confidence regained every two round trips (Anole algorithm 2).";
        // Stages.
        probing_rtts = 3.0, 2.0..=20.0, "N: round trips of probing (Anole §IV).";
        ramp_gain = 0.25, 0.05..=1.0, "Growth per round trip when capacity has become free, share of the window, in sixteenths (chosen: overshoots by no more than one test of the high rate).";
        keep_epoch = 0.1, 0.0..=1.0, "The rule-based candidate goes on undisturbed while the rate is this near to its own (chosen: restarted every cycle, CUBIC never leaves its flat start).";
        base_rtt_s = 10.0, 1.0..=600.0, "Age at which the smallest round-trip time has to be confirmed, s (BBR's 10 s).";
    }
}

impl AnoleParams {
    /// Weights of the utility.
    pub fn weights(&self) -> Weights {
        Weights { t: self.t, alpha: self.alpha, beta: self.beta }
    }

    /// What confidence in a candidate is judged by.
    pub fn thresholds(&self) -> Thresholds {
        Thresholds { off: self.eta_off, on: self.eta_on, step: self.eta_step }
    }
}
