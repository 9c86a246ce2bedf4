//! The schemas in the tree, and what they make of a quiet path.

use crate::{Features, Observation, Schema};
use anole_model::Rate;

#[test]
#[allow(clippy::disallowed_methods, reason = "a test reads files")]
fn every_schema_in_the_tree_parses_and_its_features_stay_in_their_clips() {
    for name in ["libra", "orca", "spine"] {
        let path = format!("{}/schemas/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let schema = Schema::parse(&std::fs::read_to_string(&path).unwrap(), &path).unwrap();
        assert_eq!(schema.name, name);
        let mut features = Features::new(&schema);
        let input = features.push(&Observation::quiet(Rate::from_bytes_per_s(6e6)));
        assert_eq!(input.len(), schema.inputs());
        assert!(input.iter().all(|x| x.is_finite()), "{name}: {input:?}");
        assert!(schema.outputs() > 0);
    }
}
