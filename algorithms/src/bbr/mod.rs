//! BBR, version 1: paces at the bandwidth of the bottleneck and bounds what is in flight by its product
//! with the smallest round-trip time.
//!
//! Cardwell et al., "BBR: Congestion-Based Congestion Control", ACM Queue 14(5), 2016;
//! draft-cardwell-iccrg-bbr-congestion-control-00. The model is in [`model`]:
//!   bw  = largest delivery rate of the last ten rounds,  rt = smallest round-trip time of ten seconds
//!   pacing rate = gain·bw,  window = gain·bw·rt
//!
//! ```text
//!  ┌─────────┐ bw flat for   ┌───────┐ in flight ≤ BDP  ┌─────────┐
//!  │ Startup │ ────────────▶ │ Drain │ ───────────────▶ │ ProbeBw │ ◀──┐
//!  └─────────┘ three rounds  └───────┘                  └─────────┘    │
//!    2.89                      1/2.89                     │ 1.25, 0.75,│ after 200 ms
//!                                         rt ten seconds  │ 1 × 6      │ and a round
//!                                         old             ▼            │
//!                                                       ┌──────────┐   │
//!                                                       │ ProbeRtt │ ──┘ window of four packets
//!                                                       └──────────┘
//! ```
//!
//! Deviations: a round is one report, a phase of the gain cycle long; a delivery rate is the bytes
//! acknowledged in a report over its length, not a sample per ACK; samples limited by the application are
//! not marked; no packet conservation on loss, no long-term sampling for policers; the gain cycle starts
//! at a phase drawn from the seed.

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
/// Window while the smallest round-trip time is measured, and the least window at all, packets.
const MIN_CWND_PACKETS: u32 = 4;
/// How long the round-trip time is probed.
const PROBE_RTT: Dur = Dur::from_millis(200);
/// A round before the first round-trip sample.
const FIRST_ROUND: Dur = Dur::from_millis(100);
/// Phases that a flow may start the cycle in: any but the draining one (the draft's choice).
const START_PHASES: u32 = 7;

fn build(what: &Build) -> Result<Box<dyn Algorithm>, BuildError> {
    check(SPEC.parameters, &what.params)?;
    let random = Pcg64Mcg::seed_from_u64(what.seed);
    let stage = Stage::Startup { full: Rate::ZERO, rounds: 0 };
    Ok(Box::new(Bbr { flow: what.flow, model: Model::default(), stage, random }))
}

/// What the flow does now.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// Exponential growth; the bandwidth reached and the rounds since it grew.
    Startup { full: Rate, rounds: u32 },
    /// Empties the queue that start-up left.
    Drain,
    /// Cruises with the gain cycle.
    ProbeBw,
    /// Measures the round-trip time until then.
    ProbeRtt(Time),
}

struct Bbr {
    flow: FlowInfo,
    model: Model,
    stage: Stage,
    random: Pcg64Mcg,
}

impl Bbr {
    fn next_stage(&mut self, now: Time, inflight: u64, round: Dur, out: &mut Commands) {
        self.stage = match self.stage {
            Stage::Startup { full, rounds } => {
                let grown = self.model.bandwidth().bytes_per_s() >= full.bytes_per_s() * FULL_GROWTH;
                match (grown, rounds + 1) {
                    (true, _) => Stage::Startup { full: self.model.bandwidth(), rounds: 0 },
                    (false, FULL_ROUNDS..) => Stage::Drain,
                    (false, rounds) => Stage::Startup { full, rounds },
                }
            }
            Stage::Drain if inflight <= self.model.bdp() => self.enter_probe_bw(out),
            Stage::ProbeBw if self.model.min_rtt_is_stale(now) => {
                self.model.begin_measuring();
                Stage::ProbeRtt(now + PROBE_RTT.max(round))
            }
            Stage::ProbeRtt(until) if now >= until => {
                self.model.end_measuring(now);
                self.enter_probe_bw(out)
            }
            stage => stage,
        };
    }

    fn enter_probe_bw(&mut self, out: &mut Commands) -> Stage {
        // Phases count from the probing one; the draining one, which follows it, is no start.
        let drawn = self.random.random_range(0..START_PHASES);
        out.set(control::PHASE, if drawn == 0 { 0 } else { drawn + 1 });
        Stage::ProbeBw
    }

    fn control(&self, srtt: Dur, out: &mut Commands) {
        let bounds = Bounds::DEFAULT;
        let cycling = self.stage == Stage::ProbeBw;
        let (gain_64, cwnd_gain) = match self.stage {
            Stage::Startup { .. } => (HIGH_GAIN_64, f64::from(HIGH_GAIN_64) / 64.0),
            Stage::Drain => (DRAIN_GAIN_64, f64::from(HIGH_GAIN_64) / 64.0),
            Stage::ProbeBw | Stage::ProbeRtt(_) => (64, CWND_GAIN),
        };
        let least = u64::from(MIN_CWND_PACKETS) * u64::from(self.flow.mss);
        let wanted = match self.stage {
            Stage::ProbeRtt(_) => least,
            _ => ((self.model.bdp() as f64 * cwnd_gain) as u64).max(least),
        };
        // Before anything was delivered the initial window is all there is to go by.
        let cwnd = match self.stage {
            Stage::Startup { .. } => wanted.max(u64::from(self.flow.init_cwnd)),
            _ => wanted,
        };
        // Phases of the cycle last a smallest round-trip time; the rounds before, the present one.
        let phase = if cycling { self.model.min_rtt().unwrap_or(srtt) } else { srtt };
        out.cwnd(bounds.cwnd(cwnd, self.flow.mss))
            .set_rate(control::BW, bounds.clamp(self.model.bandwidth()))
            .set(control::BDP, bounds.cwnd(self.model.bdp(), self.flow.mss))
            .set(control::PHASE_US, phase.as_micros().clamp(1_000, 10_000_000) as u32)
            .set(control::CYCLING, u32::from(cycling))
            .set(control::GAIN_64, gain_64);
    }
}

impl Algorithm for Bbr {
    fn start(&mut self, now: Time, out: &mut Commands) {
        out.run(&bbr::PROGRAM);
        self.model.assume(now, Rate::from_bytes_in(u64::from(self.flow.init_cwnd), FIRST_ROUND));
        self.control(FIRST_ROUND, out);
    }

    fn on_report(&mut self, now: Time, report: &Report<'_>, out: &mut Commands) {
        if report.program.name != bbr::PROGRAM.name {
            return;
        }
        let Some(seen) = bbr::Report::read(report.values) else { return };
        let rtt = Dur::from_micros(seen.rtt_us.clamp(1, 60_000_000));
        self.model.saw_rtt(now, Dur::from_micros(seen.min_rtt_us));
        self.model.saw_delivery(Rate::from_bytes_in(seen.acked, Dur::from_micros(seen.elapsed_us)));
        self.next_stage(now, seen.inflight, rtt, out);
        self.control(rtt, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: FlowInfo = FlowInfo { mss: 1000, init_cwnd: 10_000 };

    struct Bench {
        bbr: Bbr,
        now: Time,
        out: Commands,
    }

    impl Bench {
        fn new() -> Bench {
            let stage = Stage::Startup { full: Rate::ZERO, rounds: 0 };
            let random = Pcg64Mcg::seed_from_u64(1);
            let bbr = Bbr { flow: FLOW, model: Model::default(), stage, random };
            let mut bench = Bench { bbr, now: Time::ZERO, out: Commands::default() };
            bench.bbr.start(Time::ZERO, &mut bench.out);
            bench
        }

        /// A report of a round of 50 ms.
        fn round(&mut self, acked: u64, rtt_us: u64, inflight: u64) {
            self.now += Dur::from_millis(50);
            self.out.clear();
            let values = [acked, 0, 0, 50_000, rtt_us, rtt_us, inflight];
            self.bbr.on_report(self.now, &Report { program: &bbr::PROGRAM, values: &values }, &mut self.out);
        }

        fn field(&self, name: &str) -> Option<u32> {
            self.out.fields().iter().find(|(r, _)| r.name == name).map(|&(_, value)| value)
        }
    }

    /// Start-up until the bandwidth of 2 MB/s (100 kB a round) has been flat for three rounds.
    fn drained() -> Bench {
        let mut bench = Bench::new();
        for acked in [25_000, 50_000, 100_000, 100_000, 100_000] {
            bench.round(acked, 50_000, acked);
            assert!(matches!(bench.bbr.stage, Stage::Startup { .. }));
            assert_eq!(bench.field("gain_64"), Some(HIGH_GAIN_64));
        }
        bench.round(100_000, 90_000, 180_000);
        bench
    }

    #[test]
    fn startup_ends_when_the_bandwidth_is_flat_and_drains() {
        let mut bench = drained();
        assert_eq!((bench.bbr.stage, bench.field("gain_64")), (Stage::Drain, Some(DRAIN_GAIN_64)));
        bench.round(100_000, 70_000, 120_000);
        assert_eq!(bench.bbr.stage, Stage::Drain);
        bench.round(100_000, 50_000, 100_000);
        assert_eq!((bench.bbr.stage, bench.field("cycling")), (Stage::ProbeBw, Some(1)));
        assert_eq!((bench.field("bw"), bench.field("Cwnd")), (Some(2_000_000), Some(200_000)));
        assert_ne!(bench.field("phase"), Some(1), "the draining phase is no start");
    }

    #[test]
    fn a_stale_round_trip_time_is_probed_with_four_packets() {
        let mut bench = drained();
        bench.round(100_000, 50_000, 100_000);
        for _ in 0..220 {
            bench.round(100_000, 60_000, 100_000);
            if matches!(bench.bbr.stage, Stage::ProbeRtt(_)) {
                break;
            }
        }
        assert!(bench.now > Time::ZERO + Dur::from_secs_f64(10.0));
        assert_eq!(bench.field("Cwnd"), Some(4000));
        for _ in 0..4 {
            bench.round(10_000, 55_000, 4000);
        }
        assert_eq!(
            (bench.bbr.stage, bench.bbr.model.min_rtt()),
            (Stage::ProbeBw, Some(Dur::from_millis(55)))
        );
    }
}
