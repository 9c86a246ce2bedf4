//! What an algorithm is to the registry, what one is built from, and why that may be refused.

use crate::{Algorithm, FlowInfo, Parameter, ParameterError, Program};
use anole_model::names::did_you_mean;
use anole_policies::Policies;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What an algorithm is built from.
#[derive(Clone, Debug)]
pub struct Build {
    /// The flow.
    pub flow: FlowInfo,
    /// The rule slot; `None` for the algorithm's default.
    pub classic: Option<String>,
    /// The learned slot (`NAME`, `none`, `fault:KIND`); `None` for the algorithm's default.
    pub policy: Option<String>,
    /// Where trained policies are found.
    pub policies: Arc<dyn Policies>,
    /// Parameters that differ from their defaults.
    pub params: BTreeMap<String, f64>,
    /// Seed of all randomness inside.
    pub seed: u64,
}

/// Why an algorithm could not be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// No such algorithm.
    #[error("unknown algorithm \"{name}\"{}", suggestion(nearest, known))]
    UnknownAlgorithm {
        /// What was asked for.
        name: String,
        /// The nearest name.
        nearest: Option<String>,
        /// Every name.
        known: Vec<&'static str>,
    },
    /// No such rule-based candidate.
    #[error("unknown rule-based candidate \"{name}\"{}", suggestion(nearest, &rule_names()))]
    UnknownClassic {
        /// What was asked for.
        name: String,
        /// The nearest name.
        nearest: Option<String>,
    },
    /// No such policy.
    #[error("unknown policy \"{name}\"{}", suggestion(nearest, known))]
    UnknownPolicy {
        /// What was asked for.
        name: String,
        /// The nearest name.
        nearest: Option<String>,
        /// Every name.
        known: Vec<String>,
    },
    /// A trained policy is refused; the message names its file.
    #[error("{0}")]
    Policy(String),
    /// The algorithm has no such slot.
    #[error("{algorithm} takes no {} (\"{value}\"); leave it out, or run one that does: {}", slot.what(), takers.join(", "))]
    NoSlot {
        /// The algorithm.
        algorithm: String,
        /// The slot.
        slot: Slot,
        /// What was to fill it.
        value: String,
        /// The algorithms that have it.
        takers: Vec<&'static str>,
    },
    /// A parameter is refused.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
}

/// Names of rule-based candidates.
pub fn rule_names() -> Vec<&'static str> {
    anole_laws::ALL.iter().map(|spec| spec.name).collect()
}

fn suggestion(nearest: &Option<String>, known: &[impl AsRef<str>]) -> String {
    match nearest {
        Some(_) => did_you_mean(nearest.as_deref()),
        None if known.is_empty() => String::new(),
        None => {
            let names: Vec<&str> = known.iter().map(AsRef::as_ref).collect();
            format!("; known are {}", names.join(", "))
        }
    }
}

/// An algorithm as the registry knows it.
#[derive(Clone, Copy)]
pub struct Spec {
    /// Name.
    pub name: &'static str,
    /// `rule`, `hybrid`, `learned`, or `fixed` for what is no congestion control.
    pub kind: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Fold programs that it runs.
    pub programs: &'static [&'static Program],
    /// Parameters.
    pub parameters: &'static [Parameter],
    /// Paper or RFC.
    pub source: &'static str,
    /// It has a rule slot, which `--classic` fills.
    pub takes_classic: bool,
    /// It has a learned slot or is a policy's, which `--policy` names.
    pub takes_policy: bool,
    /// Makes one for a flow.
    pub builder: &'static Builder,
}

/// Makes an algorithm for a flow; it may carry data.
pub type Builder = dyn Fn(&Build) -> Result<Box<dyn Algorithm>, BuildError> + Send + Sync;

/// What a user may put into an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// The rule-based candidate, `--classic`.
    Classic,
    /// The learned candidate, or the policy, `--policy`.
    Policy,
}

impl Slot {
    /// In words.
    pub fn what(self) -> &'static str {
        match self {
            Slot::Classic => "rule-based candidate",
            Slot::Policy => "policy",
        }
    }

    /// True if `spec` has it.
    pub fn is_in(self, spec: &Spec) -> bool {
        match self {
            Slot::Classic => spec.takes_classic,
            Slot::Policy => spec.takes_policy,
        }
    }
}
