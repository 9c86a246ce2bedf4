//! RED (Floyd and Jacobson, *Random Early Detection Gateways for Congestion Avoidance*, IEEE/ACM ToN 1993; recommended by
//! RFC 2309), gentle (Floyd, *Recommendation on using the "gentle_" variant of RED*, 2000).
//!
//! ```text
//! at an arrival:  avg += w·(queue − avg), and after idle time as if small packets had passed meanwhile
//! p(avg):         0 up to min, rising to MAX_P at max, then to 1 at 2·max
//! drop or mark:   with probability p / (1 − count·p), count being the packets since the last one
//! ```
//! Packets that can be marked are, while avg is below max (RFC 3168 §7).
//!
//! Left open by the paper: thresholds are shares of the buffer, min a twelfth and max a quarter of it, so that max is
//! three times min (Floyd, *RED: Discussions of Setting Parameters*, 1997) and the gentle part ends at half the buffer.

use super::queue::{Drops, Fifo, Queued};
use anole_model::{Dur, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::mem;

/// Weight of the queue in its average (1993, §6).
const WEIGHT: f64 = 0.002;
/// Probability at the upper threshold (Floyd 1997).
const MAX_P: f64 = 0.1;
/// The lower threshold, one over the share of the buffer …
const MIN_SHARE: u64 = 12;
/// … but at least five packets (Floyd 1997), bytes.
const LEAST_MIN_BYTES: u64 = 5 * 1500;
/// The upper threshold over the lower one (Floyd 1997).
const MAX_OVER_MIN: f64 = 3.0;

#[derive(Clone, Debug)]
pub(super) struct Red<T> {
    fifo: Fifo<T>,
    rng: Pcg64Mcg,
    average_bytes: f64,
    /// Packets since the last drop or mark.
    count: f64,
    /// Since when the queue is empty, or until when that is in the average already.
    empty_since: Option<Time>,
    /// When a packet was last taken, and the time that the one before took to be sent.
    taken_at: Time,
    service: Dur,
}

impl<T> Red<T> {
    pub fn new(seed: u64) -> Red<T> {
        Red {
            fifo: Fifo::new(),
            rng: Pcg64Mcg::seed_from_u64(seed),
            average_bytes: 0.0,
            count: 0.0,
            empty_since: None,
            taken_at: Time::ZERO,
            service: Dur::ZERO,
        }
    }

    pub fn enqueue(&mut self, mut queued: Queued<T>, limit_bytes: u64, drops: &mut Drops) -> bool {
        self.average(queued.arrived);
        let probability = self.probability(limit_bytes);
        if self.chosen(probability) && !(probability <= MAX_P && queued.packet.mark()) {
            drops.count(queued.packet.flow);
            return false;
        }
        let taken = self.fifo.push_within(queued, limit_bytes, drops);
        if taken {
            self.empty_since = None;
        }
        taken
    }

    pub fn dequeue(&mut self, now: Time) -> Option<Queued<T>> {
        let head = self.fifo.pop()?;
        // A packet that was there when the one before was taken followed it without a pause. Opportunities of a trace may
        // coincide, and then tell nothing.
        if head.arrived <= self.taken_at && self.taken_at < now {
            self.service = now.since(self.taken_at);
        }
        self.taken_at = now;
        if self.fifo.len() == 0 {
            self.empty_since = Some(now);
        }
        Some(head)
    }

    pub fn len(&self) -> usize {
        self.fifo.len()
    }

    pub fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }

    fn average(&mut self, now: Time) {
        // A packet that is dropped leaves an empty queue empty.
        if let Some(since) = self.empty_since.as_mut().map(|since| mem::replace(since, now))
            && !self.service.is_zero()
        {
            let passed = now.since(since).as_secs_f64() / self.service.as_secs_f64();
            self.average_bytes *= (1.0 - WEIGHT).powf(passed);
        }
        self.average_bytes += WEIGHT * (self.fifo.bytes() as f64 - self.average_bytes);
    }

    fn probability(&self, limit_bytes: u64) -> f64 {
        let min = (limit_bytes / MIN_SHARE).max(LEAST_MIN_BYTES) as f64;
        let max = MAX_OVER_MIN * min;
        if self.average_bytes < max {
            (MAX_P * (self.average_bytes - min) / (max - min)).max(0.0)
        } else {
            (MAX_P + (1.0 - MAX_P) * (self.average_bytes - max) / max).min(1.0)
        }
    }

    fn chosen(&mut self, probability: f64) -> bool {
        if probability <= 0.0 {
            self.count = 0.0;
            return false;
        }
        let spread = 1.0 - self.count * probability;
        let chosen = spread <= 0.0 || self.rng.random::<f64>() < probability / spread;
        self.count = if chosen { 0.0 } else { self.count + 1.0 };
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{Ecn, Packet};

    #[test]
    fn the_probability_rises_to_a_tenth_at_the_upper_threshold_and_gently_to_one_at_twice_that() {
        let mut red = Red::<()>::new(1);
        let mut at = |average: f64| {
            red.average_bytes = average;
            (red.probability(1_200_000) * 1e6).round() / 1e6
        };
        assert_eq!([99e3, 100e3, 200e3].map(&mut at), [0.0, 0.0, 0.05]);
        assert_eq!([300e3, 450e3, 600e3, 900e3].map(at), [0.1, 0.55, 1.0, 1.0]);
    }

    #[test]
    fn drops_are_spread_out_and_as_frequent_as_asked() {
        let mut red = Red::<()>::new(1);
        let chosen: Vec<u64> = (0..100_000).filter(|_| red.chosen(0.02)).collect();
        // 1993, §7: uniform over 1 to 1/p packets, so 1/(2p) on average, and never further apart.
        let gaps = chosen.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(gaps.clone().max() <= Some(51), "{:?}", gaps.max());
        assert!((3700..4300).contains(&chosen.len()), "{}", chosen.len());
    }

    fn at(ms: u64) -> Time {
        Time::from_micros(ms * 1000)
    }

    fn queued(ms: u64) -> Queued<()> {
        Queued { packet: Packet { size: 1500, flow: 0, ecn: Ecn::NotCapable, data: () }, arrived: at(ms) }
    }

    /// On a trace a packet that finds the queue empty still waits, for an opportunity.
    #[test]
    fn an_idle_time_is_none_of_service() {
        let (mut red, mut drops) = (Red::new(1), Drops::default());
        (0..20).for_each(|_| assert!(red.enqueue(queued(0), 1 << 20, &mut drops)));
        (1..=20).for_each(|ms| assert!(red.dequeue(at(ms)).is_some()));
        red.enqueue(queued(1019), 1 << 20, &mut drops);
        red.dequeue(at(1020));
        red.average_bytes = 10_000.0;
        red.enqueue(queued(2020), 1 << 20, &mut drops);
        let left = 10_000.0 * (1.0f64 - WEIGHT).powi(1001);
        assert!((red.average_bytes / left - 1.0).abs() < 1e-9, "{}", red.average_bytes);
    }

    #[test]
    fn the_average_falls_while_the_queue_is_empty() {
        let (mut red, mut drops) = (Red::new(1), Drops::default());
        for _ in 0..20 {
            red.enqueue(queued(0), 1 << 20, &mut drops);
        }
        for ms in 1..=20 {
            red.dequeue(at(ms));
        }
        red.average_bytes = 10_000.0;
        // 1000 packets of 1 ms could have passed.
        red.enqueue(queued(1020), 1 << 20, &mut drops);
        let left = 10_000.0 * (1.0f64 - WEIGHT).powi(1001);
        assert!((red.average_bytes / left - 1.0).abs() < 1e-9, "{}", red.average_bytes);
    }

    /// Three packets meet an empty queue a second after each other, and the average is so long that RED drops all but the last.
    #[test]
    fn the_average_falls_on_while_what_arrives_is_dropped() {
        let (mut red, mut drops) = (Red::new(1), Drops::default());
        (0..20).for_each(|_| assert!(red.enqueue(queued(0), 1 << 20, &mut drops)));
        (1..=20).for_each(|ms| assert!(red.dequeue(at(ms)).is_some()));
        red.average_bytes = 100.0 * f64::from(1 << 20);
        assert!(!red.enqueue(queued(1020), 1 << 20, &mut drops));
        assert!(!red.enqueue(queued(2020), 1 << 20, &mut drops));
        let left = 100.0 * f64::from(1 << 20) * (1.0f64 - WEIGHT).powi(2002);
        assert!((red.average_bytes / left - 1.0).abs() < 1e-9, "{}", red.average_bytes);
        assert!(red.enqueue(queued(12_020), 1 << 20, &mut drops) && red.empty_since.is_none());
    }
}
