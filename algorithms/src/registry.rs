//! Every algorithm by name.

use crate::{Algorithm, FlowInfo, Program};
use std::collections::BTreeMap;

/// A parameter that a user may change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// Name, as in `--set param.NAME=VALUE`.
    pub name: &'static str,
    /// Default value.
    pub default: f64,
    /// Meaning, unit and source.
    pub doc: &'static str,
}

/// What an algorithm is built from.
#[derive(Clone, Debug)]
pub struct Build {
    /// The flow.
    pub flow: FlowInfo,
    /// The rule slot; `None` for the algorithm's default.
    pub classic: Option<String>,
    /// The learned slot (`NAME`, `none`, `fault:KIND`); `None` for the algorithm's default.
    pub policy: Option<String>,
    /// Parameters that differ from their defaults.
    pub params: BTreeMap<String, f64>,
    /// Seed of all randomness inside.
    pub seed: u64,
}

/// Why an algorithm could not be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// No such algorithm.
    #[error("unknown algorithm \"{name}\"{}", nearest.as_ref().map(|n| format!("; did you mean {n}?")).unwrap_or_default())]
    UnknownAlgorithm {
        /// What was asked for.
        name: String,
        /// The nearest names.
        nearest: Option<String>,
    },
}

/// An algorithm as the registry knows it.
#[derive(Clone, Copy)]
pub struct Spec {
    /// Name.
    pub name: &'static str,
    /// `rule`, `hybrid` or `learned`.
    pub kind: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Fold programs that it runs.
    pub programs: &'static [&'static Program],
    /// Parameters.
    pub parameters: &'static [Parameter],
    /// Paper or RFC.
    pub source: &'static str,
    /// Builds one for a flow.
    pub build: fn(&Build) -> Result<Box<dyn Algorithm>, BuildError>,
}

/// Every algorithm, by name.
pub fn all() -> &'static [Spec] {
    &[]
}

/// The algorithm with this name.
pub fn find(name: &str) -> Result<&'static Spec, BuildError> {
    all()
        .iter()
        .find(|spec| spec.name == name)
        .ok_or_else(|| BuildError::UnknownAlgorithm { name: name.to_string(), nearest: None })
}

/// Builds the algorithm with this name.
pub fn build(name: &str, build: &Build) -> Result<Box<dyn Algorithm>, BuildError> {
    (find(name)?.build)(build)
}
