//! What is read off one run, by the names that experiments' files use.

use super::series::{
    converged, jain_between, libra_utility, longest_silence, lowest_from, mean, min_rtt_between, rtt_between,
    throughput_between, time_to_reach, unfairness, utility, worst_unfairness,
};
use anole_sim::result::{FlowResult, RunResult};
use serde::Deserialize;
use toml::Value;

/// A measure of a run, as a name or a table with a name and its arguments. Flows and links count from 0.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Value")]
pub struct Measure(Named);

/// Seconds from the start of a run to its end, unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Span {
    from_s: f64,
    to_s: f64,
}

impl Default for Span {
    fn default() -> Span {
        Span { from_s: 0.0, to_s: f64::MAX }
    }
}

impl Span {
    fn seconds(self) -> [f64; 2] {
        [self.from_s, self.to_s]
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case", deny_unknown_fields)]
enum Named {
    /// Mbps on the wire of a flow; between two times if they are given.
    Throughput {
        #[serde(default)]
        flow: usize,
        between: Option<Span>,
    },
    /// Mbps of all flows.
    TotalThroughput,
    /// Mbps of payload of a flow.
    Goodput {
        #[serde(default)]
        flow: usize,
    },
    /// Mean one-way delay of a flow, ms.
    OwdMean {
        #[serde(default)]
        flow: usize,
    },
    /// Median of the one-way delay of a flow, ms.
    OwdP50 {
        #[serde(default)]
        flow: usize,
    },
    /// 95th percentile of the one-way delay of a flow, ms.
    OwdP95 {
        #[serde(default)]
        flow: usize,
    },
    /// 99th percentile of the one-way delay of a flow, ms.
    OwdP99 {
        #[serde(default)]
        flow: usize,
    },
    /// Mean one-way delay over that of a lone packet with half of the base RTT, mean over flows.
    DelayRatio,
    /// Mean round-trip time of a flow, ms.
    RttMean {
        #[serde(default)]
        flow: usize,
    },
    /// 95th percentile of the round-trip time, mean over flows, ms.
    RttP95,
    /// Mean round-trip time of a flow between two times over the base.
    RttOverBase {
        #[serde(default)]
        flow: usize,
        /// That of a lone packet if left out.
        base_ms: Option<f64>,
        #[serde(default)]
        between: Span,
    },
    /// Smallest round-trip time of a flow between two times, in means over a point of the series, over the base.
    MinRttOverBase {
        #[serde(default)]
        flow: usize,
        base_ms: Option<f64>,
        #[serde(default)]
        between: Span,
    },
    /// Mean round-trip time over the smallest point of its series.
    RttInflation,
    /// Share of what a link could carry.
    Utilization {
        #[serde(default)]
        link: usize,
    },
    /// Mean time in a link's queue, ms.
    QueueMean {
        #[serde(default)]
        link: usize,
    },
    /// 95th percentile of the time in a link's queue, ms.
    QueueP95 {
        #[serde(default)]
        link: usize,
    },
    /// Packets lost over packets lost or carried, of a link.
    LinkLoss {
        #[serde(default)]
        link: usize,
    },
    /// Packets lost over packets lost or arrived, of a flow.
    LossRate {
        #[serde(default)]
        flow: usize,
    },
    /// Packets retransmitted over packets sent, of a flow.
    RetransmitRate {
        #[serde(default)]
        flow: usize,
        /// Mean over flows instead.
        #[serde(default)]
        all: bool,
    },
    /// Flow completion time, mean over the flows that have one, s.
    Fct,
    /// Throughput of a flow over the mean capacity.
    ShareOfCapacity {
        #[serde(default)]
        flow: usize,
    },
    /// Payload of a flow over the mean capacity.
    GoodputOfCapacity {
        #[serde(default)]
        flow: usize,
        /// Of all flows instead.
        #[serde(default)]
        all: bool,
    },
    /// Kleinrock's power of a flow.
    Power {
        #[serde(default)]
        flow: usize,
    },
    /// Jain's index over the throughputs of all flows between two times.
    Jain {
        #[serde(default)]
        between: Span,
    },
    /// Jain's index over the goodputs while all flows were active.
    JainIndex,
    /// A flow's distance from its fair share, in the two seconds that begin `settle_s` after flow `newest` has started.
    Unfairness { flow: usize, newest: usize, capacity_mbps: f64, settle_s: f64 },
    /// The largest of these, of any flow after any start.
    WorstUnfairness { capacity_mbps: f64, settle_s: f64 },
    /// Time from `from_s` until the first flow's series reaches `mbps`, s.
    TimeToReach { from_s: f64, mbps: f64 },
    /// Lowest point of the first flow's series from a time on, Mbps.
    Lowest { from_s: f64 },
    /// Longest time in which nothing arrived, from a time on, s.
    LongestSilence { from_s: f64 },
    /// Inferences of the first flow per second of its life.
    Inferences,
    /// Messages from the agent to the first flow's datapath per second of its life.
    Updates,
    /// Messages from the first flow's datapath to the agent per second of its life.
    Reports,
    /// Decisions of the first flow's algorithm per second of its life.
    Decisions,
    /// Share of the time in which a policy that decides every `interval_s` is up to date, where what makes it out of date
    /// comes `events_per_s` times a second (Spine, Theorem 1): (1 − e⁻ᵏ)/k with k = interval_s · events_per_s. Of no run.
    EffectiveTime { interval_s: f64, events_per_s: f64 },
    /// Share of time in which a kind of rate was in force.
    Applied { kind: Kind },
    /// A flow's throughput over another's between two times, or over the last part of the run.
    Ratio {
        #[serde(default)]
        flow: usize,
        #[serde(default = "second")]
        to_flow: usize,
        #[serde(default)]
        between: Span,
        /// Instead of `between`: this share of the run, at its end.
        last: Option<f64>,
        /// The smaller over the larger.
        #[serde(default)]
        smaller: bool,
        /// The mean of the flows from `flow` up to `to_flow` over that of all from `to_flow` on.
        #[serde(default)]
        to_all: bool,
        /// Over the highest of all from `to_flow` on.
        #[serde(default)]
        to_highest: bool,
    },
    /// A flow's share of what it and the next one get between two times.
    Share {
        #[serde(default)]
        flow: usize,
        #[serde(default)]
        between: Span,
    },
    /// Mean utility of the first flow (Anole, Eq. 1 with its parameters).
    Utility,
    /// Mean utility of the first flow (Libra, Eq. 1 with its parameters).
    LibraUtility,
    /// Time from a flow's start until its throughput stays within 25 % of its mean for 5 s (Libra, Tab. 5), s.
    ConvergenceTime { flow: usize },
    /// Standard deviation of a flow's throughput from there on, Mbps.
    ConvergenceDeviation { flow: usize },
    /// Mean of a flow's throughput from there on, Mbps.
    ConvergenceThroughput { flow: usize },
}

/// Whose rate is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Rule,
    Learned,
    Inferred,
    Previous,
}

fn second() -> usize {
    1
}

impl TryFrom<Value> for Measure {
    type Error = String;

    fn try_from(value: Value) -> Result<Measure, String> {
        let table = match value {
            Value::String(name) => {
                Value::Table(toml::Table::from_iter([("name".to_string(), Value::String(name))]))
            }
            table => table,
        };
        Named::deserialize(table).map(Measure).map_err(|error| error.message().to_string())
    }
}

impl Measure {
    /// Of a run; `None` where there was nothing to measure.
    pub fn of(&self, run: &RunResult) -> Option<f64> {
        let flow = |number: usize| run.flows.get(number);
        let link = |number: usize| run.links.get(number);
        match &self.0 {
            Named::Throughput { flow: number, between: None } => flow(*number)?.throughput_mbps,
            Named::Throughput { flow, between: Some(span) } => throughput_between(run, *flow, span.seconds()),
            Named::TotalThroughput => run.total(|flow| flow.throughput_mbps),
            Named::Goodput { flow: number } => flow(*number)?.goodput_mbps,
            Named::OwdMean { flow: number } => flow(*number)?.owd_mean_ms,
            Named::OwdP50 { flow: number } => flow(*number)?.owd_p50_ms,
            Named::OwdP95 { flow: number } => flow(*number)?.owd_p95_ms,
            Named::OwdP99 { flow: number } => flow(*number)?.owd_p99_ms,
            Named::DelayRatio => over_flows(run, |flow| Some(flow.owd_mean_ms? / (flow.ideal_rtt_ms / 2.0))),
            Named::RttMean { flow: number } => flow(*number)?.rtt_mean_ms,
            Named::RttP95 => over_flows(run, |flow| flow.rtt_p95_ms),
            Named::RttOverBase { flow: number, base_ms, between } => {
                let base = base_ms.or(Some(flow(*number)?.ideal_rtt_ms))?;
                Some(rtt_between(run, *number, between.seconds())? / base)
            }
            Named::MinRttOverBase { flow: number, base_ms, between } => {
                let base = base_ms.or(Some(flow(*number)?.ideal_rtt_ms))?;
                Some(min_rtt_between(run, *number, between.seconds())? / base)
            }
            Named::RttInflation => {
                let flow = flow(0)?;
                let base = flow.series.rtt_ms.iter().flatten().copied().reduce(f64::min)?;
                Some(flow.rtt_mean_ms? / base)
            }
            Named::Utilization { link: number } => link(*number)?.utilization,
            Named::QueueMean { link: number } => link(*number)?.queue_delay_mean_ms,
            Named::QueueP95 { link: number } => link(*number)?.queue_delay_p95_ms,
            Named::LinkLoss { link: number } => link(*number)?.loss_rate,
            Named::LossRate { flow: number } => flow(*number)?.loss_rate,
            Named::RetransmitRate { all: true, .. } => over_flows(run, |flow| flow.retransmit_rate),
            Named::RetransmitRate { flow: number, .. } => flow(*number)?.retransmit_rate,
            Named::Fct => mean(&run.flows.iter().filter_map(|flow| flow.fct_s).collect::<Vec<f64>>()),
            Named::ShareOfCapacity { flow } => run.share_of_capacity(*flow),
            Named::GoodputOfCapacity { flow: number, all } => Some(match all {
                true => run.total(|flow| flow.goodput_mbps)? / run.optimal_mbps?,
                false => flow(*number)?.goodput_mbps? / run.capacity_of(*number)?,
            }),
            Named::Power { flow } => run.power(*flow),
            Named::Jain { between } => jain_between(run, between.seconds()),
            Named::JainIndex => run.jain_index,
            Named::Unfairness { flow, newest, capacity_mbps, settle_s } => {
                unfairness(run, *flow, *newest, *capacity_mbps, *settle_s)
            }
            Named::WorstUnfairness { capacity_mbps, settle_s } => {
                worst_unfairness(run, *capacity_mbps, *settle_s)
            }
            Named::TimeToReach { from_s, mbps } => time_to_reach(run, *from_s, *mbps),
            Named::Lowest { from_s } => lowest_from(run, *from_s),
            Named::LongestSilence { from_s } => longest_silence(run, *from_s),
            Named::Inferences => per_second(flow(0)?, |flow| flow.inferences),
            Named::Updates => per_second(flow(0)?, |flow| flow.updates),
            Named::Reports => per_second(flow(0)?, |flow| flow.reports),
            Named::Decisions => per_second(flow(0)?, |flow| flow.decisions),
            Named::EffectiveTime { interval_s, events_per_s } => {
                let k = interval_s * events_per_s;
                Some(-(-k).exp_m1() / k)
            }
            Named::Applied { kind } => {
                let share = flow(0)?.applied.as_ref()?;
                Some(match kind {
                    Kind::Rule => share.rule,
                    Kind::Learned => share.learned,
                    Kind::Inferred => share.inferred,
                    Kind::Previous => share.previous,
                })
            }
            Named::Ratio { flow: number, to_flow, between, last, smaller, to_all, to_highest } => {
                let span = match last {
                    Some(share) => [flow(*number)?.stop_s * (1.0 - share), f64::MAX],
                    None => between.seconds(),
                };
                let each = |flows: std::ops::Range<usize>| -> Option<Vec<f64>> {
                    flows.map(|flow| throughput_between(run, flow, span)).collect()
                };
                let end = if *to_all || *to_highest { run.flows.len() } else { to_flow + 1 };
                let theirs = each(*to_flow..end)?;
                let theirs = if *to_highest { theirs.into_iter().reduce(f64::max) } else { mean(&theirs) }?;
                let ours = mean(&each(*number..if *to_all { *to_flow } else { number + 1 })?)?;
                Some(if *smaller { ours.min(theirs) / ours.max(theirs) } else { ours / theirs })
            }
            Named::Share { flow, between } => {
                let ours = throughput_between(run, *flow, between.seconds())?;
                Some(ours / (ours + throughput_between(run, flow + 1, between.seconds())?))
            }
            Named::Utility => utility(run),
            Named::LibraUtility => libra_utility(run),
            Named::ConvergenceTime { flow } => Some(converged(run, *flow)?.0),
            Named::ConvergenceDeviation { flow } => {
                let (_, after) = converged(run, *flow)?;
                let whole = mean(after)?;
                Some(mean(&after.iter().map(|x| (x - whole) * (x - whole)).collect::<Vec<f64>>())?.sqrt())
            }
            Named::ConvergenceThroughput { flow } => mean(converged(run, *flow)?.1),
        }
    }
}

/// Mean over flows; nothing if a flow had nothing.
fn over_flows(run: &RunResult, of: impl Fn(&FlowResult) -> Option<f64>) -> Option<f64> {
    let all: Option<Vec<f64>> = run.flows.iter().map(of).collect();
    mean(&all?)
}

fn per_second(flow: &FlowResult, count: impl Fn(&FlowResult) -> Option<u64>) -> Option<f64> {
    Some(count(flow)? as f64 / (flow.stop_s - flow.start_s))
}
