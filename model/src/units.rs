//! Time, duration and rate as types.

use core::fmt;
use core::ops::{Add, AddAssign, Div, Mul, Sub};

const NANOS_PER_MICRO: u64 = 1_000;
const NANOS_PER_MILLI: u64 = 1_000_000;
const NANOS_PER_SEC: u64 = 1_000_000_000;

/// A point in time: nanoseconds since an epoch that the owner of the clock chose (the start of the
/// simulation, or of the process). Arithmetic saturates; 2^64 ns are 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

/// A span of time in nanoseconds, never negative. Arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dur(u64);

/// A rate in bytes per second: finite and never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Rate(f64);

impl Time {
    /// The epoch.
    pub const ZERO: Time = Time(0);
    /// Later than every other time.
    pub const MAX: Time = Time(u64::MAX);

    /// Nanoseconds since the epoch.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }
    /// Microseconds since the epoch.
    #[inline]
    pub const fn from_micros(micros: u64) -> Time {
        Time(micros.saturating_mul(NANOS_PER_MICRO))
    }
    /// Seconds since the epoch; NaN and negative values become the epoch.
    #[inline]
    pub fn from_secs_f64(secs: f64) -> Time {
        Time(Dur::from_secs_f64(secs).0)
    }
    /// Nanoseconds since the epoch.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Whole microseconds since the epoch.
    #[inline]
    pub const fn as_micros(self) -> u64 {
        self.0 / NANOS_PER_MICRO
    }
    /// Seconds since the epoch.
    #[inline]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SEC as f64
    }
    /// The span from `earlier` to `self`; zero if `earlier` is the later one.
    #[inline]
    pub const fn since(self, earlier: Time) -> Dur {
        Dur(self.0.saturating_sub(earlier.0))
    }
}

/// The earliest of the times that there are.
#[inline]
pub fn earliest<const N: usize>(times: [Option<Time>; N]) -> Option<Time> {
    let first = times.into_iter().fold(Time::MAX, |first, at| first.min(at.unwrap_or(Time::MAX)));
    (first < Time::MAX).then_some(first)
}

impl Dur {
    /// No time at all.
    pub const ZERO: Dur = Dur(0);
    /// Longer than every other span.
    pub const MAX: Dur = Dur(u64::MAX);

    /// A span of `nanos` nanoseconds.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Dur {
        Dur(nanos)
    }
    /// A span of `micros` microseconds.
    #[inline]
    pub const fn from_micros(micros: u64) -> Dur {
        Dur(micros.saturating_mul(NANOS_PER_MICRO))
    }
    /// A span of `millis` milliseconds.
    #[inline]
    pub const fn from_millis(millis: u64) -> Dur {
        Dur(millis.saturating_mul(NANOS_PER_MILLI))
    }
    /// A span of `secs` seconds; NaN and negative values become zero.
    #[inline]
    pub fn from_secs_f64(secs: f64) -> Dur {
        Dur(rounded(secs * NANOS_PER_SEC as f64))
    }
    /// Nanoseconds.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Whole microseconds.
    #[inline]
    pub const fn as_micros(self) -> u64 {
        self.0 / NANOS_PER_MICRO
    }
    /// Milliseconds.
    #[inline]
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_MILLI as f64
    }
    /// Seconds.
    #[inline]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SEC as f64
    }
    /// True for the empty span.
    #[inline]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// This span `factor` times; NaN and negative factors give zero.
    #[inline]
    pub fn mul_f64(self, factor: f64) -> Dur {
        Dur(rounded(self.0 as f64 * factor))
    }
}

/// The nearest whole number; `f64::round` would be a call into the mathematics library, once and more per packet.
#[inline]
fn rounded(nanos: f64) -> u64 {
    // A float-to-integer cast saturates and turns NaN into 0.
    (nanos + 0.5) as u64
}

impl Rate {
    /// Nothing is sent.
    pub const ZERO: Rate = Rate(0.0);

    /// A rate in bytes per second. NaN and negative values become zero, infinity the largest float.
    #[inline]
    pub fn from_bytes_per_s(bytes_per_s: f64) -> Rate {
        if bytes_per_s.is_nan() { Rate::ZERO } else { Rate(bytes_per_s.clamp(0.0, f64::MAX)) }
    }
    /// A rate in megabits (10^6 bits) per second.
    #[inline]
    pub fn from_mbps(mbps: f64) -> Rate {
        Rate::from_bytes_per_s(mbps * 1e6 / 8.0)
    }
    /// The rate at which `bytes` pass in `span`; zero when the span is empty.
    #[inline]
    pub fn from_bytes_in(bytes: u64, span: Dur) -> Rate {
        if span.is_zero() { Rate::ZERO } else { Rate::from_bytes_per_s(bytes as f64 / span.as_secs_f64()) }
    }
    /// Bytes per second.
    #[inline]
    pub const fn bytes_per_s(self) -> f64 {
        self.0
    }
    /// Megabits (10^6 bits) per second.
    #[inline]
    pub fn mbps(self) -> f64 {
        self.0 * 8.0 / 1e6
    }
    /// Bytes that pass in `span` at this rate.
    #[inline]
    pub fn bytes_in(self, span: Dur) -> f64 {
        self.0 * span.as_secs_f64()
    }
    /// The smaller of two rates.
    #[inline]
    pub fn min(self, other: Rate) -> Rate {
        Rate(self.0.min(other.0))
    }
    /// The larger of two rates.
    #[inline]
    pub fn max(self, other: Rate) -> Rate {
        Rate(self.0.max(other.0))
    }
    /// This rate brought within `low` and `high`.
    #[inline]
    pub fn clamp(self, low: Rate, high: Rate) -> Rate {
        self.max(low).min(high)
    }
}

impl Add<Dur> for Time {
    type Output = Time;
    #[inline]
    fn add(self, span: Dur) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}
impl AddAssign<Dur> for Time {
    #[inline]
    fn add_assign(&mut self, span: Dur) {
        *self = *self + span;
    }
}
impl Sub<Dur> for Time {
    type Output = Time;
    #[inline]
    fn sub(self, span: Dur) -> Time {
        Time(self.0.saturating_sub(span.0))
    }
}
impl Add for Dur {
    type Output = Dur;
    #[inline]
    fn add(self, other: Dur) -> Dur {
        Dur(self.0.saturating_add(other.0))
    }
}
impl AddAssign for Dur {
    #[inline]
    fn add_assign(&mut self, other: Dur) {
        *self = *self + other;
    }
}
impl Sub for Dur {
    type Output = Dur;
    #[inline]
    fn sub(self, other: Dur) -> Dur {
        Dur(self.0.saturating_sub(other.0))
    }
}
impl Mul<u64> for Dur {
    type Output = Dur;
    #[inline]
    fn mul(self, factor: u64) -> Dur {
        Dur(self.0.saturating_mul(factor))
    }
}
impl Div<u64> for Dur {
    type Output = Dur;
    /// Dividing by zero gives the longest span.
    #[inline]
    fn div(self, divisor: u64) -> Dur {
        Dur(self.0.checked_div(divisor).unwrap_or(u64::MAX))
    }
}
impl Add for Rate {
    type Output = Rate;
    #[inline]
    fn add(self, other: Rate) -> Rate {
        Rate::from_bytes_per_s(self.0 + other.0)
    }
}
impl Sub for Rate {
    type Output = Rate;
    /// Saturates at zero.
    #[inline]
    fn sub(self, other: Rate) -> Rate {
        Rate::from_bytes_per_s(self.0 - other.0)
    }
}
impl Mul<f64> for Rate {
    type Output = Rate;
    #[inline]
    fn mul(self, factor: f64) -> Rate {
        Rate::from_bytes_per_s(self.0 * factor)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}s", self.as_secs_f64())
    }
}
impl fmt::Display for Dur {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}ms", self.as_millis_f64())
    }
}
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}Mbps", self.mbps())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn conversions() {
        assert_eq!(Rate::from_mbps(48.0).bytes_per_s(), 6e6);
        assert_eq!(Dur::from_millis(25).as_micros(), 25_000);
        assert_eq!(Time::from_micros(7).since(Time::from_micros(9)), Dur::ZERO);
        assert_eq!(Rate::from_bytes_in(6_000_000, Dur::from_secs_f64(1.0)).mbps(), 48.0);
        assert_eq!(Dur::from_millis(1) / 0, Dur::MAX);
    }

    proptest! {
        #[test]
        fn rates_are_finite_and_not_negative(a in any::<f64>(), b in any::<f64>(), nanos in any::<u64>()) {
            let (x, y) = (Rate::from_bytes_per_s(a), Rate::from_mbps(b));
            for rate in [x, y, x + y, x - y, x * b, x.clamp(y, y), Rate::from_bytes_in(nanos, Dur::from_nanos(1))] {
                prop_assert!(rate.bytes_per_s().is_finite() && rate.bytes_per_s() >= 0.0);
            }
        }

        #[test]
        fn time_never_wraps(a in any::<u64>(), b in any::<u64>(), f in any::<f64>()) {
            let (t, d) = (Time::from_nanos(a), Dur::from_nanos(b));
            prop_assert!(t + d >= t);
            prop_assert!(t - d <= t);
            let _ = (d.mul_f64(f), d * b, d / a, Dur::from_secs_f64(f), Time::from_micros(a));
        }
    }
}
