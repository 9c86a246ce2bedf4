//! Capacities and round-trip times that change in steps.

use crate::scenario::LinkChange;
use anole_model::{Dur, Rate, Time};
use rand_pcg::Pcg64Mcg;

/// Time between two steps, s.
const STEP_S: [f64; 2] = [2.0, 10.0];
/// A step changes a value to the first one times 2^±1.
const STEP_OCTAVES: [f64; 2] = [-1.0, 1.0];

/// Steps of a capacity that begins at `mbps` and stays within `range`.
pub(super) fn capacity(
    rng: &mut Pcg64Mcg,
    [low, high]: [f64; 2],
    mbps: f64,
    duration: Dur,
) -> Vec<(Time, LinkChange)> {
    steps(rng, duration, |factor| LinkChange {
        capacity: Some(Rate::from_mbps((mbps * factor).clamp(low, high))),
        ..LinkChange::default()
    })
}

/// Steps of a round-trip time that begins at `rtt`: a route changes.
pub(super) fn round_trip(rng: &mut Pcg64Mcg, rtt: Dur, duration: Dur) -> Vec<(Time, LinkChange)> {
    steps(rng, duration, |factor| LinkChange {
        one_way_delay: Some((rtt / 2).mul_f64(factor)),
        ..LinkChange::default()
    })
}

fn steps(rng: &mut Pcg64Mcg, duration: Dur, change: impl Fn(f64) -> LinkChange) -> Vec<(Time, LinkChange)> {
    let mut changes = Vec::new();
    let mut at_s = super::uniform(rng, STEP_S);
    while at_s < duration.as_secs_f64() {
        changes.push((Time::from_secs_f64(at_s), change(super::uniform(rng, STEP_OCTAVES).exp2())));
        at_s += super::uniform(rng, STEP_S);
    }
    changes
}
