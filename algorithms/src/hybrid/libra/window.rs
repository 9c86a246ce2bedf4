//! What a window of the `libra-cycle` program told, and its utility.
//!
//! ```text
//! u(x) = α·x^t − β·x·max(0, dRTT/dt) − γ·x·L        Libra eq. 1, x in Mbps
//! ```
//! Deviation: a slope counts above a tolerance, and where what rose is still there late in the window; with β of
//! 900 a slope of a thousandth outweighs all that 48 Mbps earn.

use super::super::interval::{Loss, significant};
use super::super::utility::Weights;
use super::params::LibraParams;
use anole_laws::regression::{Gradient, Sums};
use anole_model::{Dur, Rate};
use anole_programs::libra_cycle;

pub(super) use super::super::interval::MAX_RTT_US as LONGEST_RTT_US;

/// A rate of which less than this share was sent was not what limited the flow …
const LIMITED_SHARE: f64 = 0.6;
/// … but the network if the round-trip time was this many times the smallest, and else the application.
const QUEUE_RATIO: f64 = 1.5;

/// No path loses more than this share by itself: where a window did, no rate is better than what got through.
const FLOODED: f64 = 0.5;

/// What a window's packets were to be sent at, and what is known of the path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Test {
    pub rate: Rate,
    /// How long.
    pub length: Dur,
    pub min_rtt: Dur,
    pub mss: u32,
}

/// Which packets a window is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// Those of the exploration.
    Exploring,
    /// Those sent at the lower candidate.
    Low,
    /// Those sent at the higher candidate.
    High,
    /// Those acknowledged since the last report.
    Since,
}

/// A window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Window {
    /// Number of its cycle.
    pub cycle: u32,
    pub sent: Sent,
    /// Bytes acknowledged.
    acked: u64,
    /// Packets lost.
    lost: u64,
    /// The time in which they were.
    pub elapsed: Dur,
    /// The smallest round-trip time, and that of the second half.
    rtt: Option<(Dur, Dur)>,
    gradient: Option<Gradient>,
}

impl Window {
    /// Reads the values of a report; `None` when they are not this program's.
    pub fn read(values: &[u64]) -> Option<Window> {
        let seen = libra_cycle::Report::read(values)?;
        let sums = Sums {
            n: seen.n,
            t: seen.sum_t,
            y: seen.sum_rtt,
            tt: seen.sum_tt,
            ty: seen.sum_trtt,
            yy: seen.sum_rttrtt,
        };
        let any_rtt = seen.n > 0 && (1..=LONGEST_RTT_US).contains(&seen.min_rtt_us);
        let least = Dur::from_micros(seen.min_rtt_us);
        let late = Dur::from_micros(seen.late_us.min(LONGEST_RTT_US).max(seen.min_rtt_us));
        Some(Window {
            cycle: u32::try_from(seen.window / 4).ok()?,
            sent: match seen.window % 4 {
                0 => Sent::Exploring,
                1 => Sent::Low,
                2 => Sent::High,
                _ => Sent::Since,
            },
            acked: seen.acked,
            lost: seen.lost,
            elapsed: Dur::from_micros(seen.elapsed_us),
            rtt: any_rtt.then_some((least, late)),
            gradient: sums.gradient(),
        })
    }

    fn loss(&self, mss: u32) -> Loss {
        let packets = self.acked / u64::from(mss.max(1));
        Loss { lost: self.lost, sent: self.lost.saturating_add(packets) }
    }

    /// What got through of a rate that flooded the path.
    pub fn through(&self, test: &Test) -> Option<Rate> {
        (self.loss(test.mss).share() > FLOODED).then(|| Rate::from_bytes_in(self.acked, test.length))
    }

    /// The share of the rate that was sent.
    fn sent_share(&self, test: &Test) -> f64 {
        let sent = self.acked as f64 + self.lost as f64 * f64::from(test.mss);
        sent / test.rate.bytes_in(test.length).max(1.0)
    }

    /// The utility of the rate whose packets these are; `None` where nothing was acknowledged, or the application sent
    /// far less than the rate allows. What a full window kept from being sent counts as lost.
    pub fn utility(&self, test: &Test, weights: &Weights, params: &LibraParams) -> Option<f64> {
        let (least, late) = self.rtt?;
        let share = self.sent_share(test);
        let mut loss = self.loss(test.mss).share();
        if share < LIMITED_SHARE {
            if self.lost == 0 && late < test.min_rtt.mul_f64(QUEUE_RATIO) {
                return None;
            }
            loss = loss.max(1.0 - share);
        }
        let slope = self.gradient.and_then(|gradient| significant(gradient, least, late, 0.0));
        let slope = slope.filter(|&slope| slope > params.tolerated(weights));
        Some(params.utility(weights, test.rate, slope.unwrap_or(0.0), loss))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preference;

    const MSS: u32 = 1000;

    /// 24 packets in 25 ms, the one sent at t ms after `rtt_ms(t)`, and so many lost.
    fn seen(rtt_ms: impl Fn(f64) -> f64, lost: u64) -> Window {
        let mut values = [0; 16];
        let at = |name| libra_cycle::PROGRAM.report(name).unwrap();
        values[at("window")] = 4 * 3 + 1;
        (values[at("acked")], values[at("lost")]) = (24_000, lost);
        (values[at("min_rtt_us")], values[at("late_us")]) = (u64::MAX, u64::MAX);
        for i in 0..24_u32 {
            let rtt_us = (rtt_ms(f64::from(i)) * 1e3) as u64;
            let (t, y) = (u64::from(i) * 1000 / 16, rtt_us / 16);
            values[at("min_rtt_us")] = values[at("min_rtt_us")].min(rtt_us);
            if i >= 12 {
                values[at("late_us")] = values[at("late_us")].min(rtt_us);
            }
            let sums = ["n", "sum_t", "sum_rtt", "sum_tt", "sum_trtt", "sum_rttrtt"];
            for (name, term) in sums.into_iter().zip([1, t, y, t * t, t * y, y * y]) {
                values[at(name)] += term;
            }
        }
        Window::read(&values).unwrap()
    }

    fn test(mbps: f64) -> Test {
        let (length, min_rtt) = (Dur::from_millis(25), Dur::from_millis(50));
        Test { rate: Rate::from_mbps(mbps), length, min_rtt, mss: MSS }
    }

    fn of(window: &Window, mbps: f64, preference: Preference) -> Option<f64> {
        let params = LibraParams::default();
        window.utility(&test(mbps), &params.weights(preference), &params)
    }

    fn utility(window: &Window, preference: Preference) -> f64 {
        of(window, 8.0, preference).unwrap()
    }

    #[test]
    fn the_utility_is_that_of_equation_1() {
        let quiet = seen(|_| 50.0, 0);
        assert_eq!((quiet.cycle, quiet.sent), (3, Sent::Low));
        let earns = 8f64.powf(0.9);
        assert!((utility(&quiet, Preference::Default) - earns).abs() < 1e-9);
        let lossy = seen(|_| 50.0, 8);
        assert!((utility(&lossy, Preference::Default) - (earns - 11.35 * 8.0 * 0.25)).abs() < 1e-9);
        let queue = seen(|t| 50.0 + 0.1 * t, 0);
        assert!((utility(&queue, Preference::Default) - (earns - 900.0 * 8.0 * 0.1)).abs() < 15.0);
        assert!((utility(&queue, Preference::La1) - (earns - 1800.0 * 8.0 * 0.1)).abs() < 30.0);
        assert!((utility(&quiet, Preference::Th2) - 3.0 * earns).abs() < 1e-9);
    }

    #[test]
    fn a_flood_tells_what_got_through_and_a_lossy_path_does_not() {
        let through = |lost| seen(|_| 50.0, lost).through(&test(24.0)).map(Rate::mbps);
        assert_eq!([through(0), through(24)], [None, None]);
        assert!((through(25).unwrap() - 7.68).abs() < 1e-6, "24 packets in 25 ms");
    }

    #[test]
    fn a_window_without_acks_has_no_utility() {
        let mut values = [0; 16];
        values[libra_cycle::PROGRAM.report("min_rtt_us").unwrap()] = u64::MAX;
        let empty = Window::read(&values).unwrap();
        assert_eq!(of(&empty, 1.0, Preference::Default), None);
        assert_eq!(Window::read(&values[1..]), None);
    }

    #[test]
    fn an_application_with_little_to_send_is_told_from_a_path_that_carries_little() {
        let short = seen(|_| 50.0, 0);
        assert!(of(&short, 12.0, Preference::Default).is_some());
        assert_eq!(of(&short, 16.0, Preference::Default), None);
        let full = seen(|_| 80.0, 0);
        let [less, more] = [16.0, 24.0].map(|mbps| of(&full, mbps, Preference::Default).unwrap());
        assert!(more < less && less < 0.0, "{less} {more}");
        assert!(of(&seen(|_| 50.0, 20), 24.0, Preference::Default).is_some());
    }
}
