//! The path changes: its round-trip time steps, something interrupts it, then its capacity steps.
//!
//! Source: the scripted links of picoquic's media tests (black hole, fade, suspensions of up to 50 ms), and steps of
//! the round-trip time from 0.5 to 200 ms, up and down.

use crate::adversary::axis::Axis;
use crate::adversary::family::{BEST, Family, Runs, ScenarioHead, bdp_packets, change, float, link, whole};
use anole_sim::result::RunResult;
use anole_sim::scenario::Scenario;

pub static FAMILY: Family = Family {
    name: "paths",
    about: "the RTT steps at 10 s, something interrupts the path, the capacity steps at 20 s",
    axes: &[
        Axis::log("one-way ms before", 0.25, 100.0, 20.0),
        Axis::log("one-way ms after", 0.25, 100.0, 20.0),
        Axis::log("Mbps before", 2.0, 200.0, 20.0),
        Axis::log("Mbps after", 2.0, 200.0, 20.0),
        Axis::log("buffer BDP", 0.5, 4.0, 2.0),
        Axis::choice("interruption", 4),
        Axis::log("interruption s", 0.05, 5.0, 0.5),
    ],
    floor: 1.0,
    score: "10 s, or the fastest reference's time if that is longer, over the time until 90 % of the new capacity is used",
    text,
    judge,
};

const INTERRUPTED_S: f64 = 12.0;
const STEP_S: f64 = 20.0;
const END_S: f64 = 50.0;
const ALLOWED_S: f64 = 10.0;
/// Share of the new capacity that has to be used, over [`MEAN_OVER_S`].
const USED: f64 = 0.9;
const MEAN_OVER_S: f64 = 1.0;
/// Rates of a fade and of a radio that is off.
const FADED: f64 = 0.05;
const OFF_MBPS: f64 = 0.01;
const RADIO_MBPS: f64 = 1000.0;

fn text(point: &[f64], head: &ScenarioHead) -> String {
    let &[before_ms, after_ms, before, after, bdp, kind, lasts] = point else { unreachable!() };
    let bottleneck = |at: f64, key: &'static str, value: f64| {
        change(&[("at_s", float(at)), ("link", "\"bottleneck\"".to_string()), (key, float(value))])
    };
    let radio = |at: f64, mbps: f64| {
        let link = ("link", "\"radio\"".to_string());
        change(&[("at_s", float(at)), ("every_s", float(0.2)), link, ("capacity_mbps", float(mbps))])
    };
    let until = INTERRUPTED_S + lasts;
    let largest = bdp_packets(before.max(after), before_ms.max(after_ms));
    let mut links = link(
        "bottleneck",
        &[
            ("capacity_mbps", float(before)),
            ("one_way_delay_ms", float(before_ms)),
            ("buffer_packets", whole((bdp * largest).round().max(4.0))),
        ],
    );
    let rtt_step = bottleneck(10.0, "one_way_delay_ms", after_ms);
    let capacity_step = bottleneck(STEP_S, "capacity_mbps", after);
    let changes = match kind as usize {
        0 => [rtt_step, capacity_step].concat(),
        1 => {
            let lost = |at, loss| bottleneck(at, "random_loss", loss);
            [rtt_step, lost(INTERRUPTED_S, 1.0), lost(until, 0.0), capacity_step].concat()
        }
        2 => {
            let faded = |at, mbps| bottleneck(at, "capacity_mbps", mbps);
            [rtt_step, faded(INTERRUPTED_S, before * FADED), faded(until, before), capacity_step].concat()
        }
        // Suspensions last a hundredth: 0.5 to 50 ms, every 200 ms.
        _ => {
            links += &link(
                "radio",
                &[
                    ("capacity_mbps", float(RADIO_MBPS)),
                    ("one_way_delay_ms", float(0.0)),
                    ("buffer_packets", whole(100_000.0)),
                ],
            );
            let off = 1.0 + lasts / 100.0;
            [radio(1.0, OFF_MBPS), radio(off, RADIO_MBPS), rtt_step, capacity_step].concat()
        }
    };
    [head.top(END_S, 0.0), links, changes, head.flow(&[])].concat()
}

/// The capacity after the last step, Mbps.
fn new_capacity(scenario: &Scenario) -> f64 {
    let steps = scenario.changes.iter().filter(|change| change.link == 0);
    steps.filter_map(|change| change.change.capacity).next_back().map_or(f64::NAN, |rate| rate.mbps())
}

/// Seconds from the step until the new capacity is used; beyond the end of the run, in proportion to what is missing.
fn seconds(run: &RunResult, mbps: f64) -> f64 {
    let series = &run.flows[0].series;
    let bins = |seconds: f64| (seconds / series.dt_s).round() as usize;
    let after = series.throughput_mbps.get(bins(STEP_S)..).unwrap_or_default();
    let width = bins(MEAN_OVER_S);
    let means = || after.windows(width).map(|window| window.iter().sum::<f64>() / width as f64 / mbps);
    match means().position(|used| used >= USED) {
        Some(bins) => (bins + width) as f64 * series.dt_s,
        None => (END_S - STEP_S) * USED / means().fold(1e-3, f64::max),
    }
}

fn judge(runs: &Runs<'_>) -> f64 {
    let mbps = new_capacity(runs.scenario);
    let allowed = runs.least(|run| seconds(run, mbps)).max(ALLOWED_S);
    (allowed / seconds(runs.tested, mbps)).min(BEST)
}
