//! Pacing: a token bucket of data bytes.

use std::time::{Duration, Instant};

/// Shortest sleep between two bursts: a wake-up costs some 20 µs of CPU, so that one per packet would cost a third of a
/// core at 200 Mbps.
const MIN_SLEEP: Duration = Duration::from_micros(250);
/// What the bucket holds: what the rate allows in this time, so that a thread that wakes late does not lose its share …
const MAX_CREDIT: Duration = Duration::from_millis(4);
/// … and at least two packets.
const MIN_CREDIT_PACKETS: f64 = 2.0;

/// Says when the next packet may go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacer {
    /// Bytes that may go at once; below 0 after a packet for which not all was there.
    credit: f64,
    as_of: Instant,
    /// Bytes/s; `None` does not pace.
    rate: Option<f64>,
    packet: f64,
}

impl Pacer {
    /// A full bucket; `packet` is the largest packet, bytes.
    pub fn new(now: Instant, packet: u32) -> Pacer {
        let packet = f64::from(packet);
        Pacer { credit: MIN_CREDIT_PACKETS * packet, as_of: now, rate: None, packet }
    }

    /// Sets the rate, bytes/s.
    pub fn set_rate(&mut self, now: Instant, rate: Option<f64>) {
        if self.rate != rate {
            self.refill(now);
            self.rate = rate;
        }
    }

    /// Whether a packet may go.
    pub fn is_ready(&mut self, now: Instant) -> bool {
        self.refill(now);
        self.rate.is_none() || self.credit > 0.0
    }

    /// A packet has gone.
    pub fn spend(&mut self, bytes: u32) {
        if self.rate.is_some() {
            self.credit -= f64::from(bytes);
        }
    }

    /// When to look again, for one that is not ready.
    pub fn ready_at(&self) -> Instant {
        let missing = -self.credit / self.rate.unwrap_or(f64::INFINITY);
        // A rate is at least some bytes/s and a packet at most 64 KiB; an hour bounds what arithmetic may make of that.
        self.as_of + Duration::from_secs_f64(missing.clamp(0.0, 3600.0)).max(MIN_SLEEP)
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.as_of);
        let rate = self.rate.unwrap_or(0.0);
        let most = (rate * MAX_CREDIT.as_secs_f64()).max(MIN_CREDIT_PACKETS * self.packet);
        self.credit = (self.credit + rate * passed.as_secs_f64()).min(most);
        self.as_of = self.as_of.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that go in a second in which the thread looks as often as `ready_at` says, and is late by `late`.
    fn sent_in_a_second(rate: f64, late: Duration) -> u64 {
        let start = Instant::now();
        let (mut pacer, mut now, mut sent) = (Pacer::new(start, 1460), start, 0);
        pacer.set_rate(start, Some(rate));
        while now < start + Duration::from_secs(1) {
            if pacer.is_ready(now) {
                pacer.spend(1460);
                sent += 1460;
            } else {
                now = pacer.ready_at() + late;
            }
        }
        sent
    }

    #[test]
    fn a_rate_is_held_however_late_the_thread_wakes() {
        for rate in [1e5, 1e6, 1e7, 1e8] {
            for late_us in [0, 60, 1000, 3000] {
                let sent = sent_in_a_second(rate, Duration::from_micros(late_us)) as f64;
                assert!((sent / rate - 1.0).abs() < 0.05, "{rate} bytes/s, {late_us} µs late: {sent}");
            }
        }
    }

    #[test]
    fn an_idle_time_earns_a_few_milliseconds() {
        let start = Instant::now();
        let mut pacer = Pacer::new(start, 1460);
        pacer.set_rate(start, Some(1e7));
        let later = start + Duration::from_secs(10);
        let mut burst = 0;
        while pacer.is_ready(later) {
            pacer.spend(1460);
            burst += 1460;
        }
        assert!((40_000..=41_460).contains(&burst), "{burst}");
    }
}
