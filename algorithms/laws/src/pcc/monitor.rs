//! Monitor intervals: times in which a flow sends at one rate, and what came back of the packets sent in each.
//!
//! Packets are told apart by time: what is acknowledged or found lost now was sent a round-trip time ago. Feedback that
//! covers the end of one interval and the start of the next belongs to neither.

use crate::Feedback;
use crate::regression::Sums;
use anole_model::{Dur, Rate, Time};
use std::collections::VecDeque;

/// No more intervals wait for their ACKs: those of a round-trip time that has become much longer.
const MOST: usize = 64;
/// An interval in which less than this share of the rate came back, without loss or a rising round-trip time, was not used.
const USED: f64 = 0.5;
/// A slope of the round-trip time below this is noise (Vivace §4.2: 0.01).
const NOISE: f64 = 0.01;
/// So is one of fewer standard errors (after PCC Proteus, SIGCOMM 2020, §5: a slope below the error of its regression).
const SIGNIFICANT: f64 = 2.0;
/// The largest slope over arrival time that is told from 1.
const STEEPEST: f64 = 0.95;

/// The purpose of an interval whose outcome nobody waits for any more.
pub(super) const PAST: u8 = u8::MAX;

/// What became of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Outcome {
    /// The rate that was asked for.
    pub rate: Rate,
    /// What came back, over the time in which it did.
    pub throughput: Rate,
    /// Share of the packets lost.
    pub loss: f64,
    /// d(RTT)/dt over the time of sending; 0 where it is noise.
    pub slope: f64,
}

#[derive(Clone, Copy, Debug)]
struct Interval {
    rate: Rate,
    purpose: u8,
    from: Time,
    until: Time,
    /// When its first feedback's time began, and its last ended.
    heard: Option<(Time, Time)>,
    acked: u64,
    lost: u64,
    sums: Sums,
}

/// The intervals of a flow.
#[derive(Clone, Debug, Default)]
pub(super) struct Monitor {
    intervals: VecDeque<Interval>,
    /// The last feedback, and when the packets that it told of were sent.
    last: Option<(Time, Time)>,
}

impl Monitor {
    /// An interval begins.
    pub fn begin(&mut self, now: Time, rate: Rate, purpose: u8, length: Dur) {
        if self.intervals.len() == MOST {
            self.intervals.pop_front();
        }
        self.intervals.push_back(Interval {
            rate,
            purpose,
            from: now,
            until: now + length,
            heard: None,
            acked: 0,
            lost: 0,
            sums: Sums::default(),
        });
    }

    /// True when no interval is under way.
    pub fn is_over(&self, now: Time) -> bool {
        self.intervals.back().is_none_or(|interval| now >= interval.until)
    }

    /// True when no interval is under way or waits for its ACKs.
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// What intervals so far were for is of the past.
    pub fn outdate(&mut self) {
        self.intervals.iter_mut().for_each(|interval| interval.purpose = PAST);
    }

    /// Forgets all intervals.
    pub fn clear(&mut self) {
        self.intervals.clear();
    }

    /// Takes feedback; `rtt` is the latest round-trip time.
    pub fn take(&mut self, now: Time, rtt: Dur, seen: &Feedback) {
        let sent = now - rtt;
        let (before, began) = self.last.unwrap_or((now, sent));
        let sent = sent.max(began);
        self.last = Some((now, sent));
        let belongs = |interval: &&mut Interval| interval.from <= began && sent <= interval.until;
        if let Some(interval) = self.intervals.iter_mut().find(belongs) {
            let start = interval.heard.map_or(before, |(start, _)| start);
            interval.heard = Some((start, now));
            interval.acked = interval.acked.saturating_add(seen.acked);
            interval.lost = interval.lost.saturating_add(seen.lost);
            // Sums count from the start of what they cover; a sample alone is of now.
            let covers = if seen.sums.n > 0 { before } else { now };
            interval.sums.append(&seen.rtts(), covers.since(start));
        }
    }

    /// The next interval of which all has been heard, by its purpose. `None` inside: nothing came back of it, or it was not used.
    pub fn next(&mut self, mss: u32) -> Option<(u8, Option<Outcome>)> {
        let (_, sent) = self.last?;
        let first = self.intervals.front()?;
        if sent < first.until {
            return None;
        }
        self.intervals.pop_front().map(|interval| (interval.purpose, interval.outcome(mss)))
    }
}

impl Interval {
    fn outcome(&self, mss: u32) -> Option<Outcome> {
        let packets = self.acked as f64 / f64::from(mss.max(1));
        let loss = self.lost as f64 / (self.lost as f64 + packets);
        let significant = self.sums.gradient().filter(|gradient| gradient.is_significant(SIGNIFICANT));
        let slope = significant.map_or(0.0, |gradient| {
            // Over the time of arrival a, which is that of sending s and the round-trip time: da = ds + dRTT.
            let slope = gradient.slope.min(STEEPEST);
            let slope = slope / (1.0 - slope);
            if slope.abs() < NOISE { 0.0 } else { slope }
        });
        let asked = self.rate.bytes_in(self.until.since(self.from));
        let used = self.lost > 0 || slope > 0.0 || self.acked as f64 >= USED * asked;
        let (first, last) = self.heard?;
        let throughput = Rate::from_bytes_in(self.acked, last.since(first));
        (loss.is_finite() && used).then_some(Outcome { rate: self.rate, throughput, loss, slope })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Dur = Dur::from_millis(50);

    fn at(ms: u64) -> Time {
        Time::from_micros(ms * 1000)
    }

    /// ACKs every ms: `lost` of the 10 packets of each, and a round-trip time that rises by `rise_us` each time.
    fn hear(monitor: &mut Monitor, from_ms: u64, to_ms: u64, lost: u64, rise_us: u64) {
        for ms in from_ms..to_ms {
            let rtt = Some(RTT + Dur::from_micros((ms - from_ms) * rise_us));
            let seen = Feedback {
                acked: 1000 * (10 - lost),
                lost,
                rtt,
                min_rtt: rtt,
                samples: 1,
                ..Feedback::default()
            };
            monitor.take(at(ms), RTT, &seen);
        }
    }

    #[test]
    fn what_comes_back_after_a_round_trip_belongs_to_the_interval() {
        let mut monitor = Monitor::default();
        hear(&mut monitor, 900, 1000, 5, 0);
        monitor.begin(at(1000), Rate::from_mbps(80.0), 1, RTT);
        monitor.begin(at(1050), Rate::from_mbps(40.0), 2, RTT);
        hear(&mut monitor, 1000, 1051, 5, 0);
        assert_eq!(monitor.next(1000), None);
        // Slope 0.1 over arrivals is 1/9 over what was sent.
        hear(&mut monitor, 1051, 1101, 1, 96);
        hear(&mut monitor, 1101, 1152, 0, 0);
        let (purpose, first) = monitor.next(1000).unwrap();
        let first = first.unwrap();
        assert_eq!((purpose, first.loss), (1, 0.1));
        assert!((first.throughput.mbps() - 72.0).abs() < 1e-6, "{first:?}");
        assert!((first.slope - 0.096 / 0.904).abs() < 1e-3, "{first:?}");
        monitor.outdate();
        let (purpose, second) = monitor.next(1000).unwrap();
        let second = second.unwrap();
        assert_eq!((purpose, second.loss, second.slope), (PAST, 0.0, 0.0));
        assert!(monitor.next(1000).is_none() && monitor.is_over(at(1100)));
    }

    #[test]
    fn an_interval_that_was_not_used_tells_nothing() {
        let mut monitor = Monitor::default();
        monitor.begin(at(1000), Rate::from_mbps(200.0), 1, RTT);
        hear(&mut monitor, 1040, 1101, 0, 0);
        assert_eq!(monitor.next(1000), Some((1, None)));
    }
}
