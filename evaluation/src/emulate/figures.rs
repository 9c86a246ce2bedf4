//! From what was counted in a run to its result.

use super::agent::ReportedFlow;
use super::govern::FlowGovernor;
use super::govern::GovernedFlows;
use super::timeline::{FlowEnd, Notes, Snapshot, since_epoch};
use anole_emulator::{FlowRecord, Record, RoundTrip};
use anole_model::{Dur, Rate, Time};
use anole_quic::Reading;
use anole_sim::histogram::Histogram;
use anole_sim::result::{FlowResult, LinkResult, RunResult, Series, governed_by, tested};
use anole_sim::scenario::{Change, Scenario};
use anole_sim::{SERIES_STEP, changes, jain_index, point_s};
use std::time::Instant;

/// What was counted in a run.
pub struct Raw {
    /// As in results.
    pub mode: &'static str,
    pub record: Record,
    pub notes: Notes,
    /// And per flow:
    pub ends: Vec<FlowEnd>,
    pub round_trips: Vec<Vec<RoundTrip>>,
    pub exchanges: Vec<FlowExchange>,
}

/// What datapath and agent exchanged about one flow, if they did.
#[derive(Clone, Debug, Default)]
pub struct FlowExchange {
    pub reports: Option<u64>,
    pub updates: Option<u64>,
    /// What the agent told of it.
    pub line: Option<ReportedFlow>,
}

/// What was exchanged about a flow whose sender is in this process. After an agent's time-out a flow may have more than one
/// line; the last one is the one that ran to the end.
pub fn exchange(
    reading: Option<Reading>,
    governor: &FlowGovernor,
    lines: &[Vec<ReportedFlow>],
) -> FlowExchange {
    let with_agent = reading.filter(|reading| reading.updates > 0);
    let line = || {
        let FlowGovernor::Agent(agent) = governor else { return None };
        let id = reading?.flow_id?;
        lines.get(*agent)?.iter().rev().find(|line| line.flow == id)
    };
    FlowExchange {
        reports: with_agent.map(|reading| reading.reports),
        updates: with_agent.map(|reading| reading.updates),
        line: line().cloned(),
    }
}

/// The result of a run, but for the time it took and what was asked for.
pub fn result(
    scenario: &Scenario,
    governed: &GovernedFlows,
    seed: u64,
    epoch: Instant,
    raw: &Raw,
) -> RunResult {
    let changes = changes(scenario, seed);
    let flow = |flow| flow_result((scenario, &changes), governed, epoch, raw, flow);
    let flows: Vec<FlowResult> = (0..scenario.flows.len()).map(flow).collect();
    let optimal = raw.record.possible_bytes.iter().copied().reduce(f64::min);
    let measured = raw.record.measured;
    RunResult {
        scenario: scenario.name.clone(),
        mode: raw.mode,
        alg: flows.get(tested(&flows)).map(|flow| flow.alg.clone()).unwrap_or_default(),
        seed,
        version: crate::output::VERSION,
        classic: None,
        policy: None,
        backend: governed.backend,
        set: Vec::new(),
        wall_s: 0.0,
        links: links(scenario, raw),
        flows,
        jain_index: jain(scenario, raw),
        disturbed: None,
        optimal_mbps: optimal
            .filter(|_| !measured.is_zero())
            .map(|bytes| Rate::from_bytes_per_s(bytes / measured.as_secs_f64()).mbps()),
        measured_s: measured.as_secs_f64(),
    }
}

fn links(scenario: &Scenario, raw: &Raw) -> Vec<LinkResult> {
    let links = scenario.links.iter().zip(&raw.record.links);
    links
        .map(|(spec, stats)| LinkResult {
            name: spec.name.clone(),
            utilization: stats.utilization,
            loss_rate: stats.loss_rate,
            queue_delay_mean_ms: stats.queue_delay_mean.map(Dur::as_millis_f64),
            queue_delay_p95_ms: stats.queue_delay_p95.map(Dur::as_millis_f64),
            series: None,
        })
        .collect()
}

fn flow_result(
    (scenario, changes): (&Scenario, &[Change]),
    governed: &GovernedFlows,
    epoch: Instant,
    raw: &Raw,
    flow: usize,
) -> FlowResult {
    let spec = &scenario.flows[flow];
    let (end, record) = (&raw.ends[flow], &raw.record.flows[flow]);
    let warm = raw.notes.warm.get(flow).copied().unwrap_or_default();
    let ended = Time::ZERO + since_epoch(epoch, end.at);
    let active = ended.since(spec.start.max(Time::ZERO + scenario.warmup));
    // A flow that was over before the warm-up has no figures.
    let mbps = |now: u64, before: u64| {
        (!active.is_zero()).then(|| Rate::from_bytes_in(now.saturating_sub(before), active).mbps())
    };
    let rtt = rtt_histogram(scenario, &raw.round_trips[flow]);
    let FlowExchange { reports, updates, line } = &raw.exchanges[flow];
    let line = line.as_ref();
    FlowResult {
        alg: governed.algs[flow].clone(),
        under_test: spec.under_test,
        start_s: spec.start.as_secs_f64(),
        stop_s: ended.as_secs_f64(),
        active_s: active.as_secs_f64(),
        optimal_mbps: None,
        throughput_mbps: mbps(end.snapshot.wire_bytes, warm.wire_bytes),
        goodput_mbps: mbps(end.snapshot.payload_bytes, warm.payload_bytes),
        owd_mean_ms: record.one_way_delay.mean().map(Dur::as_millis_f64),
        owd_p50_ms: record.one_way_delay.quantile(0.5).map(Dur::as_millis_f64),
        owd_p95_ms: record.one_way_delay.quantile(0.95).map(Dur::as_millis_f64),
        owd_p99_ms: record.one_way_delay.quantile(0.99).map(Dur::as_millis_f64),
        rtt_mean_ms: rtt.mean().map(Dur::as_millis_f64),
        rtt_p95_ms: rtt.quantile(0.95).map(Dur::as_millis_f64),
        ideal_rtt_ms: scenario.ideal_rtt(flow, changes, ended).as_millis_f64(),
        loss_rate: loss_rate(record),
        retransmit_rate: share(
            end.snapshot.lost_packets.saturating_sub(warm.lost_packets),
            end.snapshot.sent_packets.saturating_sub(warm.sent_packets),
        ),
        app_delay: None,
        fct_s: end.complete.then(|| ended.since(spec.start).as_secs_f64()),
        applied: line.and_then(|line| line.applied),
        decisions: line.map(|line| line.decisions),
        inferences: line.map(|line| line.inferences),
        reports: *reports,
        updates: *updates,
        governed: governed_by(raw.notes.steps.iter().map(|step| step[flow].governor), SERIES_STEP),
        series: series(scenario, raw, flow),
        units: Vec::new(),
        explained: Vec::new(),
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Packets whose fate is not known yet are no part of it.
fn loss_rate(record: &FlowRecord) -> Option<f64> {
    share(record.lost_packets, record.lost_packets + record.delivered_packets)
}

fn rtt_histogram(scenario: &Scenario, round_trips: &[RoundTrip]) -> Histogram {
    let warm = Time::ZERO + scenario.warmup;
    let mut histogram = Histogram::new();
    for round_trip in round_trips.iter().filter(|round_trip| round_trip.at >= warm) {
        histogram.add(round_trip.rtt);
    }
    histogram
}

fn series(scenario: &Scenario, raw: &Raw, flow: usize) -> Series {
    let dt_s = SERIES_STEP.as_secs_f64();
    let totals: Vec<u64> = raw.notes.steps.iter().map(|step| step[flow].wire_bytes).collect();
    let before = std::iter::once(0).chain(totals.iter().copied());
    let throughput = totals.iter().zip(before).enumerate().map(|(number, (now, before))| {
        (now - before) as f64 * 8.0 / 1e6 / point_s(scenario.duration, number)
    });
    let mut rtt = vec![(0.0, 0u32); totals.len()];
    for round_trip in &raw.round_trips[flow] {
        let index = round_trip.at.as_nanos() / SERIES_STEP.as_nanos();
        if let Some((sum, count)) = rtt.get_mut(index as usize) {
            *sum += round_trip.rtt.as_millis_f64();
            *count += 1;
        }
    }
    Series {
        dt_s,
        throughput_mbps: throughput.collect(),
        rtt_ms: rtt.into_iter().map(|(sum, count)| (count > 0).then(|| sum / f64::from(count))).collect(),
        cwnd_bytes: where_seen(raw, flow, |snapshot| snapshot.cwnd_bytes),
        pacing_mbps: where_seen(raw, flow, |snapshot| snapshot.pacing_mbps),
        ..Series::default()
    }
}

/// A value at the end of each step; nothing where a mode never sees it.
fn where_seen<T>(raw: &Raw, flow: usize, value: impl Fn(&Snapshot) -> Option<T>) -> Option<Vec<Option<T>>> {
    let values: Vec<Option<T>> = raw.notes.steps.iter().map(|step| value(&step[flow])).collect();
    values.iter().any(Option::is_some).then_some(values)
}

/// Jain's index over the goodputs while all flows that run were active.
fn jain(scenario: &Scenario, raw: &Raw) -> Option<f64> {
    let (from, to) = (raw.notes.all_active.as_ref()?, raw.notes.one_over.as_ref()?);
    let flows = from.iter().zip(to).zip(&scenario.flows).filter(|(_, flow)| flow.runs());
    let goodputs = flows.map(|((from, to), _)| to.payload_bytes.checked_sub(from.payload_bytes));
    let goodputs: Option<Vec<f64>> = goodputs.map(|bytes| bytes.map(|bytes| bytes as f64)).collect();
    jain_index(&goodputs?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_on_their_way_are_neither_lost_nor_arrived() {
        let record = FlowRecord {
            entered_packets: 100,
            delivered_packets: 60,
            lost_packets: 20,
            ..FlowRecord::default()
        };
        assert_eq!((loss_rate(&record), loss_rate(&FlowRecord::default())), (Some(0.25), None));
    }
}
