//! BBR over the `bbr` program, which samples delivery rates on every ACK, paces, walks through the gain cycle and keeps the
//! window, also in a recovery; the model and the stages are the law's.

use crate::{Algorithm, Build, BuildError, Commands, FlowInfo, Report, Spec};
use anole_laws::bbr::{self as law, NOMINAL_RTT};
use anole_laws::{Feedback, Law};
use anole_model::{Bounds, Dur, Rate, Time};
use anole_programs::bbr::{self, control};

/// BBR in the registry.
pub(crate) const SPEC: Spec = Spec {
    name: law::SPEC.name,
    kind: "rule",
    summary: law::SPEC.summary,
    programs: &[&bbr::PROGRAM],
    parameters: law::SPEC.parameters,
    source: law::SPEC.source,
    takes_classic: false,
    takes_policy: false,
    builder: &build,
};

/// Shortest phase, so that at most a thousand reports come in a second; the next ACK ends it.
const SHORTEST_PHASE_US: u64 = 1_000;
/// Longest phase.
const LONGEST_PHASE_US: u64 = 10_000_000;
/// A report without a round-trip time has this one or a longer one.
const NO_RTT_US: u64 = 60_000_000;

fn build(what: &Build) -> Result<Box<dyn Algorithm>, BuildError> {
    anole_laws::params::check(SPEC.parameters, &what.params)?;
    Ok(Box::new(Bbr { flow: what.flow, law: law::Bbr::new(what.flow.of_law(what.seed)) }))
}

struct Bbr {
    flow: FlowInfo,
    law: law::Bbr,
}

impl Bbr {
    fn control(&self, rtt: Dur, out: &mut Commands) {
        let bounds = Bounds::DEFAULT;
        let cycling = self.law.cycle_phase().is_some();
        // Phases of the cycle last a smallest round-trip time; without it, the present one. The first
        // ACK of a flow and the first after a timeout report at once.
        let phase = match self.law.min_rtt() {
            None => Dur::ZERO,
            _ if self.law.timed_out() => Dur::ZERO,
            Some(min_rtt) if cycling => min_rtt,
            Some(_) => rtt,
        };
        out.set(control::TARGET, bounds.cwnd(self.law.target_cwnd(), self.flow.mss))
            .set(control::LEAST, bounds.cwnd(self.law.least_cwnd(), self.flow.mss))
            .set(control::HELD, u32::from(self.law.is_held()))
            .set_rate(control::BW, bounds.clamp(self.law.bandwidth()))
            .set(control::BDP, bounds.cwnd(self.law.bdp(), self.flow.mss))
            .set(control::PHASE_US, phase.as_micros().clamp(SHORTEST_PHASE_US, LONGEST_PHASE_US) as u32)
            .set(control::CYCLING, u32::from(cycling))
            .set(control::GAIN_64, self.law.gain_64());
    }
}

fn feedback(seen: &bbr::Report) -> Feedback {
    let rtt = |us: u64| (us > 0 && us <= NO_RTT_US).then(|| Dur::from_micros(us));
    Feedback {
        acked: seen.acked,
        lost: seen.lost,
        timeout: seen.timeout > 0,
        rtt: rtt(seen.rtt_us),
        min_rtt: rtt(seen.min_rtt_us),
        samples: 1,
        delivery_rate: Some(Rate::from_bytes_per_s(seen.rate as f64)),
        in_flight: Some(seen.inflight),
        app_limited: seen.limited > 0,
        elapsed: Dur::from_micros(seen.elapsed_us),
        ..Feedback::default()
    }
}

impl Algorithm for Bbr {
    fn start(&mut self, now: Time, out: &mut Commands) {
        out.run(&bbr::PROGRAM).cwnd(Bounds::DEFAULT.cwnd(u64::from(self.flow.init_cwnd), self.flow.mss));
        self.law.start(now);
        self.control(NOMINAL_RTT, out);
    }

    fn on_report(&mut self, now: Time, report: &Report<'_>, out: &mut Commands) {
        if report.program.name != bbr::PROGRAM.name {
            return;
        }
        let Some(seen) = bbr::Report::read(report.values) else { return };
        let was_cycling = self.law.cycle_phase().is_some();
        self.law.on_feedback(now, &feedback(&seen));
        if let (false, Some(phase)) = (was_cycling, self.law.cycle_phase()) {
            out.set(control::PHASE, phase);
        }
        self.control(Dur::from_micros(seen.rtt_us.clamp(1, NO_RTT_US)), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FLOW: FlowInfo = FlowInfo { mss: 1000, init_cwnd: 10_000 };

    struct Bench {
        bbr: Bbr,
        now: Time,
        out: Commands,
    }

    impl Bench {
        fn new() -> Bench {
            let bbr = Bbr { flow: FLOW, law: law::Bbr::new(FLOW.of_law(1)) };
            let mut bench = Bench { bbr, now: Time::ZERO, out: Commands::default() };
            bench.bbr.start(Time::ZERO, &mut bench.out);
            bench
        }

        fn report(&mut self, values: [u64; 9]) {
            self.now += Dur::from_micros(values[4]);
            self.out.clear();
            self.bbr.on_report(self.now, &Report { program: &bbr::PROGRAM, values: &values }, &mut self.out);
        }

        /// A report of a round of 50 ms, or of a round-trip time where that is longer.
        fn round(&mut self, rate: u64, rtt_ms: u64, in_flight: u64) {
            let rtt_us = rtt_ms * 1000;
            self.report([rate, rate / 20, 0, 0, rtt_us.max(50_000), rtt_us, rtt_us, in_flight, 0]);
        }

        fn field(&self, name: &str) -> Option<u32> {
            self.out.fields().iter().find(|(r, _)| r.name == name).map(|&(_, value)| value)
        }
    }

    #[test]
    fn the_first_ack_reports_and_phases_last_a_round_trip() {
        let mut bench = Bench::new();
        assert_eq!((bench.field("Cwnd"), bench.field("bw")), (Some(10_000), Some(10_000_000)));
        assert_eq!(bench.field("phase_us"), Some(1000));
        bench.round(20_000, 50, 9000);
        assert_eq!(
            (bench.field("phase_us"), bench.field("gain_64")),
            (Some(50_000), Some(law::HIGH_GAIN_64))
        );
    }

    #[test]
    fn the_cycle_begins_once_with_the_phase_that_the_law_drew() {
        let mut bench = Bench::new();
        for rate in [500_000, 1_000_000, 2_000_000, 2_000_000, 2_000_000, 2_000_000] {
            bench.round(rate, 50, 180_000);
            assert_eq!((bench.field("cycling"), bench.field("phase")), (Some(0), None));
        }
        bench.round(2_000_000, 50, 100_000);
        assert_eq!((bench.field("cycling"), bench.field("gain_64")), (Some(1), Some(64)));
        assert!(bench.field("phase").is_some_and(|phase| phase <= 7 && phase != 1));
        bench.round(2_000_000, 50, 100_000);
        assert_eq!((bench.field("cycling"), bench.field("phase")), (Some(1), None));
    }

    #[test]
    fn the_first_ack_after_a_timeout_reports() {
        let mut bench = Bench::new();
        bench.round(20_000, 50, 9000);
        bench.report([0, 0, 100, 1, 300_000, 50_000, u64::from(u32::MAX), 0, 0]);
        assert_eq!((bench.field("target"), bench.field("phase_us")), (Some(2000), Some(1000)));
        assert_eq!(bench.field("held"), Some(1));
    }

    #[test]
    fn reports_of_another_program_are_ignored() {
        let mut bench = Bench::new();
        bench.out.clear();
        let report = Report { program: &anole_programs::reno::PROGRAM, values: &[1; 8] };
        bench.bbr.on_report(bench.now, &report, &mut bench.out);
        assert!(bench.out.is_empty());
    }

    proptest! {
        /// No report makes a window below two packets, a rate of nothing or a phase beyond the cycle.
        #[test]
        fn commands_stay_in_bounds(
            reports in prop::collection::vec((any::<[u64; 9]>(), 0..40_u32, 0..30_000_000_u64), 1..80),
            plausible in prop::collection::vec((0..3_000_000_u64, 1..200_u64, 0..200_000_u64), 0..80),
        ) {
            let mut bench = Bench::new();
            for (wild, shift, elapsed_us) in reports {
                let mut values = wild.map(|value| value >> shift);
                (values[3], values[4], values[8]) = (values[3] % 2, elapsed_us, values[8] % 2);
                bench.report(values);
                in_bounds(&bench)?;
            }
            for (rate, rtt_ms, in_flight) in plausible {
                bench.round(rate, rtt_ms, in_flight);
                in_bounds(&bench)?;
            }
        }
    }

    fn in_bounds(bench: &Bench) -> Result<(), TestCaseError> {
        let field = |name| bench.field(name).unwrap_or_default();
        prop_assert!((2000..=1 << 30).contains(&field("target")));
        prop_assert!((1500..=4_000_000_000).contains(&field("bw")));
        prop_assert!((1000..=10_000_000).contains(&field("phase_us")));
        prop_assert!(field("phase") <= 7 && field("phase") != 1);
        prop_assert!(field("cycling") == 0 || field("gain_64") == 64);
        Ok(())
    }
}
