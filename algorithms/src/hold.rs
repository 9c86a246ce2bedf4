//! Hold: a window and a pacing rate that its parameters give, whatever the network does.
//!
//! No congestion control: it answers neither loss nor delay. It is what tests and measurements command a datapath with
//! (`anole-eval carriers`), and traffic of a constant rate or window beside an algorithm. On a network that others share it
//! does what a sender without congestion control does.
//!
//! It runs over `rate-hold`, and sets its values again after a timeout alone, for which the datapath had narrowed the
//! window.

use crate::{Algorithm, Build, BuildError, Commands, FlowInfo, Program, Report, Spec};
use anole_laws::parameters;
use anole_model::{Bounds, Rate, Time};
use anole_programs::rate_hold::{self, control};

/// Between two reports, us.
const INTERVAL_US: u32 = 50_000;

parameters! {
    /// What is held.
    pub struct Params {
        window_packets = 10.0, 2.0..=700000.0, "Window, full packets of the flow.";
        rate_mbps = 0.0, 0.0..=32000.0, "Pacing rate, Mbps; 0 leaves pacing to the transport.";
    }
}

const RUNS: &[&Program] = &[&rate_hold::PROGRAM];

/// Hold in the registry.
pub(crate) const SPEC: Spec = Spec {
    name: "hold",
    kind: "fixed",
    summary: "Holds the window and the rate that its parameters give: no congestion control, for tests and measurements",
    programs: RUNS,
    parameters: Params::PARAMETERS,
    source: "this project",
    takes_classic: false,
    takes_policy: false,
    builder: &build,
};

fn build(what: &Build) -> Result<Box<dyn Algorithm>, BuildError> {
    Ok(Box::new(Hold { flow: what.flow, params: Params::with(&what.params)? }))
}

struct Hold {
    flow: FlowInfo,
    params: Params,
}

impl Hold {
    fn set(&self, out: &mut Commands) {
        let bytes = self.params.window_packets * f64::from(self.flow.mss);
        out.cwnd(Bounds::DEFAULT.cwnd(bytes as u64, self.flow.mss));
        if self.params.rate_mbps > 0.0 {
            out.rate(Bounds::DEFAULT.clamp(Rate::from_mbps(self.params.rate_mbps)));
        }
    }
}

impl Algorithm for Hold {
    fn start(&mut self, _now: Time, out: &mut Commands) {
        out.run(&rate_hold::PROGRAM).set(control::INTERVAL_US, INTERVAL_US);
        self.set(out);
    }

    fn on_report(&mut self, _now: Time, report: &Report<'_>, out: &mut Commands) {
        if report.program.name == rate_hold::PROGRAM.name
            && rate_hold::Report::read(report.values).is_some_and(|seen| seen.timeout > 0)
        {
            self.set(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anole_programs::{CWND, RATE};

    fn hold(window_packets: f64, rate_mbps: f64) -> Hold {
        Hold { flow: FlowInfo { mss: 1000, init_cwnd: 10_000 }, params: Params { window_packets, rate_mbps } }
    }

    fn field(out: &Commands, register: anole_programs::Register) -> Option<u32> {
        out.fields().iter().find(|(known, _)| *known == register).map(|&(_, value)| value)
    }

    #[test]
    fn what_is_asked_for_is_set_at_the_start_and_after_a_timeout_alone() {
        let (mut flow, mut out) = (hold(33.0, 8.0), Commands::default());
        flow.start(Time::ZERO, &mut out);
        assert_eq!((field(&out, CWND), field(&out, RATE)), (Some(33_000), Some(1_000_000)));
        let mut values = [0; rate_hold::PROGRAM.reports.len()];
        for (name, set) in [("lost", false), ("timeout", true)] {
            out.clear();
            values[rate_hold::PROGRAM.report(name).unwrap()] = 1;
            flow.on_report(Time::ZERO, &Report { program: &rate_hold::PROGRAM, values: &values }, &mut out);
            assert_eq!(!out.is_empty(), set, "{name}");
        }
    }

    #[test]
    fn without_a_rate_none_is_set() {
        let mut out = Commands::default();
        hold(10.0, 0.0).start(Time::ZERO, &mut out);
        assert_eq!((field(&out, CWND), field(&out, RATE)), (Some(10_000), None));
    }
}
