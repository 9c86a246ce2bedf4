//! CUBIC (RFC 9438) as a window controller: the native fallback, the core of the `cubic` algorithm, and
//! a rule-based candidate for algorithms that compare rates.
//!
//! Windows in packets, t in seconds since congestion avoidance began (RFC 9438 §4.2, §4.3):
//!
//! ```text
//! W_cubic(t) = C·(t − K)³ + W_max           K = cbrt((W_max − cwnd_epoch) / C)
//! W_est     += α·acked / cwnd               α = 3(1 − β)/(1 + β) until W_est reaches cwnd_prior, then 1
//! on an ACK:   cwnd = W_est                                   while W_cubic(t) < W_est (Reno-friendly)
//!              cwnd += (target − cwnd)/cwnd per packet acked  otherwise (concave and convex),
//!                      target = W_cubic(t + RTT) within [cwnd, 1.5·cwnd]
//! on a loss:   W_max = cwnd, or cwnd·(1 + β)/2 when cwnd < W_max (fast convergence); cwnd ·= β
//! ```
//!
//! ```text
//!              ┌───────────── timeout ──────────────┐
//!              ▼                                    │
//!         slow start ── HyStart++, ssthresh ──▶ avoidance ──loss──▶ recovery (one RTT, no growth)
//!              │                                    ▲                   │
//!              └──────────────loss──────────────────┼───────────────────┘
//! ```
//!
//! Deviations: a datapath gives no sequence numbers, so the losses of one round trip after a decrease
//! belong to the same congestion event; growth from a batch of ACKs is applied once; spurious
//! congestion events (§4.9) are not undone; an application-limited sender is the caller's matter: it
//! does not report ACKs that came without the window in use.

use crate::hystart::HyStart;
use anole_model::{Dur, Time};

/// RFC 9438 §5: C, packets/s³: how fast the window grows in new or stable networks.
const C_PACKETS_PER_S3: f64 = 0.4;
/// RFC 9438 §4.6: β_cubic, what a loss leaves of the window.
const BETA: f64 = 0.7;
/// RFC 9438 §4.3: α_cubic, which gives Reno's average window with β_cubic in place of 1/2.
const ALPHA_FRIENDLY: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// RFC 9438 §4.2: target is at most this times cwnd, so that growth stays below slow start's.
const MAX_GROWTH_PER_RTT: f64 = 1.5;
/// RFC 9438 §4.6: ssthresh is at least two packets.
const MIN_SSTHRESH_PACKETS: f64 = 2.0;
/// RFC 5681 §3.1: the window after a timeout.
const LOSS_WINDOW_PACKETS: f64 = 1.0;
/// Losses of packets sent before a decrease belong to it. They are found up to 9/8 RTT after it (RFC 9002
/// §6.1.2, kTimeThreshold); a little more allows for an RTT that still grew.
const SAME_EVENT_RTTS: f64 = 1.25;
/// A window that no path reaches (2^40 packets); keeps every sum below finite and exact.
const MAX_WINDOW_PACKETS: f64 = (1u64 << 40) as f64;

/// A CUBIC window that is told of ACKs, losses and timeouts.
#[derive(Clone, Debug)]
pub struct Cubic {
    /// Bytes in a packet.
    mss: f64,
    /// All windows in packets.
    cwnd: f64,
    ssthresh: f64,
    w_max: f64,
    cwnd_prior: f64,
    /// What the next epoch starts from: a loss (K from W_max) or anything else (K = 0).
    after_loss: bool,
    epoch: Option<Epoch>,
    /// Until when the window does not grow after a loss: one RTT.
    recovery_end: Option<Time>,
    /// Until when a further loss belongs to the same event.
    event_end: Option<Time>,
    hystart: Option<HyStart>,
    last_rtt: Dur,
}

/// One stage of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Time,
    k_s: f64,
    w_max: f64,
    w_est: f64,
}

impl Epoch {
    fn w_cubic(&self, t_s: f64) -> f64 {
        C_PACKETS_PER_S3 * (t_s - self.k_s).powi(3) + self.w_max
    }
}

impl Cubic {
    /// Slow start from `init_cwnd` bytes.
    pub fn new(mss: u32, init_cwnd: u32) -> Cubic {
        let mss = f64::from(mss.max(1));
        Cubic {
            mss,
            cwnd: (f64::from(init_cwnd) / mss).max(LOSS_WINDOW_PACKETS),
            ssthresh: f64::INFINITY,
            w_max: 0.0,
            cwnd_prior: 0.0,
            after_loss: false,
            epoch: None,
            recovery_end: None,
            event_end: None,
            hystart: Some(HyStart::new()),
            last_rtt: Dur::ZERO,
        }
    }

    /// Congestion avoidance from `cwnd` bytes, as after a loss at that window long ago.
    pub fn resume(mss: u32, cwnd: u32) -> Cubic {
        let mut cubic = Cubic::new(mss, cwnd);
        cubic.rebase(cwnd);
        cubic
    }

    /// Moves the operating point to `cwnd` bytes: a new epoch of congestion avoidance, flat at that
    /// window (RFC 9438 §4.8 and §4.10: K = 0, W_max = cwnd). For a caller that applied another window
    /// for long enough that this one's history no longer describes the path.
    pub fn rebase(&mut self, cwnd: u32) {
        self.cwnd = (f64::from(cwnd) / self.mss).max(LOSS_WINDOW_PACKETS);
        self.leave_slow_start();
    }

    /// `bytes` were acknowledged; `rtt` is the latest sample, zero if there is none.
    pub fn on_ack(&mut self, now: Time, bytes: u64, rtt: Dur) {
        if !rtt.is_zero() {
            self.last_rtt = rtt;
        }
        if self.recovery_end.is_some_and(|end| now < end) {
            return;
        }
        self.recovery_end = None;
        let acked = (bytes as f64 / self.mss).min(MAX_WINDOW_PACKETS);
        if self.in_slow_start() {
            self.slow_start(now, acked, rtt);
        } else {
            self.avoid_congestion(now, acked);
        }
        self.cwnd = self.cwnd.clamp(LOSS_WINDOW_PACKETS, MAX_WINDOW_PACKETS);
    }

    /// A loss was detected: one multiplicative decrease per round trip.
    pub fn on_loss(&mut self, now: Time) {
        if self.event_end.is_some_and(|end| now < end) {
            return;
        }
        self.decrease(now);
        self.cwnd = self.ssthresh;
        self.after_loss = true;
    }

    /// A retransmission timeout fired.
    pub fn on_timeout(&mut self, now: Time) {
        // A timeout within that event, or one before the window grew again after another, is the same
        // congestion: ssthresh stays (RFC 5681 §3.1).
        let again = self.cwnd <= LOSS_WINDOW_PACKETS;
        if !again && self.event_end.is_none_or(|end| now >= end) {
            self.decrease(now);
        }
        self.cwnd = LOSS_WINDOW_PACKETS;
        self.after_loss = false;
        self.recovery_end = None;
        self.epoch = None;
    }

    /// The window, bytes.
    pub fn cwnd(&self) -> u64 {
        (self.cwnd * self.mss) as u64
    }

    /// True below the slow-start threshold.
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    fn slow_start(&mut self, now: Time, acked: f64, rtt: Dur) {
        let growth = match &mut self.hystart {
            Some(hystart) if !rtt.is_zero() => hystart.on_rtt(now, rtt),
            _ => Some(1.0),
        };
        match growth {
            // A batch of ACKs may not carry slow start past its threshold.
            Some(factor) => self.cwnd = (self.cwnd + factor * acked).min(self.ssthresh),
            None => self.leave_slow_start(),
        }
    }

    fn leave_slow_start(&mut self) {
        self.ssthresh = self.cwnd;
        self.cwnd_prior = self.cwnd;
        self.w_max = self.cwnd;
        self.after_loss = false;
        self.epoch = None;
        self.hystart = None;
    }

    fn avoid_congestion(&mut self, now: Time, acked: f64) {
        let cwnd = self.cwnd;
        let mut epoch = *self.epoch.get_or_insert_with(|| {
            // Without a loss (slow start that met its threshold, a timeout) the window is flat here first,
            // and what it was before counts no more (§4.8).
            if !self.after_loss {
                self.w_max = cwnd;
            }
            let k_s = ((self.w_max - cwnd).max(0.0) / C_PACKETS_PER_S3).cbrt();
            Epoch { start: now, k_s, w_max: self.w_max, w_est: cwnd }
        });
        let t_s = now.since(epoch.start).as_secs_f64();
        let alpha = if epoch.w_est >= self.cwnd_prior { 1.0 } else { ALPHA_FRIENDLY };
        epoch.w_est += alpha * acked / cwnd;
        self.epoch = Some(epoch);
        if epoch.w_cubic(t_s) < epoch.w_est {
            self.cwnd = cwnd.max(epoch.w_est);
        } else {
            let target =
                epoch.w_cubic(t_s + self.last_rtt.as_secs_f64()).clamp(cwnd, MAX_GROWTH_PER_RTT * cwnd);
            self.cwnd = (cwnd + (target - cwnd) * (acked / cwnd)).min(target);
        }
    }

    /// What a loss and a timeout have in common: W_max, ssthresh, and the time in which further losses
    /// belong to the same event.
    fn decrease(&mut self, now: Time) {
        self.w_max = if self.cwnd < self.w_max { self.cwnd * (1.0 + BETA) / 2.0 } else { self.cwnd };
        self.cwnd_prior = self.cwnd;
        self.ssthresh = (self.cwnd * BETA).max(MIN_SSTHRESH_PACKETS);
        self.recovery_end = Some(now + self.last_rtt);
        self.event_end = Some(now + self.last_rtt.mul_f64(SAME_EVENT_RTTS));
        self.epoch = None;
        // HyStart++ serves the first slow start only (RFC 9406 §4.3).
        self.hystart = None;
    }
}

#[cfg(test)]
mod tests;
