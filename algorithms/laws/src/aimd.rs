//! AIMD (Chiu and Jain, *Analysis of the Increase and Decrease Algorithms for Congestion Avoidance in Computer
//! Networks*, Computer Networks and ISDN Systems 17(1), 1989): the smallest law that fills a link and shares it.
//!
//! ```text
//! slow start:            cwnd += bytes acknowledged                          up to the first congestion event
//! afterwards:            cwnd += increase·mss per cwnd bytes acknowledged
//! a congestion event:    cwnd ·= decrease                                    once per event
//! ```
//! A congestion event is a loss, an ECN mark or a timeout.

use crate::{Control, Episode, Feedback, FlowStart, Law, LawSpec, parameters};
use anole_model::{Bounds, Dur, Time};

parameters! {
    /// What a user may change.
    pub struct Params {
        increase = 1.0, 0.01..=100.0, "Segments by which the window grows per round trip (RFC 5681 §3.1).";
        decrease = 0.5, 0.1..=0.99, "Share of the window that a congestion event leaves (RFC 5681 eq. 4).";
    }
}

/// AIMD in the registry.
pub const SPEC: LawSpec = LawSpec {
    name: "aimd",
    summary: "Adds a segment per round trip, halves on loss: the example of docs/first-algorithm.md",
    source: "Chiu and Jain, Computer Networks and ISDN Systems 1989",
    parameters: Params::PARAMETERS,
    build: |flow, given| Ok(Box::new(Aimd::new(flow, Params::with(given)?))),
};

/// AIMD's window.
#[derive(Clone, Debug)]
pub struct Aimd {
    flow: FlowStart,
    params: Params,
    /// Congestion window, bytes.
    cwnd: f64,
    slow_start: bool,
    rtt: Dur,
    episode: Episode,
}

impl Aimd {
    /// Slow start from the flow's initial window.
    pub fn new(flow: FlowStart, params: Params) -> Aimd {
        let episode = Episode::default();
        let mut aimd = Aimd { flow, params, cwnd: 0.0, slow_start: true, rtt: Dur::ZERO, episode };
        aimd.set_cwnd(f64::from(flow.init_cwnd));
        aimd
    }

    /// Brings the window within the bounds that hold for every law.
    fn set_cwnd(&mut self, bytes: f64) {
        let bounds = Bounds::DEFAULT;
        let least = f64::from(bounds.min_cwnd_packets) * f64::from(self.flow.mss);
        self.cwnd = bytes.min(f64::from(bounds.max_cwnd_bytes)).max(least);
    }
}

impl Law for Aimd {
    fn on_feedback(&mut self, now: Time, seen: &Feedback) {
        self.rtt = seen.rtt.unwrap_or(self.rtt);
        let acked = seen.acked as f64;
        if seen.congested() || seen.timeout {
            if !self.episode.covers(now) {
                self.episode.begin(now, self.rtt, self.params.decrease, self.cwnd as u64);
                self.slow_start = false;
                self.set_cwnd(self.cwnd * self.params.decrease);
            }
        } else if self.slow_start && seen.uses(self.cwnd as u64) {
            self.set_cwnd(self.cwnd + acked);
        } else if seen.uses(self.cwnd as u64) {
            let step = self.params.increase * f64::from(self.flow.mss);
            self.set_cwnd(self.cwnd + step * acked / self.cwnd);
        }
    }

    fn control(&self) -> Control {
        Control::window(self.cwnd as u64)
    }

    fn resume(&mut self, _now: Time, from: Control) {
        self.slow_start = false;
        self.set_cwnd(from.cwnd as f64);
    }

    fn in_slow_start(&self) -> bool {
        self.slow_start
    }
}
