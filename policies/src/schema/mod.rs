//! A policy's schema: what its network sees, how large it is, what its output means, how often it runs.
//!
//! The file `schemas/NAME.toml` is the one place where this is declared. Rust computes features and
//! decodes actions from it; Python builds the network and the training environment from it; a policy
//! file carries it, and is refused where the two differ.

mod action;
mod algorithm;
mod architecture;
mod check;
mod feature;

pub use action::{Action, ParameterRange, TableEntry};
pub use algorithm::{AlgorithmTable, StartupParameter};
pub use architecture::{Activation, Architecture, Conv1d, EPSILON, Head, Layer, TensorShape};
pub use feature::{Feature, Signal, Statistic};

use serde::Deserialize;
use std::sync::LazyLock;

include!(concat!(env!("OUT_DIR"), "/embedded_files.rs"));

/// The schemas of `schemas/`, in order of their names.
pub fn builtins() -> &'static [Schema] {
    static ALL: LazyLock<Vec<Schema>> = LazyLock::new(|| {
        let parse = |&(name, text): &(&str, &str)| Schema::parse(text, &format!("schemas/{name}.toml"));
        // A test parses each of them.
        SCHEMAS.iter().map(|schema| parse(schema).unwrap_or_else(|error| panic!("{error}"))).collect()
    });
    &ALL
}

/// The schema of `schemas/` with this name.
pub fn builtin(name: &str) -> Option<&'static Schema> {
    builtins().iter().find(|schema| schema.name == name)
}

/// Everything that defines a policy but its weights.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schema {
    /// Name; the file is `schemas/NAME.toml`.
    pub name: String,
    /// One line.
    pub summary: String,
    /// Paper and section.
    pub source: String,
    /// How often the policy decides when it drives a flow by itself.
    pub interval: Interval,
    /// What its output does.
    pub action: Action,
    /// What it sees, in order.
    #[serde(rename = "feature")]
    pub features: Vec<Feature>,
    /// Number of feature sets that make one input, oldest first, zero before there were that many.
    #[serde(default = "one")]
    pub history: usize,
    /// Its network.
    pub network: Architecture,
    /// How it runs a flow by itself.
    #[serde(default)]
    pub algorithm: AlgorithmTable,
    /// The canonical text, from which the hash is made; see [`canonical`].
    #[serde(skip)]
    pub text: String,
}

fn one() -> usize {
    1
}

/// Time between two decisions of a policy that drives a flow by itself.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// At least this long, ms.
    pub ms: f64,
    /// And at least this many smoothed round-trip times.
    #[serde(default)]
    pub rtts: f64,
}

/// Why a schema is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct SchemaError {
    /// The file.
    pub file: String,
    /// The line.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

/// The text from which the hash is made: no comments on lines of their own, indentation or blank lines, and no
/// table `[algorithm]` with its sub-tables, which says nothing about what the network sees, computes and means.
pub fn canonical(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut skipping = false;
    let defines = |line: &&str| {
        if line.starts_with('[') {
            let header = line.trim_start_matches('[');
            skipping = header.starts_with("algorithm]") || header.starts_with("algorithm.");
        }
        !skipping
    };
    lines.filter(defines).fold(String::new(), |all, line| all + line + "\n")
}

impl Schema {
    /// Reads a schema; `file` is named in errors.
    pub fn parse(text: &str, file: &str) -> Result<Schema, SchemaError> {
        let parsed: Result<Schema, toml::de::Error> = toml::from_str(text);
        let schema = parsed.map_err(|error| {
            let before = text.as_bytes().iter().take(error.span().map_or(0, |span| span.start));
            SchemaError {
                file: file.to_string(),
                line: 1 + before.filter(|&&b| b == b'\n').count(),
                message: error.message().trim().replace('\n', "; "),
            }
        })?;
        check::check(&schema).map_err(|broken| SchemaError {
            file: file.to_string(),
            line: broken.line(text),
            message: broken.message,
        })?;
        Ok(Schema { text: canonical(text), ..schema })
    }

    /// SHA-256 of the canonical text, in hexadecimal.
    pub fn sha256(&self) -> String {
        crate::digest::sha256(self.text.as_bytes())
    }
}
