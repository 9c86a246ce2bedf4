//! What `--policy` names.

use super::delay_target::DelayTarget;
use super::fault::{Fault, FaultKind};
use super::flow_policy::{FlowPolicy, Trained};
use crate::BuildError;
use anole_model::names::nearest;
use anole_policies::schema::Action;
use anole_policies::{Policies, Policy, PolicyError};
use std::sync::Arc;

/// The policy that fills a hybrid's slot when nothing else is named.
pub const DEFAULT: &str = "delay-target";

/// Every name that `--policy` takes without a trained policy.
pub fn names() -> Vec<&'static str> {
    let mut names = vec![DEFAULT, "none"];
    names.extend(FaultKind::ALL.iter().map(|kind| kind.name()));
    names
}

/// The policy with this name for a hybrid's slot, which wants rates; `none` is an empty slot. What is neither
/// hand-written nor a fault is looked for in `policies`.
pub fn proposer(
    name: &str,
    policies: &dyn Policies,
    seed: u64,
) -> Result<Option<Box<dyn FlowPolicy>>, BuildError> {
    if let Some(kind) = FaultKind::find(name) {
        return Ok(Some(Box::new(Fault::of_rates(kind, seed))));
    }
    match name {
        DEFAULT => Ok(Some(Box::new(DelayTarget::default()))),
        "none" => Ok(None),
        _ => {
            let policy = find(name, policies)?;
            let schema = policy.schema();
            match schema.action {
                Action::Parameters { .. } | Action::CubicCwndExp { .. } => Err(BuildError::Policy(format!(
                    "{name} decides neither a rate nor a window, so it can't be a candidate; run it as --alg {}",
                    schema.name
                ))),
                _ => Ok(Some(Box::new(Trained::new(&*policy)))),
            }
        }
    }
}

/// The trained policy with this name, or in this file.
pub(super) fn find(name: &str, policies: &dyn Policies) -> Result<Arc<dyn Policy>, BuildError> {
    policies.find(name).map_err(|error| match error {
        PolicyError::Refused(reason) => BuildError::Policy(reason),
        PolicyError::Unknown(_) => unknown(name, policies),
    })
}

/// No policy has this name.
pub(super) fn unknown(name: &str, policies: &dyn Policies) -> BuildError {
    let mut known: Vec<String> = names().into_iter().map(String::from).collect();
    known.extend(policies.names());
    let nearest = nearest(name, known.iter().map(String::as_str));
    BuildError::UnknownPolicy { name: name.to_string(), nearest, known }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anole_policies::Shipped;

    #[test]
    fn every_name_builds_and_a_wrong_one_is_corrected() {
        for name in names() {
            assert_eq!(proposer(name, &Shipped, 1).unwrap().is_none(), name == "none");
        }
        let error = |name| proposer(name, &Shipped, 1).err().unwrap().to_string();
        assert_eq!(error("fault:randon"), "unknown policy \"fault:randon\"; did you mean fault:random?");
        assert!(error("orca").ends_with("run it as --alg orca"), "{}", error("orca"));
    }
}
