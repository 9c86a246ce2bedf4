//! What traces are drawn from.

use super::statistics::Statistics;
use crate::options::MAX_TRACE_BYTES;
use anole_model::{Dur, Rate};
use anole_sim::link::Lte;
use anole_sim::scenario::RATE_MBPS;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

/// Bytes of an opportunity on the wire (Mahimahi), and of the packet in it.
const OPPORTUNITY_BYTES: f64 = 1504.0;
const PACKET_BYTES: f64 = 1500.0;
/// Longest trace, s, and most that it may carry, Mbit: a scenario reads that much text, at ten bytes a line.
const MAX_S: f64 = 86_400.0;
const MAX_MBIT: f64 = (MAX_TRACE_BYTES / 10) as f64 * OPPORTUNITY_BYTES * 8.0 / 1e6;

/// What traces are drawn from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Model {
    /// A cell: a rate whose logarithm wanders, with outages, and opportunities that come in bursts
    /// (`lte` of a scenario's link).
    Cellular {
        duration_s: f64,
        mean_mbps: f64,
        deviation: f64,
        memory_s: f64,
        flicker: f64,
        burst: f64,
        outage_every_s: f64,
        outage_s: f64,
    },
    /// Wi-Fi: frames of packets, aggregated, each after a wait for the medium that others use as well.
    Wifi {
        duration_s: f64,
        mean_mbps: f64,
        /// Shortest and longest time between two frames, ms, drawn uniformly.
        frame_ms: [f64; 2],
        /// Mean time between two times in which others have the medium, s, and their mean length.
        busy_every_s: f64,
        busy_s: f64,
    },
    /// A satellite in low orbit: another path every so often, with another capacity and another delay, and nothing for
    /// a moment in between. A scenario, since a trace has no delay.
    Leo {
        duration_s: f64,
        mean_mbps: f64,
        handover_every_s: f64,
        handover_s: f64,
        /// Smallest and largest capacity over the mean.
        capacity: [f64; 2],
        /// Shortest and longest one-way delay.
        one_way_delay_ms: [f64; 2],
    },
}

impl Model {
    /// One of a kind.
    pub fn preset(kind: &str) -> Option<Model> {
        match kind {
            "cellular" => Some(Model::Cellular {
                duration_s: 120.0,
                mean_mbps: 12.0,
                deviation: 0.6,
                memory_s: 2.5,
                flicker: 0.7,
                burst: 3.0,
                outage_every_s: 12.0,
                outage_s: 0.5,
            }),
            "wifi" => Some(Model::Wifi {
                duration_s: 60.0,
                mean_mbps: 60.0,
                frame_ms: [2.0, 8.0],
                busy_every_s: 1.0,
                busy_s: 0.02,
            }),
            "leo" => Some(Model::Leo {
                duration_s: 120.0,
                mean_mbps: 100.0,
                handover_every_s: 15.0,
                handover_s: 0.1,
                capacity: [0.4, 1.6],
                one_way_delay_ms: [15.0, 45.0],
            }),
            _ => None,
        }
    }

    /// The cell whose traces have these statistics.
    ///
    /// The autocorrelation at 0.5 and 2 s gives the time constant of what has memory. The variances of its logarithm are
    /// those of a log-normal rate with the variation seen in windows of 0.5 and 0.1 s, less what chance alone makes of
    /// opportunities in bursts; what windows of 0.1 s have beyond what has memory, has none. Where a trace has what no model
    /// may, it is the nearest that one may.
    pub fn fitted(statistics: &Statistics) -> Model {
        let at = |lag: usize| statistics.autocorrelation.get(lag - 1).copied().unwrap_or(0.0);
        let (near, far) = (at(1).max(1e-3), at(4));
        let memory_s = if far > 0.0 && far < near { (1.5 / (near / far).ln()).clamp(0.1, 60.0) } else { 0.5 };
        let in_100ms = statistics.mean_mbps * 1e5 / 8.0 / OPPORTUNITY_BYTES;
        let chance = (2.0 * statistics.burst - 1.0) / in_100ms.max(1e-9);
        let of_log = |variation: f64, chance: f64| (1.0 + (variation * variation - chance).max(0.01)).ln();
        let variance = of_log(statistics.variation_500ms, chance / 5.0);
        let remembered = (variance * near * (0.5 / memory_s).exp()).min(variance);
        let quick = (of_log(statistics.variation_100ms, chance) - remembered).max(0.0);
        let round = |x: f64| (x * 1e3).round() / 1e3;
        let duration_s = round(statistics.duration_s).clamp(1.0, MAX_S);
        // An outage takes from the mean what the rest has to carry.
        let mean_mbps =
            statistics.mean_mbps / (1.0 - (statistics.outages_per_s * statistics.outage_s).min(0.9));
        Model::Cellular {
            duration_s,
            mean_mbps: round(mean_mbps).clamp(1e-3, (MAX_MBIT / duration_s * 1e3).floor() / 1e3),
            deviation: round(remembered.sqrt().min(2.0)),
            memory_s: round(memory_s),
            flicker: round(quick.sqrt().min(2.0)),
            burst: round(statistics.burst).min(1000.0),
            outage_every_s: round((1.0 / statistics.outages_per_s.max(1e-5)).clamp(0.1, 86_400.0)),
            outage_s: round(statistics.outage_s).min(MAX_S),
        }
    }

    /// Another length.
    pub fn set_duration(&mut self, seconds: f64) {
        let (Model::Cellular { duration_s, .. }
        | Model::Wifi { duration_s, .. }
        | Model::Leo { duration_s, .. }) = self;
        *duration_s = seconds;
    }

    /// What no trace can be drawn from.
    pub fn check(&self) -> Result<(), String> {
        let within = |what: &str, value: f64, low: f64, high: f64| match (low..=high).contains(&value) {
            true => Ok(()),
            false => Err(format!("{what} = {value} is outside [{low}, {high}]")),
        };
        let pair = |what: &str, [low, high]: [f64; 2], least: f64, most: f64| {
            within(what, low, least, most)?;
            within(what, high, low, most)
        };
        let (Model::Cellular { duration_s, mean_mbps, .. }
        | Model::Wifi { duration_s, mean_mbps, .. }
        | Model::Leo { duration_s, mean_mbps, .. }) = *self;
        within("duration_s", duration_s, 1.0, MAX_S)?;
        within("mean_mbps", mean_mbps, 1e-3, MAX_MBIT)?;
        if !matches!(self, Model::Leo { .. }) {
            within("duration_s times mean_mbps, Mbit,", duration_s * mean_mbps, 0.0, MAX_MBIT)?;
        }
        match *self {
            Model::Cellular { deviation, memory_s, flicker, burst, outage_every_s, outage_s, .. } => {
                within("deviation", deviation, 0.0, 2.0)?;
                within("memory_s", memory_s, 0.01, MAX_S)?;
                within("flicker", flicker, 0.0, 2.0)?;
                within("burst", burst, 1.0, 1000.0)?;
                within("outage_every_s", outage_every_s, 0.1, MAX_S)?;
                within("outage_s", outage_s, 0.0, MAX_S)
            }
            Model::Wifi { frame_ms, busy_every_s, busy_s, .. } => {
                pair("frame_ms", frame_ms, 0.1, 1000.0)?;
                within("busy_every_s", busy_every_s, 0.01, MAX_S)?;
                within("busy_s", busy_s, 0.0, busy_every_s)
            }
            Model::Leo { handover_every_s, handover_s, capacity, one_way_delay_ms, .. } => {
                within("handover_every_s", handover_every_s, 1.0, MAX_S)?;
                within("handover_s", handover_s, 0.0, handover_every_s / 2.0)?;
                pair("capacity", capacity, 0.01, 100.0)?;
                for share in capacity {
                    let mbps = mean_mbps * share;
                    within("mean_mbps times capacity", mbps, *RATE_MBPS.start(), *RATE_MBPS.end())?;
                }
                pair("one_way_delay_ms", one_way_delay_ms, 0.1, 1000.0)
            }
        }
    }

    /// The text of a trace, or of a scenario.
    pub fn make(&self, seed: u64) -> String {
        let rng = &mut Pcg64Mcg::seed_from_u64(seed);
        match *self {
            Model::Cellular {
                duration_s,
                mean_mbps,
                deviation,
                memory_s,
                flicker,
                burst,
                outage_every_s,
                outage_s,
            } => {
                let mean = Rate::from_mbps(mean_mbps * PACKET_BYTES / OPPORTUNITY_BYTES);
                let lte = Lte { mean, deviation, memory_s, outage_every_s, outage_s, flicker, burst };
                lines(lte.trace(rng, Dur::from_secs_f64(duration_s)).times_ms())
            }
            Model::Wifi { duration_s, mean_mbps, frame_ms, busy_every_s, busy_s } => {
                lines(&frames(rng, duration_s, mean_mbps, frame_ms, [busy_every_s, busy_s]))
            }
            Model::Leo {
                duration_s,
                mean_mbps,
                handover_every_s,
                handover_s,
                capacity,
                one_way_delay_ms,
            } => {
                let draw =
                    |rng: &mut Pcg64Mcg, [low, high]: [f64; 2]| low + (high - low) * rng.random::<f64>();
                let path =
                    |rng: &mut Pcg64Mcg| (mean_mbps * draw(rng, capacity), draw(rng, one_way_delay_ms));
                let (mbps, delay) = path(rng);
                let mut text = format!(
                    "# Made by `anole-eval trace make leo`, seed {seed}.\nname = \"leo\"\nduration_s = {duration_s:?}\n\n[[link]]\n\
                     name = \"bottleneck\"\ncapacity_mbps = {mbps:.3}\none_way_delay_ms = {delay:.3}\nbuffer_bytes = {}\n\n\
                     [[flow]]\nalg = \"anole\"\nunder_test = true\n",
                    (mean_mbps * 1e6 / 8.0 * 0.1) as u64
                );
                let mut at = handover_every_s;
                // In whole milliseconds, as it is written.
                while (at * 1e3).round() < duration_s * 1e3 {
                    let (mbps, delay) = path(rng);
                    if handover_s > 0.0 {
                        text += &change(at - handover_s, &format!("capacity_mbps = {LEAST_MBPS}"));
                    }
                    text += &change(at, &format!("capacity_mbps = {mbps:.3}\none_way_delay_ms = {delay:.3}"));
                    at += handover_every_s;
                }
                text
            }
        }
    }
}

/// During a handover: a packet in some seconds.
const LEAST_MBPS: f64 = *RATE_MBPS.start();

fn change(at_s: f64, what: &str) -> String {
    format!("\n[[change]]\nat_s = {at_s:.3}\nlink = \"bottleneck\"\n{what}\n")
}

/// Opportunities in frames: what has piled up since the last one, at the mean rate, goes at once.
fn frames(
    rng: &mut Pcg64Mcg,
    duration_s: f64,
    mean_mbps: f64,
    [low, high]: [f64; 2],
    [every, busy]: [f64; 2],
) -> Vec<u32> {
    let per_ms = mean_mbps * 1e3 / 8.0 / OPPORTUNITY_BYTES;
    let end_ms = (duration_s * 1e3) as u32;
    let (mut times, mut at, mut due) = (Vec::new(), 0.0, 0.0);
    let mut next_busy = exponential(rng) * every * 1e3;
    while at < f64::from(end_ms) {
        let mut gap = low + (high - low) * rng.random::<f64>();
        if at >= next_busy {
            gap += exponential(rng) * busy * 1e3;
            next_busy = at + gap + exponential(rng) * every * 1e3;
        }
        // Nothing piles up after the end.
        let gap = gap.min(f64::from(end_ms) - at);
        at += gap;
        due += gap * per_ms;
        times.extend((0..due as u64).map(|_| (at as u32).min(end_ms)));
        due -= due.floor();
    }
    times.push(end_ms);
    times
}

fn exponential(rng: &mut Pcg64Mcg) -> f64 {
    -(1.0 - rng.random::<f64>()).ln()
}

fn lines(times: &[u32]) -> String {
    times.iter().map(|ms| format!("{ms}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anole_sim::link::Trace;
    use anole_sim::scenario::Scenario;

    fn made(model: &Model, seed: u64) -> Statistics {
        Statistics::of(&Trace::parse(&model.make(seed)).unwrap())
    }

    /// What is read off a long trace is what it was made of.
    #[test]
    fn a_fit_finds_the_model_again() {
        let model = Model::Cellular {
            duration_s: 2000.0,
            mean_mbps: 8.0,
            deviation: 0.6,
            memory_s: 3.0,
            flicker: 0.5,
            burst: 4.0,
            outage_every_s: 15.0,
            outage_s: 0.8,
        };
        let Model::Cellular {
            mean_mbps, deviation, memory_s, flicker, burst, outage_every_s, outage_s, ..
        } = Model::fitted(&made(&model, 3))
        else {
            panic!("a cell")
        };
        for (what, found, of) in [
            ("mean", mean_mbps, 8.0),
            ("deviation", deviation, 0.6),
            ("memory", memory_s, 3.0),
            ("burst", burst, 4.0),
            ("time between outages", outage_every_s, 15.0),
            ("length of an outage", outage_s, 0.8),
        ] {
            assert!((found / of - 1.0).abs() < 0.35, "{what}: {found} of {of}");
        }
        assert!((0.3..1.2).contains(&flicker), "{flicker}");
    }

    /// Half of the windows are empty; those around them are no neighbours.
    #[test]
    fn a_fit_finds_the_memory_between_outages() {
        let model = Model::Cellular {
            duration_s: 4000.0,
            mean_mbps: 8.0,
            deviation: 0.6,
            memory_s: 3.0,
            flicker: 0.0,
            burst: 1.0,
            outage_every_s: 3.0,
            outage_s: 3.0,
        };
        for seed in 1..4 {
            let Model::Cellular { memory_s, .. } = Model::fitted(&made(&model, seed)) else {
                panic!("a cell")
            };
            assert!((memory_s / 3.0 - 1.0).abs() < 0.25, "seed {seed}: {memory_s}");
        }
    }

    #[test]
    fn whatever_is_fitted_can_be_made() {
        for text in
            [&"1\n".repeat(2000), "0\n1\n", "5100\n", "1\n3000\n", "1\n100000000\n", &"1\n".repeat(400_000)]
        {
            let model = Model::fitted(&Statistics::of(&Trace::parse(text).unwrap()));
            assert_eq!(model.check(), Ok(()), "{model:?}");
        }
    }

    #[test]
    fn one_seed_one_trace() {
        for kind in ["cellular", "wifi", "leo"] {
            let model = Model::preset(kind).unwrap();
            assert_eq!(model.check(), Ok(()));
            assert_eq!(model.make(1), model.make(1));
            assert_ne!(model.make(1), model.make(2));
            let text = toml::to_string(&model).unwrap();
            assert_eq!(toml::from_str::<Model>(&text).unwrap(), model);
        }
        assert_eq!(Model::preset("lte"), None);
    }

    #[test]
    fn wifi_has_its_mean_and_comes_in_frames() {
        let statistics = made(&Model::preset("wifi").unwrap(), 1);
        assert!((statistics.mean_mbps / 60.0 - 1.0).abs() < 0.02, "{statistics:?}");
        assert!(statistics.burst > 15.0 && (3..=7).contains(&statistics.gap_ms(0.5)), "{statistics:?}");
    }

    /// Others have the medium for ten seconds at a time, often at the end.
    #[test]
    fn wifi_carries_no_more_than_its_mean_however_it_ends() {
        let mut model = Model::preset("wifi").unwrap();
        if let Model::Wifi { busy_every_s, busy_s, .. } = &mut model {
            (*busy_every_s, *busy_s) = (20.0, 10.0);
        }
        for seed in 0..50 {
            let mean_mbps = made(&model, seed).mean_mbps;
            // One opportunity more marks the end.
            assert!(mean_mbps < 60.0 * 1.0001, "seed {seed}: {mean_mbps}");
        }
    }

    #[test]
    fn leo_is_a_scenario() {
        let text = Model::preset("leo").unwrap().make(1);
        let scenario = Scenario::parse(&text, "leo.toml", &[], &mut |_| Err(String::new())).unwrap();
        assert_eq!(scenario.links.len(), 1);
        assert_eq!(text.matches("[[change]]").count(), 2 * 7);
    }

    /// Handovers that are at the run's end once they are written, and capacities at both ends of what a link may have.
    #[test]
    fn whatever_leo_is_made_of_is_a_scenario() {
        let leo = |mean_mbps: f64, capacity: [f64; 2]| Model::Leo {
            duration_s: 60.0,
            mean_mbps,
            handover_every_s: 1.999_99,
            handover_s: 0.5,
            capacity,
            one_way_delay_ms: [0.1, 1000.0],
        };
        for (mean_mbps, capacity) in [(100.0, [0.01, 100.0]), (0.001, [1.0, 1.1]), (0.1, [0.01, 0.011])] {
            let model = leo(mean_mbps, capacity);
            assert_eq!(model.check(), Ok(()));
            for seed in 0..20 {
                let text = model.make(seed);
                let read = Scenario::parse(&text, "leo.toml", &[], &mut |_| Err(String::new()));
                assert!(read.is_ok(), "{:?}:\n{text}", read.err());
            }
        }
        for (mean_mbps, capacity) in [(100.0, [0.01, 100.1]), (0.001, [0.99, 1.1]), (400_000.0, [0.4, 1.6])] {
            assert!(leo(mean_mbps, capacity).check().is_err(), "{mean_mbps} {capacity:?}");
        }
    }

    #[test]
    fn what_no_trace_can_be_drawn_from_is_refused() {
        let mut model = Model::preset("cellular").unwrap();
        model.set_duration(0.0);
        assert!(model.check().unwrap_err().starts_with("duration_s = 0"));
        model.set_duration(f64::NAN);
        assert!(model.check().is_err());
        let mut model = Model::preset("wifi").unwrap();
        if let Model::Wifi { frame_ms, .. } = &mut model {
            *frame_ms = [8.0, 2.0];
        }
        assert!(model.check().unwrap_err().starts_with("frame_ms = 2"));
    }
}
