//! Flows that are unlike: in round-trip time, in when they start, in what they run.

use super::{over_time, sharing};
use crate::reproduce::experiment::{
    Cell, Contender, Experiment, Figure, Packets, Results, Setting, TESTED, Target, cells, mean,
};
use crate::reproduce::measure::{jain_between, min_rtt_between, rtt_between, throughput_between};
use crate::reproduce::picture::{Panel, PanelKind};
use anole_sim::result::RunResult;

const TWO_RTTS: &str = include_str!("../../../scenarios/rtt-fairness.toml");
const AMONG_EQUALS: &str = include_str!("../../../scenarios/late-start.toml");
const UNDER_CUBIC: &str = include_str!("../../../scenarios/late-start-cubic.toml");
const BESIDE_CUBIC: &str = include_str!("../../../scenarios/coexistence.toml");

/// Buffers of Mazilu et al., *Learning-Based vs Human-Derived Congestion Control*, BDP.
const BUFFERS: [f64; 3] = [0.2, 1.0, 4.0];

/// Time series of the first run of each of these settings, a line per flow.
fn series(results: &Results, settings: &[String], names: [&str; 2]) -> Vec<Panel> {
    let panel = |setting: &String| {
        let first = results.runs(setting, TESTED).first();
        let start = sharing(setting, first);
        let Some(run) = first else { return start };
        let flow = |panel: Panel, flow: usize| {
            let name = names.get(flow).map_or(format!("flow {}", flow + 1), |name| name.to_string());
            panel.with(name, over_time(run, flow))
        };
        (0..run.flows.len()).fold(start, flow)
    };
    settings.iter().map(panel).collect()
}

fn buffer_name(bdp: f64) -> String {
    format!("{bdp} BDP")
}

pub const RTT_FAIRNESS: Experiment = Experiment {
    id: "anole-rtt-fairness",
    title: "20 ms beside 200 ms",
    about: "Mazilu et al., Fig. 3, a run of 100 s: 100 Mbps, buffers in BDP of the shorter path, the flow with 200 ms starts \
            after a quarter. The ratio is the smaller throughput over the larger one, over the last half. The plot shows \
            the first seed.",
    seeds: [10, 2],
    packets: Packets::Tested,
    cells: |tested| {
        let setting = |bdp| {
            Setting::new(buffer_name(bdp), TWO_RTTS)
                .set(format!("bottleneck.buffer_bdp={bdp}"))
                .quick("duration_s=40")
                .quick("bottleneck.capacity_mbps=20")
        };
        cells(&BUFFERS.map(setting), &[tested.clone(), Contender::peer("cubic")])
    },
    figures: |results| {
        let ratio = |run: &RunResult| {
            let half = run.flows.first()?.stop_s / 2.0;
            let rate = |flow| throughput_between(run, flow, [half, f64::MAX]);
            let (a, b) = (rate(0)?, rate(1)?);
            Some(a.min(b) / a.max(b))
        };
        let mut figures = Vec::new();
        for bdp in BUFFERS {
            let setting = buffer_name(bdp);
            let of = |who| results.each(&setting, who, ratio);
            figures.push(Figure::new(format!("ratio, {setting}"), "", of(TESTED), "", Target::AtLeast(0.5)));
            figures.push(Figure::new(format!("ratio, {setting}, CUBIC"), "", of("cubic"), "", Target::None));
        }
        figures
    },
    plot: |results| series(results, &BUFFERS.map(buffer_name), ["20 ms", "200 ms"]),
};

const EQUALS: &str = "among three of its kind";
const CUBIC: &str = "under a CUBIC that stops";
/// Base round-trip time of both settings, ms.
const LATE_BASE_MS: f64 = 50.0;

pub const LATE_START: Experiment = Experiment {
    id: "anole-late-start",
    title: "a flow that starts under a standing queue",
    about: "48 Mbps, 50 ms RTT, 4 BDP. Among three flows of its kind, a fourth starts at 15 s: the smallest RTT that it \
            sees (means over 0.1 s) has to come within 5 % of the true one in 15 s. A flow that starts at 10 s under a \
            CUBIC that stops at 20 s: from 25 s on its mean RTT has to be that of a flow that knows the true minimum, and \
            the link in use. The first flow of the plot is the late one.",
    seeds: [10, 2],
    packets: Packets::Tested,
    cells: |tested| {
        let settings = [Setting::new(EQUALS, AMONG_EQUALS), Setting::new(CUBIC, UNDER_CUBIC)];
        cells(&settings, std::slice::from_ref(tested))
    },
    figures: |results| {
        let found = |run: &RunResult| Some(min_rtt_between(run, 0, [15.0, 30.0])? / LATE_BASE_MS);
        let after = |run: &RunResult| Some(rtt_between(run, 0, [25.0, 45.0])? / LATE_BASE_MS);
        let jain = |run: &RunResult| jain_between(run, [35.0, 45.0]);
        let mbps = |run: &RunResult| throughput_between(run, 0, [25.0, 45.0]);
        let of = |what, values, unit, target| Figure::new(what, "", values, unit, target);
        vec![
            of(
                "smallest RTT over the true one, among its kind",
                results.each(EQUALS, TESTED, found),
                "",
                Target::AtMost(1.05),
            ),
            of("Jain, last 10 s, among its kind", results.each(EQUALS, TESTED, jain), "", Target::None),
            of(
                "RTT over the true one, after CUBIC",
                results.each(CUBIC, TESTED, after),
                "",
                Target::AtMost(1.25),
            ),
            of("throughput after CUBIC", results.each(CUBIC, TESTED, mbps), "Mbps", Target::AtLeast(43.0)),
        ]
    },
    plot: |results| series(results, &[EQUALS.to_string(), CUBIC.to_string()], ["late", "flow 2"]),
};

/// Round-trip times, ms, and who starts first.
const COEXISTENCE_RTTS: [f64; 2] = [30.0, 100.0];
const ORDERS: [(&str, &str); 2] = [("first", "flow.start_s=0"), ("second", "flow.start_s=10")];

/// Every link and order: name, RTT in ms, options.
fn beside_cubic() -> Vec<(String, f64, [String; 3])> {
    let mut all = Vec::new();
    for rtt in COEXISTENCE_RTTS {
        for bdp in BUFFERS {
            for (order, start) in ORDERS {
                let options = [
                    format!("bottleneck.one_way_delay_ms={}", rtt / 2.0),
                    format!("bottleneck.buffer_bdp={bdp}"),
                    start.to_string(),
                ];
                all.push((format!("{rtt} ms, {bdp} BDP, {order}"), rtt, options));
            }
        }
    }
    all
}

fn coexistence_cells(tested: &Contender) -> Vec<Cell> {
    let setting = |(name, _, options): (String, f64, [String; 3])| {
        let start = Setting::new(name, BESIDE_CUBIC).quick("bottleneck.capacity_mbps=20");
        options.into_iter().fold(start, Setting::set)
    };
    let settings: Vec<Setting> = beside_cubic().into_iter().map(setting).collect();
    cells(&settings, &[tested.clone(), Contender::peer("bbr")])
}

/// The share of the flow under test of what both get, once both have run for a while, %.
fn share(run: &RunResult) -> Option<f64> {
    let rate = |flow| throughput_between(run, flow, [20.0, 65.0]);
    let (ours, theirs) = (rate(0)?, rate(1)?);
    Some(100.0 * ours / (ours + theirs))
}

pub const COEXISTENCE: Experiment = Experiment {
    id: "anole-coexistence",
    title: "beside one CUBIC",
    about: "100 Mbps, RTT of 30 and 100 ms, 0.2, 1 and 4 BDP, starting first and second (Mazilu et al., Figs. 6 and 7). The \
            share counts from 20 to 65 s, when CUBIC stops; 5 s later the mean RTT has to be within 1.25 of the base. The \
            plots show shares of all, and the first seed of Anole at 4 BDP.",
    seeds: [10, 1],
    packets: Packets::Tested,
    cells: coexistence_cells,
    figures: |results| {
        let mut figures = Vec::new();
        for (setting, base_ms, _) in beside_cubic() {
            let alone = |run: &RunResult| Some(rtt_between(run, 0, [70.0, 75.0])? / base_ms);
            let (share, alone) =
                (results.each(&setting, TESTED, share), results.each(&setting, TESTED, alone));
            figures.push(Figure::new(
                format!("share, {setting}"),
                "",
                share,
                "%",
                Target::Within(30.0, 65.0),
            ));
            figures.push(Figure::new(
                format!("RTT over base, alone again, {setting}"),
                "",
                alone,
                "",
                Target::AtMost(1.25),
            ));
        }
        figures
    },
    plot: |results| {
        let names: Vec<String> = beside_cubic().into_iter().map(|(name, ..)| name).collect();
        let short: Vec<String> = names
            .iter()
            .map(|name| {
                name.replace(" ms, ", "/")
                    .replace(" BDP, ", "/")
                    .replace("first", "1st")
                    .replace("second", "2nd")
            })
            .collect();
        let start = Panel::new(
            "RTT (ms) / buffer (BDP) / started",
            "",
            "share of the throughput (%)",
            PanelKind::Bars(short),
        );
        let bars = |panel: Panel, who: &str| {
            let bar = |(x, setting): (u32, &String)| (f64::from(x), mean(&results.each(setting, who, share)));
            panel.with(who, (0u32..).zip(&names).map(bar).collect())
        };
        let mut panels = vec![results.contenders().into_iter().fold(start, bars)];
        let deep: Vec<String> = names.iter().filter(|name| name.contains("4 BDP")).cloned().collect();
        panels.extend(series(results, &deep, [TESTED, "cubic"]));
        panels
    },
};
