//! What happens at given times: changes of links, the end of the warm-up, the start of fairness.

use super::{Stream, stream};
use crate::scenario::{LinkChange, Scenario};
use anole_model::{Dur, Rate, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;

/// An entry of the timetable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Entry {
    Change(usize, LinkChange),
    /// From here on figures count.
    WarmUpOver,
    /// All flows have started, and figures count.
    AllStarted,
}

/// Every entry of a run, in order of time. Random changes are drawn from the seed beforehand, so that
/// they do not depend on what the flows do.
pub(super) fn timetable(scenario: &Scenario, seed: u64) -> VecDeque<(Time, Entry)> {
    let warmup = Time::ZERO + scenario.warmup;
    let all_started = scenario.flows.iter().map(|flow| flow.start).fold(warmup, Time::max);
    let mut entries = vec![(warmup, Entry::WarmUpOver), (all_started, Entry::AllStarted)];
    entries.extend(scenario.changes.iter().map(|c| (c.at, Entry::Change(c.link, c.change))));
    for (index, random) in scenario.random_changes.iter().enumerate() {
        let mut rng = Pcg64Mcg::seed_from_u64(stream(seed, Stream::Changes(index)));
        let mut draw =
            |range: Option<(f64, f64)>| range.map(|(low, high)| low + (high - low) * rng.random::<f64>());
        let mut at = Time::ZERO + random.every;
        while at < scenario.end() {
            let change = LinkChange {
                capacity: draw(random.capacity_mbps).map(Rate::from_mbps),
                one_way_delay: draw(random.one_way_delay_ms).map(|ms| Dur::from_secs_f64(ms / 1e3)),
                random_loss: draw(random.random_loss),
                buffer_bytes: None,
            };
            entries.push((at, Entry::Change(random.link, change)));
            at += random.every;
        }
    }
    // Stable: entries of the same time stay in the order above.
    entries.sort_by_key(|&(at, _)| at);
    entries.into()
}
