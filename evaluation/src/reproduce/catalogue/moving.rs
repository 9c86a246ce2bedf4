//! Paths that change, and many that nobody has seen before.

use super::DELAY;
use crate::reproduce::experiment::{
    Contender, Experiment, Figure, Packets, Results, Setting, Source, TESTED, Target, cells, mean,
};
use crate::reproduce::measure::{owd_p95, queue_p95, share_of_optimal};
use crate::reproduce::picture::{Panel, PanelKind, cdf};
use anole_sim::result::RunResult;

const DELAYS: &str = include_str!("../../../scenarios/responsiveness.toml");
const LOSSES: &str = include_str!("../../../scenarios/responsiveness-loss.toml");

const QUEUE: &str = "95th percentile of the queueing delay (ms)";

const RTT: &str = "capacity and RTT";
const LOSS: &str = "capacity and loss";

/// Goodput as a share of what the links could carry, headers included, %.
fn goodput(run: &RunResult) -> Option<f64> {
    Some(100.0 * run.flows.first()?.goodput_mbps? / run.optimal_mbps?)
}

/// The cumulative distribution of a measure over the runs of a setting, a curve per contender.
fn distribution(
    results: &Results,
    (setting, title): (&str, &str),
    x: &'static str,
    measure: fn(&RunResult) -> Option<f64>,
) -> Panel {
    let start = Panel::new(title, x, "cumulative share of runs", PanelKind::Lines(None));
    let curve = |panel: Panel, who: &str| panel.with(who, cdf(&results.each(setting, who, measure)));
    results.contenders().into_iter().fold(start, curve)
}

pub const RESPONSIVENESS: Experiment = Experiment {
    id: "anole-responsiveness",
    title: "capacity, RTT and loss that change every 10 s",
    about: "Mazilu et al., Fig. 10, 50 runs of 300 s: capacity of 1 to 100 Mbps and RTT of 20 to 200 ms, drawn anew \
            every 10 s, 638 kB of buffer; the same with loss of 0 to 5 % and 100 ms. Goodput is payload over capacity, of \
            which headers alone are 3.5 %.",
    seeds: [50, 1],
    packets: Packets::Everyone,
    cells: |tested| {
        let settings = [
            Setting::new(RTT, DELAYS).quick("duration_s=60"),
            Setting::new(LOSS, LOSSES).quick("duration_s=60"),
        ];
        cells(
            &settings,
            &[tested.clone(), Contender::peer("cubic"), Contender::peer("bbr"), Contender::peer("libra-rl")],
        )
    },
    figures: |results| {
        let of = |setting, who, measure: fn(&RunResult) -> Option<f64>| results.each(setting, who, measure);
        let cubic = mean(&of(RTT, "cubic", queue_p95));
        let queue = of(RTT, TESTED, queue_p95).into_iter().map(|ms| ms / cubic).collect();
        vec![
            Figure::new(
                "goodput of optimal, capacity and RTT",
                "",
                of(RTT, TESTED, goodput),
                "%",
                Target::AtLeast(85.0),
            ),
            Figure::new("the same, CUBIC", "", of(RTT, "cubic", goodput), "%", Target::None),
            Figure::new("the same, BBR", "", of(RTT, "bbr", goodput), "%", Target::None),
            Figure::new("p95 queueing delay over CUBIC's", "", queue, "", Target::AtMost(0.5)),
            Figure::new(
                "goodput of optimal, capacity and loss",
                "",
                of(LOSS, TESTED, goodput),
                "%",
                Target::AtLeast(80.0),
            ),
            Figure::new("the same, CUBIC", "", of(LOSS, "cubic", goodput), "%", Target::None),
            Figure::new("the same, BBR", "", of(LOSS, "bbr", goodput), "%", Target::None),
        ]
    },
    plot: |results| {
        let axis = "goodput (% of the optimum)";
        vec![
            distribution(results, (RTT, RTT), axis, goodput),
            distribution(results, (LOSS, LOSS), axis, goodput),
            distribution(results, (RTT, "capacity and RTT: delay"), QUEUE, queue_p95),
        ]
    },
};

const UNSEEN: &str = "unseen links";

fn used(run: &RunResult) -> Option<f64> {
    Some(100.0 * share_of_optimal(run)?)
}

/// The value below which a tenth of them are.
fn tenth(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 10).copied().unwrap_or(f64::NAN)
}

pub const RANDOM: Experiment = Experiment {
    id: "anole-random",
    title: "200 links that nothing was tuned on",
    about: "The random suite: 1 to 200 Mbps, 5 to 200 ms RTT, 0.1 to 6 BDP, half of the links with up to 3 % loss, a \
            quarter varying like LTE; each run is another link, so that deviations are between links. For comparison, \
            without targets.",
    seeds: [200, 12],
    packets: Packets::Tested,
    cells: |tested| {
        let setting = Setting { source: Source::Random, ..Setting::new(UNSEEN, "") };
        let peers = ["cubic", "bbr", "libra-rl", "orca"].map(Contender::peer);
        cells(&[setting], &[&[tested.clone()][..], &peers].concat())
    },
    figures: |results| {
        let mut figures = Vec::new();
        for who in results.contenders() {
            let (share, delay) = (results.each(UNSEEN, who, used), results.each(UNSEEN, who, queue_p95));
            let worst = vec![tenth(share.clone())];
            figures.push(Figure::new(format!("utilisation, {who}"), "", share, "%", Target::None));
            figures.push(Figure::new(format!("its tenth percentile, {who}"), "", worst, "%", Target::None));
            figures.push(Figure::new(format!("p95 queueing delay, {who}"), "", delay, "ms", Target::None));
        }
        figures
    },
    plot: |results| {
        vec![
            distribution(results, (UNSEEN, "utilisation"), "utilisation (%)", used),
            distribution(results, (UNSEEN, "queueing delay"), QUEUE, queue_p95),
            distribution(results, (UNSEEN, "one-way delay"), DELAY, owd_p95),
        ]
    },
};
