//! What random links are drawn from.

use crate::scenario::MAX_LTE_MBIT;
use serde::{Deserialize, Serialize};

/// What random links are drawn from. Capacity, round-trip time and buffer are log-uniform between their
/// two values, everything else is uniform.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ranges {
    /// Capacity; of a varying one, its mean or its start.
    pub capacity_mbps: [f64; 2],
    /// Round-trip time without queues.
    pub rtt_ms: [f64; 2],
    /// Buffer, in products of capacity and round-trip time.
    pub buffer_bdp: [f64; 2],
    /// Buffer in bytes, instead.
    pub buffer_bytes: Option<[f64; 2]>,
    /// Probability of random loss, on links that have any.
    pub loss: [f64; 2],
    /// Share of links without random loss.
    pub lossless: f64,
    /// Share of links whose capacity varies like that of LTE.
    pub traces: f64,
    /// Share of links whose capacity changes in steps, every 2 to 10 s, to 0.5 to 2 times the first one.
    pub steps: f64,
    /// Share of the links that vary like LTE which are busy cells: deeper fades, flicker, bursts of opportunities, longer
    /// and more frequent outages.
    pub busy_cells: f64,
    /// Share of links that are Wi-Fi: a capacity that varies a little, data and ACKs in bursts, jitter.
    pub wifi: f64,
    /// Share of links whose round-trip time changes in steps, every 2 to 10 s, to 0.5 to 2 times the first one.
    pub rtt_steps: f64,
    /// By how much the ACKs of a link's flows come late at most, in order, microseconds: what hosts add.
    pub ack_jitter_us: [f64; 2],
    /// Number of further flows under test, which start one after the other in the first half and stay to the end.
    pub own_flows: [u32; 2],
    /// Number of flows that compete for a part of the time.
    pub cross_flows: [u32; 2],
    /// Their algorithms, each as likely as the others.
    pub cross_algs: Vec<String>,
    /// When the flow under test starts.
    pub start_s: [f64; 2],
    /// Length of a run.
    pub duration_s: f64,
}

impl Default for Ranges {
    /// The random suite: 1–200 Mbps, 5–200 ms, 0.1–6 BDP, half of the links with up to 3 % loss, a
    /// quarter of them varying like LTE.
    fn default() -> Ranges {
        Ranges {
            capacity_mbps: [1.0, 200.0],
            rtt_ms: [5.0, 200.0],
            buffer_bdp: [0.1, 6.0],
            buffer_bytes: None,
            loss: [0.0, 0.03],
            lossless: 0.5,
            traces: 0.25,
            steps: 0.0,
            busy_cells: 0.0,
            wifi: 0.0,
            rtt_steps: 0.0,
            ack_jitter_us: [0.0, 0.0],
            own_flows: [0, 0],
            cross_flows: [0, 0],
            cross_algs: vec!["cubic".to_string()],
            start_s: [0.0, 0.0],
            duration_s: 30.0,
        }
    }
}

/// Why nothing can be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangesError {
    /// A value is out of bounds.
    #[error("ranges: {field} = {value}: {wanted}")]
    Field {
        /// The field.
        field: &'static str,
        /// What it is.
        value: String,
        /// What it has to be.
        wanted: String,
    },
    /// No such ranges.
    #[error("no ranges are named \"{name}\"; known are {known}", known = Ranges::NAMES.join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
    },
}

impl Ranges {
    /// What [`Ranges::named`] knows.
    pub const NAMES: [&str; 7] =
        ["random", "inside", "capacity-2x", "capacity-5x", "rtt-2x", "loss", "traces"];

    /// The ranges with this name: `random` is the default; `inside` is what policies are trained on, and
    /// each of the others leaves it in one respect.
    pub fn named(name: &str) -> Result<Ranges, RangesError> {
        let inside = Ranges {
            capacity_mbps: [10.0, 200.0],
            rtt_ms: [10.0, 200.0],
            buffer_bdp: [0.2, 4.0],
            loss: [0.0, 0.02],
            traces: 0.0,
            ..Ranges::default()
        };
        Ok(match name {
            "random" => Ranges::default(),
            "inside" => inside,
            "capacity-2x" => Ranges { capacity_mbps: [200.0, 400.0], ..inside },
            "capacity-5x" => Ranges { capacity_mbps: [400.0, 1000.0], ..inside },
            "rtt-2x" => Ranges { rtt_ms: [200.0, 400.0], ..inside },
            "loss" => Ranges { loss: [0.03, 0.1], lossless: 0.0, ..inside },
            "traces" => Ranges { traces: 1.0, lossless: 1.0, ..inside },
            _ => return Err(RangesError::Unknown { name: name.to_string() }),
        })
    }

    /// A length of runs, or what it has to be.
    pub fn duration(seconds: f64) -> Result<f64, String> {
        match seconds {
            0.1..=3600.0 => Ok(seconds),
            _ => Err("give 0.1 to 3600 s".to_string()),
        }
    }

    /// Refuses what nothing can be drawn from.
    pub fn check(&self) -> Result<(), RangesError> {
        // What starts within a run depends on its length.
        if let Err(wanted) = Ranges::duration(self.duration_s) {
            let value = self.duration_s.to_string();
            return Err(RangesError::Field { field: "duration_s", value, wanted });
        }
        let mut spans = vec![
            ("capacity_mbps", self.capacity_mbps, [0.1, 10_000.0]),
            ("rtt_ms", self.rtt_ms, [0.1, 10_000.0]),
            ("buffer_bdp", self.buffer_bdp, [1e-3, 1e3]),
            ("loss", self.loss, [0.0, 1.0]),
            ("ack_jitter_us", self.ack_jitter_us, [0.0, 1e6]),
            ("start_s", self.start_s, [0.0, self.duration_s * 0.99]),
        ];
        spans.extend(self.buffer_bytes.map(|bytes| ("buffer_bytes", bytes, [1.0, 1e10])));
        for (field, [low, high], [least, most]) in spans {
            if !(least <= low && low <= high && high <= most) {
                let wanted = format!("give [low, high], within {least} to {most}");
                return Err(RangesError::Field { field, value: format!("[{low}, {high}]"), wanted });
            }
        }
        // Without what rounding makes of decimal fractions.
        let rest = |taken: f64| ((1.0 - taken) * 1e9).round() / 1e9;
        let shares = [
            ("lossless", self.lossless, 1.0),
            ("traces", self.traces, 1.0),
            ("steps", self.steps, rest(self.traces)),
            ("wifi", self.wifi, rest(self.traces + self.steps)),
            ("busy_cells", self.busy_cells, 1.0),
            ("rtt_steps", self.rtt_steps, 1.0),
        ];
        for (field, value, most) in shares {
            if !(0.0..=most).contains(&value) {
                let wanted =
                    format!("it is a share, from 0 to {most} (traces, steps and wifi exclude each other)");
                return Err(RangesError::Field { field, value: value.to_string(), wanted });
            }
        }
        let whole = self.capacity_mbps[1] * self.duration_s;
        if self.traces + self.wifi > 0.0 && whole > MAX_LTE_MBIT {
            let [low, high] = self.capacity_mbps;
            let wanted = format!(
                "with traces or wifi a link would carry up to {whole:.0} Mbit; at most {MAX_LTE_MBIT}: lower capacity_mbps or duration_s"
            );
            return Err(RangesError::Field {
                field: "capacity_mbps",
                value: format!("[{low}, {high}]"),
                wanted,
            });
        }
        for (field, [fewest, most]) in [("own_flows", self.own_flows), ("cross_flows", self.cross_flows)] {
            if fewest > most || most > 64 {
                let wanted = "give [fewest, most], at most 64".to_string();
                return Err(RangesError::Field { field, value: format!("[{fewest}, {most}]"), wanted });
            }
        }
        if self.cross_flows[1] > 0 && self.cross_algs.is_empty() {
            let wanted = "name at least one algorithm, as cross_flows asks for some".to_string();
            return Err(RangesError::Field { field: "cross_algs", value: "[]".to_string(), wanted });
        }
        Ok(())
    }
}
