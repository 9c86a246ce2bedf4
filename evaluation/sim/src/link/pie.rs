//! PIE (RFC 8033): drops at the tail with a probability that a PI controller moves towards a reference
//! delay.
//!
//! The queueing delay is that of the last packet taken from the queue, as RFC 8033 §5.2 allows and
//! Linux does by default. Packets that can be marked are, while the probability is at most a tenth (§5.1). PIE is inactive
//! until a third of the buffer has filled, and again when the congestion is over (§5.3).
//!
//! Deviations: the random drops are not de-randomised (§5.4, optional); updates missed while nothing happened are made
//! up at the next packet.

use super::queue::{Drops, Fifo, Queued};
use anole_model::{Dur, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// RFC 8033 §4.2.
const QDELAY_REF_S: f64 = 0.015;
/// RFC 8033 §4.2: T_UPDATE.
const UPDATE_INTERVAL: Dur = Dur::from_millis(15);
/// RFC 8033 §4.2, per second.
const ALPHA: f64 = 0.125;
/// RFC 8033 §4.2, per second.
const BETA: f64 = 1.25;
/// RFC 8033 §4.3: bursts this long pass untouched.
const MAX_BURST: Dur = Dur::from_millis(150);
/// RFC 8033 §5.1: packets are marked up to this probability, and dropped above it.
const MOST_MARKED: f64 = 0.1;
/// RFC 8033 §5.3: PIE becomes active with this share of the buffer full (one over it).
const ACTIVE_SHARE: u64 = 3;
/// A delay above this raises the probability by STEEP more at each update (Linux, pie_calculate_probability).
const LONG_DELAY_S: f64 = 0.25;
/// See LONG_DELAY_S.
const STEEP: f64 = 0.02;
/// RFC 8033 §4.1: below two packets of this size nothing is dropped.
const MEAN_PACKET_BYTES: u64 = 1024;
/// RFC 8033 §4.2: steps of the probability, by its present size (upper bound, divisor).
const SCALE: [(f64, f64); 6] =
    [(1e-6, 2048.0), (1e-5, 512.0), (1e-4, 128.0), (1e-3, 32.0), (1e-2, 8.0), (1e-1, 2.0)];

#[derive(Clone, Debug)]
pub(super) struct Pie<T> {
    fifo: Fifo<T>,
    rng: Pcg64Mcg,
    active: bool,
    probability: f64,
    qdelay_s: f64,
    qdelay_old_s: f64,
    burst_left: Dur,
    next_update: Time,
}

impl<T> Pie<T> {
    pub fn new(seed: u64) -> Pie<T> {
        Pie {
            fifo: Fifo::new(),
            rng: Pcg64Mcg::seed_from_u64(seed),
            active: false,
            probability: 0.0,
            qdelay_s: 0.0,
            qdelay_old_s: 0.0,
            burst_left: MAX_BURST,
            next_update: Time::ZERO + UPDATE_INTERVAL,
        }
    }

    pub fn enqueue(&mut self, mut queued: Queued<T>, limit_bytes: u64, drops: &mut Drops) -> bool {
        self.update(queued.arrived);
        if !self.active && self.fifo.bytes() > limit_bytes / ACTIVE_SHARE {
            self.activate(queued.arrived);
        }
        if self.drop_early() && !(self.probability <= MOST_MARKED && queued.packet.mark()) {
            drops.count(queued.packet.flow);
            return false;
        }
        self.fifo.push_within(queued, limit_bytes, drops)
    }

    pub fn dequeue(&mut self, now: Time) -> Option<Queued<T>> {
        self.update(now);
        let head = self.fifo.pop();
        self.qdelay_s = match (&head, self.fifo.front()) {
            (Some(head), Some(_)) => head.sojourn(now).as_secs_f64(),
            _ => 0.0,
        };
        head
    }

    pub fn len(&self) -> usize {
        self.fifo.len()
    }

    pub fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }

    /// RFC 8033 §5.3: everything starts anew.
    fn activate(&mut self, now: Time) {
        self.active = true;
        (self.probability, self.qdelay_old_s) = (0.0, 0.0);
        self.burst_left = MAX_BURST;
        self.next_update = now + UPDATE_INTERVAL;
    }

    /// RFC 8033 §4.1.
    fn drop_early(&mut self) -> bool {
        let spare = !self.active
            || self.burst_left > Dur::ZERO
            || (self.qdelay_old_s < QDELAY_REF_S / 2.0 && self.probability < 0.2)
            || self.fifo.bytes() <= 2 * MEAN_PACKET_BYTES;
        !spare && self.rng.random::<f64>() < self.probability
    }

    /// RFC 8033 §4.2 and §4.3, for every interval that has passed.
    fn update(&mut self, now: Time) {
        while self.active && self.next_update <= now {
            let step = ALPHA * (self.qdelay_s - QDELAY_REF_S) + BETA * (self.qdelay_s - self.qdelay_old_s);
            let divisor = SCALE.iter().find(|(below, _)| self.probability < *below).map_or(1.0, |s| s.1);
            let mut step = step / divisor;
            if self.probability >= 0.1 {
                step = step.min(0.02);
            }
            if self.qdelay_s > LONG_DELAY_S {
                step += STEEP;
            }
            self.probability += step;
            if self.qdelay_s == 0.0 && self.qdelay_old_s == 0.0 {
                self.probability *= 0.98;
            }
            self.probability = self.probability.clamp(0.0, 1.0);
            self.burst_left = self.burst_left - UPDATE_INTERVAL;
            let calm = self.qdelay_s < QDELAY_REF_S / 2.0 && self.qdelay_old_s < QDELAY_REF_S / 2.0;
            if self.probability == 0.0 && calm {
                self.burst_left = MAX_BURST;
                self.active = self.qdelay_s > 0.0 || self.qdelay_old_s > 0.0;
            }
            self.qdelay_old_s = self.qdelay_s;
            self.next_update += UPDATE_INTERVAL;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{Ecn, Packet};

    fn queued(ms: u64) -> Queued<()> {
        let packet = Packet { size: 1500, flow: 0, ecn: Ecn::NotCapable, data: () };
        Queued { packet, arrived: Time::from_micros(ms * 1000) }
    }

    /// A queue of `packets` at the beginning; one arrives and one leaves per ms until `end_ms`.
    fn standing(packets: u64, limit: u64, end_ms: u64) -> Pie<()> {
        let (mut pie, mut drops) = (Pie::new(1), Drops::default());
        for _ in 0..packets {
            pie.enqueue(queued(0), limit, &mut drops);
        }
        for ms in 0..end_ms {
            pie.enqueue(queued(ms), limit, &mut drops);
            pie.dequeue(Time::from_micros(ms * 1000));
        }
        pie
    }

    #[test]
    fn it_is_inactive_until_a_third_of_the_buffer_is_full_and_after_the_congestion() {
        assert_eq!(standing(60, 300_000, 2000).probability, 0.0);
        let mut pie = standing(80, 300_000, 2000);
        assert!(pie.active && pie.probability > 0.0);
        let mut drops = Drops::default();
        for ms in 2000..20_000 {
            pie.dequeue(Time::from_micros(ms * 1000));
        }
        assert!(pie.fifo.len() == 0 && !pie.active, "{}", pie.probability);
        pie.enqueue(queued(20_000), 300_000, &mut drops);
        assert_eq!(drops.packets, 0);
    }

    #[test]
    fn above_a_quarter_of_a_second_the_probability_rises_by_two_percent_more() {
        let mut pie = standing(0, 300_000, 1);
        pie.activate(Time::ZERO);
        (pie.probability, pie.qdelay_s, pie.qdelay_old_s) = (0.2, 0.26, 0.26);
        pie.update(Time::ZERO + UPDATE_INTERVAL);
        assert!((pie.probability - 0.24).abs() < 1e-9, "{}", pie.probability);
        (pie.probability, pie.qdelay_s, pie.qdelay_old_s) = (0.2, 0.24, 0.24);
        pie.update(Time::ZERO + UPDATE_INTERVAL * 2);
        assert!((pie.probability - 0.22).abs() < 1e-9, "{}", pie.probability);
    }
}
