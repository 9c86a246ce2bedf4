//! A link that serves as late as it may, or all at once.
//!
//! Source: CCAC (Arun et al., SIGCOMM 2021): service up to t lies between C·(t − D) and C·t. Here what leaves a
//! constant-rate link is held, slot by slot, for a time of at most D that the adversary chooses; four slots of half a
//! round-trip time, again and again. D is one round-trip time, as in CCAC's own examples.

use crate::adversary::axis::Axis;
use crate::adversary::family::{Family, Runs, ScenarioHead, buffer, float, link, ratio, utilization};

const SLOTS: usize = 4;

pub static FAMILY: Family = Family {
    name: "service",
    about: "data are held by up to one RTT, in a pattern of four slots (CCAC's bounds)",
    axes: &[
        Axis::linear("held in slot 1, RTTs", 0.0, 1.0, 0.0),
        Axis::linear("held in slot 2, RTTs", 0.0, 1.0, 0.0),
        Axis::linear("held in slot 3, RTTs", 0.0, 1.0, 0.0),
        Axis::linear("held in slot 4, RTTs", 0.0, 1.0, 0.0),
        Axis::log("slot RTTs", 0.25, 8.0, 0.5),
        Axis::log("Mbps", 2.0, 100.0, 20.0),
        Axis::log("one-way ms", 2.0, 100.0, 20.0),
        Axis::log("buffer BDP", 0.5, 8.0, 2.0),
    ],
    floor: 0.9,
    score: "utilisation over the least of the references'",
    text,
    judge,
};

fn text(point: &[f64], head: &ScenarioHead) -> String {
    let (holds, rest) = point.split_at(SLOTS);
    let &[slot, mbps, one_way, bdp] = rest else { unreachable!() };
    let rtt_ms = 2.0 * one_way;
    let holds: Vec<String> = holds.iter().map(|rtts| float(rtts * rtt_ms)).collect();
    [
        head.top(30.0, 5.0),
        link(
            "bottleneck",
            &[
                ("capacity_mbps", float(mbps)),
                ("one_way_delay_ms", float(one_way)),
                ("buffer_packets", buffer(bdp, mbps, one_way)),
                ("hold_ms", format!("[{}]", holds.join(", "))),
                ("hold_slot_ms", float(slot * rtt_ms)),
            ],
        ),
        head.flow(&[]),
    ]
    .concat()
}

fn judge(runs: &Runs<'_>) -> f64 {
    ratio(utilization(runs.tested), runs.least(utilization))
}
