//! Several flows, and a capacity that grows: Figures 9 and 10 and Table I of Anole.

use super::{STEP, THROUGHPUT, TIME, over_time, sharing};
use crate::reproduce::experiment::{
    Contender, Experiment, Figure, Packets, Setting, TESTED, Target, cells, mean, with_peers,
};
use crate::reproduce::measure::{
    jain_between, lowest_from, rtt_p95, time_to_reach, total_throughput, unfairness, worst_unfairness,
};
use crate::reproduce::picture::{Panel, PanelKind};
use anole_sim::result::RunResult;

const FOUR_FLOWS: &str = include_str!("../../../scenarios/anole-fig9.toml");
const MANY_FLOWS: &str = include_str!("../../../scenarios/anole-table1.toml");

pub const FIG9: Experiment = Experiment {
    id: "anole-fig9",
    title: "four flows, one every 4 s",
    about: "Anole, Fig. 9: 48 Mbps, here with 25 ms one way and 2 BDP. The paper: Anole converges within 2 s of every \
            arrival. Here each flow's distance from its fair share, in the two seconds that begin 2 s after each \
            arrival; the last line takes the largest of the nine in each run. The plot shows the first seed.",
    seeds: [10, 2],
    packets: Packets::Tested,
    cells: |tested| cells(&[Setting::new("four flows", FOUR_FLOWS)], &with_peers(tested)),
    figures: |results| {
        let each =
            |who: &str, measure: fn(&RunResult) -> Option<f64>| results.each("four flows", who, measure);
        let pairs = (1..4).flat_map(|newest| (0..=newest).map(move |flow| (flow, newest)));
        let distance = |(flow, newest): (usize, usize)| {
            let measure = |run: &RunResult| Some(100.0 * unfairness(run, flow, newest, 48.0, 2.0)?);
            let values = results.each("four flows", TESTED, measure);
            let what = format!("flow {} of {}, distance from its share", flow + 1, newest + 1);
            Figure::new(what, "converged", values, "%", Target::AtMost(25.0))
        };
        let worst = |run: &RunResult| Some(100.0 * worst_unfairness(run, 48.0, 2.0)?);
        let jain = |run: &RunResult| jain_between(run, [20.0, 30.0]);
        let all = [
            Figure::new("Jain, last 10 s", "", each(TESTED, jain), "", Target::AtLeast(0.97)),
            Figure::new("Jain, last 10 s, CUBIC", "", each("cubic", jain), "", Target::None),
            Figure::new("largest distance in a run", "", each(TESTED, worst), "%", Target::AtMost(25.0)),
        ];
        pairs.map(distance).chain(all).collect()
    },
    plot: |results| {
        let panel = |who: &str| {
            let first = results.runs("four flows", who).first();
            let start = sharing(who, first);
            let Some(run) = first else { return start };
            let flow = |panel: Panel, flow| panel.with(format!("flow {}", flow + 1), over_time(run, flow));
            (0..run.flows.len()).fold(start, flow)
        };
        results.contenders().into_iter().map(panel).collect()
    },
};

/// When the capacity changes, s, and what it is then, Mbps.
const STEP_AT_S: f64 = 15.0;
const STEP_TO_MBPS: f64 = 96.0;

pub const FIG10: Experiment = Experiment {
    id: "anole-fig10",
    title: "48 to 96 Mbps at 15 s",
    about: "Anole, Fig. 10; here with 25 ms one way and 2 BDP of the smaller capacity. The paper: the new capacity within \
            0.5 s, then steady. Throughput is that of each tenth of a second. The plot shows the first seed.",
    seeds: [10, 2],
    packets: Packets::Tested,
    cells: |tested| cells(&[Setting::new("step", STEP).quick("duration_s=18")], &with_peers(tested)),
    figures: |results| {
        let reach = results.each("step", TESTED, |run| time_to_reach(run, STEP_AT_S, 90.0));
        let lowest = results
            .each("step", TESTED, |run| Some(100.0 * lowest_from(run, STEP_AT_S + 0.5)? / STEP_TO_MBPS));
        vec![
            Figure::new("time until 90 Mbps", "0.5 s", reach, "s", Target::AtMost(0.5)),
            Figure::new("lowest from 0.5 s after it", "steady", lowest, "%", Target::AtLeast(85.0)),
        ]
    },
    plot: |results| {
        let start =
            Panel::new("step", TIME, THROUGHPUT, PanelKind::Lines(Some((STEP_TO_MBPS, "capacity".into()))));
        let line = |panel: Panel, who: &str| match results.runs("step", who).first() {
            Some(run) => panel.with(who, over_time(run, 0)),
            None => panel,
        };
        vec![results.contenders().into_iter().fold(start, line)]
    },
};

/// Flows, the paper's figures of Anole (delay, throughput) and the largest delay allowed, ms.
const TABLE1: [(u32, &str, &str, f64); 4] = [
    (1, "64 ms", "90.62 Mbps", 64.0),
    (3, "78 ms", "92.07 Mbps", 78.0),
    (5, "86 ms", "93.72 Mbps", 86.0),
    (10, "93 ms", "94.03 Mbps", 93.0),
];

fn flows(count: u32) -> String {
    if count == 1 { "1 flow".to_string() } else { format!("{count} flows") }
}

pub const TABLE1_EXPERIMENT: Experiment = Experiment {
    id: "anole-table1",
    title: "1, 3, 5 and 10 flows on 96 Mbps",
    about: "Anole, Table I: 50 ms RTT, 2 BDP (the heads of the paper's columns are swapped). Throughput is the sum over \
            flows, the 95th percentile of the round-trip time the mean over flows.",
    seeds: [10, 2],
    packets: Packets::Tested,
    cells: |tested| {
        let setting = |(count, ..): (u32, &str, &str, f64)| {
            Setting::new(flows(count), MANY_FLOWS).set(format!("flow.count={count}")).quick("duration_s=8")
        };
        cells(&TABLE1.map(setting), &[tested.clone(), Contender::peer("bbr"), Contender::peer("cubic")])
    },
    figures: |results| {
        let figures = TABLE1.map(|(count, paper_ms, paper_mbps, ms)| {
            let setting = flows(count);
            let mbps = results.each(&setting, TESTED, total_throughput);
            let rtt = results.each(&setting, TESTED, rtt_p95);
            [
                Figure::new(
                    format!("throughput, {setting}"),
                    paper_mbps,
                    mbps,
                    "Mbps",
                    Target::AtLeast(93.0),
                ),
                Figure::new(format!("p95 RTT, {setting}"), paper_ms, rtt, "ms", Target::AtMost(ms)),
            ]
        });
        figures.into_iter().flatten().collect()
    },
    plot: |results| {
        let categories: Vec<String> = TABLE1.iter().map(|(count, ..)| flows(*count)).collect();
        let panel = |title, y, measure: fn(&RunResult) -> Option<f64>| {
            let start = Panel::new(title, "", y, PanelKind::Bars(categories.clone()));
            results.contenders().into_iter().fold(start, |panel, who| {
                let bars = categories.iter().zip(0u32..);
                let bar =
                    |(setting, x): (&String, u32)| (f64::from(x), mean(&results.each(setting, who, measure)));
                panel.with(who, bars.map(bar).collect())
            })
        };
        vec![
            panel("Throughput", THROUGHPUT, total_throughput),
            panel("Round-trip time", "95th percentile of the RTT (ms)", rtt_p95),
        ]
    },
};
