//! The scenarios that come with the programs: those in `evaluation/scenarios/`, by name. They name no files.

use anole_model::names::{did_you_mean, nearest};

include!(concat!(env!("OUT_DIR"), "/scenarios.rs"));

/// No such scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no scenario is named \"{name}\"{}; known are {}", did_you_mean(nearest.as_deref()), names().collect::<Vec<_>>().join(", "))]
pub struct UnknownScenario {
    name: String,
    nearest: Option<String>,
}

/// Names, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// The text of the scenario with this name.
pub fn shipped(name: &str) -> Result<&'static str, UnknownScenario> {
    let found = SHIPPED.iter().find(|(known, _)| *known == name);
    found
        .map(|(_, text)| *text)
        .ok_or_else(|| UnknownScenario { name: name.to_string(), nearest: nearest(name, names()) })
}

#[cfg(test)]
mod tests {
    use super::{names, shipped};
    use crate::scenario::Scenario;

    #[test]
    fn every_shipped_scenario_can_be_read_without_its_folder() {
        for name in names() {
            let scenario =
                Scenario::parse(shipped(name).unwrap(), name, &[], &mut |trace| Err(trace.to_string()));
            assert!(scenario.is_ok(), "{scenario:?}");
        }
        let wrong = shipped("anole-norml").unwrap_err().to_string();
        assert!(
            wrong.starts_with("no scenario is named \"anole-norml\"; did you mean anole-normal?"),
            "{wrong}"
        );
    }
}
