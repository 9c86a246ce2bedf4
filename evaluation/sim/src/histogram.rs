//! A fixed-size histogram of durations, fine enough for the percentiles of a result.
//!
//! Values are counted in whole microseconds: exactly below 512 µs, above that in 256 steps per octave,
//! so that a percentile is within 0.2 % of the exact one. Means are exact.

use anole_model::Dur;

/// Bits of resolution: 2^8 steps per octave.
const STEP_BITS: u32 = 8;
/// Buckets for every u32 of microseconds (71 minutes); longer values count in the last bucket.
const BUCKETS: usize = (33 - STEP_BITS as usize) << STEP_BITS;

/// Counts durations.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum_nanos: u128,
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Histogram {
        Histogram { counts: vec![0; BUCKETS], total: 0, sum_nanos: 0 }
    }

    /// Counts one value.
    pub fn add(&mut self, value: Dur) {
        let micros = value.as_micros().min(u64::from(u32::MAX)) as u32;
        self.counts[bucket(micros)] += 1;
        self.total += 1;
        self.sum_nanos += u128::from(value.as_nanos());
    }

    /// Forgets every value.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        self.total = 0;
        self.sum_nanos = 0;
    }

    /// Values counted.
    pub fn len(&self) -> u64 {
        self.total
    }

    /// True when nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Sum of the values, ns.
    pub fn sum_nanos(&self) -> u128 {
        self.sum_nanos
    }

    /// The mean; `None` when nothing was counted.
    pub fn mean(&self) -> Option<Dur> {
        let mean = self.sum_nanos.checked_div(u128::from(self.total))?;
        Some(Dur::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX)))
    }

    /// The smallest value that at least `fraction` of all values do not exceed, to the histogram's
    /// resolution; `None` when nothing was counted.
    pub fn quantile(&self, fraction: f64) -> Option<Dur> {
        let rank = ((self.total as f64 * fraction).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if *count > 0 && seen >= rank {
                return Some(Dur::from_micros(middle(index)));
            }
        }
        None
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram::new()
    }
}

fn bucket(micros: u32) -> usize {
    let octave = (32 - micros.leading_zeros()).saturating_sub(STEP_BITS + 1);
    ((octave as usize) << STEP_BITS) + (micros >> octave) as usize
}

/// The value in the middle of a bucket, µs.
fn middle(index: usize) -> u64 {
    let octave = (index >> STEP_BITS).saturating_sub(1);
    let mantissa = (index - (octave << STEP_BITS)) as u64;
    (mantissa << octave) + ((1 << octave) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn empty_has_no_figures() {
        let h = Histogram::new();
        assert_eq!((h.mean(), h.quantile(0.95)), (None, None));
    }

    proptest! {
        #[test]
        fn a_quantile_is_near_the_exact_one(
            mut values in proptest::collection::vec(0u64..5_000_000, 1..200), fraction in 0.01f64..1.0
        ) {
            let mut h = Histogram::new();
            for v in &values {
                h.add(Dur::from_micros(*v));
            }
            values.sort_unstable();
            let exact = values[((values.len() as f64 * fraction).ceil() as usize).clamp(1, values.len()) - 1];
            let got = h.quantile(fraction).unwrap().as_micros();
            prop_assert!(got.abs_diff(exact) as f64 <= exact as f64 * 0.002 + 0.5, "{got} for {exact}");
            let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
            prop_assert!((h.mean().unwrap().as_nanos() as f64 / 1e3 - mean).abs() < 0.01);
        }

        #[test]
        fn every_value_has_a_bucket(micros in any::<u32>()) {
            prop_assert!(bucket(micros) < BUCKETS);
            prop_assert_eq!(bucket(middle(bucket(micros)) as u32), bucket(micros));
        }
    }
}
