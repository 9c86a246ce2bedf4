//! The offline ideal of two algorithms, as a yardstick for what combines them: of two flows that ran alone on the same
//! link, the one whose utility is higher in each step of time (Libra, CoNEXT 2021, §5.4: C-Ideal of CUBIC and Clean-slate
//! Libra, B-Ideal of BBR and Clean-slate Libra).
//!
//! The utility is Libra's equation 1 with the default weights; the slope of the round-trip time is its change from one
//! step to the next. A step holds too few packets to tell a share of loss: that of the whole run stands for every one.

use crate::result::FlowResult;
use anole_algorithms::libra_utility;
use anole_model::Rate;

/// What the ideal of two flows gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ideal {
    /// Mean throughput.
    pub throughput_mbps: f64,
    /// Mean round-trip time.
    pub rtt_mean_ms: f64,
    /// Mean utility.
    pub utility: f64,
}

/// The ideal of two flows from `from_s` on; `None` where they have no step in common.
pub fn ideal(a: &FlowResult, b: &FlowResult, from_s: f64) -> Option<Ideal> {
    mean(steps(a).zip(steps(b)).map(|(a, b)| better(a, b)).skip(skipped(a, from_s)))
}

/// The same figures of one flow.
pub fn of_flow(flow: &FlowResult, from_s: f64) -> Option<Ideal> {
    mean(steps(flow).skip(skipped(flow, from_s)))
}

fn skipped(flow: &FlowResult, from_s: f64) -> usize {
    (from_s / flow.series.dt_s.max(1e-9)).round() as usize
}

fn better(a: Option<Ideal>, b: Option<Ideal>) -> Option<Ideal> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b.utility > a.utility { b } else { a }),
        (one, other) => one.or(other),
    }
}

/// Each step, one without an ACK with the round-trip time of the last that has one; `None` before the first, and after the
/// flow's end.
fn steps(flow: &FlowResult) -> impl Iterator<Item = Option<Ideal>> {
    let series = &flow.series;
    let loss = flow.loss_rate.unwrap_or(0.0);
    let points = series.throughput_mbps.iter().zip(&series.rtt_ms).enumerate();
    points
        .scan(None, move |known: &mut Option<f64>, (number, (&throughput_mbps, &rtt_ms))| {
            let (before, runs) = (*known, (number as f64) * series.dt_s < flow.stop_s);
            *known = rtt_ms.or(before.filter(|_| runs));
            Some(known.map(|rtt_mean_ms| (throughput_mbps, rtt_mean_ms, before.unwrap_or(rtt_mean_ms))))
        })
        .map(move |step| {
            let (throughput_mbps, rtt_mean_ms, before) = step?;
            let slope = (rtt_mean_ms - before) / 1e3 / series.dt_s;
            let utility = libra_utility(Rate::from_mbps(throughput_mbps), slope, loss);
            Some(Ideal { throughput_mbps, rtt_mean_ms, utility })
        })
}

fn mean(steps: impl Iterator<Item = Option<Ideal>>) -> Option<Ideal> {
    let steps: Vec<Ideal> = steps.flatten().collect();
    let mean = |of: fn(&Ideal) -> f64| steps.iter().map(of).sum::<f64>() / steps.len() as f64;
    (!steps.is_empty()).then(|| Ideal {
        throughput_mbps: mean(|step| step.throughput_mbps),
        rtt_mean_ms: mean(|step| step.rtt_mean_ms),
        utility: mean(|step| step.utility),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Choice, plan, shipped};
    use crate::scenario::Scenario;

    #[test]
    fn steps_without_an_ack_count() {
        // 20 packets every 200 ms: a step with ACKs, in which nothing arrives, and one in which all do.
        let text = "name = \"t\"\nduration_s = 20.0\n[[link]]\nname = \"b\"\ncapacity_mbps = 50.0\n\
                    one_way_delay_ms = 100.0\nbuffer_bdp = 1.0\n[[flow]]\nalg = \"hold\"\nunder_test = true\n";
        let set = ["param.window_packets=20".to_string()];
        let scenario = Scenario::parse(text, "t", &set, &mut |_| Err(String::new())).unwrap();
        let plans = plan(&scenario, &Choice::default(), &shipped(), 1).unwrap();
        let run = crate::run(&scenario, plans, 1, crate::AgentScript::default(), &mut |_| ());
        let flow = &run.flows[0];
        let (mean, all) = (of_flow(flow, 0.0).unwrap().throughput_mbps, flow.throughput_mbps.unwrap());
        assert!((mean / all - 1.0).abs() < 0.05, "{mean} {all}");
    }
}
