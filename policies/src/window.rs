//! A statistic over the latest values, in constant time per value however many they are.

use crate::schema::Statistic;
use std::collections::VecDeque;

/// The statistic of the last `size` values.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    statistic: Statistic,
    size: usize,
    /// Number of values so far.
    count: u64,
    /// For the mean: the values, oldest first. For an extreme: those that are or will become the extreme,
    /// each with the number of values before it.
    values: VecDeque<(u64, f64)>,
    sum: f64,
}

impl Window {
    pub fn new(statistic: Statistic, size: usize) -> Window {
        Window { statistic, size: size.max(1), count: 0, values: VecDeque::new(), sum: 0.0 }
    }

    /// Takes a value and gives the statistic. NaN makes a mean NaN and is skipped by an extreme.
    pub fn push(&mut self, value: f64) -> f64 {
        let oldest = (self.count + 1).saturating_sub(self.size as u64);
        let leaving = self.values.front().copied().filter(|(at, _)| *at < oldest);
        if leaving.is_some() {
            self.values.pop_front();
        }
        match self.statistic {
            Statistic::Mean => {
                self.values.push_back((self.count, value));
                self.sum += value - leaving.map_or(0.0, |(_, value)| value);
                // A sum of differences drifts, and does not come back from infinity.
                if self.count.is_multiple_of(self.size as u64) || !self.sum.is_finite() {
                    self.sum = self.values.iter().map(|(_, value)| value).sum();
                }
            }
            Statistic::Min => self.push_extreme(value, |kept, new| kept < new),
            Statistic::Max => self.push_extreme(value, |kept, new| kept > new),
        }
        self.count += 1;
        match (self.statistic, self.values.front()) {
            (Statistic::Mean, _) => self.sum / self.values.len() as f64,
            (_, Some((_, value))) => *value,
            (Statistic::Min, None) => f64::INFINITY,
            (Statistic::Max, None) => f64::NEG_INFINITY,
        }
    }

    /// Values that this one outlasts and outdoes can never become the extreme.
    fn push_extreme(&mut self, value: f64, stands: fn(f64, f64) -> bool) {
        if value.is_nan() {
            return;
        }
        while self.values.back().is_some_and(|(_, kept)| !stands(*kept, value)) {
            self.values.pop_back();
        }
        self.values.push_back((self.count, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn by_definition(statistic: Statistic, values: &[f64]) -> f64 {
        match statistic {
            Statistic::Mean => values.iter().sum::<f64>() / values.len() as f64,
            Statistic::Min => values.iter().copied().fold(f64::INFINITY, f64::min),
            Statistic::Max => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    proptest! {
        #[test]
        fn any_values_have_the_statistic_of_its_definition(
            values in proptest::collection::vec(
                prop_oneof![8 => -10.0..10.0f64, 1 => Just(f64::INFINITY), 1 => Just(f64::NAN)], 1..60),
            size in 1usize..20,
        ) {
            for statistic in [Statistic::Mean, Statistic::Min, Statistic::Max] {
                let mut window = Window::new(statistic, size);
                for end in 1..=values.len() {
                    let found = window.push(values[end - 1]);
                    let wanted = by_definition(statistic, &values[end.saturating_sub(size)..end]);
                    prop_assert!(
                        (found - wanted).abs() < 1e-12 || found == wanted || (found.is_nan() && wanted.is_nan()),
                        "{statistic:?} of {size}: {found}, not {wanted}"
                    );
                }
            }
        }
    }
}
