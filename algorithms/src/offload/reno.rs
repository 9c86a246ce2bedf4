//! Reno over the `reno` program: the window grows per ACK in the datapath, the decreases are the law's.

use super::{AVOIDANCE_INTERVAL_US, FIRST_INTERVAL};
use crate::{Algorithm, Build, BuildError, Commands, FlowInfo, Report, Spec};
use anole_laws::reno as law;
use anole_model::{Bounds, Dur, Time};
use anole_programs::reno::{self, control};

/// Reno in the registry.
pub(crate) const SPEC: Spec = Spec {
    name: law::SPEC.name,
    kind: "rule",
    summary: law::SPEC.summary,
    programs: &[&reno::PROGRAM],
    parameters: law::SPEC.parameters,
    source: law::SPEC.source,
    takes_classic: false,
    takes_policy: false,
    builder: &build,
};

/// Then they come once per round trip, but no faster than this in slow start; losses are reported at once.
const MIN_INTERVAL_US: u64 = 4_000;

fn build(what: &Build) -> Result<Box<dyn Algorithm>, BuildError> {
    anole_laws::params::check(SPEC.parameters, &what.params)?;
    Ok(Box::new(Reno { flow: what.flow, window: law::Reno::new(what.flow.mss, what.flow.init_cwnd) }))
}

struct Reno {
    flow: FlowInfo,
    window: law::Reno,
}

impl Reno {
    fn set_window(&self, out: &mut Commands) {
        let bounds = Bounds::DEFAULT;
        out.cwnd(bounds.cwnd(self.window.cwnd(), self.flow.mss));
        out.set(control::SSTHRESH, bounds.cwnd(self.window.ssthresh(), self.flow.mss));
        out.set(control::CREDIT, 0);
    }
}

impl Algorithm for Reno {
    fn start(&mut self, _now: Time, out: &mut Commands) {
        out.run(&reno::PROGRAM)
            .set(control::MSS, self.flow.mss)
            .set(control::INTERVAL_US, FIRST_INTERVAL.as_micros() as u32);
        self.set_window(out);
    }

    fn on_report(&mut self, now: Time, report: &Report<'_>, out: &mut Commands) {
        if report.program.name != reno::PROGRAM.name {
            return;
        }
        let Some(seen) = reno::Report::read(report.values) else { return };
        self.window.observe(seen.cwnd, seen.acked, Dur::from_micros(seen.rtt_us));
        if seen.timeout > 0 {
            self.window.on_timeout(now);
            self.set_window(out);
        } else if seen.lost > 0 && self.window.on_loss(now) {
            self.set_window(out);
        }
        // Every report is answered: the datapath takes silence for the agent's death.
        let slow_start = seen.cwnd < self.window.ssthresh();
        let least = if slow_start { MIN_INTERVAL_US } else { AVOIDANCE_INTERVAL_US };
        let interval = seen.rtt_us.clamp(least, 1_000_000) as u32;
        out.set(control::INTERVAL_US, interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(acked: u64, lost: u64, timeout: u64, cwnd: u64) -> [u64; 6] {
        [acked, lost, timeout, 50_000, 50_000, cwnd]
    }

    fn field(out: &Commands, name: &str) -> Option<u32> {
        out.fields().iter().find(|(r, _)| r.name == name).map(|&(_, value)| value)
    }

    fn flow() -> Reno {
        let info = FlowInfo { mss: 1000, init_cwnd: 10_000 };
        Reno { flow: info, window: law::Reno::new(info.mss, info.init_cwnd) }
    }

    #[test]
    fn starts_with_the_initial_window_in_slow_start() {
        let mut out = Commands::default();
        flow().start(Time::ZERO, &mut out);
        assert_eq!(out.program().map(|p| p.name), Some("reno"));
        assert_eq!(field(&out, "Cwnd"), Some(10_000));
        assert_eq!(field(&out, "ssthresh"), Some(Bounds::DEFAULT.max_cwnd_bytes));
    }

    #[test]
    fn a_loss_halves_the_window_that_the_datapath_reached() {
        let (mut reno, mut out) = (flow(), Commands::default());
        let values = report(1000, 1, 0, 80_000);
        reno.on_report(Time::from_micros(1), &Report { program: &reno::PROGRAM, values: &values }, &mut out);
        assert_eq!((field(&out, "Cwnd"), field(&out, "ssthresh")), (Some(40_000), Some(40_000)));
    }

    #[test]
    fn a_report_that_the_datapath_sent_before_the_decrease_does_not_undo_it() {
        let (mut reno, mut out) = (flow(), Commands::default());
        let values = report(1000, 1, 0, 80_000);
        for (us, set) in [(1, Some(40_000)), (100, None)] {
            out.clear();
            reno.on_report(
                Time::from_micros(us),
                &Report { program: &reno::PROGRAM, values: &values },
                &mut out,
            );
            assert_eq!(field(&out, "Cwnd"), set, "{us} us");
        }
    }

    #[test]
    fn a_timeout_keeps_two_segments() {
        let (mut reno, mut out) = (flow(), Commands::default());
        let values = report(0, 1, 1, 80_000);
        reno.on_report(Time::from_micros(1), &Report { program: &reno::PROGRAM, values: &values }, &mut out);
        assert_eq!((field(&out, "Cwnd"), field(&out, "ssthresh")), (Some(2000), Some(40_000)));
    }

    #[test]
    fn quiet_reports_and_foreign_ones_leave_the_window_alone() {
        let (mut reno, mut out) = (flow(), Commands::default());
        let values = report(1000, 0, 0, 80_000);
        reno.on_report(Time::from_micros(1), &Report { program: &reno::PROGRAM, values: &values }, &mut out);
        assert_eq!((field(&out, "Cwnd"), field(&out, "interval_us")), (None, Some(50_000)));
        out.clear();
        let other = &anole_programs::rate_hold::PROGRAM;
        reno.on_report(Time::from_micros(1), &Report { program: other, values: &values }, &mut out);
        reno.on_report(Time::from_micros(1), &Report { program: &reno::PROGRAM, values: &[1] }, &mut out);
        assert!(out.is_empty());
    }
}
