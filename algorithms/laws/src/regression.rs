//! The least-squares slope of the round-trip time over send or arrival time, with its standard error.
//!
//! With t the times of the packets and y the round-trip times of n packets:
//!   S_tt = Σt² − (Σt)²/n,  S_ty = Σty − ΣtΣy/n,  S_yy = Σy² − (Σy)²/n
//!   slope b = S_ty/S_tt,  s² = (S_yy − b·S_ty)/(n − 2),  error = s/√S_tt
//! A slope is significant when it exceeds z standard errors.

use anole_model::Dur;

/// The unit in which fold programs take the times of their sums, seconds.
pub const UNIT_S: f64 = 16e-6;
/// The same, us.
const UNIT_US: u64 = 16;
/// Fewer samples than this have no slope worth its error.
const MIN_SAMPLES: u64 = 5;

/// The sums that a fold program reports; times in units of 16 µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Samples.
    pub n: u64,
    /// Σt.
    pub t: u64,
    /// Σy.
    pub y: u64,
    /// Σt².
    pub tt: u64,
    /// Σty.
    pub ty: u64,
    /// Σy².
    pub yy: u64,
}

/// A slope of the round-trip time (s/s) with its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gradient {
    /// Slope, s/s.
    pub slope: f64,
    /// Its standard error, s/s.
    pub error: f64,
    /// The time that its samples span, s: that of as many spread evenly.
    pub span_s: f64,
}

impl Sums {
    /// The sums of one sample, at the start of its time.
    pub fn one(rtt: Dur) -> Sums {
        let y = units(rtt);
        Sums { n: 1, y, yy: y.saturating_mul(y), ..Sums::default() }
    }

    /// Adds the samples of a time that began `offset` after that of these.
    pub fn append(&mut self, later: &Sums, offset: Dur) {
        let d = units(offset);
        let moved = |sum: u64, by: u64, of: u64| sum.saturating_add(by.saturating_mul(of));
        self.n = self.n.saturating_add(later.n);
        self.t = self.t.saturating_add(moved(later.t, d, later.n));
        self.y = self.y.saturating_add(later.y);
        let squares = moved(later.tt, d.saturating_mul(2), later.t);
        self.tt = self.tt.saturating_add(moved(squares, d.saturating_mul(d), later.n));
        self.ty = self.ty.saturating_add(moved(later.ty, d, later.y));
        self.yy = self.yy.saturating_add(later.yy);
    }

    /// The mean round-trip time; `None` without samples.
    pub fn mean_rtt(&self) -> Option<Dur> {
        (self.n > 0).then(|| Dur::from_secs_f64(self.y as f64 / self.n as f64 * UNIT_S))
    }

    /// The slope; `None` with too few samples, with samples at one instant only, or when the sums
    /// cannot come from real samples.
    pub fn gradient(&self) -> Option<Gradient> {
        if self.n < MIN_SAMPLES {
            return None;
        }
        // n·Σ… in integers, so that no digit is lost before the subtraction.
        let wide = |a: u64, b: u64| i128::try_from(u128::from(a) * u128::from(b)).ok();
        let centred = |squares: u64, a: u64, b: u64| wide(self.n, squares)?.checked_sub(wide(a, b)?);
        let (tt, ty, yy) = (
            centred(self.tt, self.t, self.t)? as f64,
            centred(self.ty, self.t, self.y)? as f64,
            centred(self.yy, self.y, self.y)? as f64,
        );
        if tt <= 0.0 || yy < 0.0 {
            return None;
        }
        let n = self.n as f64;
        let slope = ty / tt;
        let residual = (yy - slope * ty).max(0.0) / (n * (n - 2.0));
        let error = (residual * n / tt).sqrt();
        let span_s = (12.0 * tt).sqrt() / n * UNIT_S;
        (slope.is_finite() && error.is_finite()).then_some(Gradient { slope, error, span_s })
    }
}

fn units(time: Dur) -> u64 {
    time.as_micros() / UNIT_US
}

impl Gradient {
    /// True when the slope is more than noise: larger than `z` standard errors.
    pub fn is_significant(&self, z: f64) -> bool {
        self.slope.abs() > z * self.error
    }

    /// What the round-trip time rises by in the whole span, s; negative where it falls.
    pub fn rise(&self) -> f64 {
        self.slope * self.span_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sums(samples: impl IntoIterator<Item = (u64, u64)>) -> Sums {
        let mut s = Sums::default();
        for (t, y) in samples {
            s.n += 1;
            s.t += t;
            s.y += y;
            s.tt += t * t;
            s.ty += t * y;
            s.yy += y * y;
        }
        s
    }

    #[test]
    fn a_straight_line_has_its_slope_and_no_error() {
        let g = sums((0..100).map(|i| (i * 10, 3000 + i * 2))).gradient().unwrap();
        assert!((g.slope - 0.2).abs() < 1e-12 && g.error < 1e-9, "{g:?}");
    }

    #[test]
    fn the_error_is_that_of_the_textbook() {
        // t = 0…4, y = 1 3 2 5 4: slope 0.8, s² = 1.2, S_tt = 10.
        let g = sums([(0, 1), (1, 3), (2, 2), (3, 5), (4, 4)]).gradient().unwrap();
        assert!((g.slope - 0.8).abs() < 1e-12 && (g.error - 0.12f64.sqrt()).abs() < 1e-12, "{g:?}");
    }

    #[test]
    fn noise_is_not_significant() {
        let zigzag = sums((0..100).map(|i| (i * 15, 3000 + (i % 2) * 15))).gradient().unwrap();
        assert!(!zigzag.is_significant(3.0));
        let queue = sums((0..100).map(|i| (i * 15, 3000 + i * 2))).gradient().unwrap();
        assert!(queue.is_significant(3.0));
    }

    #[test]
    fn parts_append_to_the_whole() {
        let sample = |i: u64| (i * 10, 3000 + i * i % 7);
        let mut parts = sums((0..40).map(sample));
        let late = sums((40..100).map(sample).map(|(t, y)| (t - 400, y)));
        parts.append(&late, Dur::from_micros(400 * UNIT_US));
        assert_eq!(parts, sums((0..100).map(sample)));
        let mut ones = Sums::default();
        for (t, y) in (0..100).map(sample) {
            ones.append(&Sums::one(Dur::from_micros(y * UNIT_US)), Dur::from_micros(t * UNIT_US));
        }
        assert_eq!(ones, parts);
    }

    proptest! {
        #[test]
        fn any_sums_give_a_finite_slope_or_none(n in any::<u64>(), v in any::<[u64; 5]>()) {
            let s = Sums { n, t: v[0], y: v[1], tt: v[2], ty: v[3], yy: v[4] };
            if let Some(g) = s.gradient() {
                prop_assert!(g.slope.is_finite() && g.error.is_finite() && g.error >= 0.0);
            }
        }
    }
}
