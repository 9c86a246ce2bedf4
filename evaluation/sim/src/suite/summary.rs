//! What came out over all links: means, percentiles, and the first contestant against each other.

use crate::result::RunResult;
use crate::scenario::Scenario;
use anole_model::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

/// Resamples of the bootstrap.
const RESAMPLES: usize = 2000;

/// How the flow under test did on one link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkOutcome {
    /// Delivered over what the link could carry.
    pub utilization: f64,
    /// One-way delay beyond the ideal one, mean and 95th percentile; `None` when nothing arrived.
    pub delay_mean_ms: Option<f64>,
    /// Its 95th percentile.
    pub delay_p95_ms: Option<f64>,
    /// Packets lost.
    pub loss: f64,
    /// Kleinrock's power ([`RunResult::power`]); 0 when nothing arrived.
    pub power: f64,
}

impl LinkOutcome {
    /// Of the first flow of a run over this link.
    pub fn of(run: &RunResult, link: &Scenario) -> LinkOutcome {
        let flow = &run.flows[0];
        let stop = Time::from_secs_f64(flow.stop_s);
        let ideal_ms = link.ideal_owd(0, &link.changes, stop).as_millis_f64();
        LinkOutcome {
            utilization: run.share_of_capacity(0).unwrap_or(0.0),
            delay_mean_ms: flow.owd_mean_ms.map(|ms| (ms - ideal_ms).max(0.0)),
            delay_p95_ms: flow.owd_p95_ms.map(|ms| (ms - ideal_ms).max(0.0)),
            loss: flow.loss_rate.unwrap_or(0.0),
            power: run.power(0).unwrap_or(0.0),
        }
    }
}

/// A difference over links, the first contestant's figure less the other's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Mean.
    pub mean: f64,
    /// Lower bound of its 95 % interval (percentile bootstrap over links, 2000 resamples); `None` of one link.
    pub low: Option<f64>,
    /// The upper one.
    pub high: Option<f64>,
    /// Share of links on which the first has the larger figure.
    pub wins: f64,
}

/// The figures of one contestant, as `--summary` prints them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures<'a> {
    /// Algorithm and policy.
    pub alg: &'a str,
    /// Links.
    pub links: usize,
    /// Mean over links, as are all but those with p10 in their name.
    pub utilization: f64,
    /// Tenth percentile over links.
    pub utilization_p10: f64,
    /// One-way delay beyond the ideal one, over the links on which anything arrived; `None` without any.
    pub delay_mean_ms: Option<f64>,
    /// Its 95th percentile over packets.
    pub delay_p95_ms: Option<f64>,
    /// Share of packets.
    pub loss_rate: f64,
    /// Kleinrock's power.
    pub power: f64,
    /// Tenth percentile over links.
    pub power_p10: f64,
    /// The first contestant's power less this one's.
    pub first_less_this_power: Difference,
    /// The same of the utilisation.
    pub first_less_this_utilization: Difference,
}

/// Figures of one contestant; `first` are the outcomes of the first one on the same links.
pub fn figures<'a>(alg: &'a str, outcomes: &[LinkOutcome], first: &[LinkOutcome]) -> Figures<'a> {
    let all = |figure: fn(&LinkOutcome) -> f64| -> Vec<f64> { outcomes.iter().map(figure).collect() };
    let known = |figure: fn(&LinkOutcome) -> Option<f64>| {
        let known: Vec<f64> = outcomes.iter().filter_map(figure).collect();
        (!known.is_empty()).then(|| mean(&known))
    };
    let less = |figure: fn(&LinkOutcome) -> f64| {
        difference(&first.iter().zip(outcomes).map(|(a, b)| figure(a) - figure(b)).collect::<Vec<_>>())
    };
    Figures {
        alg,
        links: outcomes.len(),
        utilization: mean(&all(|o| o.utilization)),
        utilization_p10: percentile(all(|o| o.utilization), 0.1),
        delay_mean_ms: known(|o| o.delay_mean_ms),
        delay_p95_ms: known(|o| o.delay_p95_ms),
        loss_rate: mean(&all(|o| o.loss)),
        power: mean(&all(|o| o.power)),
        power_p10: percentile(all(|o| o.power), 0.1),
        first_less_this_power: less(|o| o.power),
        first_less_this_utilization: less(|o| o.utilization),
    }
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// By linear interpolation.
fn percentile(mut values: Vec<f64>, fraction: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = fraction * values.len().saturating_sub(1) as f64;
    let below = values.get(place as usize).copied().unwrap_or(0.0);
    let above = values.get(place.ceil() as usize).copied().unwrap_or(below);
    below + (above - below) * place.fract()
}

/// Bounds of the 95 % interval of a mean (percentile bootstrap, 2000 resamples); `None` of fewer than two values.
pub fn interval(values: &[f64]) -> Option<[f64; 2]> {
    let count = values.len();
    if count < 2 {
        return None;
    }
    // The resamples are the same for every comparison, and no figure depends on what ran before.
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let resample = |_| {
        let drawn = (0..count).map(|_| values[rng.random_range(0..count)]);
        drawn.sum::<f64>() / count as f64
    };
    let means: Vec<f64> = (0..RESAMPLES).map(resample).collect();
    Some([percentile(means.clone(), 0.025), percentile(means, 0.975)])
}

fn difference(differences: &[f64]) -> Difference {
    let bounds = interval(differences);
    Difference {
        mean: mean(differences),
        low: bounds.map(|[low, _]| low),
        high: bounds.map(|[_, high]| high),
        wins: mean(&differences.iter().map(|&d| f64::from(d > 0.0)).collect::<Vec<_>>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(power: f64) -> LinkOutcome {
        LinkOutcome { utilization: power, delay_mean_ms: Some(1.0), delay_p95_ms: None, loss: 0.0, power }
    }

    #[test]
    fn a_constant_difference_has_no_spread_and_a_random_one_has_its_mean_inside() {
        let first: Vec<LinkOutcome> = (0..50).map(|i| outcome(0.5 + 0.005 * f64::from(i))).collect();
        let less: Vec<LinkOutcome> = first.iter().map(|o| outcome(o.power - 0.1)).collect();
        let all = figures("b", &less, &first);
        let constant = all.first_less_this_power;
        let [low, high] = [constant.low, constant.high].map(Option::unwrap);
        assert!((constant.mean - 0.1).abs() < 1e-9 && (high - low).abs() < 1e-9);
        // Nothing arrived that would have a percentile.
        assert_eq!((constant.wins, all.delay_mean_ms, all.delay_p95_ms), (1.0, Some(1.0), None));
        let varied = difference(&[-1.0, 0.0, 1.0, 2.0, 3.0]);
        let [low, high] = [varied.low, varied.high].map(Option::unwrap);
        assert!(low < varied.mean && varied.mean < high && varied.wins == 0.6, "{varied:?}");
        assert_eq!(varied, difference(&[-1.0, 0.0, 1.0, 2.0, 3.0]));
        assert_eq!(percentile(vec![4.0, 0.0, 1.0, 2.0, 3.0], 0.1), 0.4);
        let one = difference(&[0.2]);
        assert_eq!((one.mean, one.low, one.high), (0.2, None, None));
    }
}
