//! A range of numbers along a side of a plot, with its ticks.

/// From, to, and the distance of ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    pub from: f64,
    pub to: f64,
    pub step: f64,
}

/// Where values begin above this share of their largest, the axis begins near them instead of at 0.
const FAR_FROM_ZERO: f64 = 0.5;

impl Axis {
    /// For these values, which are finite, with about `ticks` ticks; `room` is left beyond them, a share of the range.
    pub fn around(values: impl Iterator<Item = f64>, ticks: f64, room: f64) -> Axis {
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        if low > high {
            return Axis { from: 0.0, to: 1.0, step: 0.5 };
        }
        let away = low > FAR_FROM_ZERO * high && low < high;
        let from = if away { low } else { low.min(0.0) };
        let span = if high > from { high - from } else { high.abs().max(1.0) };
        let (from, to) =
            (if away || from < 0.0 { from - room * span } else { 0.0 }, from + span * (1.0 + room));
        let mut axis = Axis { from, to, step: nice((to - from) / ticks.max(1.0)) };
        // One tick is no scale.
        while axis.ticks().len() < 2 {
            axis.step = nice(axis.step / 2.5);
        }
        axis
    }

    /// From 0 to the number of categories, without ticks of its own.
    pub fn categories(count: usize) -> Axis {
        Axis { from: 0.0, to: count.max(1) as f64, step: 1.0 }
    }

    /// The ticks and what stands beside them.
    pub fn ticks(self) -> Vec<(f64, String)> {
        let digits = (-self.step.log10().floor()).max(0.0) as usize;
        let first = (self.from / self.step).ceil() as i64;
        let last = (self.to / self.step + 1e-9).floor() as i64;
        let tick =
            |number: i64| (number as f64 * self.step, format!("{:.digits$}", number as f64 * self.step));
        (first..=last).map(tick).collect()
    }

    /// The place of a value: 0 at the beginning, 1 at the end.
    pub fn place(self, value: f64) -> f64 {
        (value - self.from) / (self.to - self.from)
    }
}

/// The next larger of 1, 2, 5 times a power of ten.
fn nice(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= step * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(values: &[f64], ticks: f64) -> Vec<String> {
        Axis::around(values.iter().copied(), ticks, 0.05)
            .ticks()
            .into_iter()
            .map(|(_, label)| label)
            .collect()
    }

    #[test]
    fn axes_begin_at_0_unless_that_wastes_them() {
        assert_eq!(labels(&[3.0, 48.0], 5.0), ["0", "20", "40"]);
        assert_eq!(labels(&[50.0, 52.0], 5.0), ["50.0", "50.5", "51.0", "51.5", "52.0"]);
        assert_eq!(labels(&[0.0, 0.004], 4.0), ["0.000", "0.002", "0.004"]);
        assert_eq!(labels(&[-1.0, 1.0], 4.0), ["-1", "0", "1"]);
    }

    #[test]
    fn every_axis_has_a_scale() {
        assert_eq!(labels(&[0.55, 0.95], 1.0), ["0.6", "0.8"]);
        assert_eq!(labels(&[1.9, 3.1], 1.0), ["2", "3"]);
        for (low, ticks) in [(12.0, 2.0), (17.0, 3.0), (19.0, 4.0)] {
            assert!((1..100).all(|span| labels(&[low, low + 0.1 * f64::from(span)], ticks).len() > 1));
        }
    }

    #[test]
    fn little_or_nothing_to_show_is_an_axis_too() {
        assert_eq!(labels(&[], 4.0), ["0.0", "0.5", "1.0"]);
        for alone in [0.0, 7.0, 1e9, -3.0] {
            let axis = Axis::around(std::iter::once(alone), 4.0, 0.05);
            assert!(axis.from < axis.to && (0.0..=1.0).contains(&axis.place(alone)), "{axis:?}");
        }
    }
}
