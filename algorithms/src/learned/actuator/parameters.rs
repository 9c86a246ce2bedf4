//! A policy that sets registers of a fold program, which moves the window per ACK by itself.
//!
//! Spine is one: Tian et al., *Spine: An Efficient DRL-based Congestion Control with Ultra-low Overhead*, CoNEXT
//! 2022, whose executor is `spine.ccp`. Which program, which registers and their values in start-up are the schema's.
//!
//! While the policy may not govern, `rate-hold` holds the window of the law CUBIC; the program comes back, from that
//! window, with the policy's next decision, and without slow start where it has a register `ssthresh` that the policy
//! leaves alone.
//!
//! Deviation from Spine: start-up also ends when the round-trip time has doubled (see [`super::Orca`]).

use super::{Actuator, FIRST_INTERVAL, Hold, rate_of, start_up_is_over};
use crate::learned::monitor::Monitor;
use crate::learned::report::{Reader, Sample};
use crate::{Commands, FlowInfo, Program, Report};
use anole_model::{Bounds, Rate, Time};
use anole_policies::Decision;
use anole_policies::schema::ParameterRange;
use anole_programs::Register;

/// Pacing rate over window per round-trip time where growth may be slow start's (Linux, tcp_pacing_ss_ratio).
const PACING_GAIN: f64 = 2.0;
/// A register with its range and scale.
#[derive(Clone, Debug)]
pub(in crate::learned) struct Setting {
    pub register: Register,
    pub range: ParameterRange,
}

/// A fold program and its registers.
pub(in crate::learned) struct Parameters {
    flow: FlowInfo,
    program: &'static Program,
    reader: Reader,
    /// Registers that the agent sets for every policy, where the program has them.
    mss: Option<Register>,
    interval: Option<Register>,
    /// What it sets when the program comes back.
    ssthresh: Option<Register>,
    /// What the policy sets, in the order of its outputs.
    settings: Vec<Setting>,
    /// Register values of the start-up; none without one.
    startup: Vec<(Register, u32)>,
    /// What holds the rule's window, and whether it does now.
    hold: Hold,
    held: bool,
    starting: bool,
    /// In force at the last report or command, bytes.
    cwnd: u32,
    /// The program sets no pacing rate, and one that held the rule's window has left its own.
    paced: bool,
}

impl Parameters {
    /// The initial window, with the program's own register values where `startup` gives none.
    pub fn new(
        flow: FlowInfo,
        program: &'static Program,
        settings: Vec<Setting>,
        startup: Vec<(Register, u32)>,
    ) -> Parameters {
        let cwnd = Bounds::DEFAULT.cwnd(u64::from(flow.init_cwnd), flow.mss);
        let (reader, starting) = (Reader::new(program), !startup.is_empty());
        let (mss, interval) = (program.control("mss"), program.control("interval_us"));
        let policys = |register: &Register| settings.iter().any(|setting| setting.register == *register);
        let ssthresh = program.control("ssthresh").filter(|register| !policys(register));
        Parameters {
            flow,
            program,
            reader,
            mss,
            interval,
            ssthresh,
            settings,
            startup,
            hold: Hold::new(flow),
            held: false,
            starting,
            cwnd,
            paced: false,
        }
    }

    /// The program begins at the window in force.
    fn run(&self, out: &mut Commands) {
        out.run(self.program).cwnd(self.cwnd);
        if let Some(mss) = self.mss {
            out.set(mss, self.flow.mss);
        }
    }

    /// The program takes over from the one that held the rule's window.
    fn take_back(&mut self, monitor: &Monitor, out: &mut Commands) {
        if !std::mem::take(&mut self.held) {
            return;
        }
        let (_, cwnd) = self.hold.in_force(monitor);
        self.cwnd = Bounds::DEFAULT.cwnd(cwnd, self.flow.mss);
        self.run(out);
        if let Some(ssthresh) = self.ssthresh {
            out.set(ssthresh, self.cwnd);
        }
        self.paced = !self.program.paces();
        self.pace(monitor, out);
    }

    /// A pacing rate can't be taken back from a transport: the one left there follows the window.
    fn pace(&self, monitor: &Monitor, out: &mut Commands) {
        if self.paced && !self.held {
            let rate = rate_of(self.cwnd, monitor.srtt().unwrap_or(FIRST_INTERVAL)) * PACING_GAIN;
            out.rate(Bounds::DEFAULT.clamp(rate));
        }
    }
}

impl Actuator for Parameters {
    fn start(&mut self, interval_us: u32, out: &mut Commands) {
        self.run(out);
        for &(register, value) in &self.startup {
            out.set(register, value);
        }
        self.set_interval(interval_us, out);
    }

    fn read(&mut self, now: Time, report: &Report<'_>) -> Option<Sample> {
        if self.held { self.hold.read(now, report) } else { self.reader.read(now, report) }
    }

    fn set_interval(&mut self, us: u32, out: &mut Commands) {
        if self.held {
            self.hold.set_interval(us, out);
        } else if let Some(interval) = self.interval {
            out.set(interval, us);
        }
    }

    fn on_report(&mut self, _now: Time, sample: &Sample, monitor: &Monitor, out: &mut Commands) {
        if let Some(cwnd) = sample.cwnd {
            self.cwnd = Bounds::DEFAULT.cwnd(cwnd, self.flow.mss);
        }
        self.pace(monitor, out);
        if self.starting && start_up_is_over(sample, monitor) {
            self.starting = false;
        }
    }

    fn is_starting(&self) -> bool {
        self.starting
    }

    fn in_force(&self, monitor: &Monitor) -> (Rate, u64) {
        match self.held {
            true => self.hold.in_force(monitor),
            false => (rate_of(self.cwnd, monitor.srtt().unwrap_or(FIRST_INTERVAL)), u64::from(self.cwnd)),
        }
    }

    fn apply(&mut self, decision: &Decision, ceiling: Rate, monitor: &Monitor, out: &mut Commands) {
        let Decision::Parameters(values) = decision else { return };
        self.take_back(monitor, out);
        for (Setting { register, range }, &value) in self.settings.iter().zip(values) {
            out.set(*register, range.register(range.bound(value)));
        }
        let highest = ceiling.bytes_in(monitor.srtt().unwrap_or(FIRST_INTERVAL)) as u64;
        if u64::from(self.cwnd) > highest {
            self.cwnd = Bounds::DEFAULT.cwnd(highest, self.flow.mss);
            out.cwnd(self.cwnd);
        }
    }

    fn yield_to_rule(&mut self, now: Time, cwnd: u32, timeout: bool, monitor: &Monitor, out: &mut Commands) {
        if !std::mem::replace(&mut self.held, true) {
            self.hold.start(FIRST_INTERVAL.as_micros() as u32, out);
        }
        self.hold.yield_to_rule(now, cwnd, timeout, monitor, out);
    }

    fn follow_rule(&mut self, now: Time, sample: &Sample, monitor: &Monitor, out: &mut Commands) {
        self.hold.follow_rule(now, sample, monitor, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anole_programs::{rate_hold, reno, spine, spine_cubic};

    const FLOW: FlowInfo = FlowInfo { mss: 1000, init_cwnd: 10_000 };
    const CEILING: f64 = 1e9;

    fn setting(program: &Program, name: &str, high: f64, scale: f64) -> Setting {
        let range = ParameterRange { name: name.to_string(), low: 0.0, high, scale };
        Setting { register: program.control(name).unwrap(), range }
    }

    /// Spine's executor with two of its registers.
    fn spine() -> Parameters {
        let growth = setting(&spine::PROGRAM, "alpha_thr", 0.5, 65_536.0);
        let loss = setting(&spine::PROGRAM, "alpha_loss", 1.0, 65_536.0);
        Parameters::new(FLOW, &spine::PROGRAM, vec![growth, loss], Vec::new())
    }

    fn fields(out: &Commands) -> Vec<(&'static str, u32)> {
        out.fields().iter().map(|&(register, value)| (register.name, value)).collect()
    }

    fn apply(actuator: &mut Parameters, values: Vec<f64>, out: &mut Commands) {
        let ceiling = Rate::from_bytes_per_s(CEILING);
        actuator.apply(&Decision::Parameters(values), ceiling, &Monitor::new(FLOW.mss), out);
    }

    #[test]
    fn values_are_set_in_fixed_point_within_their_ranges() {
        let (mut actuator, mut out) = (spine(), Commands::default());
        apply(&mut actuator, vec![0.25, f64::INFINITY], &mut out);
        assert_eq!(fields(&out), [("alpha_thr", 16_384), ("alpha_loss", 65_536)]);
        apply(&mut actuator, vec![-1.0, 0.5], &mut out);
        assert_eq!(fields(&out), [("alpha_thr", 0), ("alpha_loss", 32_768)]);
    }

    #[test]
    fn another_program_holds_the_rules_window_until_the_next_decision() {
        let threshold = setting(&reno::PROGRAM, "ssthresh", 1e6, 1.0);
        let mut actuator = Parameters::new(FLOW, &reno::PROGRAM, vec![threshold], Vec::new());
        let (mut out, monitor) = (Commands::default(), Monitor::new(FLOW.mss));
        actuator.start(1000, &mut out);
        assert_eq!(fields(&out), [("Cwnd", 10_000), ("mss", 1000), ("interval_us", 1000)]);
        out.clear();
        actuator.yield_to_rule(Time::ZERO, 70_000, false, &monitor, &mut out);
        assert_eq!(out.program().map(|program| program.name), Some("rate-hold"));
        assert_eq!(fields(&out)[0], ("Cwnd", 70_000));
        let report = |program, values| Report { program, values };
        let late = report(&reno::PROGRAM, &[0; 6]);
        assert!(actuator.read(Time::ZERO, &late).is_none());
        let mut values = [0; rate_hold::PROGRAM.reports.len()];
        values[rate_hold::PROGRAM.report("lost").unwrap()] = 1;
        let lost = actuator.read(Time::ZERO, &report(&rate_hold::PROGRAM, &values));
        out.clear();
        actuator.follow_rule(Time::from_micros(1), &lost.unwrap(), &monitor, &mut out);
        assert_eq!(fields(&out)[0], ("Cwnd", 49_000));
        out.clear();
        apply(&mut actuator, vec![30_000.0], &mut out);
        assert_eq!(out.program().map(|program| program.name), Some("reno"));
        assert_eq!(fields(&out), [("Cwnd", 49_000), ("mss", 1000), ("Rate", 980_000), ("ssthresh", 30_000)]);
        assert!(actuator.read(Time::ZERO, &late).is_some());
    }

    #[test]
    fn the_program_comes_back_without_slow_start() {
        let beta = setting(&spine_cubic::PROGRAM, "beta", 0.6, 65_536.0);
        let mut actuator = Parameters::new(FLOW, &spine_cubic::PROGRAM, vec![beta], Vec::new());
        let (mut out, monitor) = (Commands::default(), Monitor::new(FLOW.mss));
        actuator.yield_to_rule(Time::ZERO, 70_000, false, &monitor, &mut out);
        out.clear();
        apply(&mut actuator, vec![0.5], &mut out);
        assert!(fields(&out).contains(&("ssthresh", 70_000)), "{:?}", fields(&out));
    }
}
