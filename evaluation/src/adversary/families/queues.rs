//! Queue disciplines and buffers from one packet to twenty bandwidth-delay products.

use crate::adversary::axis::Axis;
use crate::adversary::family::{
    Family, Runs, ScenarioHead, buffer, float, link, loss, ratio, utilization, whole,
};

pub static FAMILY: Family = Family {
    name: "queues",
    about: "drop-tail, CoDel, FQ-CoDel, PIE or RED, 1 packet to 20 BDP, 1 to 16 flows",
    axes: &[
        Axis::choice("queue", QUEUES.len()),
        Axis::log("Mbps", 1.0, 100.0, 20.0),
        Axis::log("one-way ms", 2.0, 100.0, 20.0),
        Axis::log("buffer BDP", 0.01, 20.0, 1.0),
        Axis::count("flows", 1.0, 16.0, 1.0),
    ],
    floor: 1.0,
    score: "lesser of (1.25 x loss + 0.1 points) of the first reference over the loss, and utilisation over 0.9 of the least of the references'",
    text,
    judge,
};

const QUEUES: [&str; 5] = ["droptail", "codel", "fq_codel", "pie", "red"];

fn text(point: &[f64], head: &ScenarioHead) -> String {
    let &[queue, mbps, one_way, bdp, flows] = point else { unreachable!() };
    [
        head.top(30.0, 10.0),
        link(
            "bottleneck",
            &[
                ("capacity_mbps", float(mbps)),
                ("one_way_delay_ms", float(one_way)),
                ("buffer_packets", buffer(bdp, mbps, one_way)),
                ("queue", format!("\"{}\"", QUEUES[queue as usize])),
            ],
        ),
        head.flow(&[("count", whole(flows)), ("start_spacing_s", float(0.5))]),
    ]
    .concat()
}

/// Share of the references' least utilisation that has to be used: who sends nothing loses nothing.
const USED: f64 = 0.9;

fn judge(runs: &Runs<'_>) -> f64 {
    let lost = ratio(1.25 * runs.first(loss) + 0.001, loss(runs.tested));
    lost.min(ratio(utilization(runs.tested), USED * runs.least(utilization)))
}
