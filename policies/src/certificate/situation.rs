//! The boxes of situations, as boxes of features.

use super::{NOISE, Property, steady};
use crate::certificate::form::Form;
use crate::certificate::property::{EMPTY, FULL_LOSS, QUEUED, SHORT_BUFFER};
use crate::features::Features;
use crate::observation::Observation;
use crate::schema::{Feature, Schema, Signal};
use anole_model::{Dur, Rate};

/// Rate in force over delivery rate, at most.
pub const LARGEST_SENT: f64 = 1.25;
/// MSS, bytes.
const MSS: u32 = 1448;
/// Figures of a situation.
const FIGURES: usize = 7;

/// From and to of: delivery rate (Mbps), smallest round-trip time (ms), RTT over it, rate in force over delivery rate,
/// delivery rate over the largest one, loss, slope of the round-trip time.
type Ranges = [[f64; 2]; FIGURES];

/// Links of the random suite; a bottleneck that is full delivers what it can.
fn ranges(property: Property) -> Ranges {
    let (rate, rtt) = ([1.0, 200.0], [5.0, 200.0]);
    let flat = [-0.02, 0.02];
    match property {
        Property::DoesNotRise => {
            [rate, rtt, [QUEUED, SHORT_BUFFER], [1.0, LARGEST_SENT], [0.8, 1.0], [FULL_LOSS, 0.2], flat]
        }
        Property::DoesNotFall => {
            [rate, rtt, [1.0, EMPTY], [1.0, LARGEST_SENT], [0.25, 1.0], [0.0, 0.0], flat]
        }
        Property::BearsNoise => {
            [rate, rtt, [1.0, SHORT_BUFFER], [1.0, LARGEST_SENT], [0.5, 1.0], [0.0, 0.05], flat]
        }
    }
}

/// What was measured in a situation; measured delays are longer by the share `noise`, the smallest ones exact: noise that
/// lasts for as long as those do is another path.
fn observation(schema: &Schema, at: [f64; FIGURES], noise: f64) -> (Observation, f64) {
    let [delivered_mbps, min_rtt_ms, stretch, sent, of_largest, loss, slope] = at;
    let delivery_rate = Rate::from_mbps(delivered_mbps);
    let rate = delivery_rate * sent;
    let rtt_s = min_rtt_ms * stretch / 1e3 * (1.0 + noise);
    let interval_s = (schema.interval.ms / 1e3).max(schema.interval.rtts * rtt_s).max(1e-3);
    let acks = delivery_rate.bytes_per_s() * interval_s / f64::from(MSS);
    let window = (rate.bytes_per_s() * rtt_s) as u64;
    let seen = Observation {
        rate,
        delivery_rate,
        srtt: Dur::from_secs_f64(rtt_s),
        min_rtt: Dur::from_secs_f64(min_rtt_ms / 1e3),
        min_rtt_10s: Dur::from_secs_f64(min_rtt_ms / 1e3),
        min_rtt_2s: Dur::from_secs_f64(min_rtt_ms / 1e3),
        max_delivery_10s: Rate::from_mbps(delivered_mbps / of_largest),
        rtt: Dur::from_secs_f64(rtt_s),
        rtt_var: Dur::from_secs_f64(0.02 * rtt_s),
        rtt_gradient: slope * (1.0 + noise),
        loss_rate: loss,
        interval: Dur::from_secs_f64(interval_s),
        cwnd: window,
        inflight: window,
        // Not rounded: a packet more or less of a few is another share lost than the situation's.
        acks,
        lost: acks * loss / (1.0 - loss),
        mss: MSS,
    };
    (seen, delivered_mbps / of_largest)
}

/// A property's box, as a network sees it.
pub struct Input {
    /// Of each feature of a set.
    low: Vec<f64>,
    high: Vec<f64>,
    /// By how much noise moves each.
    noise: Vec<f64>,
    /// By how much each that tells of an earlier decision is off the middle of its range: it is another in each set and at
    /// each decision.
    decided: Vec<f64>,
    sets: usize,
    /// The feature that is the rate in force over the delivery rate, as it is in all of the box.
    pub sent_over_delivered: Option<usize>,
}

/// A piece of a box: from and to of each feature.
#[derive(Clone, Debug)]
pub struct Parts(Vec<[f64; 2]>);

impl Parts {
    /// A feature's range.
    pub fn side(&self, feature: usize) -> [f64; 2] {
        self.0[feature]
    }

    /// The two halves along a feature; none where it has no width.
    pub fn halves(&self, feature: usize) -> Option<[Parts; 2]> {
        let [low, high] = *self.0.get(feature)?;
        let middle = low + (high - low) / 2.0;
        (middle > low && middle < high).then(|| {
            [[low, middle], [middle, high]].map(|range| {
                let mut half = self.clone();
                half.0[feature] = range;
                half
            })
        })
    }
}

impl Input {
    /// The box of a property.
    pub fn of(schema: &Schema, property: Property) -> Input {
        let ranges = ranges(property);
        let width = schema.features.len();
        let mut input = Input {
            low: vec![f64::INFINITY; width],
            high: vec![f64::NEG_INFINITY; width],
            noise: vec![0.0; width],
            decided: vec![0.0; width],
            sets: schema.history,
            sent_over_delivered: schema.features.iter().position(|feature| {
                (feature.signal, feature.per) == (Signal::SendingRateMbps, Some(Signal::DeliveryRateMbps))
                    && feature.scale == 1.0
                    && feature.clip[0] <= 1.0
                    && feature.clip[1] >= LARGEST_SENT
            }),
        };
        // The middles too: noise shows there where the corners are clipped.
        for place in 0..3usize.pow(FIGURES as u32) {
            let at: [f64; FIGURES] = std::array::from_fn(|n| {
                let [low, high] = ranges[n];
                low + (high - low) * (place / 3usize.pow(n as u32) % 3) as f64 / 2.0
            });
            let [plain, less, more] = [0.0, -NOISE, NOISE].map(|noise| features(schema, at, noise));
            for n in 0..width {
                input.low[n] = input.low[n].min(plain[n]);
                input.high[n] = input.high[n].max(plain[n]);
                let moved = (less[n] - plain[n]).abs().max((more[n] - plain[n]).abs());
                input.noise[n] = input.noise[n].max(moved);
            }
        }
        for (n, feature) in schema.features.iter().enumerate() {
            // A product of powers of delays moves by this share of itself, wherever in the box it is.
            let largest = input.low[n].abs().max(input.high[n].abs());
            if input.noise[n] > 0.0 {
                input.noise[n] = input.noise[n].max(largest * NOISE / (1.0 - NOISE));
            }
            // What was decided before may be anything, each time: no side of the box.
            if tells_of_decisions(feature) {
                let [low, high] = feature.clip;
                let middle = low + (high - low) / 2.0;
                (input.low[n], input.high[n]) = (middle, middle);
                (input.decided[n], input.noise[n]) = ((high - low) / 2.0, 0.0);
            }
        }
        input
    }

    /// All of it.
    pub fn whole(&self) -> Parts {
        Parts(self.low.iter().zip(&self.high).map(|(&low, &high)| [low, high]).collect())
    }

    /// The features that vary in a piece.
    fn varying(parts: &Parts) -> impl Iterator<Item = usize> {
        let varying: Vec<usize> = (0..parts.0.len()).filter(|&n| parts.0[n][1] > parts.0[n][0]).collect();
        varying.into_iter()
    }

    /// The network's input in a piece at a decision: an ε for each feature, the same in every set and at every decision;
    /// then those that are others in each set and at each decision ([`Input::apart`]). The second value is the number of
    /// the former.
    pub fn form(&self, parts: &Parts, decision: usize, noise: bool) -> (Form, usize) {
        let mut form = self.centre(parts);
        for feature in Input::varying(parts) {
            let [low, high] = parts.0[feature];
            form.gains.push(self.repeated(|n| if n == feature { (high - low) / 2.0 } else { 0.0 }));
        }
        let (own, inputs) = (form.gains.len(), form.len());
        let apart = self.apart(noise);
        form.gains.resize(own + decision * apart.len(), vec![0.0; inputs]);
        for (at, moved, _) in apart {
            let mut gain = vec![0.0; inputs];
            gain[at] = moved;
            form.gains.push(gain);
        }
        (form, own)
    }

    /// What an ε of its own moves in each set and at each decision: where in the input, by how much, and how far apart it
    /// is, in that, in two flows of which one has the noise. Earlier decisions may be opposite there.
    pub fn apart(&self, noise: bool) -> Vec<(usize, f64, f64)> {
        let width = self.noise.len();
        let of = |moved: &[f64], apart: f64| -> Vec<(usize, f64, f64)> {
            let all = (0..self.sets * width).map(|at| (at, moved[at % width], apart));
            all.filter(|(_, moved, _)| *moved > 0.0).collect()
        };
        let noise = if noise { of(&self.noise, 1.0) } else { Vec::new() };
        [of(&self.decided, 2.0), noise].concat()
    }

    /// The middle of a piece.
    pub fn centre(&self, parts: &Parts) -> Form {
        Form::exact(self.repeated(|n| (parts.0[n][0] + parts.0[n][1]) / 2.0))
    }

    fn repeated(&self, value: impl Fn(usize) -> f64) -> Vec<f64> {
        let set: Vec<f64> = (0..self.low.len()).map(value).collect();
        set.repeat(self.sets)
    }

    /// The feature that matters most in a piece, by `gain` of its ε and itself; where none does, the one that has been
    /// bisected least.
    pub fn side(&self, parts: &Parts, gain: impl Fn(usize, usize) -> f64) -> usize {
        let share = |n: usize| (parts.0[n][1] - parts.0[n][0]) / (self.high[n] - self.low[n]);
        let weights = Input::varying(parts).enumerate().map(|(g, n)| (n, gain(g, n), share(n)));
        let better = |a: &(usize, f64, f64), b: &(usize, f64, f64)| {
            // By what the output feels; a side as wide as at first counts even where its gain is small.
            (a.1 + 1e-3 * a.2).total_cmp(&(b.1 + 1e-3 * b.2))
        };
        weights.max_by(better).map_or(0, |(n, ..)| n)
    }
}

fn tells_of_decisions(feature: &Feature) -> bool {
    let decided = |signal: Signal| matches!(signal, Signal::PreviousAction | Signal::PreviousActionIs);
    decided(feature.signal) || feature.per.is_some_and(decided)
}

/// One set of features of a situation that has lasted.
fn features(schema: &Schema, at: [f64; FIGURES], noise: f64) -> Vec<f64> {
    let (seen, largest) = observation(schema, at, noise);
    let mut features = Features::new(schema);
    features.remember(largest);
    features.push(&seen);
    steady(&features, schema.history).iter().map(|&x| f64::from(x)).collect()
}

/// The features at a place of the box that `random` draws, each figure between 0 and 1 of its range.
#[cfg(test)]
pub fn sample(schema: &Schema, property: Property, mut random: impl FnMut() -> f64) -> Vec<f64> {
    features(schema, ranges(property).map(|[low, high]| low + (high - low) * random()), 0.0)
}
