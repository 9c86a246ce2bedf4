//! What is told of an ended flow, for whoever measures.

use anole_algorithms::{Metrics, Shares};
use anole_model::Time;
use serde::Serialize;

/// What happened in one flow.
#[derive(Clone, Debug, Serialize)]
pub struct FlowLine {
    /// The algorithm that ran it.
    pub algorithm: &'static str,
    /// The flow's id at its datapath.
    pub flow: u32,
    /// Source port, as the datapath told.
    pub src_port: u32,
    /// Destination port, as the datapath told.
    pub dst_port: u32,
    /// Seconds from the agent's start to the flow's.
    pub start_s: f64,
    /// Seconds to its end.
    pub end_s: f64,
    /// `closed` by its datapath (or silence), `failed` by its algorithm, `left` to an algorithm that its own program or
    /// route chose (--switch), or `dropped`: announced again, or the agent stopped.
    pub end: &'static str,
    /// Reports taken.
    pub reports: u64,
    /// Commands sent.
    pub updates: u64,
    /// Decisions of the algorithm.
    pub decisions: u64,
    /// Runs of its learned policy.
    pub inferences: u64,
    /// Shares of the time during which each kind of rate was in force; null when none was told.
    pub applied: Option<Shares>,
}

impl FlowLine {
    /// A flow that begins, with its source and destination port.
    pub fn new(flow: u32, (src_port, dst_port): (u32, u32), now: Time) -> FlowLine {
        FlowLine {
            algorithm: "",
            flow,
            src_port,
            dst_port,
            start_s: seconds(now),
            end_s: seconds(now),
            end: "dropped",
            reports: 0,
            updates: 0,
            decisions: 0,
            inferences: 0,
            applied: None,
        }
    }

    /// What its session did.
    pub fn note(&mut self, metrics: &Metrics) {
        self.reports = metrics.reports;
        self.updates = metrics.updates;
        self.decisions = metrics.telemetry.decisions;
        self.inferences = metrics.telemetry.inferences;
        self.applied = metrics.telemetry.applied.shares();
    }
}

/// Seconds since the agent's start.
pub fn seconds(time: Time) -> f64 {
    time.as_secs_f64()
}
