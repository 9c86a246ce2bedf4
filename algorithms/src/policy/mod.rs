//! The learned slot: an observation goes in, an action comes out, maybe late, maybe wrong, maybe never.

mod delay_target;
mod fault;

use crate::BuildError;
use crate::names::nearest;
use anole_model::{Dur, Rate, Time};
pub use delay_target::DelayTarget;
pub use fault::{Fault, Kind};

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

/// The policy that fills the slot when nothing else is named.
pub const DEFAULT: &str = "delay-target";

/// Every name that `--policy` takes.
pub fn names() -> Vec<&'static str> {
    let mut names = vec![DEFAULT, "none"];
    names.extend(Kind::ALL.iter().map(|kind| kind.name()));
    names
}

/// The policy with this name; `none` is an empty slot.
pub fn build(name: &str, seed: u64) -> Result<Option<Box<dyn Policy>>, BuildError> {
    if let Some(kind) = Kind::ALL.iter().find(|kind| kind.name() == name) {
        return Ok(Some(Box::new(Fault::new(*kind, seed))));
    }
    match name {
        DEFAULT => Ok(Some(Box::new(DelayTarget::default()))),
        "none" => Ok(None),
        _ => Err(BuildError::UnknownPolicy { name: name.to_string(), nearest: nearest(name, names()) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_builds_and_a_wrong_one_is_corrected() {
        for name in names() {
            assert_eq!(build(name, 1).unwrap().is_none(), name == "none");
        }
        let error = build("fault:randon", 1).err().unwrap();
        assert_eq!(error.to_string(), "unknown policy \"fault:randon\"; did you mean fault:random?");
    }
}
