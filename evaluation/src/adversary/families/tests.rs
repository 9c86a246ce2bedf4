//! Every family, wherever its adversary goes.

use super::ALL;
use crate::adversary::axis::Scale;
use crate::adversary::family::ScenarioHead;
use anole_sim::scenario::Scenario;
use proptest::prelude::*;

fn head(seed: u64) -> ScenarioHead {
    ScenarioHead {
        name: "case".to_string(),
        comment: String::new(),
        source: String::new(),
        seed,
        alg: "cubic".to_string(),
        policy: None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // Values within the axes' bounds, a file that is accepted, and what it says within the family's bounds.
    #[test]
    fn any_genes_make_a_scenario_within_bounds(
        genes in proptest::collection::vec(-0.5f64..1.5, 16), seed in 0u64..1 << 50
    ) {
        for family in ALL {
            let point = family.point(&genes);
            for (axis, value) in family.axes.iter().zip(&point) {
                prop_assert!((axis.low..=axis.high).contains(value), "{} {}: {value}", family.name, axis.name);
                let is_whole = matches!(axis.scale, Scale::Count | Scale::Choice);
                prop_assert!(!is_whole || value.fract() == 0.0, "{} {}: {value}", family.name, axis.name);
            }
            let text = (family.text)(&point, &head(seed));
            let scenario = Scenario::parse(&text, family.name, &[], &mut |_| Err(String::new()));
            let scenario = scenario.map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
            prop_assert_eq!(scenario.seed, seed);
            prop_assert!(scenario.duration.as_secs_f64() <= 65.0 && scenario.flows.len() <= 1000);
            for link in &scenario.links {
                let mbps = link.capacity.mean_rate().mbps();
                prop_assert!((0.4..=1000.1).contains(&mbps), "{} {mbps}", family.name);
                prop_assert!(link.one_way_delay.as_millis_f64() <= 100.0, "{}", family.name);
            }
        }
    }
}

#[test]
fn plain_values_are_within_bounds_and_names_differ() {
    for family in ALL {
        assert!(
            family.axes.iter().all(|axis| (axis.low..=axis.high).contains(&axis.plain)),
            "{}",
            family.name
        );
        assert_eq!(ALL.iter().filter(|other| other.name == family.name).count(), 1);
    }
}
