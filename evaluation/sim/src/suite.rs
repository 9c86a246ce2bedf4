//! Random links: what policies are trained on, and what they are judged on.
//!
//! [`Ranges`] says what to draw from, [`Ranges::draw`] makes a scenario of it. A draw is a function of
//! ranges, purpose, seed and number alone. The streams of random numbers of [`Purpose::Training`] and
//! [`Purpose::Evaluation`] differ for every seed, so that no link of an evaluation was ever trained on.

mod changes;
mod radio;
mod ranges;
mod summary;
#[cfg(test)]
mod tests;

pub use ranges::{Ranges, RangesError};
pub use summary::{Difference, Figures, LinkOutcome, figures, interval};

use crate::link::{Capacity, Lte, QueueKind};
use crate::scenario::{AGENT_DELAY, Change, FlowSpec, HEADER_BYTES, INFERENCE, LinkSpec, Places, Scenario};
use anole_model::seed::derive_path;
use anole_model::{Dur, Rate, Time};
use radio::Medium;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;

/// Payload of a full packet, bytes.
const MSS: u32 = 1448;
/// A buffer holds at least this many full packets.
const MIN_BUFFER_PACKETS: f64 = 2.0;

/// What links are drawn for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Training, in the parallel environment with this number.
    Training(u32),
    /// Evaluation.
    Evaluation,
}

/// The random numbers of one draw.
fn stream(purpose: Purpose, seed: u64, number: u64) -> Pcg64Mcg {
    let (kind, environment) = match purpose {
        Purpose::Evaluation => (1, 0),
        Purpose::Training(environment) => (2, u64::from(environment)),
    };
    Pcg64Mcg::seed_from_u64(derive_path(&[kind, seed, environment, number]))
}

/// Log-uniform between the two, which are above 0.
fn log_uniform(rng: &mut Pcg64Mcg, [low, high]: [f64; 2]) -> f64 {
    (low.ln() + (high / low).ln() * rng.random::<f64>()).exp()
}

fn uniform(rng: &mut Pcg64Mcg, [low, high]: [f64; 2]) -> f64 {
    low + (high - low) * rng.random::<f64>()
}

impl Ranges {
    /// Draws a scenario: one link, the flow under test (number 0, running `alg`), cross traffic, and further flows
    /// under test.
    pub fn draw(&self, alg: &str, purpose: Purpose, seed: u64, number: u64) -> Scenario {
        let mut rng = stream(purpose, seed, number);
        let mbps = log_uniform(&mut rng, self.capacity_mbps);
        let rtt = Dur::from_secs_f64(log_uniform(&mut rng, self.rtt_ms) / 1e3);
        let rate = Rate::from_mbps(mbps);
        let buffer_bytes = match self.buffer_bytes {
            Some(range) => log_uniform(&mut rng, range),
            None => log_uniform(&mut rng, self.buffer_bdp) * rate.bytes_in(rtt),
        };
        let lossless = rng.random::<f64>() < self.lossless;
        let loss = uniform(&mut rng, self.loss);
        let kind = rng.random::<f64>();
        let duration = Dur::from_secs_f64(self.duration_s);
        let mut medium = Medium::default();
        let (capacity, mut changes) = if kind < self.traces {
            let busy = self.busy_cells > 0.0 && rng.random::<f64>() < self.busy_cells;
            let cell = if busy { radio::busy_cell(rate) } else { Lte::with_mean(rate) };
            (Capacity::Trace(cell.trace(&mut rng, duration).into()), Vec::new())
        } else if kind < self.traces + self.steps {
            (Capacity::Fixed(rate), changes::capacity(&mut rng, self.capacity_mbps, mbps, duration))
        } else if kind < self.traces + self.steps + self.wifi {
            medium = radio::wifi(&mut rng);
            (Capacity::Trace(radio::wifi_rate(rate).trace(&mut rng, duration).into()), Vec::new())
        } else {
            (Capacity::Fixed(rate), Vec::new())
        };
        let mut flows = vec![FlowSpec { under_test: true, ..flow(alg, 0.0, self.duration_s) }];
        flows[0].start = Time::from_secs_f64(uniform(&mut rng, self.start_s));
        let [fewest, most] = self.cross_flows;
        for _ in 0..rng.random_range(fewest..=most) {
            let alg = &self.cross_algs[rng.random_range(0..self.cross_algs.len())];
            let start = uniform(&mut rng, [0.0, 0.5 * self.duration_s]);
            let stop = start + uniform(&mut rng, [0.25, 1.0]) * self.duration_s;
            flows.push(flow(alg, start, stop.min(self.duration_s)));
        }
        // As large as every reader of JSON can tell apart.
        let run_seed = rng.random::<u64>() >> 11;
        // Drawn last, so that ranges without them draw what they always drew.
        let [fewest, most] = self.own_flows;
        if most > 0 {
            for _ in 0..rng.random_range(fewest..=most) {
                let start = uniform(&mut rng, [0.0, 0.5 * self.duration_s]);
                flows.push(FlowSpec { under_test: true, ..flow(alg, start, self.duration_s) });
            }
        }
        if self.rtt_steps > 0.0 && rng.random::<f64>() < self.rtt_steps {
            changes.extend(changes::round_trip(&mut rng, rtt, duration));
            changes.sort_by_key(|&(at, _)| at);
        }
        if self.ack_jitter_us[1] > 0.0 {
            let jitter = Dur::from_secs_f64(uniform(&mut rng, self.ack_jitter_us) / 1e6);
            flows.iter_mut().for_each(|flow| flow.ack_jitter = jitter);
        }
        Scenario {
            name: format!("link {number}"),
            source: String::new(),
            duration,
            warmup: Dur::ZERO,
            seed: run_seed,
            mss: MSS,
            agent_delay: AGENT_DELAY,
            inference: INFERENCE,
            links: vec![LinkSpec {
                name: "bottleneck".to_string(),
                capacity,
                lte: None,
                one_way_delay: rtt / 2,
                reverse_delay: None,
                buffer_bytes: buffer_bytes.max(MIN_BUFFER_PACKETS * f64::from(MSS + HEADER_BYTES)) as u64,
                random_loss: if lossless { 0.0 } else { loss },
                queue: QueueKind::DropTail,
                aggregation: medium.aggregation,
                impairments: medium.impairments,
                cross: Vec::new(),
            }],
            changes: changes.into_iter().map(|(at, change)| Change { at, link: 0, change }).collect(),
            random_changes: Vec::new(),
            flows,
            params: BTreeMap::new(),
        }
    }
}

fn flow(alg: &str, start_s: f64, stop_s: f64) -> FlowSpec {
    FlowSpec {
        alg: alg.to_string(),
        under_test: false,
        start: Time::from_secs_f64(start_s),
        stop: Time::from_secs_f64(stop_s),
        path: vec![0],
        extra_delay: Dur::ZERO,
        bytes: None,
        drawn: None,
        app: None,
        delayed_ack: false,
        ack_jitter: Dur::ZERO,
        ecn: false,
        classic: None,
        policy: None,
        preferences: Vec::new(),
        places: Places::default(),
    }
}
