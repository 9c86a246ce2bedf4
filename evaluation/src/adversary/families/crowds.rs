//! Many flows on one link, their starts spread out.

use crate::adversary::axis::Axis;
use crate::adversary::family::{Family, Runs, ScenarioHead, buffer, float, link, loss, ratio, whole};

pub static FAMILY: Family = Family {
    name: "crowds",
    about: "2 to 1000 flows that start one after the other",
    axes: &[
        Axis::count("flows", 2.0, 1000.0, 2.0),
        Axis::log("Mbps per flow", 0.2, 2.0, 1.0),
        Axis::log("one-way ms", 5.0, 100.0, 20.0),
        Axis::log("buffer BDP", 0.2, 2.0, 1.0),
        Axis::linear("starts over s", 0.0, 10.0, 0.0),
    ],
    floor: 1.0,
    score: "lesser of (1.5 x loss + 0.5 points) of the first reference over the loss, and Jain's index over (its - 0.05)",
    text,
    judge,
};

/// No link is faster: a run has to end.
const MOST_MBPS: f64 = 300.0;

fn text(point: &[f64], head: &ScenarioHead) -> String {
    let &[flows, mbps, one_way, bdp, starts] = point else { unreachable!() };
    let mbps = (flows * mbps).min(MOST_MBPS);
    [
        head.top(20.0, 10.0),
        link(
            "bottleneck",
            &[
                ("capacity_mbps", float(mbps)),
                ("one_way_delay_ms", float(one_way)),
                ("buffer_packets", buffer(bdp, mbps, one_way)),
            ],
        ),
        head.flow(&[("count", whole(flows)), ("start_spacing_s", float(starts / flows))]),
    ]
    .concat()
}

fn judge(runs: &Runs<'_>) -> f64 {
    let lost = ratio(1.5 * runs.first(loss) + 0.005, loss(runs.tested));
    let jain = |run: &anole_sim::result::RunResult| run.jain_index.unwrap_or(0.0);
    lost.min(ratio(jain(runs.tested), runs.first(jain) - 0.05))
}
