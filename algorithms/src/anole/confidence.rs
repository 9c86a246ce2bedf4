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
//!
//! # What the worst policy costs
//!
//! A policy reaches the flow in three ways, and each has a limit. RTT is the smoothed round-trip time, r the rate
//! in force, constants those of [`super::params`].
//!
//! 1. **Its test.** Half an RTT at `low_test` to `high_test` times r, 0.8 to 1.25, in a cycle of five: half for each
//!    candidate, one until their ACKs are back, three of probing. The lowest test sends 0.2·½ = 0.1 RTT of packets
//!    less per 5 RTT: **2 %**, and nothing where the queue aimed at covers it. The highest puts 0.25·½ = 1/8 RTT
//!    into the queue, less than the tolerated µ = 0.2. An answer that is no rate, or beyond ten times r, runs r in
//!    its place; one that is late prolongs the cycle at r.
//! 2. **Its choice.** Where nothing was congested, the flow climbs from the highest rate tested or keeps r,
//!    whatever the policy says: it cannot lower r twice without a queue in between. Where a gradient was measured, its rate has
//!    to promise (1 − `margin`)·x^t of the rate x inferred: it is no more than 1 − 0.95^(1/0.9) = **5.5 %** below it,
//!    for one cycle. Where the queue is long and does not grow, T asks 0.85^(1/0.9) = 0.835 of a best rate that is
//!    not congested, and a queue of more than µ·RTT is there to feed the link meanwhile.
//! 3. **Its confidence**, which spares the tests. A test at 0.8·r beside a best rate without congestion has the share
//!    0.8^0.9 = 0.82, y = 0.92: from η = 1 six of them are below 0.6; a share of 0.7 or less takes three, by the bound
//!    of a fifth. Then come 6 RTT without a test (three recoveries) and, from η = 0.9, five or two tests until the
//!    next time: 5·0.1 in 5·5 + 6 RTT, **1.6 %**, or 2·0.1 in 16. A low rate that is the best of the three, because the
//!    others met a queue, costs its candidate nothing, and stays at the 2 % of its tests. The steps of
//!    acceleration are 1, 2 and 4 packets per RTT, and go down only where the queue aimed at stands.
//!
//! Together a policy that stays bad costs less than 3 % once r has been found, on paths that hold more than some
//! ten packets. What words leave open, a high test on a queue that is nearly too long, which sets off a drain, and
//! steps that are large on thin paths, is measured: `evaluation/sim/tests/floor.rs` lets random policies loose.

use super::params::Params;

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
    pub fn judge(&mut self, share: f64, params: &Params) {
        if !self.active {
            return;
        }
        self.eta = (self.eta * (share + params.theta).max(MIN_FACTOR)).min(1.0);
        if self.eta < params.eta_off {
            self.eta = params.eta_off;
            self.active = false;
        }
    }

    /// Two round trips have passed.
    pub fn recover(&mut self, params: &Params) {
        if self.active {
            return;
        }
        self.eta += params.eta_step;
        // Half a step of slack, so that sums of tenths end where they should.
        self.active = self.eta > params.eta_on + params.eta_step * 0.5;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poor_thrice_is_deprecated_and_returns_after_three_recoveries() {
        let (params, mut c) = (Params::default(), Confidence::new());
        for _ in 0..2 {
            c.judge(0.0, &params);
            assert!(c.is_active());
        }
        c.judge(0.0, &params);
        assert!(!c.is_active());
        for active in [false, false, true] {
            c.recover(&params);
            assert_eq!(c.is_active(), active);
        }
    }

    #[test]
    fn a_shortfall_within_theta_costs_nothing_and_good_windows_repair() {
        let (params, mut c) = (Params::default(), Confidence::new());
        c.judge(0.9, &params);
        assert_eq!(c, Confidence::new());
        c.judge(0.7, &params);
        assert!(c.eta < 1.0);
        for _ in 0..3 {
            c.judge(1.0, &params);
        }
        assert_eq!(c, Confidence::new());
    }
}
