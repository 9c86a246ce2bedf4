//! Capacities that change in steps.

use crate::scenario::LinkChange;
use anole_model::{Dur, Rate, Time};
use rand_pcg::Pcg64Mcg;

/// Time between two steps, s.
const STEP_S: [f64; 2] = [2.0, 10.0];
/// A step changes the capacity to the first one times 2^±1.
const STEP_OCTAVES: [f64; 2] = [-1.0, 1.0];

/// Steps of a capacity that begins at `mbps` and stays within `range`.
pub(super) fn steps(
    rng: &mut Pcg64Mcg,
    [low, high]: [f64; 2],
    mbps: f64,
    duration: Dur,
) -> Vec<(Time, LinkChange)> {
    let mut changes = Vec::new();
    let mut at_s = super::uniform(rng, STEP_S);
    while at_s < duration.as_secs_f64() {
        let next = (mbps * super::uniform(rng, STEP_OCTAVES).exp2()).clamp(low, high);
        let change = LinkChange { capacity: Some(Rate::from_mbps(next)), ..LinkChange::default() };
        changes.push((Time::from_secs_f64(at_s), change));
        at_s += super::uniform(rng, STEP_S);
    }
    changes
}
