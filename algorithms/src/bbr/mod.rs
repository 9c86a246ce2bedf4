//! BBR, version 1: paces at the bandwidth of the bottleneck and bounds what is in flight by its product
//! with the smallest round-trip time.
//!
//! Cardwell et al., "BBR: Congestion-Based Congestion Control", ACM Queue 14(5), 2016;
//! draft-cardwell-iccrg-bbr-congestion-control-00. The model is in [`model`]:
//!   bw  = largest delivery rate of the last ten rounds,  rt = smallest round-trip time of ten seconds
//!   pacing rate = gain·bw,  window = gain·bw·rt
//! The datapath samples delivery rates on every ACK, paces and walks through the gain cycle
//! (`bbr.ccp`); the stages, the filters and the window are here.
//!
//! ```text
//!  ┌─────────┐ bw flat for   ┌───────┐ in flight ≤ BDP  ┌─────────┐
//!  │ Startup │ ────────────▶ │ Drain │ ───────────────▶ │ ProbeBw │ ◀──┐
//!  └─────────┘ three rounds  └───────┘                  └─────────┘    │
//!    2.89   ▲                  1/2.89                     │ 1.25, 0.75,│ 200 ms and a round after
//!           │ if it was not over            rt ten seconds│ 1 × 6      │ four packets were in flight
//!           │                               old, from any ▼            │
//!           │                                           ┌──────────┐   │
//!           └────────────────────────────────────────── │ ProbeRtt │ ──┘ window of four packets
//!                                                       └──────────┘
//! ```
//!
//! A retransmission timeout takes the window to its minimum until the next ACK, and lets start-up look for
//! the full bandwidth anew (draft §4.2.3.2, and tcp_bbr.c on entering loss).
//!
//! Deviations: stages change with reports, which come at the end of a phase, and not on every ACK; a round
//! is a round-trip time rather than a flight of data; samples limited by the application are not marked;
//! no packet conservation on loss, no long-term sampling for policers; the gain cycle starts at a phase
//! drawn from the seed; no allowance for segmentation offload in the window.

mod model;

use crate::params::check;
use crate::{Algorithm, Build, BuildError, Commands, FlowInfo, Report, Spec};
use anole_model::{Bounds, Dur, Rate, Time};
use anole_programs::bbr::{self, control};
use model::Model;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// BBR in the registry.
pub(crate) const SPEC: Spec = Spec {
    name: "bbr",
    kind: "rule",
    summary: "Paces at the measured bandwidth of the bottleneck, version 1",
    programs: &[&bbr::PROGRAM],
    parameters: &[],
    source: "Cardwell et al., ACM Queue 2016",
    build,
};

/// 2/ln 2 in 1/64: the smallest gain that doubles the delivery rate every round.
const HIGH_GAIN_64: u32 = 185;
/// Its inverse in 1/64: drains in one round what start-up queued in one.
const DRAIN_GAIN_64: u32 = 22;
/// Window over bandwidth-delay product: room for delayed and aggregated ACKs.
const CWND_GAIN: f64 = 2.0;
/// Start-up ends when the bandwidth has not grown by this factor …
const FULL_GROWTH: f64 = 1.25;
/// … for this many rounds.
const FULL_ROUNDS: u32 = 3;
/// Window while the smallest round-trip time is measured, and the least window but after a timeout, packets.
const MIN_CWND_PACKETS: u64 = 4;
/// Start-up may send twice the initial window in its second round, as slow start does.
const SECOND_ROUND: u64 = 2;
/// How long the round-trip time is probed.
const PROBE_RTT: Dur = Dur::from_millis(200);
/// Rounds after that in which delivery rates still show the small window: its last packets are
/// acknowledged in the first, and packets sent meanwhile count from there.
const SHADOW_ROUNDS: u64 = 2;
/// The round-trip time before the first sample (draft §4.2.1).
const NOMINAL_RTT: Dur = Dur::from_millis(1);
/// Shortest phase, so that at most a thousand reports come in a second; the next ACK ends it.
const SHORTEST_PHASE_US: u64 = 1_000;
/// Longest phase.
const LONGEST_PHASE_US: u64 = 10_000_000;
/// Phases that a flow may start the cycle in: any but the draining one (the draft's choice).
const START_PHASES: u32 = 7;

fn build(what: &Build) -> Result<Box<dyn Algorithm>, BuildError> {
    check(SPEC.parameters, &what.params)?;
    Ok(Box::new(Bbr::new(what.flow, what.seed)))
}

/// What the flow does now.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// Exponential growth.
    Startup(Plateau),
    /// Empties the queue that start-up left.
    Drain,
    /// Cruises with the gain cycle.
    ProbeBw,
    /// Measures the round-trip time.
    ProbeRtt {
        /// Until when; unknown before the flight has shrunk to four packets.
        until: Option<Time>,
        /// Start-up is over.
        filled: bool,
    },
}

/// How long the bandwidth has been flat in start-up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Plateau {
    bandwidth: Rate,
    rounds: u32,
}

struct Bbr {
    flow: FlowInfo,
    model: Model,
    stage: Stage,
    /// A timeout happened, and nothing was acknowledged since.
    timed_out: bool,
    /// Until then delivery rates show the window of ProbeRtt.
    shadow_until: Time,
    random: Pcg64Mcg,
}

impl Bbr {
    fn new(flow: FlowInfo, seed: u64) -> Bbr {
        Bbr {
            flow,
            model: Model::default(),
            stage: Stage::Startup(Plateau::default()),
            timed_out: false,
            shadow_until: Time::ZERO,
            random: Pcg64Mcg::seed_from_u64(seed),
        }
    }

    fn least_cwnd(&self) -> u64 {
        MIN_CWND_PACKETS * u64::from(self.flow.mss)
    }

    /// Takes what a report with acknowledgements says of the path. True when a round is over.
    fn learn(&mut self, now: Time, seen: &bbr::Report, rtt: Dur) -> bool {
        self.timed_out = false;
        self.model.saw_rtt(now, Dur::from_micros(seen.min_rtt_us));
        let rate = Rate::from_bytes_per_s(seen.rate as f64);
        if matches!(self.stage, Stage::ProbeRtt { .. }) || now < self.shadow_until {
            self.model.saw_limited_delivery(rate);
            return false;
        }
        let over = self.model.time_passed(Dur::from_micros(seen.elapsed_us), rtt);
        self.model.saw_delivery(rate);
        over
    }

    fn next_stage(&mut self, now: Time, inflight: u64, rtt: Dur, round_over: bool, out: &mut Commands) {
        self.stage = match self.stage {
            Stage::ProbeRtt { until: None, filled } if inflight <= self.least_cwnd() => {
                Stage::ProbeRtt { until: Some(now + PROBE_RTT.max(rtt)), filled }
            }
            Stage::ProbeRtt { until: Some(until), filled } if now >= until => {
                self.model.end_measuring(now);
                self.shadow_until = now + rtt.mul_f64(SHADOW_ROUNDS as f64);
                if filled { self.enter_probe_bw(out) } else { Stage::Startup(Plateau::default()) }
            }
            Stage::ProbeRtt { .. } => self.stage,
            _ if self.model.min_rtt_is_stale(now) => {
                self.model.begin_measuring();
                Stage::ProbeRtt { until: None, filled: !matches!(self.stage, Stage::Startup(_)) }
            }
            Stage::Startup(plateau) if round_over => self.look_for_the_end(plateau),
            Stage::Drain if inflight <= self.model.bdp() => self.enter_probe_bw(out),
            stage => stage,
        };
    }

    fn look_for_the_end(&self, Plateau { bandwidth, rounds }: Plateau) -> Stage {
        let now = self.model.bandwidth();
        if now.bytes_per_s() >= bandwidth.bytes_per_s() * FULL_GROWTH {
            Stage::Startup(Plateau { bandwidth: now, rounds: 0 })
        } else if rounds + 1 < FULL_ROUNDS {
            Stage::Startup(Plateau { bandwidth, rounds: rounds + 1 })
        } else {
            Stage::Drain
        }
    }

    fn enter_probe_bw(&mut self, out: &mut Commands) -> Stage {
        // Phases count from the probing one; the draining one, which follows it, is no start.
        let drawn = self.random.random_range(0..START_PHASES);
        out.set(control::PHASE, if drawn == 0 { 0 } else { drawn + 1 });
        Stage::ProbeBw
    }

    /// The bandwidth to pace at. Start-up is no slower than the initial window per round-trip time.
    fn pacing_bandwidth(&self) -> Rate {
        let initial = u64::from(self.flow.init_cwnd);
        match self.stage {
            Stage::Startup(_) => {
                let rtt = self.model.min_rtt().unwrap_or(NOMINAL_RTT);
                self.model.bandwidth().max(Rate::from_bytes_in(initial, rtt))
            }
            _ => self.model.bandwidth(),
        }
    }

    fn cwnd(&self) -> u64 {
        let bdp = self.model.bdp() as f64;
        let least = self.least_cwnd();
        let initial = u64::from(self.flow.init_cwnd);
        match self.stage {
            _ if self.timed_out => u64::from(self.flow.mss),
            Stage::Startup(_) if self.model.min_rtt().is_none() => initial,
            Stage::Startup(_) => ((bdp * high_gain()) as u64).max(SECOND_ROUND * initial),
            Stage::Drain => ((bdp * high_gain()) as u64).max(least),
            Stage::ProbeBw => ((bdp * CWND_GAIN) as u64).max(least),
            Stage::ProbeRtt { .. } => least,
        }
    }

    fn control(&self, rtt: Dur, out: &mut Commands) {
        let bounds = Bounds::DEFAULT;
        let cycling = self.stage == Stage::ProbeBw;
        let gain_64 = match self.stage {
            Stage::Startup(_) => HIGH_GAIN_64,
            Stage::Drain => DRAIN_GAIN_64,
            Stage::ProbeBw | Stage::ProbeRtt { .. } => 64,
        };
        // Phases of the cycle last a smallest round-trip time; without it, the present one. The first
        // ACK of a flow and the first after a timeout report at once.
        let phase = match self.model.min_rtt() {
            None => Dur::ZERO,
            _ if self.timed_out => Dur::ZERO,
            Some(min_rtt) if cycling => min_rtt,
            Some(_) => rtt,
        };
        out.cwnd(bounds.cwnd(self.cwnd(), self.flow.mss))
            .set_rate(control::BW, bounds.clamp(self.pacing_bandwidth()))
            .set(control::BDP, bounds.cwnd(self.model.bdp(), self.flow.mss))
            .set(control::PHASE_US, phase.as_micros().clamp(SHORTEST_PHASE_US, LONGEST_PHASE_US) as u32)
            .set(control::CYCLING, u32::from(cycling))
            .set(control::GAIN_64, gain_64);
    }
}

fn high_gain() -> f64 {
    f64::from(HIGH_GAIN_64) / 64.0
}

impl Algorithm for Bbr {
    fn start(&mut self, now: Time, out: &mut Commands) {
        out.run(&bbr::PROGRAM);
        self.model.start(now);
        self.control(NOMINAL_RTT, out);
    }

    fn on_report(&mut self, now: Time, report: &Report<'_>, out: &mut Commands) {
        if report.program.name != bbr::PROGRAM.name {
            return;
        }
        let Some(seen) = bbr::Report::read(report.values) else { return };
        let rtt = Dur::from_micros(seen.rtt_us.clamp(1, 60_000_000));
        if seen.acked > 0 {
            let round_over = self.learn(now, &seen, rtt);
            self.next_stage(now, seen.inflight, rtt, round_over, out);
        }
        if seen.timeout > 0 {
            self.timed_out = true;
            if let Stage::Startup(plateau) = &mut self.stage {
                *plateau = Plateau::default();
            }
        }
        self.control(rtt, out);
    }
}

#[cfg(test)]
mod tests;
