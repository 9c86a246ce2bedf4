//! Copa (Arun and Balakrishnan, *Copa: Practical Delay-Based Congestion Control for the Internet*, NSDI 2018): steers the
//! rate towards the inverse of the queueing delay.
//!
//! ```text
//! dq = standing − least        standing: the smallest RTT of the last srtt/2; least: of the last 10 s     (§2.1)
//! target rate = 1/(δ·dq) packets/s,  rate = cwnd/standing
//! per packet acknowledged:     cwnd += v/(δ·cwnd) while rate ≤ target, −= otherwise                      (§2.1)
//! once per round trip:         v doubles while the window went the same way for three, and is 1 once it turns or rests
//! slow start:                  cwnd doubles per round trip until rate > target
//! competitive mode:            1/δ += 1 per round trip without loss, halved by a loss, 2 at least         (§2.2)
//!   while the queue has not been nearly empty for five round trips; nearly empty is
//!   dq < 0.2·(largest − least), largest: the largest RTT of the last four round trips
//! ```
//! With δ = 1/2 a flow keeps about two packets in the queue on average, and flows of it swing together so that the queue empties
//! every five round trips, which is what tells them from flows that fill the buffer.
//!
//! Deviations: round trips are measured in time; v is never so large that the window more than doubles in one, and a step
//! against the direction of late takes v back to 1 at once (both as implementations do); slow
//! start ends at delivery rate times smallest RTT, since the window has doubled by the time its queue is seen; the queue is
//! nearly empty below 0.2 of the range of RTTs, not 0.1: with 0.1, four flows that hear four reports per round trip take
//! each other for CUBIC; nor does a queue of 1/δ + 2 packets on a path of fewer tell of CUBIC; pacing at 2·cwnd/standing is left to the transport; losses do not matter in the default mode, as in
//! the paper, but a timeout starts over with two packets, and the window is at most twice what arrives in a round trip:
//! where a queue of one packet shows no delay, nothing else would bound it.

mod mode;
mod path;

use crate::{Control, Feedback, FlowStart, Law, LawSpec, parameters};
use anole_model::{Bounds, Dur, Time};
use mode::Mode;
use path::Path;

parameters! {
    /// What a user may change.
    pub struct Params {
        delta = 0.5, 0.004..=10.0, "How much delay weighs: the queue aimed at is its inverse, packets (paper §2.2: 0.5; 0.04 for throughput).";
        competitive = 1.0, 0.0..=1.0, "1: lower delta by AIMD beside flows that fill the buffer (paper §2.2).";
    }
}

/// Copa in the registry.
pub const SPEC: LawSpec = LawSpec {
    name: "copa",
    summary: "Aims at a rate that is the inverse of the queueing delay; competes with buffer-filling flows",
    source: "Arun and Balakrishnan, NSDI 2018",
    parameters: Params::PARAMETERS,
    build: |flow, given| Ok(Box::new(Copa::new(flow, Params::with(given)?))),
};

/// Round trips in one direction before v doubles (§2.1).
const STEADY_ROUNDS: u32 = 3;
/// Window over what arrives in a round trip, at most.
const MOST_OVER_DELIVERED: f64 = 2.0;
/// Packets below which it is not held to that: delivery rates of so few are noise.
const SMALL: f64 = 10.0;
/// Reports per round trip: RTTs count for half a round trip.
const REPORTS_PER_RTT: u32 = 4;

/// How fast and in which direction the window moves.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Velocity {
    v: f64,
    up: bool,
    /// Round trips for which it went that way.
    rounds: u32,
}

impl Velocity {
    const REST: Velocity = Velocity { v: 1.0, up: true, rounds: 0 };

    /// The window went up or down over a round trip.
    fn round(&mut self, up: bool) {
        if up != self.up {
            *self = Velocity { up, ..Velocity::REST };
            return;
        }
        self.rounds = self.rounds.saturating_add(1);
        if self.rounds >= STEADY_ROUNDS {
            self.v *= 2.0;
        }
    }
}

/// Copa's window.
#[derive(Clone, Debug)]
pub struct Copa {
    flow: FlowStart,
    params: Params,
    /// Packets.
    cwnd: f64,
    slow_start: bool,
    velocity: Velocity,
    path: Path,
    mode: Mode,
    /// The end of the present round trip, and the window at its start.
    round: (Time, f64),
}

impl Copa {
    /// Slow start from the flow's initial window.
    pub fn new(flow: FlowStart, params: Params) -> Copa {
        let mut copa = Copa {
            flow,
            params,
            cwnd: 0.0,
            slow_start: true,
            velocity: Velocity::REST,
            path: Path::new(),
            mode: Mode::new(),
            round: (Time::ZERO, 0.0),
        };
        copa.set_cwnd(f64::from(flow.init_cwnd) / copa.mss());
        copa
    }

    fn mss(&self) -> f64 {
        f64::from(self.flow.mss.max(1))
    }

    fn set_cwnd(&mut self, packets: f64) {
        let bounds = Bounds::DEFAULT;
        let most = f64::from(bounds.max_cwnd_bytes) / self.mss();
        self.cwnd = packets.clamp(f64::from(bounds.min_cwnd_packets).min(most), most);
    }

    /// 1/δ in force.
    fn inverse_delta(&self) -> f64 {
        let default = self.params.delta.recip();
        if self.params.competitive > 0.5 { self.mode.inverse_delta(default) } else { default }
    }

    /// The window that sends at the target rate, packets; infinite without a queue.
    fn target(&self) -> f64 {
        let standing = self.path.standing();
        let dq = (standing - self.path.least()).as_secs_f64();
        if dq > 0.0 { self.inverse_delta() * standing.as_secs_f64() / dq } else { f64::INFINITY }
    }

    /// So many packets were acknowledged; so many arrive in the smallest round-trip time, and in the present one.
    fn on_ack(&mut self, packets: f64, held: f64, arriving: f64) {
        let up = self.cwnd <= self.target();
        if self.slow_start && up {
            return self.set_cwnd(self.cwnd + packets);
        }
        if self.slow_start {
            self.slow_start = false;
            self.velocity = Velocity { up, ..Velocity::REST };
            self.set_cwnd(self.cwnd.min(held));
        }
        if up != self.velocity.up && self.velocity.v > 1.0 {
            self.velocity = Velocity { up, ..Velocity::REST };
        }
        let per_round = (self.velocity.v * self.inverse_delta()).min(self.cwnd);
        let step = per_round * (packets / self.cwnd).min(1.0);
        let most = (MOST_OVER_DELIVERED * arriving).max(SMALL);
        self.set_cwnd(if up { (self.cwnd + step).min(most.max(self.cwnd - step)) } else { self.cwnd - step });
    }

    /// Once per round trip.
    fn end_round(&mut self, now: Time) {
        if now < self.round.0 {
            return;
        }
        if self.cwnd == self.round.1 {
            // As where the application limits the flow: it went neither way.
            self.velocity = Velocity::REST;
        } else if !self.slow_start {
            self.velocity.round(self.cwnd > self.round.1);
        }
        self.mode.round(self.params.delta.recip());
        self.round = (now + self.path.srtt(), self.cwnd);
    }

    /// A path of a few packets is never without the queue that a flow alone aims at beside the least window, and tells nothing
    /// of others by it.
    fn queue_is_own(&self) -> bool {
        let own = 1.0 / self.params.delta + f64::from(Bounds::DEFAULT.min_cwnd_packets);
        let packets =
            |time: Dur| self.cwnd * time.as_secs_f64() / self.path.standing().as_secs_f64().max(1e-9);
        packets(self.path.least()) < own && packets(self.path.queue()) <= own
    }

    fn start_over(&mut self) {
        self.set_cwnd(0.0);
        self.slow_start = true;
        self.velocity = Velocity::REST;
    }
}

impl Law for Copa {
    fn on_feedback(&mut self, now: Time, seen: &Feedback) {
        if let Some(rtt) = seen.min_rtt.or(seen.rtt) {
            self.path.saw(now, rtt, seen.rtt.unwrap_or(rtt));
            let nearly_empty = self.path.is_nearly_empty() || self.queue_is_own();
            self.mode.saw(now, self.path.srtt(), nearly_empty);
        }
        if seen.congested() || seen.timeout {
            self.mode.lost(now, self.path.srtt());
        }
        if seen.timeout {
            self.start_over();
        } else if seen.acked > 0 && self.path.is_known() && seen.uses(self.control().cwnd) {
            let in_time =
                |time| seen.delivery_rate.map_or(f64::INFINITY, |rate| rate.bytes_in(time)) / self.mss();
            let (held, arriving) = (in_time(self.path.least()), in_time(self.path.standing()));
            self.on_ack(seen.acked as f64 / self.mss(), held, arriving);
        }
        self.end_round(now);
    }

    fn control(&self) -> Control {
        Control::window((self.cwnd * self.mss()) as u64)
    }

    fn resume(&mut self, now: Time, from: Control) {
        self.slow_start = false;
        self.velocity = Velocity::REST;
        self.set_cwnd(from.cwnd as f64 / self.mss());
        self.round = (now + self.path.srtt(), self.cwnd);
    }

    fn in_slow_start(&self) -> bool {
        self.slow_start
    }

    fn reports_per_rtt(&self) -> u32 {
        REPORTS_PER_RTT
    }
}

#[cfg(test)]
mod tests;
