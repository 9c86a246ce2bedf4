//! The algorithms that are chosen from: each a law, one of which governs.
//!
//! All are told of what happens, since their filters would age otherwise. At a switch the new one goes on from the
//! window and the rate in force, and for a round trip neither grows beyond 1.25 times that. Of a rate it is told no more
//! than was delivered in the last two round trips: a window that an application leaves unused is no bandwidth.

use crate::{BuildError, FlowInfo};
use anole_laws::{Control, Feedback, Law};
use anole_model::{Bounds, Dur, Rate, Time};
use std::collections::BTreeMap;

/// The paper's (Antelope §V), by name.
pub const ARMS: [&str; 6] = ["bbr", "c2tcp", "cubic", "illinois", "vegas", "westwood"];
/// The one that a flow starts with where nothing is known.
pub(super) const DEFAULT_ARM: usize = 2;

/// Pacing over window for a law that leaves pacing to the transport (Linux, tcp_pacing_ss_ratio, tcp_pacing_ca_ratio).
const PACING: (f64, f64) = (2.0, 1.2);
/// Reports per round trip in slow start, where a window that grows a round trip late doubles the time of a short flow.
pub(super) const STARTING_REPORTS: u64 = 8;
/// What a report leaves of the smoothed round-trip time (RFC 6298: 1 − 1/8).
const SRTT_KEEPS: f64 = 7.0 / 8.0;
/// A smoothed round-trip time of more than this many of those that come is an outage's.
const FORGETS: u64 = 2;
/// Growth of window and rate within a round trip of a switch, at most.
const HANDOVER_GROWTH: f64 = 1.25;

/// What is in force: a window, and a pacing rate once a round-trip time is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Held {
    pub cwnd: u32,
    pub rate: Option<Rate>,
}

/// The round trip after a switch.
#[derive(Clone, Copy, Debug)]
struct Handover {
    until: Time,
    from: Held,
}

pub(super) struct Arms {
    mss: u32,
    laws: Vec<Box<dyn Law>>,
    current: usize,
    srtt: Option<Dur>,
    handover: Option<Handover>,
    /// Largest delivery rates of this round trip and of the one before.
    delivered: [Rate; 2],
    round_ends: Time,
}

impl Arms {
    /// All of them, in slow start; `first` governs.
    pub fn build(flow: FlowInfo, seed: u64, first: usize) -> Result<Arms, BuildError> {
        let build = |name: &str| {
            let spec = anole_laws::find(name)
                .ok_or_else(|| BuildError::UnknownClassic { name: name.to_string(), nearest: None })?;
            Ok((spec.build)(flow.of_law(seed), &BTreeMap::new())?)
        };
        let laws = ARMS.into_iter().map(build).collect::<Result<_, BuildError>>()?;
        Ok(Arms {
            mss: flow.mss,
            laws,
            current: first.min(ARMS.len() - 1),
            srtt: None,
            handover: None,
            delivered: [Rate::ZERO; 2],
            round_ends: Time::ZERO,
        })
    }

    /// The one that governs.
    pub fn current(&self) -> usize {
        self.current
    }

    /// The smoothed round-trip time, once there was one.
    pub fn srtt(&self) -> Option<Dur> {
        self.srtt
    }

    /// True while the one that governs grows exponentially.
    pub fn in_slow_start(&self) -> bool {
        self.laws[self.current].in_slow_start()
    }

    /// Reports per round trip that every arm has enough with.
    pub fn reports_per_rtt(&self) -> u64 {
        let asked = self.laws.iter().map(|law| u64::from(law.reports_per_rtt())).max().unwrap_or(1).max(1);
        if self.in_slow_start() { asked.max(STARTING_REPORTS) } else { asked }
    }

    /// Takes what happened since the last report.
    pub fn feed(&mut self, now: Time, seen: &Feedback) {
        if let Some(mean) = seen.rtts().mean_rtt().filter(|rtt| !rtt.is_zero()) {
            let last = seen.rtt.filter(|&last| !last.is_zero() && last * FORGETS < mean);
            let rtt = last.unwrap_or(mean);
            let before = self.srtt.filter(|&srtt| rtt * FORGETS >= srtt);
            self.srtt = Some(before.map_or(rtt, |srtt| {
                Dur::from_secs_f64(SRTT_KEEPS * srtt.as_secs_f64() + (1.0 - SRTT_KEEPS) * rtt.as_secs_f64())
            }));
        }
        if now >= self.round_ends {
            self.delivered = [Rate::ZERO, self.delivered[0]];
            self.round_ends = now + self.srtt.unwrap_or(Dur::ZERO);
        }
        self.delivered[0] = self.delivered[0].max(seen.delivery_rate.unwrap_or(Rate::ZERO));
        self.laws.iter_mut().for_each(|law| law.on_feedback(now, seen));
        self.handover = self.handover.filter(|handover| now < handover.until && !seen.timeout);
    }

    /// Another one governs from now on.
    pub fn switch(&mut self, now: Time, to: usize) {
        let from = self.in_force();
        let rtt = self.srtt.unwrap_or(Dur::ZERO);
        let carried = Some(Rate::from_bytes_in(u64::from(from.cwnd), rtt)).filter(|_| !rtt.is_zero());
        let delivered = Some(self.delivered[0].max(self.delivered[1])).filter(|rate| *rate > Rate::ZERO);
        let rate = from.rate.map(|rate| carried.into_iter().chain(delivered).fold(rate, Rate::min));
        self.current = to.min(ARMS.len() - 1);
        self.laws[self.current].resume_searching(now, Control { cwnd: u64::from(from.cwnd), rate });
        self.handover = Some(Handover { until: now + rtt, from });
    }

    /// True once a pacing rate is to be in force. In its first slow start a law without a rate of its own leaves that
    /// to the transport: half a round trip counts in a short flow.
    pub fn paces(&self) -> bool {
        !self.in_slow_start() || self.laws[self.current].control().rate.is_some()
    }

    /// The pacing rate in force without any gain, be it a law's to look for more or the transport's headroom: what it is for
    /// one law it is for every other at the same speed.
    pub fn pacing(&self) -> Rate {
        let held = self.in_force();
        let cruising = self.laws[self.current].cruising_rate();
        let window = self.srtt.map(|srtt| Rate::from_bytes_in(u64::from(held.cwnd), srtt));
        cruising.or(window).into_iter().chain(held.rate).reduce(Rate::min).unwrap_or(Rate::ZERO)
    }

    /// Window and pacing rate; that of a law which leaves pacing to the transport is what Linux paces at.
    pub fn in_force(&self) -> Held {
        let law = &self.laws[self.current];
        let asked = law.control();
        let gain = if law.in_slow_start() { PACING.0 } else { PACING.1 };
        let paced = |srtt| Rate::from_bytes_in(asked.cwnd, srtt) * gain;
        let rate = asked.rate.or(self.srtt.map(paced)).map(|rate| Bounds::DEFAULT.clamp(rate));
        let asked = Held { cwnd: Bounds::DEFAULT.cwnd(asked.cwnd, self.mss), rate };
        let Some(Handover { from, .. }) = self.handover else { return asked };
        let most = (f64::from(from.cwnd) * HANDOVER_GROWTH) as u64;
        let rate = match (asked.rate, from.rate) {
            (Some(rate), Some(from)) => Some(rate.min(from * HANDOVER_GROWTH)),
            (rate, _) => rate,
        };
        Held { cwnd: asked.cwnd.min(Bounds::DEFAULT.cwnd(most, self.mss)), rate }
    }
}
