//! The learned slot: an observation goes in, an action comes out, maybe late, maybe wrong, maybe never.

use anole_model::{Dur, Rate, Time};

/// What a policy sees, once per decision interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// Rate that was in force.
    pub rate: Rate,
    /// Delivery rate over the interval.
    pub delivery_rate: Rate,
    /// Smoothed round-trip time.
    pub srtt: Dur,
    /// Smallest round-trip time seen.
    pub min_rtt: Dur,
    /// Slope of the round-trip time over time (s/s).
    pub rtt_gradient: f64,
    /// Packets lost over packets sent in the interval.
    pub loss_rate: f64,
    /// Length of the interval.
    pub interval: Dur,
}

/// A learned (or hand-written, or deliberately bad) policy of one flow.
pub trait Policy: Send {
    /// Asks for a rate. A question asked before the last one was answered replaces it.
    fn ask(&mut self, now: Time, observation: &Observation);

    /// The answer to the last question, once: a rate in bytes/s, unchecked (it may be NaN, negative or
    /// absurd). `None` while there is none.
    fn poll(&mut self, now: Time) -> Option<f64>;
}
