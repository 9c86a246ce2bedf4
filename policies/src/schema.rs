//! A policy's schema: what its network sees, how large it is, what its output means, how often it runs.
//!
//! The file `schemas/NAME.toml` is the one place where this is declared. Rust computes features and
//! decodes actions from it; Python builds the network and the training environment from it; a policy
//! file carries it, and is refused where the two differ.

mod check;
mod network;

pub use network::{Activation, Head, Layer, Network, TensorShape};

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
    pub network: Network,
    /// The canonical text, from which the hash is made: the file without comments, indentation and
    /// blank lines.
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

/// What the network's output does. `low` and `high` bound each output before it is used.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Action {
    /// rate × base^a.
    RateExp {
        /// Base of the power.
        base: f64,
        /// Smallest a.
        low: f64,
        /// Largest a.
        high: f64,
    },
    /// rate × (1 + step·a) for a ≥ 0, rate / (1 − step·a) below (Aurora, eq. 1).
    RateStep {
        /// Factor of one unit of a.
        step: f64,
        /// Smallest a.
        low: f64,
        /// Largest a.
        high: f64,
    },
    /// window × base^a.
    CwndExp {
        /// Base of the power.
        base: f64,
        /// Smallest a.
        low: f64,
        /// Largest a.
        high: f64,
    },
    /// window × (1 + step·a) for a ≥ 0, window / (1 − step·a) below.
    CwndStep {
        /// Factor of one unit of a.
        step: f64,
        /// Smallest a.
        low: f64,
        /// Largest a.
        high: f64,
    },
    /// CUBIC grows the window per ACK; at each decision it is multiplied by base^a.
    CubicCwndExp {
        /// Base of the power.
        base: f64,
        /// Smallest a.
        low: f64,
        /// Largest a.
        high: f64,
    },
    /// The output is an index into this table (head `argmax`): window × factor + packets.
    CwndTable {
        /// The table.
        table: Vec<TableEntry>,
    },
    /// Parameters of a fold program; each output, bounded to [−1, 1], is mapped onto its range.
    Parameters {
        /// Name of the fold program.
        program: String,
        /// Its parameters, one per output.
        parameter: Vec<ParameterRange>,
    },
}

/// One entry of [`Action::CwndTable`].
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableEntry {
    /// The window is multiplied by this …
    pub factor: f64,
    /// … and then grows by this many packets.
    pub packets: f64,
}

/// One output of [`Action::Parameters`]: the network's −1 is `low`, its 1 is `high`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParameterRange {
    /// Name of the parameter.
    pub name: String,
    /// Value at −1.
    pub low: f64,
    /// Value at 1.
    pub high: f64,
}

/// One input: `clip(scale · signal / per)`, or its mean, minimum or maximum over the last `window`
/// intervals.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    /// Name.
    pub name: String,
    /// What it is made of.
    pub signal: Signal,
    /// What it is divided by; the feature is 0 where this is 0.
    #[serde(default)]
    pub per: Option<Signal>,
    /// Factor.
    #[serde(default = "one_f64")]
    pub scale: f64,
    /// Smallest and largest value.
    pub clip: [f64; 2],
    /// Unit of the feature after division and scaling; "1" for a ratio.
    pub unit: String,
    /// Intervals over which `statistic` is taken.
    #[serde(default = "one")]
    pub window: usize,
    /// What is taken over the window.
    #[serde(default)]
    pub statistic: Statistic,
    /// Which element, of signals that have several (`previous-action`, `previous-action-is`).
    #[serde(default)]
    pub index: usize,
}

fn one_f64() -> f64 {
    1.0
}

/// What is taken over a feature's window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// The arithmetic mean.
    #[default]
    Mean,
    /// The smallest value.
    Min,
    /// The largest value.
    Max,
}

/// What a feature may be made of; units are in the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signal {
    /// Sending rate in force.
    SendingRateMbps,
    /// Delivery rate over the interval.
    DeliveryRateMbps,
    /// Largest delivery rate so far.
    MaxDeliveryRateMbps,
    /// Delivery rate over the interval before; the same as over this one at first.
    PreviousDeliveryRateMbps,
    /// Largest delivery rate up to the interval before; up to this one at first.
    PreviousMaxDeliveryRateMbps,
    /// Lost bytes per time.
    LossMbps,
    /// Packets lost over packets sent.
    LossRate,
    /// Smoothed round-trip time.
    SrttMs,
    /// Mean round-trip time of the interval.
    RttMs,
    /// Smallest round-trip time so far.
    MinRttMs,
    /// Smoothed round-trip time less the smallest one.
    QueueDelayMs,
    /// Mean round-trip time of the interval less the smallest one.
    IntervalQueueDelayMs,
    /// Smoothed mean deviation of the round-trip time.
    RttVarMs,
    /// d(RTT)/dt, s/s.
    RttGradient,
    /// Length of the interval.
    IntervalMs,
    /// Congestion window.
    CwndPackets,
    /// Congestion window over the smallest round-trip time.
    CwndMbps,
    /// Packets in flight.
    InflightPackets,
    /// Packets that the largest delivery rate brings in the smallest round-trip time.
    BdpPackets,
    /// ACKs with a round-trip sample.
    Acks,
    /// Packets found lost in the interval.
    LostPackets,
    /// Output `index` of the previous decision, as applied; before the first it is 0, and a table's
    /// last index (Indigo).
    PreviousAction,
    /// 1 where the previous decision was entry `index` of the table, else 0.
    PreviousActionIs,
    /// 1.
    One,
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

/// The text from which the hash is made: no comments on lines of their own, indentation or blank lines.
pub fn canonical(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.fold(String::new(), |all, line| all + line + "\n")
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
        crate::file::sha256(self.text.as_bytes())
    }
}
