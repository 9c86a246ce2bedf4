//! A law that runs a flow by itself, over the program `rate-hold`, which only measures and holds: the law takes each
//! report as feedback, and its window and pacing rate are held until the next.

use crate::{Algorithm, Build, BuildError, Commands, FlowInfo, Program, Report, Spec};
use anole_laws::regression::Sums;
use anole_laws::{Feedback, Law, LawSpec};
use anole_model::{Bounds, Dur, Rate, Time};
use anole_programs::rate_hold::{self, control};

/// The first report comes with the first ACK, us.
const FIRST_REPORT_US: u32 = 1_000;
/// The next ones come as often in a round trip as the law asks, within these bounds, us.
const INTERVAL_US: core::ops::RangeInclusive<u64> = 1_000..=1_000_000;
/// No round-trip time is longer, us; a larger figure is no measurement.
const LONGEST_RTT_US: u64 = 60_000_000;

/// What every law runs over.
const RUNS: &[&Program] = &[&rate_hold::PROGRAM];

/// A law's row in the registry. It lasts as long as the program.
pub(crate) fn spec(law: &'static LawSpec) -> Spec {
    Spec {
        name: law.name,
        kind: "rule",
        summary: law.summary,
        programs: RUNS,
        parameters: law.parameters,
        source: law.source,
        takes_classic: false,
        takes_policy: false,
        builder: Box::leak(Box::new(move |what: &Build| Alone::build(law, what))),
    }
}

/// A law that runs a flow.
pub(crate) struct Alone {
    flow: FlowInfo,
    law: Box<dyn Law>,
}

impl Alone {
    /// The law of `what`'s flow.
    fn build(spec: &LawSpec, what: &Build) -> Result<Box<dyn Algorithm>, BuildError> {
        let law = (spec.build)(what.flow.of_law(what.seed), &what.params)?;
        Ok(Box::new(Alone { flow: what.flow, law }))
    }

    fn hold(&self, out: &mut Commands) {
        let asked = self.law.control();
        out.cwnd(Bounds::DEFAULT.cwnd(asked.cwnd, self.flow.mss));
        if let Some(rate) = asked.rate {
            out.rate(Bounds::DEFAULT.clamp(rate));
        }
        out.set(control::REPORT_LOSS, u32::from(self.law.wants_loss_at_once()));
    }
}

/// A report of `rate-hold` in a law's terms.
pub(crate) fn feedback(seen: &rate_hold::Report) -> Feedback {
    let rtt = |us: u64| (us > 0 && us <= LONGEST_RTT_US).then(|| Dur::from_micros(us));
    let delivered = (seen.rate_in > 0).then(|| Rate::from_bytes_per_s(seen.rate_in as f64));
    Feedback {
        acked: seen.acked,
        lost: seen.lost,
        marked: seen.marked,
        timeout: seen.timeout > 0,
        rtt: rtt(seen.rtt_us),
        min_rtt: rtt(seen.min_rtt_us).filter(|_| seen.n > 0),
        samples: seen.n,
        sums: Sums {
            n: seen.n,
            t: seen.sum_t,
            y: seen.sum_rtt,
            tt: seen.sum_tt,
            ty: seen.sum_trtt,
            yy: seen.sum_rttrtt,
        },
        delivery_rate: delivered,
        in_flight: Some(seen.inflight),
        app_limited: seen.limited > 0,
        elapsed: Dur::from_micros(seen.elapsed_us),
    }
}

impl Algorithm for Alone {
    fn start(&mut self, _now: Time, out: &mut Commands) {
        out.run(&rate_hold::PROGRAM);
        self.hold(out);
        out.set(control::INTERVAL_US, FIRST_REPORT_US);
    }

    fn on_report(&mut self, now: Time, report: &Report<'_>, out: &mut Commands) {
        if report.program.name != rate_hold::PROGRAM.name {
            return;
        }
        let Some(seen) = rate_hold::Report::read(report.values) else { return };
        self.law.on_feedback(now, &feedback(&seen));
        self.hold(out);
        let interval_us = seen.rtt_us / u64::from(self.law.reports_per_rtt().max(1));
        out.set(control::INTERVAL_US, interval_us.clamp(*INTERVAL_US.start(), *INTERVAL_US.end()) as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: FlowInfo = FlowInfo { mss: 1000, init_cwnd: 10_000 };

    #[test]
    fn a_law_is_told_of_reports_and_its_control_is_held() {
        for spec in anole_laws::ALL {
            let law = (spec.build)(FLOW.of_law(1), &Default::default()).unwrap();
            let (mut alone, mut out) = (Alone { flow: FLOW, law }, Commands::default());
            alone.start(Time::ZERO, &mut out);
            let first = alone.law.control();
            assert_eq!(out.program().map(|program| program.name), Some("rate-hold"));
            out.clear();
            let values = [10_000, 0, 0, 50_000, 50_000, 50_000, 10, 0, 0, 0, 0, 0, 200_000, 10_000, 0, 0];
            let report = Report { program: &rate_hold::PROGRAM, values: &values };
            alone.on_report(Time::from_micros(50_000), &report, &mut out);
            let asked = alone.law.control();
            assert!(asked.cwnd > first.cwnd || asked.rate != first.rate, "{}", spec.name);
            let cwnd = out.fields().iter().find(|(register, _)| *register == anole_programs::CWND);
            assert_eq!(cwnd.map(|(_, cwnd)| u64::from(*cwnd)), Some(asked.cwnd), "{}", spec.name);
        }
    }

    #[test]
    fn marks_are_feedback() {
        let mut values = [0; rate_hold::PROGRAM.reports.len()];
        values[rate_hold::PROGRAM.report("marked").unwrap()] = 3;
        let seen = feedback(&rate_hold::Report::read(&values).unwrap());
        assert_eq!((seen.lost, seen.marked, seen.congested()), (0, 3, true));
    }
}
