//! The figures of a finished run.

use super::Simulation;
use super::setup::{changes, jain_index};
use crate::result::{AppDelay, FlowResult, LinkResult, RunResult, tested};
use crate::scenario::Change;
use anole_model::{Dur, Rate, Time};

impl Simulation<'_> {
    pub(super) fn result(&mut self, seed: u64) -> RunResult {
        let scenario = self.scenario.clone();
        let changes = changes(&scenario, seed);
        let flows: Vec<FlowResult> =
            (0..self.flows.len()).map(|index| self.flow_result(index, &changes)).collect();
        let measured = self.now.since(Time::ZERO + scenario.warmup);
        let (links, now) = (&mut self.links, self.now);
        let optimal = links.iter().map(|link| link.offered_bytes(now)).reduce(f64::min);
        RunResult {
            scenario: scenario.name.clone(),
            mode: "sim",
            alg: flows.get(tested(&flows)).map(|flow| flow.alg.clone()).unwrap_or_default(),
            seed,
            version: env!("CARGO_PKG_VERSION"),
            classic: None,
            policy: None,
            backend: None,
            set: Vec::new(),
            wall_s: 0.0,
            links: scenario
                .links
                .iter()
                .zip(links)
                .enumerate()
                .map(|(index, (spec, link))| {
                    let stats = link.stats(now);
                    LinkResult {
                        name: spec.name.clone(),
                        utilization: stats.utilization,
                        loss_rate: stats.loss_rate,
                        queue_delay_mean_ms: stats.queue_delay_mean.map(Dur::as_millis_f64),
                        queue_delay_p95_ms: stats.queue_delay_p95.map(Dur::as_millis_f64),
                        series: Some(self.samples.of_link(index)),
                    }
                })
                .collect(),
            jain_index: self.jain(),
            disturbed: None,
            optimal_mbps: optimal.map(|bytes| Rate::from_bytes_per_s(bytes / measured.as_secs_f64()).mbps()),
            measured_s: measured.as_secs_f64(),
            flows,
        }
    }

    fn flow_result(&mut self, index: usize, changes: &[Change]) -> FlowResult {
        let (explained, units) = (self.agent.explained(index), self.agent.judged(index));
        let (flow, before) = (&self.flows[index], self.before[index]);
        let (ended, complete) = flow.ended.unwrap_or((self.now, false));
        let active = ended.since(flow.start.max(Time::ZERO + self.scenario.warmup));
        let mbps = |bytes| (!active.is_zero()).then(|| Rate::from_bytes_in(bytes, active).mbps());
        let (sent, retransmitted) = flow.sent();
        let sent = sent - before.sent;
        let lost = self.lost_at_end[index].unwrap_or_else(|| self.lost(index)) - before.lost;
        // Packets on their way when counting begins or ends are counted where their fate is known.
        let settled = lost + flow.measure.one_way_delay.len();
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        let (stats, telemetry) = (flow.stats(&self.datapath), self.agent.metrics(index).telemetry);
        let has_agent = stats.updates > 0;
        FlowResult {
            alg: self.agent.plan(index).alg.clone(),
            under_test: self.scenario.flows[index].under_test,
            start_s: flow.start.as_secs_f64(),
            stop_s: ended.as_secs_f64(),
            active_s: active.as_secs_f64(),
            optimal_mbps: self
                .offered_to(index)
                .filter(|_| !active.is_zero())
                .map(|bytes| Rate::from_bytes_per_s(bytes / active.as_secs_f64()).mbps()),
            throughput_mbps: mbps(flow.measure.wire_bytes),
            goodput_mbps: mbps(flow.measure.payload_bytes),
            owd_mean_ms: flow.measure.one_way_delay.mean().map(Dur::as_millis_f64),
            owd_p50_ms: flow.measure.one_way_delay.quantile(0.5).map(Dur::as_millis_f64),
            owd_p95_ms: flow.measure.one_way_delay.quantile(0.95).map(Dur::as_millis_f64),
            owd_p99_ms: flow.measure.one_way_delay.quantile(0.99).map(Dur::as_millis_f64),
            rtt_mean_ms: flow.measure.rtt.mean().map(Dur::as_millis_f64),
            rtt_p95_ms: flow.measure.rtt.quantile(0.95).map(Dur::as_millis_f64),
            ideal_rtt_ms: self.scenario.ideal_rtt(index, changes, ended).as_millis_f64(),
            loss_rate: share(lost, settled),
            retransmit_rate: share(retransmitted - before.retransmitted, sent),
            app_delay: flow.measure.app_delay.mean().map(|mean| AppDelay {
                mean_ms: mean.as_millis_f64(),
                max_ms: flow.measure.app_delay_max.as_millis_f64(),
            }),
            fct_s: complete.then(|| ended.since(flow.start).as_secs_f64()),
            applied: telemetry.applied.shares(),
            decisions: has_agent.then_some(telemetry.decisions),
            inferences: has_agent.then_some(telemetry.inferences),
            reports: has_agent.then_some(stats.reports),
            updates: has_agent.then_some(stats.updates),
            governed: if has_agent { self.samples.governed(index) } else { Vec::new() },
            series: self.samples.complete(index, flow.measure.series()),
            units,
            explained,
        }
    }

    /// Bytes that the slowest link of a flow's path could have sent while it was active after warm-up.
    fn offered_to(&self, index: usize) -> Option<f64> {
        let offered = &self.offered[index];
        let to = offered.to.clone().unwrap_or_else(|| self.offered_on_path(index));
        to.iter().zip(&offered.from).map(|(to, from)| to - from).reduce(f64::min)
    }

    /// Jain's index over the time in which all flows that run were active.
    fn jain(&self) -> Option<f64> {
        let from = self.all_active.as_ref()?;
        let to = self.one_over.clone().unwrap_or_else(|| self.payload_bytes());
        let flows = from.iter().zip(&to).zip(&self.scenario.flows).filter(|(_, flow)| flow.runs());
        let goodputs: Vec<f64> = flows.map(|((from, to), _)| (to - from) as f64).collect();
        jain_index(&goodputs)
    }
}
