//! A link that alternates between two states of capacity and delay.
//!
//! Source: AdvNet (CoNEXT 2026), which searches vectors of (capacity, delay, duration) and a queue; here with two
//! states and over a whole run.

use crate::adversary::axis::Axis;
use crate::adversary::family::{Family, Runs, ScenarioHead, change, float, link, ratio, utilization, whole};

pub static FAMILY: Family = Family {
    name: "swings",
    about: "capacity and delay alternate between two states",
    axes: &[
        Axis::log("first Mbps", 1.0, 100.0, 10.0),
        Axis::log("second Mbps", 1.0, 100.0, 10.0),
        Axis::log("first one-way ms", 2.0, 100.0, 20.0),
        Axis::log("second one-way ms", 2.0, 100.0, 20.0),
        Axis::log("first lasts s", 0.1, 5.0, 1.0),
        Axis::log("second lasts s", 0.1, 5.0, 1.0),
        Axis::log("buffer packets", 10.0, 1000.0, 100.0),
    ],
    floor: 0.9,
    score: "utilisation over the least of the references'",
    text,
    judge,
};

fn text(point: &[f64], head: &ScenarioHead) -> String {
    let &[mbps, second_mbps, delay, second_delay, lasts, second_lasts, packets] = point else {
        unreachable!()
    };
    let state = |mbps, delay| [("capacity_mbps", float(mbps)), ("one_way_delay_ms", float(delay))];
    let every = float(lasts + second_lasts);
    let at = |at: f64, [capacity, delay]: [(&'static str, String); 2]| {
        change(&[("at_s", float(at)), ("every_s", every.clone()), capacity, delay])
    };
    let [capacity, one_way] = state(mbps, delay);
    [
        head.top(30.0, 5.0),
        link("bottleneck", &[capacity, one_way, ("buffer_packets", whole(packets.round()))]),
        at(lasts, state(second_mbps, second_delay)),
        at(lasts + second_lasts, state(mbps, delay)),
        head.flow(&[]),
    ]
    .concat()
}

fn judge(runs: &Runs<'_>) -> f64 {
    ratio(utilization(runs.tested), runs.least(utilization))
}
