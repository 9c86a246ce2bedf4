//! PIE (RFC 8033): drops at the tail with a probability that a PI controller moves towards a reference
//! delay.
//!
//! The queueing delay is that of the last packet taken from the queue, as RFC 8033 §5.2 allows and
//! Linux does by default. Deviations: drops, never marks; the random drops are not de-randomised
//! (§5.4, optional); updates missed while nothing happened are made up at the next packet.

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
/// RFC 8033 §4.1: below two packets of this size nothing is dropped.
const MEAN_PACKET_BYTES: u64 = 1024;
/// RFC 8033 §4.2: steps of the probability, by its present size (upper bound, divisor).
const SCALE: [(f64, f64); 6] =
    [(1e-6, 2048.0), (1e-5, 512.0), (1e-4, 128.0), (1e-3, 32.0), (1e-2, 8.0), (1e-1, 2.0)];

#[derive(Clone, Debug)]
pub(super) struct Pie<T> {
    fifo: Fifo<T>,
    rng: Pcg64Mcg,
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
            probability: 0.0,
            qdelay_s: 0.0,
            qdelay_old_s: 0.0,
            burst_left: MAX_BURST,
            next_update: Time::ZERO + UPDATE_INTERVAL,
        }
    }

    pub fn enqueue(&mut self, queued: Queued<T>, limit_bytes: u64, drops: &mut Drops) -> bool {
        self.update(queued.arrived);
        if self.fifo.fits(&queued, limit_bytes) && !self.drop_early() {
            self.fifo.push(queued);
            return true;
        }
        drops.count(queued.packet.flow);
        false
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

    /// RFC 8033 §4.1.
    fn drop_early(&mut self) -> bool {
        let spare = self.burst_left > Dur::ZERO
            || (self.qdelay_old_s < QDELAY_REF_S / 2.0 && self.probability < 0.2)
            || self.fifo.bytes() <= 2 * MEAN_PACKET_BYTES;
        !spare && self.rng.random::<f64>() < self.probability
    }

    /// RFC 8033 §4.2 and §4.3, for every interval that has passed.
    fn update(&mut self, now: Time) {
        while self.next_update <= now {
            let step = ALPHA * (self.qdelay_s - QDELAY_REF_S) + BETA * (self.qdelay_s - self.qdelay_old_s);
            let divisor = SCALE.iter().find(|(below, _)| self.probability < *below).map_or(1.0, |s| s.1);
            let mut step = step / divisor;
            if self.probability >= 0.1 {
                step = step.min(0.02);
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
            }
            self.qdelay_old_s = self.qdelay_s;
            self.next_update += UPDATE_INTERVAL;
        }
    }
}
