//! Capacities that vary: steps, and something like a cellular link.

use crate::link::{OPPORTUNITY_BYTES, Trace};
use crate::scenario::LinkChange;
use anole_model::{Dur, Rate, Time};
use rand::RngExt;
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

/// The rate is drawn anew this often.
const TICK_S: f64 = 0.02;
/// Time constant of the logarithm of the rate.
const MEMORY_S: f64 = 2.0;
/// Its standard deviation.
const DEVIATION: f64 = 0.5;
/// Mean time between two outages.
const OUTAGE_EVERY_S: f64 = 20.0;
/// Mean length of an outage.
const OUTAGE_S: f64 = 0.2;

/// Delivery opportunities like those of an LTE downlink: a Poisson process whose rate varies, with
/// outages, as in the model of Winstein et al., *Stochastic Forecasts Achieve High Throughput and Low
/// Delay over Cellular Networks* (NSDI 2013, §3.1). There the rate is a Brownian motion; here its
/// logarithm returns to its mean (Ornstein–Uhlenbeck), so that the capacity has a mean, `mean`.
pub(super) fn lte(rng: &mut Pcg64Mcg, mean: Rate, duration: Dur) -> Trace {
    let per_s = mean.bytes_per_s() / f64::from(OPPORTUNITY_BYTES);
    let end_s = duration.as_secs_f64().max(1.0);
    let keep = (-TICK_S / MEMORY_S).exp();
    let spread = DEVIATION * (1.0 - keep * keep).sqrt();
    let mut level = DEVIATION * normal(rng);
    let mut outage_until_s = 0.0;
    let mut at_ms = Vec::with_capacity((per_s * end_s * 1.2) as usize);
    let end_ms = (end_s * 1e3).ceil() as u32;
    for tick in 0..(end_s / TICK_S).ceil() as u32 {
        let tick_s = f64::from(tick) * TICK_S;
        level = keep * level + spread * normal(rng);
        if rng.random::<f64>() < TICK_S / OUTAGE_EVERY_S {
            outage_until_s = tick_s + OUTAGE_S * exponential(rng);
        }
        if tick_s >= outage_until_s {
            let rate = per_s * (level - DEVIATION * DEVIATION / 2.0).exp();
            let mut at_s = exponential(rng) / rate;
            while at_s < TICK_S {
                at_ms.push((((tick_s + at_s) * 1e3) as u32).min(end_ms));
                at_s += exponential(rng) / rate;
            }
        }
    }
    // The last opportunity is the length of the trace.
    at_ms.push(end_ms);
    Trace::from_times(at_ms)
}

fn exponential(rng: &mut Pcg64Mcg) -> f64 {
    -(1.0 - rng.random::<f64>()).ln()
}

/// Box and Muller.
fn normal(rng: &mut Pcg64Mcg) -> f64 {
    (2.0 * exponential(rng)).sqrt() * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}
