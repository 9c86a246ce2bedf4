//! The result of one run, as `--json` prints it: one object with these keys, in this order.
//!
//! A figure that could not be measured is null, never 0. Times are in seconds or milliseconds and rates
//! in Mbps (10^6 bits per second), as the names say.

use anole_algorithms::{Explanation, Judgement, Shares};
use anole_model::Dur;
use serde::{Deserialize, Deserializer, Serialize};

/// Text that is one of a few words. An alias, since a reference in its place would have to be borrowed from what is read.
pub type Word = &'static str;

/// Every word that a result has in place of a free text.
const WORDS: [&str; 12] = [
    "sim",
    "quic",
    "in-process",
    "usertcp",
    "kernel",
    "mahimahi-quic",
    "mahimahi-kernel",
    "agent",
    "fallback",
    "embedded",
    "torch",
    "server",
];

fn word<'de, D: Deserializer<'de>>(from: D) -> Result<Word, D::Error> {
    let text = String::deserialize(from)?;
    let known = WORDS.into_iter().find(|word| *word == text);
    known.ok_or_else(|| serde::de::Error::unknown_variant(&text, &WORDS))
}

fn optional_word<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Word>, D::Error> {
    #[derive(Deserialize)]
    struct Read(#[serde(deserialize_with = "word")] Word);
    Ok(Option::<Read>::deserialize(from)?.map(|read| read.0))
}

fn own_version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// Name of the scenario.
    pub scenario: String,
    /// `sim`, `quic`, `in-process`, `usertcp` or `kernel`; `mahimahi-quic` or `mahimahi-kernel` through Mahimahi.
    #[serde(deserialize_with = "word")]
    pub mode: Word,
    /// Algorithm of the flows under test; without such flows, of the first one.
    pub alg: String,
    /// Seed of this run.
    pub seed: u64,
    /// Version of anole-ccp; a binary adds the commit. One that is read is this program's.
    #[serde(skip_deserializing, default = "own_version")]
    pub version: Word,
    /// Rule-based candidate asked for; null for the algorithm's default. This and the next three are
    /// filled in by whoever took the options.
    pub classic: Option<String>,
    /// Learned candidate asked for; null for the algorithm's default.
    pub policy: Option<String>,
    /// What ran trained policies: `embedded`, `torch` or `server`; null where there was none.
    #[serde(deserialize_with = "optional_word")]
    pub backend: Option<Word>,
    /// Changes of the scenario, as given.
    pub set: Vec<String>,
    /// How long the run took.
    pub wall_s: f64,
    /// Every link.
    pub links: Vec<LinkResult>,
    /// Every flow.
    pub flows: Vec<FlowResult>,
    /// Jain's index over the goodputs while all flows that ran were active.
    pub jain_index: Option<f64>,
    /// Mean capacity after warm-up, of the slowest link.
    pub optimal_mbps: Option<f64>,
    /// The time that counts: from the end of the warm-up to that of the run.
    #[serde(default)]
    pub measured_s: f64,
    /// Why the run can't be held against a target: the host was too busy for real packets. Known before any figure is read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub disturbed: Option<String>,
}

/// Number of the flow that a run is about: the first under test; without such flows, the first.
pub fn tested(flows: &[FlowResult]) -> usize {
    flows.iter().position(|flow| flow.under_test).unwrap_or(0)
}

impl RunResult {
    /// The mean capacity that a flow's figures are held against: while it was active, of the slowest link of its path; in
    /// modes that do not know that, as the run's.
    pub fn capacity_of(&self, flow: usize) -> Option<f64> {
        self.flows.get(flow)?.optimal_mbps.or(self.optimal_mbps).filter(|mbps| *mbps > 0.0)
    }

    /// A flow's throughput over the mean capacity that it had ([`RunResult::capacity_of`]).
    pub fn share_of_capacity(&self, flow: usize) -> Option<f64> {
        Some(self.flows.get(flow)?.throughput_mbps? / self.capacity_of(flow)?)
    }

    /// A rate of every flow, each over the whole time that counts, added up: a flow that is active half of it counts half.
    pub fn total(&self, rate: impl Fn(&FlowResult) -> Option<f64>) -> Option<f64> {
        let whole = Some(self.measured_s).filter(|seconds| *seconds > 0.0)?;
        // One that is over before the warm-up has no rate, and adds none.
        let counted = self.flows.iter().filter(|flow| flow.active_s > 0.0);
        counted.map(|flow| Some(rate(flow)? * (flow.active_s / whole))).sum()
    }

    /// Kleinrock's power of a flow, without unit and 1 at best: its share of the capacity over its mean round-trip
    /// time in units of the ideal one, that of a lone full packet; where the path changes, that of the mean path.
    ///
    /// `share_of_capacity / max(1, rtt_mean_ms / ideal_rtt_ms)`
    ///
    /// The bound is for capacities that vary, with which a packet can be faster than at the mean. Source:
    /// Kleinrock, *Power and deterministic rules of thumb for probabilistic problems in computer
    /// communications*, ICC 1979, normalised.
    pub fn power(&self, flow: usize) -> Option<f64> {
        let share = self.share_of_capacity(flow)?;
        Some(share / self.flows.get(flow)?.stretch()?)
    }

    /// The power of all flows together: of the capacity of the whole time that counts, each flow's share over its round-trip
    /// times.
    pub fn total_power(&self) -> Option<f64> {
        let possible = self.optimal_mbps.filter(|mbps| *mbps > 0.0)?;
        self.total(|flow| Some(flow.throughput_mbps? / possible / flow.stretch()?))
    }
}

/// One link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkResult {
    /// Name.
    pub name: String,
    /// Bytes sent over bytes that could have been sent.
    pub utilization: Option<f64>,
    /// Packets lost over packets lost or carried.
    pub loss_rate: Option<f64>,
    /// Time spent in the queue.
    pub queue_delay_mean_ms: Option<f64>,
    /// Its 95th percentile, over packets.
    pub queue_delay_p95_ms: Option<f64>,
    /// The link over time; null where a mode cannot see it.
    pub series: Option<LinkSeries>,
}

/// A link over time, from the start of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkSeries {
    /// Length of one point.
    pub dt_s: f64,
    /// Mean capacity in each point.
    pub capacity_mbps: Vec<f64>,
    /// Bytes that wait at the end of each point, without the packet that is being sent.
    pub queue_bytes: Vec<u64>,
    /// Packets lost in each point, for whatever reason.
    pub lost_packets: Vec<u64>,
}

/// One flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowResult {
    /// Its algorithm.
    pub alg: String,
    /// Whether the run is about it.
    #[serde(default)]
    pub under_test: bool,
    /// When it started.
    pub start_s: f64,
    /// When it stopped, or had delivered everything; its start, of one that never ran since it would start after its stop.
    pub stop_s: f64,
    /// How long it was active after warm-up.
    #[serde(default)]
    pub active_s: f64,
    /// Mean capacity in that time, of the slowest link of its path; null where a mode cannot see it.
    #[serde(default)]
    pub optimal_mbps: Option<f64>,
    /// Bytes on the wire delivered to the receiver over the time active after warm-up.
    pub throughput_mbps: Option<f64>,
    /// The same of payload, each byte once.
    pub goodput_mbps: Option<f64>,
    /// Send to arrival of each data packet.
    pub owd_mean_ms: Option<f64>,
    /// Its median, over packets.
    pub owd_p50_ms: Option<f64>,
    /// Its 95th percentile, over packets.
    pub owd_p95_ms: Option<f64>,
    /// Its 99th percentile, over packets.
    pub owd_p99_ms: Option<f64>,
    /// Round-trip time, as the sender measured it.
    pub rtt_mean_ms: Option<f64>,
    /// Its 95th percentile, over samples.
    pub rtt_p95_ms: Option<f64>,
    /// Round-trip time of a lone full packet ([`crate::scenario::Scenario::ideal_rtt`]); no part of the JSON.
    #[serde(skip)]
    pub ideal_rtt_ms: f64,
    /// Packets lost over packets lost or arrived.
    pub loss_rate: Option<f64>,
    /// Packets retransmitted over packets sent.
    pub retransmit_rate: Option<f64>,
    /// Of a flow whose application has its data bit by bit (`app_mbps`): from when it had a segment until the other side
    /// has it in order. Simulated only.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub app_delay: Option<AppDelay>,
    /// Flow completion time of a flow with a size.
    pub fct_s: Option<f64>,
    /// Share of time in which each kind of rate was in force.
    pub applied: Option<Shares>,
    /// Decisions of the algorithm.
    pub decisions: Option<u64>,
    /// Runs of the learned policy.
    pub inferences: Option<u64>,
    /// Reports from datapath to agent.
    pub reports: Option<u64>,
    /// Messages from agent to datapath that concern the flow.
    pub updates: Option<u64>,
    /// Who governed it when, to 0.1 s; empty where that was not noted.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub governed: Vec<Governed>,
    /// The run over time.
    pub series: Series,
    /// Data units, of Antelope where `param.log` is 1; not read back.
    #[serde(skip_serializing_if = "Vec::is_empty", skip_deserializing)]
    pub units: Vec<Judgement>,
    /// Why it went as it did, of algorithms that explain themselves; no part of the JSON.
    #[serde(skip)]
    pub explained: Vec<Explanation>,
}

impl FlowResult {
    /// Whether it ran at all.
    pub fn ran(&self) -> bool {
        self.start_s < self.stop_s
    }

    /// Mean round-trip time in units of the ideal one, at least 1.
    fn stretch(&self) -> Option<f64> {
        Some((self.rtt_mean_ms? / self.ideal_rtt_ms).max(1.0))
    }
}

/// What an application waits for its data, over segments.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AppDelay {
    /// On average.
    pub mean_ms: f64,
    /// At worst.
    pub max_ms: f64,
}

/// A part of a run in which one governor decided over a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Governed {
    /// Its beginning, from the start of the run.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
    /// `agent`, `in-process`, or `fallback`.
    #[serde(deserialize_with = "word")]
    pub by: Word,
}

/// Spans of one governor each, from who it was at the end of each step of this length.
pub fn governed_by(steps: impl Iterator<Item = Option<Word>>, step: Dur) -> Vec<Governed> {
    let mut spans: Vec<Governed> = Vec::new();
    let seconds = |steps: usize| steps as f64 * step.as_secs_f64();
    for (step, by) in steps.enumerate() {
        let Some(by) = by else { continue };
        let (from_s, to_s) = (seconds(step), seconds(step + 1));
        match spans.last_mut().filter(|last| last.by == by && last.to_s == from_s) {
            Some(last) => last.to_s = to_s,
            None => spans.push(Governed { from_s, to_s, by }),
        }
    }
    spans
}

/// Values over time, from the start of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Length of one point.
    pub dt_s: f64,
    /// Bytes on the wire delivered in each point, over its length: the last one ends with the run.
    pub throughput_mbps: Vec<f64>,
    /// Mean round-trip time in each point.
    pub rtt_ms: Vec<Option<f64>>,
    /// Window in force at the end of each point; null while the flow does not run. This and what follows is null as a
    /// whole where a mode cannot see it.
    pub cwnd_bytes: Option<Vec<Option<u32>>>,
    /// Pacing rate in force at the end of each point; null while the flow does not run or is not paced.
    pub pacing_mbps: Option<Vec<Option<f64>>>,
    /// Payload on its way at the end of each point, as the sender sees it.
    pub in_flight_bytes: Option<Vec<u64>>,
    /// Packets of the flow lost in each point.
    pub lost_packets: Option<Vec<u64>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_governed_when() {
        let by = |text: &str| {
            let step =
                |c| [("a", "agent"), ("f", "fallback")].iter().find(|(k, _)| *k == c).map(|(_, by)| *by);
            let steps = text.split("").filter(|c| !c.is_empty()).map(step);
            let spans = governed_by(steps, Dur::from_millis(100));
            spans.iter().map(|s| format!("{} {:.1}-{:.1}", s.by, s.from_s, s.to_s)).collect::<Vec<_>>()
        };
        assert_eq!(by("-faaaff-"), ["fallback 0.1-0.2", "agent 0.2-0.5", "fallback 0.5-0.7"]);
        assert!(by("---").is_empty());
    }
}
