//! CUBIC (RFC 9438) as a window controller: the native fallback, and the core of the `cubic` algorithm.

use anole_model::{Dur, Time};

/// A CUBIC window that is told of ACKs, losses and timeouts.
#[derive(Clone, Debug)]
pub struct Cubic {
    cwnd: f64,
}

impl Cubic {
    /// Slow start from `init_cwnd` bytes.
    pub fn new(mss: u32, init_cwnd: u32) -> Cubic {
        let _ = mss;
        Cubic { cwnd: f64::from(init_cwnd) }
    }
    /// Congestion avoidance from `cwnd` bytes, as after a loss at that window long ago.
    pub fn resume(mss: u32, cwnd: u32) -> Cubic {
        Cubic::new(mss, cwnd)
    }
    /// `bytes` were acknowledged; `rtt` is the latest sample, zero if there is none.
    pub fn on_ack(&mut self, now: Time, bytes: u64, rtt: Dur) {
        let _ = (now, bytes, rtt);
    }
    /// A loss was detected: one multiplicative decrease per round trip.
    pub fn on_loss(&mut self, now: Time) {
        let _ = now;
    }
    /// A retransmission timeout fired.
    pub fn on_timeout(&mut self, now: Time) {
        let _ = now;
    }
    /// The window, bytes.
    pub fn cwnd(&self) -> u64 {
        self.cwnd as u64
    }
    /// True below the slow-start threshold.
    pub fn in_slow_start(&self) -> bool {
        true
    }
}
