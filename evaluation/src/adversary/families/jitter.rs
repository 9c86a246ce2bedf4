//! One of several equal flows gets its data or its ACKs in batches, or late.
//!
//! Source: *Starvation in End-to-End Congestion Control* (SIGCOMM 2022), which bounds the jitter by a multiple of the
//! round-trip time; the aggregator of FRCC (NSDI 2026).

use crate::adversary::axis::Axis;
use crate::adversary::family::{BEST, Family, Runs, ScenarioHead, buffer, float, link, whole};
use anole_model::Dur;
use anole_sim::scenario::LinkSpec;

pub static FAMILY: Family = Family {
    name: "jitter",
    about: "data or ACKs of one of several equal flows come in batches or late, by up to four round-trip times",
    axes: &[
        Axis::choice("kind", 5),
        Axis::linear("jitter RTTs", 0.05, 4.0, 0.5),
        Axis::log("Mbps", 12.0, 96.0, 48.0),
        Axis::log("one-way ms", 5.0, 50.0, 20.0),
        Axis::log("buffer BDP", 0.5, 20.0, 4.0),
        Axis::count("clean flows", 1.0, 4.0, 1.0),
    ],
    floor: 1.0,
    score: "allowed over actual ratio of the larger to the smaller share; 2 is allowed up to half a round-trip time of jitter, 3 beyond",
    text,
    judge,
};

/// What happens to the jittered flow, by the first axis.
const KINDS: [&str; 5] =
    ["aggregation_ms", "aggregation_ms", "ack_aggregation_ms", "ack_jitter_ms", "jitter_ms"];
/// The batches of this kind have random lengths.
const RANDOM_BATCHES: usize = 1;
/// The link that only the jittered flow passes, and that limits nothing.
const BOX: &str = "box";

fn text(point: &[f64], head: &ScenarioHead) -> String {
    let &[kind, rtts, mbps, one_way, bdp, clean] = point else { unreachable!() };
    let jitter_ms = rtts * 2.0 * one_way;
    let kind = kind as usize;
    let value = match KINDS[kind] {
        "jitter_ms" | "ack_jitter_ms" => float(jitter_ms),
        _ if kind == RANDOM_BATCHES => format!("[0.0, {}]", float(jitter_ms)),
        _ => format!("[{0}, {0}]", float(jitter_ms)),
    };
    [
        head.top(40.0, 10.0),
        link(
            "bottleneck",
            &[
                ("capacity_mbps", float(mbps)),
                ("one_way_delay_ms", float(one_way)),
                ("buffer_packets", buffer(bdp, mbps, one_way)),
            ],
        ),
        link(
            BOX,
            &[
                ("capacity_mbps", float(1000.0)),
                ("one_way_delay_ms", float(0.0)),
                ("buffer_packets", whole(100_000.0)),
                (KINDS[kind], value),
            ],
        ),
        head.flow(&[("count", whole(clean)), ("path", "[\"bottleneck\"]".to_string())]),
        head.flow(&[("path", format!("[\"{BOX}\", \"bottleneck\"]"))]),
    ]
    .concat()
}

fn judge(runs: &Runs<'_>) -> f64 {
    let (scenario, flows) = (runs.scenario, &runs.tested.flows);
    let jittered = |index: &usize| scenario.flows[*index].path.len() > 1;
    let share = |wanted: bool| {
        let shares: Vec<f64> = (0..flows.len())
            .filter(|index| jittered(index) == wanted)
            .map(|index| flows[index].throughput_mbps.unwrap_or(0.0))
            .collect();
        shares.iter().sum::<f64>() / shares.len().max(1) as f64
    };
    let (clean, jittered) = (share(false), share(true));
    let spread = clean.max(jittered) / clean.min(jittered).max(1e-6);
    // A file that is replayed may have any links.
    let of_link = |link: &LinkSpec| {
        let bursts = [link.aggregation.data, link.aggregation.acks].into_iter().flatten();
        let longest = bursts.map(|(_, longest)| longest);
        longest.fold(link.impairments.jitter.max(link.impairments.ack_jitter), Ord::max)
    };
    let jitter = scenario.links.iter().map(of_link).fold(Dur::ZERO, Ord::max);
    let allowed = if jitter <= scenario.links[0].one_way_delay { 2.0 } else { 3.0 };
    (allowed / spread).min(BEST)
}
