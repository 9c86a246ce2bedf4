//! Reno (RFC 5681): slow start, additive increase, halving once per congestion event.
//!
//! ```text
//! on an ACK:    cwnd += acked                       below ssthresh
//!               cwnd += mss per cwnd bytes acked    above (RFC 3465, appropriate byte counting)
//! on a loss:    ssthresh = max(cwnd/2, 2·mss), cwnd = ssthresh
//! on a timeout: ssthresh likewise unless it was lowered for the same flight (§3.1), cwnd = 1·mss
//! ```
//!
//! Deviations: no inflation of the window during fast recovery, because the transports here count bytes in flight; a
//! congestion event is measured in time ([`Episode`]).

use crate::{Control, Episode, Feedback, Law, LawSpec, params};
use anole_model::{Dur, Time};

/// Reno in the registry.
pub const SPEC: LawSpec = LawSpec {
    name: "reno",
    summary: "Additive increase, halving on loss: the baseline of TCP",
    source: "RFC 5681",
    parameters: &[],
    build: |flow, given| {
        params::check(SPEC.parameters, given)?;
        Ok(Box::new(Reno::new(flow.mss, flow.init_cwnd)))
    },
};

/// RFC 5681 eq. 4: ssthresh is at least two segments.
const MIN_SSTHRESH_PACKETS: u64 = 2;
/// RFC 5681 §3.1: the window after a timeout, segments.
const LOSS_WINDOW_PACKETS: u64 = 1;
/// RFC 5681 eq. 4: what a decrease leaves of the window.
const BETA: f64 = 0.5;

/// Reno's window and threshold.
#[derive(Clone, Debug)]
pub struct Reno {
    mss: u64,
    cwnd: u64,
    ssthresh: u64,
    /// Bytes acknowledged since the last additive step.
    acked: u64,
    rtt: Dur,
    episode: Episode,
}

impl Reno {
    /// Slow start from `init_cwnd` bytes.
    pub fn new(mss: u32, init_cwnd: u32) -> Reno {
        let mss = u64::from(mss.max(1));
        Reno {
            mss,
            cwnd: u64::from(init_cwnd).max(LOSS_WINDOW_PACKETS * mss),
            ssthresh: u64::MAX,
            acked: 0,
            rtt: Dur::ZERO,
            episode: Episode::default(),
        }
    }

    /// The window, bytes.
    pub fn cwnd(&self) -> u64 {
        self.cwnd
    }

    /// The slow-start threshold, bytes.
    pub fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    /// Takes over the window to which a fold program, or another law, took it while `acked` bytes were acknowledged, and
    /// the round-trip time seen.
    pub fn observe(&mut self, cwnd: u64, acked: u64, rtt: Dur) {
        self.cwnd = cwnd.max(LOSS_WINDOW_PACKETS * self.mss);
        self.rtt = rtt;
        self.episode.on_ack(acked);
    }

    /// Goes on in congestion avoidance from `cwnd` bytes.
    pub fn resume_at(&mut self, cwnd: u64) {
        self.cwnd = cwnd.max(LOSS_WINDOW_PACKETS * self.mss);
        self.ssthresh = self.cwnd;
        self.acked = 0;
    }

    /// `bytes` were acknowledged.
    pub fn on_ack(&mut self, bytes: u64) {
        self.grow(bytes, 1.0);
    }

    /// `bytes` were acknowledged: congestion avoidance adds so many segments per window.
    pub fn grow(&mut self, bytes: u64, segments: f64) {
        // Slow start up to the threshold, the rest of the bytes in congestion avoidance.
        let slow = bytes.min(self.ssthresh.saturating_sub(self.cwnd));
        self.cwnd = self.cwnd.saturating_add(slow);
        let counts = ((bytes - slow) as f64 * segments) as u64;
        self.acked = self.acked.saturating_add(counts);
        if self.acked >= self.cwnd {
            let steps = self.acked / self.cwnd;
            self.acked %= self.cwnd;
            self.cwnd = self.cwnd.saturating_add(steps.saturating_mul(self.mss));
        }
    }

    /// Losses were found; at most one decrease per congestion event follows.
    pub fn on_loss(&mut self, now: Time) -> bool {
        self.decrease(now, BETA)
    }

    /// The same with another share of the window kept; with all of it or more only the threshold moves. True when the
    /// decrease is made.
    pub fn decrease(&mut self, now: Time, kept: f64) -> bool {
        if self.episode.covers(now) {
            return false;
        }
        self.episode.begin(now, self.rtt, kept.min(1.0), self.cwnd);
        self.set_ssthresh(kept);
        if kept < 1.0 {
            self.cwnd = self.ssthresh;
        }
        true
    }

    /// A retransmission timeout fired.
    pub fn on_timeout(&mut self, now: Time) {
        self.time_out(now, BETA);
    }

    /// The same with another share of the window as the threshold.
    pub fn time_out(&mut self, now: Time, kept: f64) {
        if !self.episode.on_timeout(now, self.rtt, kept.min(1.0)) {
            self.set_ssthresh(kept);
        }
        self.acked = 0;
        self.cwnd = LOSS_WINDOW_PACKETS * self.mss;
    }

    fn set_ssthresh(&mut self, kept: f64) {
        self.ssthresh = ((self.cwnd as f64 * kept) as u64).max(MIN_SSTHRESH_PACKETS * self.mss);
        self.acked = 0;
    }
}

impl Law for Reno {
    fn on_feedback(&mut self, now: Time, seen: &Feedback) {
        self.observe(self.cwnd, seen.acked, seen.rtt.unwrap_or(self.rtt));
        if seen.timeout {
            self.on_timeout(now);
        } else if seen.congested() {
            self.on_loss(now);
        }
        if seen.acked > 0 && !seen.timeout && seen.uses(self.cwnd) {
            self.on_ack(seen.acked);
        }
    }

    fn control(&self) -> Control {
        Control::window(self.cwnd)
    }

    fn resume(&mut self, _now: Time, from: Control) {
        self.resume_at(from.cwnd);
    }

    fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
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
        let mut reno = Reno::new(1000, 10_000);
        reno.on_ack(10_000);
        assert_eq!((reno.cwnd(), reno.in_slow_start()), (20_000, true));
        reno.on_loss(at(60));
        assert_eq!((reno.cwnd(), reno.in_slow_start()), (10_000, false));
        reno.on_ack(10_000);
        assert_eq!(reno.cwnd(), 11_000);
    }

    #[test]
    fn halves_once_per_congestion_event() {
        let mut reno = Reno::new(1000, 40_000);
        reno.observe(40_000, 0, RTT);
        reno.on_loss(at(10));
        reno.on_loss(at(84));
        assert_eq!(reno.cwnd(), 20_000);
        reno.on_loss(at(85));
        assert_eq!(reno.cwnd(), 10_000);
    }

    #[test]
    fn a_timeout_starts_over_with_one_segment() {
        let mut reno = Reno::new(1000, 40_000);
        reno.on_timeout(at(10));
        assert_eq!((reno.cwnd(), reno.ssthresh(), reno.in_slow_start()), (1000, 20_000, true));
    }

    #[test]
    fn further_timeouts_hold_the_threshold_until_something_is_acknowledged() {
        let mut reno = Reno::new(1000, 40_000);
        let timeout = Feedback { timeout: true, lost: 1, ..Feedback::default() };
        let ack = Feedback { acked: 1000, rtt: Some(RTT), in_flight: Some(1000), ..Feedback::default() };
        for ms in [1000, 3000, 7000] {
            reno.on_feedback(at(ms), &timeout);
            assert_eq!((reno.cwnd(), reno.ssthresh()), (1000, 20_000));
        }
        reno.on_feedback(at(7050), &ack);
        assert_eq!(reno.cwnd(), 2000);
        reno.on_feedback(at(9000), &timeout);
        assert_eq!(reno.ssthresh(), 2000);
    }

    #[test]
    fn a_timeout_before_a_loss_is_repaired_holds_the_threshold() {
        let mut reno = Reno::new(1000, 40_000);
        reno.observe(40_000, 0, RTT);
        reno.on_loss(at(100));
        reno.observe(20_000, 39_000, RTT);
        reno.on_timeout(at(500));
        assert_eq!((reno.cwnd(), reno.ssthresh()), (1000, 20_000));
    }
}
