//! How a policy runs a flow by itself: a schema's table `[algorithm]`.
//!
//! The table is no part of the schema's hash, and no policy file carries it: it belongs to the algorithm in whose
//! name a policy runs, whichever weights it has.

use serde::Deserialize;
use std::collections::BTreeMap;

/// The table `[algorithm]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AlgorithmTable {
    /// Whether there is an algorithm of the schema's name; otherwise its policies are candidates of hybrids only.
    pub alone: bool,
    /// Of an action that sets registers: their values until the first loss, or until the round-trip time has
    /// doubled. The policy only watches meanwhile. Without any it decides from the first round-trip time on.
    pub startup: BTreeMap<String, f64>,
    /// Of an action on a window: once nothing near the smallest round-trip time has been seen for so long, s, the window
    /// is halved for two round trips, in which flows that share a queue see their path without it.
    pub probe_rtt_s: Option<f64>,
    /// Values of the start-up that a user may change.
    #[serde(rename = "parameter")]
    pub parameters: Vec<StartupParameter>,
}

impl Default for AlgorithmTable {
    fn default() -> AlgorithmTable {
        AlgorithmTable { alone: true, startup: BTreeMap::new(), probe_rtt_s: None, parameters: Vec::new() }
    }
}

/// A register's value in start-up, as a parameter of the algorithm.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartupParameter {
    /// Name of the parameter.
    pub name: String,
    /// The register.
    pub register: String,
    /// Value if the user says nothing.
    pub default: f64,
    /// Smallest value allowed.
    pub low: f64,
    /// Largest value allowed.
    pub high: f64,
    /// Meaning, unit and source.
    pub doc: String,
}
