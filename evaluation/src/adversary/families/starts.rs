//! Short flows, alone or beside others that have been there for five seconds; the application may have its data bit by
//! bit for two seconds (noq's issue 800: a start that is limited by the application ends slow start too early).

use crate::adversary::axis::Axis;
use crate::adversary::family::{BEST, Family, HOST_NOISE, Runs, ScenarioHead, buffer, float, link, whole};
use anole_sim::result::RunResult;
use anole_sim::scenario::Scenario;

pub static FAMILY: Family = Family {
    name: "starts",
    about: "one short flow, alone or beside up to three long ones, its application limited at first or not",
    axes: &[
        Axis::log("kB", 10.0, 5000.0, 200.0),
        Axis::log("Mbps", 1.0, 200.0, 48.0),
        Axis::log("one-way ms", 2.0, 100.0, 20.0),
        Axis::log("buffer BDP", 0.2, 4.0, 1.0),
        Axis::choice("long flows", 4),
        Axis::choice("application-limited", 2),
        Axis::log("application share", 0.01, 0.5, 0.1),
    ],
    floor: 0.95,
    score: "the first reference's completion time over the flow's",
    text,
    judge,
};

const START_S: f64 = 5.0;
/// How long the application has its data bit by bit.
const LIMITED_S: f64 = 2.0;

fn text(point: &[f64], head: &ScenarioHead) -> String {
    let &[kilobytes, mbps, one_way, bdp, rivals, limited, app_share] = point else { unreachable!() };
    // No larger than fifteen seconds of an equal share, and as long again twice to be late.
    let fair_s = |bytes: f64| bytes * 8.0 * (rivals + 1.0) / (mbps * 1e6);
    let bytes = (kilobytes * 1000.0).min(15.0 / fair_s(1.0)).round();
    let mut flow = vec![("start_s", float(START_S)), ("bytes", whole(bytes))];
    if limited > 0.0 {
        flow.push(("app_mbps", float((app_share * mbps).max(0.01))));
        flow.push(("app_until_s", float(START_S + LIMITED_S)));
    }
    let patience_s = (5.0 + 3.0 * fair_s(bytes)).ceil();
    let rivals = match rivals as u32 {
        0 => String::new(),
        count => format!("\n[[flow]]\nalg = \"cubic\"\n{HOST_NOISE}count = {count}\n"),
    };
    [
        head.top(START_S + patience_s, 0.0),
        link(
            "bottleneck",
            &[
                ("capacity_mbps", float(mbps)),
                ("one_way_delay_ms", float(one_way)),
                ("buffer_packets", buffer(bdp, mbps, one_way)),
            ],
        ),
        head.flow(&flow),
        rivals,
    ]
    .concat()
}

/// Completion time; twice what was left of the run where the flow did not complete.
fn seconds(run: &RunResult, scenario: &Scenario) -> f64 {
    let left = scenario.duration.as_secs_f64() - START_S;
    run.flows[0].fct_s.unwrap_or(2.0 * left)
}

fn judge(runs: &Runs<'_>) -> f64 {
    let time = |run: &RunResult| seconds(run, runs.scenario);
    (runs.first(time) / time(runs.tested)).min(BEST)
}
