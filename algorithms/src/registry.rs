//! Every algorithm by name.

use crate::spec::{BuildError, Spec};
use crate::{alone, antelope, hold, hybrid, learned, offload};
use anole_model::names::nearest;
use std::sync::LazyLock;

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
        let learned = anole_policies::schema::builtins()
            .iter()
            .filter(|schema| schema.algorithm.alone)
            .map(learned::spec);
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
        known: all().iter().map(|spec| spec.name).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Build, FlowInfo, ParameterError, build};
    use anole_policies::Policies;
    use std::collections::BTreeMap;
    use std::sync::Arc;

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
