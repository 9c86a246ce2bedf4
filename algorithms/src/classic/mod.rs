//! The rule slot: a rule-based controller that proposes one of the rates which Anole compares.
//!
//! A candidate here sees what a whole report tells (bytes acknowledged, losses), not single ACKs, and
//! answers with a window; its rate is that window over the round-trip time.

mod reno;

use crate::BuildError;
use crate::names::nearest;
use anole_datapath::Cubic;
use anole_model::{Dur, Time};
pub use reno::RenoWindow;

/// A rule-based controller of a window.
pub trait Classic: Send {
    /// `bytes` were acknowledged; `rtt` is the round-trip time they saw, zero if it is not known.
    fn on_ack(&mut self, now: Time, bytes: u64, rtt: Dur);
    /// Losses were detected: at most one decrease per round trip follows.
    fn on_loss(&mut self, now: Time);
    /// A retransmission timeout fired.
    fn on_timeout(&mut self, now: Time);
    /// The window, bytes.
    fn cwnd(&self) -> u64;
    /// True below the slow-start threshold.
    fn in_slow_start(&self) -> bool;
    /// Goes on in congestion avoidance from `cwnd` bytes.
    fn resume(&mut self, cwnd: u32);
}

/// Every name that `--classic` takes.
pub fn names() -> Vec<&'static str> {
    vec!["cubic", "reno"]
}

/// The candidate with this name, in slow start from `init_cwnd` bytes.
pub fn build(name: &str, mss: u32, init_cwnd: u32) -> Result<Box<dyn Classic>, BuildError> {
    match name {
        "cubic" => Ok(Box::new(CubicWindow { mss, cubic: Cubic::new(mss, init_cwnd) })),
        "reno" => Ok(Box::new(RenoWindow::new(mss, init_cwnd))),
        _ => Err(BuildError::UnknownClassic { name: name.to_string(), nearest: nearest(name, names()) }),
    }
}

/// CUBIC in the rule slot.
struct CubicWindow {
    mss: u32,
    cubic: Cubic,
}

impl Classic for CubicWindow {
    fn on_ack(&mut self, now: Time, bytes: u64, rtt: Dur) {
        self.cubic.on_ack(now, bytes, rtt);
    }
    fn on_loss(&mut self, now: Time) {
        self.cubic.on_loss(now);
    }
    fn on_timeout(&mut self, now: Time) {
        self.cubic.on_timeout(now);
    }
    fn cwnd(&self) -> u64 {
        self.cubic.cwnd()
    }
    fn in_slow_start(&self) -> bool {
        self.cubic.in_slow_start()
    }
    fn resume(&mut self, cwnd: u32) {
        self.cubic = Cubic::resume(self.mss, cwnd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_builds_and_a_wrong_one_is_corrected() {
        for name in names() {
            assert_eq!(build(name, 1000, 10_000).unwrap().cwnd(), 10_000);
        }
        let error = build("qubic", 1000, 10_000).err().unwrap();
        assert_eq!(error.to_string(), "unknown rule-based candidate \"qubic\"; did you mean cubic?");
    }
}
