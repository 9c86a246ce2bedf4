//! Cases: a scenario, where it is measured, and what a run has to show.

use anole_model::Bounds;
use anole_sim::result::{FlowResult, RunResult};
use anole_sim::scenario::Scenario;
use anyhow::{Context, Result};
use serde::Deserialize;

const CASES: &str = include_str!("cases.toml");
/// Points of a series that may show more than was sent in them: packets that waited behind a delay that fell.
const CLUMP: f64 = 1.05;

/// A case, as `cases.toml` has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Its column.
    pub name: String,
    /// What it asks for.
    pub what: String,
    scenario: String,
    /// More keys of the flow.
    #[serde(default)]
    flow: String,
    from_s: f64,
    to_s: f64,
    least_mbps: f64,
    most_loss: Option<f64>,
    also: Option<Span>,
}

/// Throughput that is asked for in a part of the run.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Span {
    from_s: f64,
    to_s: f64,
    least_mbps: f64,
}

#[derive(Deserialize)]
struct File {
    case: Vec<Case>,
}

/// Every case.
pub fn cases() -> Result<Vec<Case>> {
    toml::from_str::<File>(CASES).map(|file| file.case).context("conformance/cases.toml")
}

/// What a run showed of a case.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Verdict {
    /// The algorithm.
    pub alg: String,
    /// The case's name.
    pub case: String,
    /// Delivered where it is measured, Mbps.
    pub mbps: f64,
    /// Share of all packets that was lost.
    pub loss: f64,
    /// What was not met; empty where everything was.
    pub missed: Vec<String>,
}

impl Case {
    /// The scenario, with the flow under test.
    pub fn scenario(&self) -> Result<Scenario> {
        let (name, own) = (self.name.replace(' ', "-"), &self.flow);
        let flow = format!("[[flow]]\nalg = \"cubic\"\nunder_test = true\nack_jitter_us = 200\n{own}\n");
        let text = format!("name = \"{name}\"\n{}{flow}", self.scenario);
        let scenario = Scenario::parse(&text, &self.name, &[], &mut |_| Err(String::new()));
        scenario.map_err(|error| anyhow::anyhow!("conformance/cases.toml, {}: {error}", self.name))
    }

    /// True where the flow has keys that real packets do not have.
    pub fn is_simulated_only(&self) -> bool {
        !self.flow.is_empty()
    }

    /// Holds a run against the case.
    pub fn judge(&self, alg: &str, run: &RunResult) -> Verdict {
        let flow = &run.flows[0];
        let first = Span { from_s: self.from_s, to_s: self.to_s, least_mbps: self.least_mbps };
        let mut missed = invariants(run);
        for span in [Some(first), self.also].into_iter().flatten() {
            let mbps = mean_mbps(flow, span);
            if mbps < span.least_mbps {
                let Span { from_s, to_s, least_mbps } = span;
                missed.push(format!("{mbps:.2} Mbps from {from_s} to {to_s} s; {least_mbps} are asked for"));
            }
        }
        let loss = flow.loss_rate.unwrap_or(0.0);
        if let Some(most) = self.most_loss.filter(|&most| loss > most) {
            missed.push(format!("{:.1} % lost; {:.0} are allowed", 100.0 * loss, 100.0 * most));
        }
        let (alg, case) = (alg.to_string(), self.name.clone());
        Verdict { alg, case, mbps: mean_mbps(flow, first), loss, missed }
    }
}

fn mean_mbps(flow: &FlowResult, span: Span) -> f64 {
    let series = &flow.series;
    let point = |s: f64| (s / series.dt_s).round() as usize;
    let to = point(span.to_s).min(series.throughput_mbps.len());
    let points = series.throughput_mbps.get(point(span.from_s)..to).unwrap_or_default();
    points.iter().sum::<f64>() / points.len().max(1) as f64
}

/// What holds in every run: numbers are numbers, windows are within their bounds, rates are above 0, and no link carries more
/// than its capacity.
fn invariants(run: &RunResult) -> Vec<String> {
    let mut broken = Vec::new();
    for (flow, result) in run.flows.iter().enumerate() {
        let series = &result.series;
        let rtts = series.rtt_ms.iter().flatten();
        if series.throughput_mbps.iter().chain(rtts).any(|value| !value.is_finite() || *value < 0.0) {
            broken.push(format!("flow {flow}: a figure over time is no number"));
        }
        let windows = series.cwnd_bytes.iter().flatten().flatten();
        if windows.into_iter().any(|&cwnd| cwnd == 0 || cwnd > Bounds::DEFAULT.max_cwnd_bytes) {
            broken.push(format!("flow {flow}: a window is 0 or above its bound"));
        }
        let rates = series.pacing_mbps.iter().flatten().flatten();
        if rates.into_iter().any(|rate| !rate.is_finite() || *rate <= 0.0) {
            broken.push(format!("flow {flow}: a pacing rate is 0 or no number"));
        }
    }
    for link in &run.links {
        if link.utilization.is_some_and(|used| !(0.0..=CLUMP).contains(&used)) {
            broken.push(format!("link {}: carries more than its capacity", link.name));
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_a_scenario_and_is_measured_within_it() {
        let cases = cases().unwrap();
        assert!(cases.len() >= 9);
        for case in &cases {
            let scenario = case.scenario().unwrap();
            let end = scenario.duration.as_secs_f64();
            assert!(case.from_s < case.to_s && case.to_s <= end && case.least_mbps > 0.0, "{}", case.name);
        }
    }
}
