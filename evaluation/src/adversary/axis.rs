//! One number that an adversary chooses, within bounds.
//!
//! Searches work on *genes*, from 0 to 1; an axis makes a value of each. Values have three significant digits, so
//! that a scenario file says exactly what was run.

/// How values lie between the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By their logarithm.
    Log,
    /// Whole numbers, by their logarithm.
    Count,
    /// One of the whole numbers 0, 1, … up to the upper bound.
    Choice,
}

/// One number.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// Name and unit.
    pub name: &'static str,
    pub low: f64,
    pub high: f64,
    pub scale: Scale,
    /// The value that needs no explanation: a find is shrunk towards it.
    pub plain: f64,
}

impl Axis {
    pub const fn linear(name: &'static str, low: f64, high: f64, plain: f64) -> Axis {
        Axis { name, low, high, scale: Scale::Linear, plain }
    }

    pub const fn log(name: &'static str, low: f64, high: f64, plain: f64) -> Axis {
        Axis { name, low, high, scale: Scale::Log, plain }
    }

    pub const fn count(name: &'static str, low: f64, high: f64, plain: f64) -> Axis {
        Axis { name, low, high, scale: Scale::Count, plain }
    }

    /// One of `kinds`; the first is the plain one.
    pub const fn choice(name: &'static str, kinds: usize) -> Axis {
        Axis { name, low: 0.0, high: kinds as f64 - 1.0, scale: Scale::Choice, plain: 0.0 }
    }

    /// The value of a gene; genes outside 0 to 1 count as the nearer bound.
    pub fn value(&self, gene: f64) -> f64 {
        let gene = gene.clamp(0.0, 1.0);
        let value = match self.scale {
            Scale::Linear => self.low + gene * (self.high - self.low),
            Scale::Log | Scale::Count => self.low * (self.high / self.low).powf(gene),
            Scale::Choice => (gene * (self.high + 1.0)).floor(),
        };
        self.rounded(value, 3)
    }

    /// A value with so many significant digits, within the bounds; whole where the axis is.
    pub fn rounded(&self, value: f64, digits: usize) -> f64 {
        let value = significant(value, digits);
        let value = if matches!(self.scale, Scale::Count | Scale::Choice) { value.round() } else { value };
        value.clamp(self.low, self.high)
    }

    /// Half the way from a value to the plain one, as the scale has it.
    pub fn towards_plain(&self, value: f64) -> f64 {
        let half = match self.scale {
            Scale::Linear | Scale::Choice => (value + self.plain) / 2.0,
            Scale::Log | Scale::Count => (value * self.plain).sqrt(),
        };
        self.rounded(half, 2)
    }
}

/// A number with so many significant digits.
pub fn significant(value: f64, digits: usize) -> f64 {
    // By way of the text: a product with a power of ten would leave a remainder in the last binary digit.
    format!("{value:.*e}", digits.saturating_sub(1)).parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_written_as_they_are() {
        assert_eq!(
            [significant(343.21, 3), significant(0.012345, 2), significant(98765.0, 1)],
            [343.0, 0.012, 100_000.0]
        );
        assert_eq!(significant(0.0, 3), 0.0);
        let kinds = Axis::choice("kind", 3);
        assert_eq!([0.0, 0.34, 0.99, 1.0].map(|gene| kinds.value(gene)), [0.0, 1.0, 2.0, 2.0]);
        let flows = Axis::count("flows", 1.0, 1000.0, 1.0);
        assert_eq!((flows.value(0.5), flows.towards_plain(100.0)), (32.0, 10.0));
    }

    proptest! {
        #[test]
        fn no_value_leaves_the_bounds(gene in -2.0f64..3.0, digits in 1usize..4) {
            for axis in [
                Axis::linear("a", 0.05, 3.995, 1.0),
                Axis::log("b", 0.0123, 98.76, 1.0),
                Axis::count("c", 2.0, 999.0, 2.0),
                Axis::choice("d", 5),
            ] {
                let value = axis.value(gene);
                for value in [value, axis.rounded(value, digits), axis.towards_plain(value)] {
                    prop_assert!((axis.low..=axis.high).contains(&value), "{axis:?} {value}");
                }
            }
        }
    }
}
