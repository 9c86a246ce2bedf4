//! The rule slot: a law that proposes one of the rates which a hybrid compares.

use crate::{BuildError, FlowInfo};
use anole_laws::Law;
use anole_model::names::nearest;
use std::collections::BTreeMap;

/// Every name that `--classic` takes.
pub fn names() -> Vec<&'static str> {
    anole_laws::ALL.iter().map(|spec| spec.name).collect()
}

/// The law with this name, in slow start.
pub fn build(name: &str, flow: FlowInfo, seed: u64) -> Result<Box<dyn Law>, BuildError> {
    let Some(spec) = anole_laws::find(name) else {
        return Err(BuildError::UnknownClassic { name: name.to_string(), nearest: nearest(name, names()) });
    };
    Ok((spec.build)(flow.of_law(seed), &BTreeMap::new())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_builds_and_a_wrong_one_is_corrected() {
        let flow = FlowInfo { mss: 1000, init_cwnd: 10_000 };
        for name in names() {
            assert_eq!(build(name, flow, 1).unwrap().control().cwnd, 10_000);
        }
        let error = build("qubic", flow, 1).err().unwrap();
        assert_eq!(error.to_string(), "unknown rule-based candidate \"qubic\"; did you mean cubic?");
    }
}
