//! What congestion says about how much may be in flight (draft-ietf-ccwg-bbr §5.5.10).
//!
//! ```text
//! long term   inflight_longterm: what was in flight when a probe lost more than 2 % in a round; grows while a probe finds room
//! short term  bw, inflight: β times what they were, but not less than the last round brought, in each round with a loss
//!             outside probes; forgotten when the next probe begins
//! ```

use anole_model::Rate;

/// Share of packets lost in a round from which on there was too much in flight (LossThresh: 2 %).
const LOSS_THRESHOLD: f64 = 0.02;
/// What a loss leaves (Beta: 0.7).
const BETA: f64 = 0.7;
/// What is left free of the long-term bound for others, while cruising (Headroom: 0.15).
const HEADROOM: f64 = 0.15;

/// The bounds in force.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Bounds {
    /// Bytes.
    pub longterm: Option<u64>,
    /// Bandwidth and bytes.
    pub shortterm: Option<(Rate, u64)>,
}

/// What a round brought.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Round {
    /// Bytes acknowledged, packets lost, largest delivery rate.
    pub acked: u64,
    pub lost: u64,
    pub rate: Rate,
}

impl Round {
    /// Too much was in flight.
    pub fn is_lossy(&self, mss: u64) -> bool {
        let packets = self.acked as f64 / mss as f64 + self.lost as f64;
        self.lost > 0 && self.lost as f64 > LOSS_THRESHOLD * packets
    }
}

impl Bounds {
    /// A probe lost too much with so many bytes in flight; `bdp` is what the model says that the path holds.
    pub fn probe_failed(&mut self, in_flight: u64, bdp: u64) {
        self.longterm = Some(in_flight.max((BETA * bdp as f64) as u64));
    }

    /// A round outside probes in which packets were lost.
    pub fn lost(&mut self, round: &Round, bandwidth: Rate, cwnd: u64) {
        let (rate, in_flight) = self.shortterm.unwrap_or((bandwidth, cwnd));
        let kept = ((BETA * in_flight as f64) as u64).max(round.acked);
        self.shortterm = Some(((rate * BETA).max(round.rate), kept));
    }

    /// True where so many bytes in flight are all that the long-term bound allows.
    pub fn is_reached(&self, in_flight: u64) -> bool {
        self.longterm.is_some_and(|bound| in_flight >= bound)
    }

    /// A probe found room for what the long-term bound allows, and so many bytes more are tried.
    pub fn raise(&mut self, more: u64) {
        self.longterm = self.longterm.map(|bound| bound.saturating_add(more));
    }

    /// The most that may be in flight; with room left for others while cruising.
    pub fn cwnd(&self, cruising: bool) -> u64 {
        let longterm =
            self.longterm.map_or(u64::MAX, |bound| if cruising { with_headroom(bound) } else { bound });
        longterm.min(self.shortterm_cwnd())
    }

    /// The same of the short term alone.
    pub fn shortterm_cwnd(&self) -> u64 {
        self.shortterm.map_or(u64::MAX, |(_, in_flight)| in_flight)
    }

    /// What is to be in flight at most when a probe's queue has drained.
    pub fn drained(&self, bdp: u64) -> u64 {
        self.longterm.map_or(bdp, |bound| with_headroom(bound).min(bdp))
    }
}

fn with_headroom(bytes: u64) -> u64 {
    (bytes as f64 * (1.0 - HEADROOM)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_percent_of_a_round_is_tolerated() {
        let round = |lost| Round { acked: 98_000, lost, ..Round::default() };
        assert!(!round(0).is_lossy(1000) && !round(2).is_lossy(1000) && round(3).is_lossy(1000));
    }

    #[test]
    fn a_failed_probe_leaves_what_was_in_flight_and_cruising_leaves_headroom() {
        let mut bounds = Bounds::default();
        assert_eq!((bounds.cwnd(true), bounds.drained(100)), (u64::MAX, 100));
        bounds.probe_failed(120_000, 100_000);
        assert_eq!(
            (bounds.cwnd(false), bounds.cwnd(true), bounds.drained(110_000)),
            (120_000, 102_000, 102_000)
        );
        bounds.probe_failed(50_000, 100_000);
        assert_eq!(bounds.longterm, Some(70_000));
        assert!(!bounds.is_reached(60_000) && bounds.is_reached(70_000));
        bounds.raise(1000);
        assert_eq!(bounds.longterm, Some(71_000));
    }

    #[test]
    fn a_loss_outside_probes_costs_three_tenths_but_not_what_the_round_brought() {
        let mut bounds = Bounds::default();
        let round = Round { acked: 60_000, lost: 1, rate: Rate::from_mbps(8.0) };
        bounds.lost(&round, Rate::from_mbps(10.0), 100_000);
        assert_eq!(bounds.shortterm, Some((Rate::from_mbps(8.0), 70_000)));
        bounds.lost(&round, Rate::from_mbps(10.0), 100_000);
        assert_eq!(bounds.shortterm, Some((Rate::from_mbps(8.0), 60_000)));
    }
}
