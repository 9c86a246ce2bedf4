//! Every algorithm by name.

use crate::slots::{Slot, Slots};
use crate::{
    Algorithm, FlowInfo, Parameter, ParameterError, Program, alone, antelope, hold, hybrid, learned, offload,
};
use anole_model::names::{did_you_mean, nearest};
use anole_policies::Policies;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

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
    #[error("unknown algorithm \"{name}\"{}", suggestion(nearest, || all().iter().map(|spec| spec.name).collect()))]
    UnknownAlgorithm {
        /// What was asked for.
        name: String,
        /// The nearest name.
        nearest: Option<String>,
    },
    /// No such rule-based candidate.
    #[error("unknown rule-based candidate \"{name}\"{}", suggestion(nearest, hybrid::rule_names))]
    UnknownClassic {
        /// What was asked for.
        name: String,
        /// The nearest name.
        nearest: Option<String>,
    },
    /// No such policy.
    #[error("unknown policy \"{name}\"{}", suggestion(nearest, || known.iter().map(String::as_str).collect()))]
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
    #[error("{algorithm} takes no {} (\"{value}\"); leave it out, or run one that does: {}", slot.what(), slot.takers().join(", "))]
    NoSlot {
        /// The algorithm.
        algorithm: String,
        /// The slot.
        slot: Slot,
        /// What was to fill it.
        value: String,
    },
    /// A parameter is refused.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
}

fn suggestion<'a>(nearest: &Option<String>, known: impl Fn() -> Vec<&'a str>) -> String {
    match nearest {
        Some(_) => did_you_mean(nearest.as_deref()),
        None => match known().join(", ") {
            names if names.is_empty() => String::new(),
            names => format!("; known are {names}"),
        },
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

impl Spec {
    /// One for a flow.
    pub fn build(&self, what: &Build) -> Result<Box<dyn Algorithm>, BuildError> {
        let slots = Slots { classic: what.classic.clone(), policy: what.policy.clone() };
        slots.check(self.name)?;
        (self.builder)(what)
    }
}

/// The rows that are written by hand: hybrids, selectors, `hold`, and laws whose half per ACK is a fold program.
const BY_HAND: [Spec; 11] = [
    antelope::ANTELOPE,
    antelope::REIN,
    hold::SPEC,
    hybrid::anole::SPEC,
    hybrid::libra::B_LIBRA,
    hybrid::libra::C_LIBRA,
    hybrid::libra::CL_LIBRA,
    hybrid::libra::LIBRA,
    offload::bbr::SPEC,
    offload::cubic::SPEC,
    offload::reno::SPEC,
];

/// Every algorithm, by name: those by hand, every other law, and those of the policies' schemas.
pub fn all() -> &'static [Spec] {
    static ALL: LazyLock<Vec<Spec>> = LazyLock::new(|| {
        let by_hand = |law: &&anole_laws::LawSpec| BY_HAND.iter().any(|spec| spec.name == law.name);
        let laws = anole_laws::ALL.iter().filter(|law| !by_hand(law)).map(alone::spec);
        let learned = anole_policies::schema::builtins().iter().map(learned::spec);
        let mut all: Vec<Spec> = BY_HAND.into_iter().chain(laws).chain(learned).collect();
        all.sort_by_key(|spec| spec.name);
        all
    });
    &ALL
}

/// The algorithm with this name.
pub fn find(name: &str) -> Result<&'static Spec, BuildError> {
    all().iter().find(|spec| spec.name == name).ok_or_else(|| BuildError::UnknownAlgorithm {
        name: name.to_string(),
        nearest: nearest(name, all().iter().map(|spec| spec.name)),
    })
}

/// Builds the algorithm with this name.
pub fn build(name: &str, build: &Build) -> Result<Box<dyn Algorithm>, BuildError> {
    find(name)?.build(build)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_every_algorithm_builds() {
        let names: Vec<_> = all().iter().map(|spec| spec.name).collect();
        assert!(names.is_sorted(), "{names:?}");
        let what = Build {
            flow: FlowInfo { mss: 1448, init_cwnd: 14480 },
            classic: None,
            policy: None,
            policies: Arc::new(anole_policies::Shipped),
            params: BTreeMap::new(),
            seed: 1,
        };
        let shipped = anole_policies::Shipped.names();
        let policy_of = |name| if name == "libra-rl" { "libra" } else { name };
        for spec in all() {
            let built = build(spec.name, &what);
            // A policy that is not shipped is the one thing an algorithm may lack.
            let shipped = spec.name == "antelope" || shipped.contains(&policy_of(spec.name).to_string());
            let lacks = spec.kind == "learned" && !shipped;
            match built {
                Ok(_) => assert!(!lacks, "{}", spec.name),
                Err(error) => {
                    assert!(lacks && matches!(error, BuildError::Policy(_)), "{}: {error}", spec.name)
                }
            }
            let odd = Build { params: BTreeMap::from([("no_such".to_string(), 1.0)]), ..what.clone() };
            assert!(
                matches!(build(spec.name, &odd), Err(BuildError::Parameter(ParameterError::Unknown { .. }))),
                "{}",
                spec.name
            );
        }
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_nearest() {
        let error = |name| find(name).err().unwrap().to_string();
        assert_eq!(error("reno2"), "unknown algorithm \"reno2\"; did you mean reno?");
        assert!(error("zzz").starts_with("unknown algorithm \"zzz\"; known are "));
    }
}
