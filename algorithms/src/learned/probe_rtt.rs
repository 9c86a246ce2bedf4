//! A halved window now and then, in which flows that share a queue see their path without it (BBR's ProbeRTT).
//!
//! ```text
//!                 nothing near the smallest round-trip time for `after`
//!    ┌───────┐ ────────────────────────────────────────────────────────▶ ┌────────┐
//!    │ watch │                                                           │ halved │
//!    └───────┘ ◀──────────────────────────────────────────────────────── └────────┘
//!                 after a round trip and what shows its effect: the window from before
//! ```
//!
//! Who joins a queue that never empties takes it for the path, keeps that much more in it, and finds no queue where
//! others do; once all have forgotten the path, losses are the only sign left. The flow with the most to give up makes the
//! shortest round-trip time for all, they see it at the same time, and halve together from then on.

use anole_model::{Dur, Time};

/// A round-trip time this near above the smallest one confirms it, share.
const CONFIRMS: f64 = 0.02;
/// What is left of the window.
const KEPT: f64 = 0.5;
/// The effect is looked at for a round trip, and at least this long.
const LOOK: Dur = Dur::from_millis(100);

/// The probes of one flow.
#[derive(Clone, Debug)]
pub(super) struct ProbeRtt {
    after: Dur,
    /// The smallest round-trip time since the last probe began, and when it was last confirmed.
    least: Option<(Dur, Time)>,
    /// When the probe under way ends, and the window from before it, bytes.
    halved: Option<(Time, u64)>,
}

impl ProbeRtt {
    /// Probes once the smallest round-trip time is `after` old.
    pub fn new(after: Dur) -> ProbeRtt {
        ProbeRtt { after, least: None, halved: None }
    }

    /// True while the window is halved.
    pub fn is_under_way(&self) -> bool {
        self.halved.is_some()
    }

    /// When the probe under way ends.
    pub fn ends(&self) -> Option<Time> {
        self.halved.map(|(ends, _)| ends)
    }

    /// The smallest round-trip time since the last probe began.
    pub fn least(&self) -> Option<Dur> {
        self.least.map(|(least, _)| least)
    }

    /// Takes the smallest round-trip time of a report.
    pub fn saw(&mut self, now: Time, rtt: Dur) {
        self.least = match self.least {
            Some((least, seen)) if rtt > least.mul_f64(1.0 + CONFIRMS) => Some((least, seen)),
            Some((least, _)) => Some((least.min(rtt), now)),
            None => Some((rtt, now)),
        };
    }

    /// The window to set now, bytes, when a probe begins or ends.
    pub fn window(&mut self, now: Time, cwnd: u64, srtt: Dur) -> Option<f64> {
        match (self.halved, self.least) {
            (Some((ends, before)), _) if now >= ends => {
                self.halved = None;
                self.least = self.least.map(|(least, _)| (least, now));
                Some(before as f64)
            }
            (None, Some((_, seen))) if now.since(seen) > self.after => {
                self.halved = Some((now + srtt + srtt.max(LOOK), cwnd));
                self.least = None;
                Some(KEPT * cwnd as f64)
            }
            _ => None,
        }
    }

    /// Somebody else sets the window.
    pub fn cancel(&mut self) {
        self.halved = None;
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
    fn a_base_that_is_not_seen_for_long_halves_the_window_for_a_while() {
        let mut probe = ProbeRtt::new(Dur::from_millis(5000));
        probe.saw(at(0), RTT);
        probe.saw(at(100), RTT * 2);
        assert_eq!(probe.window(at(5000), 80_000, RTT * 2), None);
        assert_eq!(probe.window(at(5001), 80_000, RTT * 2), Some(40_000.0));
        // The smallest one now, though longer than that of before.
        probe.saw(at(5150), RTT.mul_f64(1.5));
        assert_eq!(probe.window(at(5200), 40_000, RTT * 2), None);
        assert_eq!(probe.window(at(5201), 40_000, RTT * 2), Some(80_000.0));
        assert!(!probe.is_under_way() && probe.window(at(10_200), 80_000, RTT * 2).is_none());
        assert!(probe.window(at(10_202), 80_000, RTT * 2).is_some() && probe.is_under_way());
    }

    #[test]
    fn an_empty_queue_needs_none() {
        let mut probe = ProbeRtt::new(Dur::from_millis(5000));
        for ms in (0..60_000).step_by(50) {
            probe.saw(at(ms), RTT.mul_f64(if ms % 4000 == 0 { 1.01 } else { 1.5 }));
            assert_eq!(probe.window(at(ms), 80_000, RTT), None);
        }
    }
}
