//! Traffic without congestion control, under a budget.
//!
//! Source: CC-Fuzz (HotNets 2022), whose traffic mode spends a fixed number of packets at any times; the low-rate attack
//! on TCP's timeout (Kuzmanovic and Knightly, SIGCOMM 2003) is a point of this family. Here one source is on and off,
//! and takes at most half of the capacity on the mean.

use crate::adversary::axis::Axis;
use crate::adversary::family::{Family, Runs, ScenarioHead, buffer, float, link, ratio};
use anole_sim::result::RunResult;

pub static FAMILY: Family = Family {
    name: "cross",
    about: "a source without congestion control, on and off, takes up to half of the capacity on the mean",
    axes: &[
        Axis::linear("mean share", 0.05, 0.5, 0.25),
        Axis::linear("on, share of the time", 0.02, 1.0, 0.5),
        Axis::log("period s", 0.05, 5.0, 1.0),
        Axis::choice("random", 2),
        Axis::log("Mbps", 2.0, 100.0, 20.0),
        Axis::log("one-way ms", 2.0, 100.0, 20.0),
        Axis::log("buffer BDP", 0.2, 8.0, 2.0),
    ],
    floor: 0.9,
    score: "the flow's throughput over the least of the references'",
    text,
    judge,
};

fn text(point: &[f64], head: &ScenarioHead) -> String {
    let &[share, on, period, random, mbps, one_way, bdp] = point else { unreachable!() };
    let source = [
        ("mbps", float(share / on * mbps)),
        ("on_s", float(on * period)),
        ("off_s", float(((1.0 - on) * period).max(1e-6))),
        ("random", (random > 0.0).to_string()),
    ];
    let source: String = source.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    [
        head.top(30.0, 5.0),
        link(
            "bottleneck",
            &[
                ("capacity_mbps", float(mbps)),
                ("one_way_delay_ms", float(one_way)),
                ("buffer_packets", buffer(bdp, mbps, one_way)),
            ],
        ),
        format!("[[link.cross]]\n{source}"),
        head.flow(&[]),
    ]
    .concat()
}

fn judge(runs: &Runs<'_>) -> f64 {
    let throughput = |run: &RunResult| run.flows[0].throughput_mbps.unwrap_or(0.0);
    ratio(throughput(runs.tested), runs.least(throughput))
}
