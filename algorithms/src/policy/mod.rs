//! The learned slot: an observation goes in, an action comes out, maybe late, maybe wrong, maybe never.

mod delay_target;
mod fault;
mod learned;

use crate::BuildError;
use anole_model::Time;
use anole_model::names::nearest;
use anole_policies::Model;
pub use anole_policies::{Observation, Policies, PolicyError, Shipped};
pub use delay_target::DelayTarget;
pub use fault::{Fault, Kind, SLOW_ANSWER};
pub use learned::{Learned, deadline};
use std::sync::Arc;

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

/// Every name that `--policy` takes without a trained policy.
pub fn names() -> Vec<&'static str> {
    let mut names = vec![DEFAULT, "none"];
    names.extend(Kind::ALL.iter().map(|kind| kind.name()));
    names
}

/// The policy with this name, for a slot that wants a rate; `none` is an empty slot. What is neither
/// hand-written nor a fault is looked for in `policies`.
pub fn build(name: &str, policies: &dyn Policies, seed: u64) -> Result<Option<Box<dyn Policy>>, BuildError> {
    if let Some(kind) = Kind::ALL.iter().find(|kind| kind.name() == name) {
        return Ok(Some(Box::new(Fault::new(*kind, seed))));
    }
    match name {
        DEFAULT => Ok(Some(Box::new(DelayTarget::default()))),
        "none" => Ok(None),
        _ => {
            let model = find(name, policies)?;
            match Learned::new(&*model) {
                Some(learned) => Ok(Some(Box::new(learned))),
                None => Err(BuildError::Policy(format!(
                    "{name} decides neither a rate nor a window, so it can't be a candidate; run it as --alg {}",
                    model.schema().name
                ))),
            }
        }
    }
}

/// The trained policy with this name, or in this file.
pub(crate) fn find(name: &str, policies: &dyn Policies) -> Result<Arc<dyn Model>, BuildError> {
    policies.find(name).map_err(|error| match error {
        PolicyError::Refused(reason) => BuildError::Policy(reason),
        PolicyError::Unknown(_) => unknown(name, policies),
    })
}

/// No policy has this name.
pub(crate) fn unknown(name: &str, policies: &dyn Policies) -> BuildError {
    let mut known: Vec<String> = names().into_iter().map(String::from).collect();
    known.extend(policies.names());
    let nearest = nearest(name, known.iter().map(String::as_str));
    BuildError::UnknownPolicy { name: name.to_string(), nearest, known }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_builds_and_a_wrong_one_is_corrected() {
        for name in names() {
            assert_eq!(build(name, &Shipped, 1).unwrap().is_none(), name == "none");
        }
        let error = build("fault:randon", &Shipped, 1).err().unwrap();
        assert_eq!(error.to_string(), "unknown policy \"fault:randon\"; did you mean fault:random?");
    }
}
