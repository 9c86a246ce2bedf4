//! The picture of runs of a scenario: throughput, round-trip time, window, queue and losses over time.

use crate::WIDTH;
use crate::chart::{Curve, Frame, lines};
use crate::svg::{Picture, stacked};
use anole_sim::result::{FlowResult, RunResult, tested};

/// Height of each plot, pixels.
const HEIGHT: u32 = 270;
const TIME: &str = "time, s";
/// Published systems of which this project ships a policy that it trained itself.
const TRAINED_HERE: [&str; 2] = ["orca", "sage"];

/// One run: a curve per flow. Several: a curve per run, of its first flow under test, and the queue of the first link.
pub fn of_runs(runs: &[RunResult]) -> Picture {
    let flows = flows(runs);
    let frame = |title, y| Frame { title, x: TIME, y, size: (WIDTH, HEIGHT) };
    let title = runs.first().map_or("", |run| run.scenario.as_str());
    let over = |of: &dyn Fn(&FlowResult) -> Vec<f64>| -> Vec<Curve> {
        let curve = |(label, flow): &(String, &FlowResult)| Curve {
            label: label.clone(),
            points: timed(flow.series.dt_s, of(flow)),
        };
        flows.iter().map(curve).collect()
    };
    let with = |mean: &dyn Fn(&FlowResult) -> Option<f64>, curves: Vec<Curve>| -> Vec<Curve> {
        let marked = |((_, flow), curve): (&(String, &FlowResult), Curve)| match mean(flow) {
            Some(mean) => Curve { label: format!("{} ({mean:.1})", curve.label), ..curve },
            None => curve,
        };
        flows.iter().zip(curves).map(marked).collect()
    };
    let head = heading(title, runs, flows.len());
    let reference = reference(runs, flows.len());
    let mut panels = vec![
        lines(
            &frame(&head, "throughput, Mbps (mean)"),
            &with(&|flow| flow.throughput_mbps, over(&|flow| flow.series.throughput_mbps.clone())),
            reference.as_ref().map(|(mbps, name)| (*mbps, name.as_str())),
        ),
        lines(
            &frame("Round-trip time", "ms (mean)"),
            &with(
                &|flow| flow.rtt_mean_ms,
                over(&|flow| flow.series.rtt_ms.iter().map(|ms| ms.unwrap_or(f64::NAN)).collect()),
            ),
            None,
        ),
    ];
    if flows.iter().any(|(_, flow)| flow.series.cwnd_bytes.is_some()) {
        let window = |flow: &FlowResult| {
            let bytes = flow.series.cwnd_bytes.iter().flatten();
            bytes.map(|bytes| bytes.map_or(f64::NAN, |bytes| f64::from(bytes) / 1e3)).collect()
        };
        let lost = |flow: &FlowResult| {
            flow.series.lost_packets.iter().flatten().map(|&packets| packets as f64).collect()
        };
        panels.push(lines(&frame("Congestion window", "kB"), &over(&window), None));
        panels.push(lines(&frame("Queue", "kB waiting"), &queues(runs), None));
        panels.push(lines(&frame("Losses", "packets in 0.1 s"), &over(&lost), None));
    }
    stacked(&panels)
}

/// The flows that are drawn, with their labels.
fn flows(runs: &[RunResult]) -> Vec<(String, &FlowResult)> {
    match runs {
        [run] => {
            let same = |alg: &str| run.flows.iter().filter(|flow| flow.alg == alg).count();
            let label = |(index, flow): (usize, &FlowResult)| {
                let policy = run.policy.as_deref().filter(|_| flow.under_test);
                match same(&flow.alg) {
                    1 => named(&flow.alg, policy),
                    _ => format!("flow {}: {}", index + 1, named(&flow.alg, policy)),
                }
            };
            run.flows.iter().enumerate().map(|each| (label(each), each.1)).collect()
        }
        _ => runs
            .iter()
            .filter_map(|run| Some((label(runs, run), run.flows.get(tested(&run.flows))?)))
            .collect(),
    }
}

/// An algorithm of a run, with the policy that was asked for. A published system whose policy this project trained says
/// so: its released weights are another algorithm, and run from a policy file, whose name stands here.
fn named(alg: &str, policy: Option<&str>) -> String {
    let own = policy.map_or(alg.to_string(), |policy| format!("{alg}+{policy}"));
    match TRAINED_HERE.contains(&policy.unwrap_or(alg)) {
        true => own + ", trained here",
        false => own,
    }
}

/// A run by its algorithm and policy, and by its seed where there are several of them.
fn label(runs: &[RunResult], run: &RunResult) -> String {
    let own = named(&run.alg, run.policy.as_deref());
    let several = runs.iter().filter(|other| other.alg == run.alg && other.policy == run.policy).count() > 1;
    if several { format!("{own} (seed {})", run.seed) } else { own }
}

/// The title: with Jain's index where flows share.
fn heading(scenario: &str, runs: &[RunResult], flows: usize) -> String {
    match (runs, flows) {
        ([run], 2..) => match run.jain_index {
            Some(jain) => format!("{scenario}: Jain's index {jain:.3}"),
            None => scenario.to_string(),
        },
        _ => scenario.to_string(),
    }
}

/// The mean capacity, or what each of several flows would have of it where they share one link, all at once for a time.
fn reference(runs: &[RunResult], flows: usize) -> Option<(f64, String)> {
    let mbps = runs.first()?.optimal_mbps?;
    match (runs, flows) {
        ([run], 2..) if run.links.len() > 1 => None,
        ([run], 2..) if run.jain_index.is_some() => Some((mbps / flows as f64, "fair share".to_string())),
        _ => Some((mbps, "mean capacity".to_string())),
    }
}

/// One run: a curve per link. Several: the first link of each.
fn queues(runs: &[RunResult]) -> Vec<Curve> {
    let taken = if runs.len() == 1 { usize::MAX } else { 1 };
    let mut curves = Vec::new();
    for run in runs {
        for link in run.links.iter().take(taken) {
            let Some(series) = &link.series else { continue };
            let kilobytes = series.queue_bytes.iter().map(|&bytes| bytes as f64 / 1e3).collect();
            let own = if runs.len() == 1 { link.name.clone() } else { label(runs, run) };
            curves.push(Curve { label: own, points: timed(series.dt_s, kilobytes) });
        }
    }
    curves
}

/// Values at the ends of their points.
fn timed(dt_s: f64, values: Vec<f64>) -> Vec<(f64, f64)> {
    (1u32..).map(|point| f64::from(point) * dt_s).zip(values).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anole_sim::AgentScript;
    use anole_sim::plan::{Choice, plan, shipped};
    use anole_sim::scenario::Scenario;

    /// Runs of CUBIC, then Reno, each from 0.5 s on and beside a CUBIC that is there first.
    fn beside_cubic() -> Vec<RunResult> {
        let text = "name = \"beside\"\nduration_s = 1.0\n[[link]]\nname = \"b\"\ncapacity_mbps = 10.0\n\
                    one_way_delay_ms = 5.0\nbuffer_bdp = 1.0\n[[flow]]\nalg = \"cubic\"\n\
                    [[flow]]\nalg = \"cubic\"\nunder_test = true\nstart_s = 0.5\n";
        let scenario = Scenario::parse(text, "beside.toml", &[], &mut |_| Err(String::new())).unwrap();
        let run = |alg: &str| {
            let choice = Choice { alg: Some(alg.to_string()), ..Choice::default() };
            let plans = plan(&scenario, &choice, &shipped(), 1).unwrap();
            anole_sim::run(&scenario, plans, 1, AgentScript::default(), &mut |_| ())
        };
        ["cubic", "reno"].map(run).to_vec()
    }

    #[test]
    fn of_several_runs_the_flows_under_test_are_drawn_whatever_runs_beside_them() {
        let runs = beside_cubic();
        let drawn: Vec<(String, f64)> =
            flows(&runs).into_iter().map(|(label, flow)| (label, flow.start_s)).collect();
        assert_eq!(drawn, [("cubic".to_string(), 0.5), ("reno".to_string(), 0.5)]);
    }

    #[test]
    fn a_fair_share_is_of_flows_that_share_one_link() {
        let mut run = beside_cubic().remove(0);
        let of = |run: &RunResult| reference(std::slice::from_ref(run), 2);
        assert_eq!(of(&run), Some((5.0, "fair share".to_string())));
        let apart = RunResult { jain_index: None, ..run.clone() };
        assert_eq!(of(&apart), Some((10.0, "mean capacity".to_string())));
        run.links.push(run.links[0].clone());
        assert_eq!(of(&run), None);
    }

    #[test]
    fn a_policy_is_named_with_the_flows_that_run_it() {
        let mut run = beside_cubic().remove(0);
        run.policy = Some("libra".to_string());
        let labels: Vec<String> =
            flows(std::slice::from_ref(&run)).into_iter().map(|(label, _)| label).collect();
        assert_eq!(labels, ["flow 1: cubic", "flow 2: cubic+libra"]);
    }

    #[test]
    fn peers_trained_here_are_told_from_released_ones() {
        for (alg, policy, legend) in [
            ("orca", None, "orca, trained here"),
            ("sage", Some("sage"), "sage+sage, trained here"),
            ("anole", Some("orca"), "anole+orca, trained here"),
            ("orca", Some("released.safetensors"), "orca+released.safetensors"),
            ("anole", Some("libra"), "anole+libra"),
            ("cubic", None, "cubic"),
        ] {
            assert_eq!(named(alg, policy), legend);
        }
    }
}
