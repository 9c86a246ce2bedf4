//! What a policy's output does.

use serde::Deserialize;

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
        /// The window is one of whole packets, rounded away from the one before, as kernels count it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        whole_packets: bool,
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
    /// Registers of a fold program; each output, bounded to [−1, 1], is mapped onto its range.
    Parameters {
        /// Name of the fold program.
        program: String,
        /// The registers, one per output.
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
    /// Name of the control register that it sets.
    pub name: String,
    /// Value at −1.
    pub low: f64,
    /// Value at 1.
    pub high: f64,
    /// What the register holds for a value of 1.
    #[serde(default = "fixed_point")]
    pub scale: f64,
}

impl ParameterRange {
    /// The register's content for a value.
    pub fn register(&self, value: f64) -> u32 {
        (value * self.scale).round() as u32
    }

    /// The value, within the range.
    pub fn bound(&self, value: f64) -> f64 {
        value.max(self.low).min(self.high)
    }
}

/// One, in the fixed point of the fold programs.
fn fixed_point() -> f64 {
    65_536.0
}

impl Action {
    /// Its `kind` in a schema.
    pub fn kind(&self) -> &'static str {
        match self {
            Action::RateExp { .. } => "rate-exp",
            Action::RateStep { .. } => "rate-step",
            Action::CwndExp { .. } => "cwnd-exp",
            Action::CwndStep { .. } => "cwnd-step",
            Action::CubicCwndExp { .. } => "cubic-cwnd-exp",
            Action::CwndTable { .. } => "cwnd-table",
            Action::Parameters { .. } => "parameters",
        }
    }

    /// How many numbers of a network it takes (a hierarchical network's trigger is not one).
    pub fn width(&self) -> usize {
        match self {
            Action::Parameters { parameter, .. } => parameter.len(),
            _ => 1,
        }
    }
}
