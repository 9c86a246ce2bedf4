//! What a run draws and computes alike whether it is simulated or emulated.

use crate::link::{Capacity, CrossTraffic, LinkConfig};
use crate::scenario::{Change, LinkChange, Scenario};
use crate::streams::Stream;
use anole_model::{Dur, Rate, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The datapath's default patience with a silent agent.
pub(super) const AGENT_TIMEOUT: Dur = Dur::from_millis(500);

/// The links of a scenario, each with its streams of random numbers; a varying capacity is drawn here.
pub fn link_configs(scenario: &Scenario, seed: u64) -> Vec<LinkConfig> {
    let links = scenario.links.iter().enumerate();
    links
        .map(|(index, spec)| LinkConfig {
            capacity: match &spec.lte {
                None => spec.capacity.clone(),
                Some(lte) => {
                    let mut rng = Pcg64Mcg::seed_from_u64(Stream::Capacity(index).seed(seed));
                    Capacity::Trace(lte.trace(&mut rng, scenario.duration).into())
                }
            },
            delay: spec.one_way_delay,
            buffer_bytes: spec.buffer_bytes,
            random_loss: spec.random_loss,
            queue: spec.queue,
            aggregation: spec.aggregation,
            impairments: spec.impairments.clone(),
            cross: cross_traffic(scenario, index),
            full_packet: scenario.full_packet(),
            seed: Stream::Link(index).seed(seed),
        })
        .collect()
}

/// A link's cross traffic: numbered behind the flows, and over with the run.
fn cross_traffic(scenario: &Scenario, link: usize) -> Vec<CrossTraffic> {
    let number = |source: usize| (scenario.flows.len() + source) as u32;
    let sources = scenario.links[link].cross.iter().enumerate();
    sources
        .map(|(source, cross)| CrossTraffic {
            flow: number(source),
            stop: cross.stop.min(scenario.end()),
            ..cross.clone()
        })
        .collect()
}

/// Every change of a run, in order of time. Random changes are drawn from the seed beforehand, so that
/// they do not depend on what the flows do.
pub fn changes(scenario: &Scenario, seed: u64) -> Vec<Change> {
    let mut changes = scenario.changes.clone();
    for (index, random) in scenario.random_changes.iter().enumerate() {
        let mut rng = Pcg64Mcg::seed_from_u64(Stream::Changes(index).seed(seed));
        let mut draw =
            |range: Option<(f64, f64)>| range.map(|(low, high)| low + (high - low) * rng.random::<f64>());
        let mut at = Time::ZERO + random.every;
        while at < scenario.end() {
            let change = LinkChange {
                capacity: draw(random.capacity_mbps).map(Rate::from_mbps),
                one_way_delay: draw(random.one_way_delay_ms).map(|ms| Dur::from_secs_f64(ms / 1e3)),
                random_loss: draw(random.random_loss),
                ..LinkChange::default()
            };
            changes.push(Change { at, link: random.link, change });
            at += random.every;
        }
    }
    // Stable: changes of the same time stay in the order above.
    changes.sort_by_key(|change| change.at);
    changes
}

/// Jain's index, (Σx)² / (n·Σx²); `None` when nothing was delivered at all.
pub fn jain_index(goodputs: &[f64]) -> Option<f64> {
    let sum: f64 = goodputs.iter().sum();
    let squares: f64 = goodputs.iter().map(|x| x * x).sum();
    (squares > 0.0).then(|| sum * sum / (goodputs.len() as f64 * squares))
}
