//! Reno's window (RFC 5681): slow start, additive increase, halving once per round trip.
//!
//! Deviations: no fast-recovery inflation, because the transports here count bytes in flight; the
//! round trip in which further losses are ignored is measured in time, by the last round-trip time.

use super::Classic;
use anole_model::{Dur, Time};

/// Windows never fall below two segments after a loss (RFC 5681 eq. 4).
pub(crate) const MIN_SSTHRESH_PACKETS: u64 = 2;
/// Window after a timeout, segments (RFC 5681 §3.1: the loss window).
pub(crate) const LOSS_WINDOW_PACKETS: u64 = 1;

/// Reno's window and threshold.
#[derive(Clone, Debug)]
pub struct RenoWindow {
    mss: u64,
    cwnd: u64,
    ssthresh: u64,
    /// Bytes acknowledged since the last additive step (RFC 3465 byte counting).
    acked: u64,
    rtt: Dur,
    /// Losses found before this time belong to the decrease already made.
    recovery_until: Time,
}

impl RenoWindow {
    /// Slow start from `init_cwnd` bytes.
    pub fn new(mss: u32, init_cwnd: u32) -> RenoWindow {
        RenoWindow {
            mss: u64::from(mss.max(1)),
            cwnd: u64::from(init_cwnd),
            ssthresh: u64::MAX,
            acked: 0,
            rtt: Dur::ZERO,
            recovery_until: Time::ZERO,
        }
    }

    /// The slow-start threshold, bytes.
    pub fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    /// Takes over the window that a datapath grew, and the round-trip time it saw.
    pub fn observe(&mut self, cwnd: u64, rtt: Dur) {
        self.cwnd = cwnd;
        self.rtt = rtt;
    }

    fn halve(&mut self) {
        self.ssthresh = (self.cwnd / 2).max(MIN_SSTHRESH_PACKETS * self.mss);
        self.acked = 0;
    }
}

impl Classic for RenoWindow {
    fn on_ack(&mut self, _now: Time, bytes: u64, rtt: Dur) {
        if !rtt.is_zero() {
            self.rtt = rtt;
        }
        // Slow start up to the threshold, the rest of the bytes in congestion avoidance.
        let room = self.ssthresh.saturating_sub(self.cwnd);
        let slow = bytes.min(room);
        self.cwnd = self.cwnd.saturating_add(slow);
        self.acked = self.acked.saturating_add(bytes - slow);
        if self.acked >= self.cwnd {
            let steps = self.acked / self.cwnd.max(1);
            self.acked %= self.cwnd.max(1);
            self.cwnd = self.cwnd.saturating_add(steps.saturating_mul(self.mss));
        }
    }

    fn on_loss(&mut self, now: Time) {
        if now < self.recovery_until {
            return;
        }
        self.recovery_until = now + self.rtt;
        self.halve();
        self.cwnd = self.ssthresh;
    }

    fn on_timeout(&mut self, now: Time) {
        self.recovery_until = now + self.rtt;
        self.halve();
        self.cwnd = LOSS_WINDOW_PACKETS * self.mss;
    }

    fn cwnd(&self) -> u64 {
        self.cwnd
    }

    fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    fn resume(&mut self, cwnd: u32) {
        self.cwnd = u64::from(cwnd);
        self.ssthresh = self.cwnd;
        self.acked = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Dur = Dur::from_millis(50);

    fn at(ms: u64) -> Time {
        Time::from_micros(ms * 1000)
    }

    #[test]
    fn doubles_in_slow_start_and_adds_a_segment_per_window_after() {
        let mut w = RenoWindow::new(1000, 10_000);
        w.on_ack(at(50), 10_000, RTT);
        assert_eq!((w.cwnd(), w.in_slow_start()), (20_000, true));
        w.on_loss(at(60));
        assert_eq!((w.cwnd(), w.in_slow_start()), (10_000, false));
        w.on_ack(at(110), 10_000, RTT);
        assert_eq!(w.cwnd(), 11_000);
    }

    #[test]
    fn halves_once_per_round_trip() {
        let mut w = RenoWindow::new(1000, 40_000);
        w.on_ack(at(1), 0, RTT);
        w.on_loss(at(10));
        w.on_loss(at(59));
        assert_eq!(w.cwnd(), 20_000);
        w.on_loss(at(60));
        assert_eq!(w.cwnd(), 10_000);
    }

    #[test]
    fn a_timeout_starts_over_with_one_segment() {
        let mut w = RenoWindow::new(1000, 40_000);
        w.on_timeout(at(10));
        assert_eq!((w.cwnd(), w.ssthresh(), w.in_slow_start()), (1000, 20_000, true));
    }
}
