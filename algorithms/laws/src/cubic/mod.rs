//! CUBIC (RFC 9438).
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
//! Slow start ends without a loss when HyStart++ (RFC 9406) sees the round-trip time rise.
//!
//! Time in which the application leaves the window unused does not count for the cubic (§5.8): the epoch is moved on, as in
//! Linux (cubictcp_cwnd_event).
//!
//! Deviations: a congestion event is measured in time ([`Episode`]); growth from a batch of ACKs is applied once;
//! spurious congestion events (§4.9) are not undone.
//!
//! A fold program may grow the window per ACK in the datapath and leave the decreases to this law:
//! [`Cubic::observe`] takes over the window that it reached, and [`Cubic::epoch`] is what it goes on with.

use crate::{Control, Episode, Feedback, HyStart, Law, LawSpec, parameters};
use anole_model::{Dur, Time};

parameters! {
    /// What a user may change.
    pub struct Params {
        beta = 0.7, 0.1..=0.95, "What is left of the window after a loss (RFC 9438 §4.6).";
        c = 0.4, 0.05..=10.0, "How fast the window grows in new or stable networks, packets/s^3 (RFC 9438 §5.1; with less the datapath's fixed point would reach a plateau of 240 MB too early).";
        fast_convergence = 1.0, 0.0..=1.0, "1: leave room for newer flows by a smaller W_max (RFC 9438 §4.7).";
        hystart = 1.0, 0.0..=1.0, "1: leave slow start when the round-trip time rises (RFC 9406).";
    }
}

/// CUBIC in the registry.
pub const SPEC: LawSpec = LawSpec {
    name: "cubic",
    summary: "Cubic growth around the window of the last loss: the default of Linux",
    source: "RFC 9438",
    parameters: Params::PARAMETERS,
    build: |flow, given| Ok(Box::new(Cubic::with(flow.mss, flow.init_cwnd, Params::with(given)?))),
};

/// RFC 9438 §4.2: target is at most this times cwnd, so that growth stays below slow start's.
const MAX_GROWTH_PER_RTT: f64 = 1.5;
/// RFC 9438 §4.6: ssthresh is at least two packets.
const MIN_SSTHRESH_PACKETS: f64 = 2.0;
/// RFC 5681 §3.1: the window after a timeout.
const LOSS_WINDOW_PACKETS: f64 = 1.0;
/// A window that no path reaches (2^40 packets); keeps every sum below finite and exact.
const MAX_WINDOW_PACKETS: f64 = (1u64 << 40) as f64;

/// A CUBIC window that is told of ACKs, losses and timeouts.
#[derive(Clone, Debug)]
pub struct Cubic {
    params: Params,
    /// Bytes in a packet.
    mss: f64,
    /// All windows in packets.
    cwnd: f64,
    ssthresh: f64,
    w_max: f64,
    cwnd_prior: f64,
    /// What the next epoch starts from: a loss (K from W_max) or anything else (K = 0).
    after_loss: bool,
    avoidance: Option<Avoidance>,
    /// Until when the window does not grow after a loss: one RTT.
    recovery_end: Option<Time>,
    episode: Episode,
    /// The first slow start, while it lasts.
    hystart: Option<HyStart>,
    /// The factor on slow start's growth.
    growth: f64,
    /// The latest round-trip time; zero before the first.
    last_rtt: Dur,
    last_feedback: Option<Time>,
}

/// One stage of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Avoidance {
    start: Time,
    k_s: f64,
    w_max: f64,
    w_est: f64,
}

/// What growth in a fold program goes on with; windows in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Epoch {
    /// The window now.
    pub cwnd: u64,
    /// Slow-start threshold.
    pub ssthresh: u64,
    /// W_max: the window that the epoch heads for.
    pub w_max: u64,
    /// K: the time until it gets there, s.
    pub k_s: f64,
    /// The window before the last decrease, or at the end of slow start: from there the estimate of Reno grows by a whole
    /// segment per window.
    pub prior: u64,
}

impl Cubic {
    /// Slow start from `init_cwnd` bytes with the RFC's parameters.
    pub fn new(mss: u32, init_cwnd: u32) -> Cubic {
        Cubic::with(mss, init_cwnd, Params::default())
    }

    /// Slow start from `init_cwnd` bytes.
    pub fn with(mss: u32, init_cwnd: u32, params: Params) -> Cubic {
        let mss = f64::from(mss.max(1));
        Cubic {
            params,
            mss,
            cwnd: (f64::from(init_cwnd) / mss).max(LOSS_WINDOW_PACKETS),
            ssthresh: f64::INFINITY,
            w_max: 0.0,
            cwnd_prior: 0.0,
            after_loss: false,
            avoidance: None,
            recovery_end: None,
            episode: Episode::default(),
            hystart: (params.hystart > 0.5).then(HyStart::new),
            growth: 1.0,
            last_rtt: Dur::ZERO,
            last_feedback: None,
        }
    }

    /// Congestion avoidance from `cwnd` bytes, as after a loss at that window long ago: an epoch that is flat there
    /// (RFC 9438 §4.8 and §4.10: K = 0, W_max = cwnd). `rtt` is the latest round-trip time, zero if there is none.
    pub fn resumed(mss: u32, cwnd: u32, rtt: Dur) -> Cubic {
        let mut cubic = Cubic { last_rtt: rtt, ..Cubic::new(mss, cwnd) };
        cubic.leave_slow_start();
        cubic
    }

    /// The same, but with slow start up to `ssthresh` bytes: for a window of which only `cwnd` bytes were in use, so that
    /// nothing says that the path holds less.
    pub fn resumed_below(mss: u32, cwnd: u32, ssthresh: u32, rtt: Dur) -> Cubic {
        let mut cubic = Cubic::resumed(mss, ssthresh.max(cwnd), rtt);
        cubic.observe(u64::from(cwnd), 0);
        cubic
    }

    /// Goes on in congestion avoidance from `cwnd` bytes, and forgets what it knew: another controller has applied
    /// that window for long enough that this one's history no longer describes the path.
    pub fn resume_at(&mut self, cwnd: u64) {
        let (last_rtt, last_feedback) = (self.last_rtt, self.last_feedback);
        *self = Cubic { last_rtt, last_feedback, ..Cubic::with(self.mss as u32, 0, self.params) };
        self.cwnd = (cwnd as f64 / self.mss).clamp(LOSS_WINDOW_PACKETS, MAX_WINDOW_PACKETS);
        self.leave_slow_start();
    }

    /// `bytes` were acknowledged.
    pub fn on_ack(&mut self, now: Time, bytes: u64) {
        if self.recovery_end.is_some_and(|end| now < end) {
            return;
        }
        self.recovery_end = None;
        let acked = (bytes as f64 / self.mss).min(MAX_WINDOW_PACKETS);
        if self.cwnd < self.ssthresh {
            // A batch of ACKs may not carry slow start past its threshold.
            self.cwnd = (self.cwnd + self.growth * acked).min(self.ssthresh);
        } else {
            self.avoid_congestion(now, acked);
        }
        self.cwnd = self.cwnd.clamp(LOSS_WINDOW_PACKETS, MAX_WINDOW_PACKETS);
    }

    /// The smallest of `samples` round-trip times was `rtt`. True when it ends slow start.
    pub fn on_rtt(&mut self, now: Time, rtt: Dur, samples: u64) -> bool {
        if rtt.is_zero() {
            return false;
        }
        self.last_rtt = rtt;
        let recovering = self.recovery_end.is_some_and(|end| now < end);
        let Some(hystart) = self.hystart.as_mut().filter(|_| !recovering && self.cwnd < self.ssthresh) else {
            return false;
        };
        match hystart.on_rtt(now, rtt, samples) {
            Some(growth) => self.growth = growth,
            None => self.leave_slow_start(),
        }
        self.hystart.is_none()
    }

    /// A loss was detected: one multiplicative decrease per congestion event. True when it is made.
    pub fn on_loss(&mut self, now: Time) -> bool {
        if self.episode.covers(now) {
            return false;
        }
        self.recovery_end = Some(now + self.last_rtt);
        self.episode.begin(now, self.last_rtt, self.params.beta, self.cwnd());
        self.decrease();
        self.cwnd = self.ssthresh;
        self.after_loss = true;
        true
    }

    /// A retransmission timeout fired. One that belongs to the decrease already made leaves ssthresh (RFC 5681 §3.1).
    pub fn on_timeout(&mut self, now: Time) {
        if !self.episode.on_timeout(now, self.last_rtt, self.params.beta) {
            self.decrease();
        }
        self.cwnd = LOSS_WINDOW_PACKETS;
        self.after_loss = false;
        self.recovery_end = None;
        self.avoidance = None;
    }

    /// Packets have `mss` bytes from now on: what is known in bytes stays, and an epoch under way begins anew.
    pub fn set_mss(&mut self, mss: u32) {
        let mss = f64::from(mss.max(1));
        let scale = self.mss / mss;
        for packets in [&mut self.cwnd, &mut self.ssthresh, &mut self.w_max, &mut self.cwnd_prior] {
            *packets *= scale;
        }
        self.cwnd = self.cwnd.clamp(LOSS_WINDOW_PACKETS, MAX_WINDOW_PACKETS);
        (self.mss, self.avoidance) = (mss, None);
    }

    /// The window, bytes.
    pub fn cwnd(&self) -> u64 {
        (self.cwnd * self.mss) as u64
    }

    fn leave_slow_start(&mut self) {
        self.ssthresh = self.cwnd;
        self.cwnd_prior = self.cwnd;
        self.w_max = self.cwnd;
        self.after_loss = false;
        self.avoidance = None;
        self.end_hystart();
    }

    /// HyStart++ serves the first slow start only (RFC 9406 §4.3).
    fn end_hystart(&mut self) {
        self.hystart = None;
        self.growth = 1.0;
    }

    fn avoid_congestion(&mut self, now: Time, acked: f64) {
        let cwnd = self.cwnd;
        let mut stage = self.avoidance.unwrap_or_else(|| self.begin_avoidance(now));
        let beta = self.params.beta;
        // RFC 9438 §4.3: α_cubic gives Reno's average window with β_cubic in place of 1/2.
        let alpha = if stage.w_est >= self.cwnd_prior { 1.0 } else { 3.0 * (1.0 - beta) / (1.0 + beta) };
        stage.w_est += alpha * acked / cwnd;
        self.w_max = stage.w_max;
        self.avoidance = Some(stage);
        let w_cubic = |t_s: f64| self.params.c * (t_s - stage.k_s).powi(3) + stage.w_max;
        let t_s = now.since(stage.start).as_secs_f64();
        if w_cubic(t_s) < stage.w_est {
            self.cwnd = cwnd.max(stage.w_est);
        } else {
            let target = w_cubic(t_s + self.last_rtt.as_secs_f64()).clamp(cwnd, MAX_GROWTH_PER_RTT * cwnd);
            self.cwnd = (cwnd + (target - cwnd) * (acked / cwnd)).min(target);
        }
    }

    fn begin_avoidance(&self, start: Time) -> Avoidance {
        // Without a loss (slow start that met its threshold, a timeout) the window is flat here first, and what it
        // was before counts no more (§4.8).
        let w_max = if self.after_loss { self.w_max } else { self.cwnd };
        Avoidance { start, k_s: self.k_s(w_max), w_max, w_est: self.cwnd }
    }

    /// K (RFC 9438 §4.2), from the present window to `w_max` packets.
    fn k_s(&self, w_max: f64) -> f64 {
        ((w_max - self.cwnd).max(0.0) / self.params.c).cbrt()
    }

    /// What a loss and a timeout have in common: W_max and ssthresh.
    fn decrease(&mut self) {
        let beta = self.params.beta;
        let converge = self.params.fast_convergence > 0.5 && self.cwnd < self.w_max;
        self.w_max = if converge { self.cwnd * (1.0 + beta) / 2.0 } else { self.cwnd };
        self.cwnd_prior = self.cwnd;
        self.ssthresh = (self.cwnd * beta).max(MIN_SSTHRESH_PACKETS);
        self.avoidance = None;
        self.end_hystart();
    }
}

/// For growth in a fold program.
impl Cubic {
    /// Takes over the window that a fold program reached while `acked` bytes were acknowledged.
    pub fn observe(&mut self, cwnd: u64, acked: u64) {
        self.episode.on_ack(acked);
        self.cwnd = (cwnd as f64 / self.mss).clamp(LOSS_WINDOW_PACKETS, MAX_WINDOW_PACKETS);
        // The epoch after slow start is flat at its threshold, and what was before counts no more (§4.8).
        if !self.after_loss && self.cwnd >= self.ssthresh {
            self.w_max = self.ssthresh;
        }
    }

    /// What growth goes on with after a decrease, a timeout or the end of slow start. After a timeout slow start
    /// comes first, and congestion avoidance begins flat at its threshold.
    pub fn epoch(&self) -> Epoch {
        let w_max = if self.after_loss { self.w_max } else { self.ssthresh.min(MAX_WINDOW_PACKETS) };
        let bytes = |packets: f64| (packets.min(MAX_WINDOW_PACKETS) * self.mss) as u64;
        let k_s = if self.after_loss { self.k_s(w_max) } else { 0.0 };
        Epoch {
            cwnd: self.cwnd(),
            ssthresh: bytes(self.ssthresh),
            w_max: bytes(w_max),
            k_s,
            prior: bytes(self.cwnd_prior),
        }
    }

    /// The factor on slow start's growth per byte acknowledged.
    pub fn growth(&self) -> f64 {
        self.growth
    }
}

impl Cubic {
    /// Moves the epoch on by the time since the feedback before in which the window was not in use: all of it where this
    /// feedback says so, else what exceeds a round trip and the span that the feedback covers.
    fn skip_idle_time(&mut self, now: Time, seen: &Feedback, used: bool) {
        let gap = self.last_feedback.replace(now).map_or(Dur::ZERO, |last| now.since(last));
        let idle = if used { gap - self.last_rtt.max(seen.elapsed) } else { gap };
        if let Some(stage) = &mut self.avoidance {
            stage.start += idle;
        }
    }
}

impl Law for Cubic {
    fn on_feedback(&mut self, now: Time, seen: &Feedback) {
        let used = seen.uses(self.cwnd());
        self.skip_idle_time(now, seen, used);
        if let Some(rtt) = seen.min_rtt.or(seen.rtt) {
            self.on_rtt(now, rtt, seen.samples);
        }
        self.episode.on_ack(seen.acked);
        if seen.timeout {
            self.on_timeout(now);
        } else if seen.congested() {
            self.on_loss(now);
        }
        if seen.acked > 0 && !seen.timeout && used {
            self.on_ack(now, seen.acked);
        }
    }

    fn control(&self) -> Control {
        Control::window(self.cwnd())
    }

    fn resume(&mut self, _now: Time, from: Control) {
        self.resume_at(from.cwnd);
    }

    fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }
}

#[cfg(test)]
mod tests;
