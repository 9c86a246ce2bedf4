//! A monitor interval: what the ACKs of the packets sent at one rate told, as a report of the `anole-cycle` program
//! sums it up, brought into units and checked.
//!
//! A rising slope of the round-trip time counts only if what rose is still there late in the interval: what hosts and
//! radio links add passes within milliseconds, and its samples are alike, so that their scatter does not betray it.

use anole_laws::Feedback;
use anole_laws::regression::{Gradient, Sums};
use anole_model::Dur;
use anole_programs::anole_cycle;

/// Which interval a report speaks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Packets sent at the lower rate.
    Low,
    /// Packets sent at the higher rate.
    High,
    /// Packets sent at the rate held.
    Hold,
    /// The round-trip time exceeded the alarm.
    Alarm,
}

/// What a report told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct MonitorInterval {
    /// Number of the cycle that it belongs to.
    pub cycle: u32,
    pub phase: Phase,
    /// Bytes acknowledged since the last report.
    pub acked: u64,
    /// Bytes acknowledged that were sent in the interval.
    pub covered: u64,
    /// Packets found lost since the last report.
    pub lost: u64,
    /// Packets found lost while the ACKs of the interval arrived.
    pub missed: u64,
    pub timeout: bool,
    /// Time since the last report.
    pub elapsed: Dur,
    /// Last round-trip time; zero if there was none yet.
    pub last_rtt: Dur,
    /// The smallest late in the interval, or else the last one: what passes within milliseconds is not in it.
    pub late_rtt: Dur,
    /// Mean and smallest round-trip time in the interval, if anything was acknowledged in it.
    pub rtt: Option<(Dur, Dur)>,
    /// The sums of its samples.
    pub rtts: Sums,
    pub gradient: Option<Gradient>,
}

/// No round-trip time is longer than this; a larger figure is no measurement.
pub(super) const MAX_RTT_US: u64 = 60_000_000;

/// Standard errors that a slope has to exceed: false alarms stay below one in 300 windows.
pub(super) const Z: f64 = 3.0;
/// Of the rise that a slope claims for the whole interval, this share has to be there for good late in it: half of
/// what there is by then.
const LASTING_SHARE: f64 = 0.25;

impl MonitorInterval {
    /// Reads the values of a report; `None` when they are not this program's.
    pub fn read(values: &[u64]) -> Option<MonitorInterval> {
        let seen = anole_cycle::Report::read(values)?;
        let sums = Sums {
            n: seen.n,
            t: seen.sum_t,
            y: seen.sum_rtt,
            tt: seen.sum_tt,
            ty: seen.sum_trtt,
            yy: seen.sum_rttrtt,
        };
        let min = Dur::from_micros(seen.min_rtt_us);
        let sane = |rtt: Dur| !rtt.is_zero() && rtt <= Dur::from_micros(MAX_RTT_US);
        // The mean is taken in coarser units than the minimum.
        let rtt =
            sums.mean_rtt().map(|mean| (mean.max(min), min)).filter(|&(mean, min)| sane(mean) && sane(min));
        let last_rtt = Dur::from_micros(seen.rtt_us.min(MAX_RTT_US));
        Some(MonitorInterval {
            cycle: u32::try_from(seen.window / 4).ok()?,
            phase: match seen.window % 4 {
                0 => Phase::Low,
                1 => Phase::High,
                2 => Phase::Hold,
                _ => Phase::Alarm,
            },
            acked: seen.acked,
            covered: seen.covered,
            lost: seen.lost,
            missed: seen.missed,
            timeout: seen.timeout > 0,
            elapsed: Dur::from_micros(seen.elapsed_us),
            last_rtt,
            late_rtt: if seen.late_us > MAX_RTT_US { last_rtt } else { Dur::from_micros(seen.late_us) },
            rtt,
            rtts: sums,
            gradient: rtt.and_then(|_| sums.gradient()),
        })
    }

    /// The slope where it is more than noise, and not of a disturbance that has passed.
    pub fn significant_gradient(&self) -> Option<f64> {
        let (_, least) = self.rtt?;
        significant(self.gradient?, least, self.late_rtt, Z)
    }

    /// What happened since the last report, as laws are told.
    pub fn feedback(&self) -> Feedback {
        Feedback {
            acked: self.acked,
            lost: self.lost,
            timeout: self.timeout,
            min_rtt: self.rtt.map(|(_, min)| min),
            samples: self.rtts.n,
            sums: self.rtts,
            elapsed: self.elapsed,
            ..Feedback::default()
        }
    }

    /// The loss since the last report.
    pub fn all_loss(&self, mss: u32) -> Loss {
        let packets = self.acked / u64::from(mss.max(1));
        Loss { lost: self.lost, sent: self.lost.saturating_add(packets) }
    }

    /// The loss in the interval.
    pub fn loss(&self, mss: u32) -> Loss {
        let packets = self.covered / u64::from(mss.max(1));
        Loss { lost: self.missed, sent: self.missed.saturating_add(packets) }
    }
}

/// The slope where it exceeds `z` standard errors, and what rose from the smallest round-trip time `least` is still
/// there in the smallest of those late in the interval, `late`.
pub(super) fn significant(gradient: Gradient, least: Dur, late: Dur, z: f64) -> Option<f64> {
    let lasts = (late - least).as_secs_f64() >= LASTING_SHARE * gradient.rise();
    (gradient.is_significant(z) && lasts).then_some(gradient.slope)
}

/// Packets lost of packets sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Loss {
    pub lost: u64,
    pub sent: u64,
}

impl Loss {
    /// The share lost, 0…1.
    pub fn share(self) -> f64 {
        if self.sent > 0 { (self.lost as f64 / self.sent as f64).min(1.0) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_without_acks_has_no_round_trip_time() {
        let mut values = [0; 16];
        values[0] = 4 * 7 + 1;
        values[8] = u64::MAX;
        let interval = MonitorInterval::read(&values).unwrap();
        assert_eq!((interval.cycle, interval.phase, interval.rtt), (7, Phase::High, None));
        assert_eq!(MonitorInterval::read(&values[1..]), None);
    }

    /// An interval of 25 ms in which the packet sent at t ms has taken `rtt_ms(t)`.
    fn seen(rtt_ms: impl Fn(f64) -> f64) -> MonitorInterval {
        let mut values = [0; 16];
        (values[8], values[9]) = (u64::MAX, u64::MAX);
        for i in 0..100_u32 {
            let rtt_us = (rtt_ms(f64::from(i) / 4.0) * 1e3) as u64;
            let (t, y) = (u64::from(i) * 250 / 16, rtt_us / 16);
            values[7] = rtt_us;
            values[8] = values[8].min(rtt_us);
            values[9] = if i < 50 { u64::MAX } else { values[9].min(rtt_us) };
            for (sum, term) in values[10..].iter_mut().zip([1, t, y, t * t, t * y, y * y]) {
                *sum += term;
            }
        }
        MonitorInterval::read(&values).unwrap()
    }

    #[test]
    fn a_disturbance_that_passes_is_no_queue() {
        // For 12 ms nothing moves; what waited arrives at once.
        let stall = seen(|t| 50.0 + if t < 17.0 { 0.0 } else { 29.0 - t });
        assert!(stall.gradient.unwrap().slope > 0.0 && stall.gradient.unwrap().is_significant(Z));
        assert_eq!(stall.significant_gradient(), None);
        let queue = seen(|t| 50.0 + 0.1 * t);
        assert!((queue.significant_gradient().unwrap() - 0.1).abs() < 0.01);
        let draining = seen(|t| 55.0 - 0.1 * t);
        assert!((draining.significant_gradient().unwrap() + 0.1).abs() < 0.01);
    }

    #[test]
    fn a_candidate_is_told_every_round_trip_time_of_an_interval() {
        let told = seen(|t| 50.0 + t).feedback();
        assert_eq!((told.samples, told.min_rtt), (100, Some(Dur::from_millis(50))));
        assert!((told.rtts().mean_rtt().unwrap().as_secs_f64() - 0.0624).abs() < 1e-4);
    }

    #[test]
    fn absurd_round_trip_times_are_no_measurement() {
        let mut values = [0; 16];
        (values[8], values[10], values[12]) = (u64::MAX, 10, u64::MAX);
        assert_eq!(MonitorInterval::read(&values).unwrap().rtt, None);
        (values[8], values[10], values[12]) = (100, 1, 10);
        assert_eq!(
            MonitorInterval::read(&values).unwrap().rtt,
            Some((Dur::from_micros(160), Dur::from_micros(100)))
        );
    }
}
