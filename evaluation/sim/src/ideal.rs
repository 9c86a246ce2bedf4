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

/// Each step; `None` where nothing arrived.
fn steps(flow: &FlowResult) -> impl Iterator<Item = Option<Ideal>> {
    let series = &flow.series;
    let loss = flow.loss_rate.unwrap_or(0.0);
    (0..series.throughput_mbps.len()).map(move |i| {
        let (throughput_mbps, rtt_mean_ms) = (series.throughput_mbps[i], series.rtt_ms[i]?);
        let before = i.checked_sub(1).and_then(|i| series.rtt_ms[i]).unwrap_or(rtt_mean_ms);
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
