//! A policy that decides a rate or a window, held by the program `rate-hold` until it decides again.
//!
//! A rate is paced, and twice what it sends in the smallest recent round-trip time is its window, so that
//! no rate queues more than one bandwidth-delay product of its own. A window is paced at 1.2 times what it
//! sends per round trip, the ratio of Linux, so that its growth leaves no burst. The rule is CUBIC, told of
//! each report.

use super::{Actuator, FIRST_INTERVAL, PACING_GAIN, rate_of};
use crate::learned::monitor::Monitor;
use crate::learned::report::{Reader, Sample};
use crate::{Commands, FlowInfo, Report};
use anole_laws::{Control, Cubic, Feedback, Law};
use anole_model::{Bounds, Dur, Rate, Time};
use anole_policies::Decision;
use anole_programs::rate_hold::{self, control};

/// The least window while ACKs come: delayed ACKs keep flowing, as in BBR.
const MIN_CWND_PACKETS: u64 = 4;
/// Window over bandwidth-delay product of a rate.
const CWND_GAIN: f64 = 2.0;

/// A rate or a window that is held.
pub(in crate::learned) struct Hold {
    flow: FlowInfo,
    reader: Reader,
    /// In force, bytes.
    cwnd: u32,
    /// In force; zero before the first round-trip time.
    rate: Rate,
    rule: Cubic,
}

impl Hold {
    /// The initial window.
    pub fn new(flow: FlowInfo) -> Hold {
        let cwnd = Bounds::DEFAULT.cwnd(u64::from(flow.init_cwnd), flow.mss);
        let reader = Reader::new(&rate_hold::PROGRAM);
        Hold { flow, reader, cwnd, rate: Rate::ZERO, rule: Cubic::new(flow.mss, cwnd) }
    }

    fn hold_window(&mut self, bytes: u64, srtt: Dur, out: &mut Commands) {
        self.cwnd = Bounds::DEFAULT.cwnd(bytes, self.flow.mss);
        self.rate = rate_of(self.cwnd, srtt);
        out.cwnd(self.cwnd).rate(Bounds::DEFAULT.clamp(self.rate * PACING_GAIN));
    }

    fn hold_rate(&mut self, rate: Rate, monitor: &Monitor, out: &mut Commands) {
        // The least window, sent once per round trip: a policy may not stop a flow.
        let slowest =
            rate_of(Bounds::DEFAULT.cwnd(0, self.flow.mss), monitor.srtt().unwrap_or(FIRST_INTERVAL));
        self.rate = Bounds::DEFAULT.clamp(rate.max(slowest));
        let rtt = monitor.recent_rtt().unwrap_or(FIRST_INTERVAL);
        let least = MIN_CWND_PACKETS * u64::from(self.flow.mss);
        let window = (self.rate.bytes_in(rtt) * CWND_GAIN) as u64;
        self.cwnd = Bounds::DEFAULT.cwnd(window.max(least), self.flow.mss);
        out.cwnd(self.cwnd).rate(self.rate);
    }
}

impl Actuator for Hold {
    fn start(&mut self, interval_us: u32, out: &mut Commands) {
        out.run(&rate_hold::PROGRAM).cwnd(self.cwnd).set(control::INTERVAL_US, interval_us);
    }

    fn read(&mut self, now: Time, report: &Report<'_>) -> Option<Sample> {
        self.reader.read(now, report)
    }

    fn on_first_rtt(&mut self, srtt: Dur, out: &mut Commands) {
        // All of the initial window within the first round-trip time, as without pacing.
        self.rate = rate_of(self.cwnd, srtt);
        out.rate(Bounds::DEFAULT.clamp(self.rate * PACING_GAIN));
    }

    fn in_force(&self, _monitor: &Monitor) -> (Rate, u64) {
        (self.rate, u64::from(self.cwnd))
    }

    fn apply(&mut self, decision: &Decision, ceiling: Rate, monitor: &Monitor, out: &mut Commands) {
        let srtt = monitor.srtt().unwrap_or(FIRST_INTERVAL);
        match *decision {
            Decision::Rate(rate) => {
                self.hold_rate(Rate::from_bytes_per_s(rate).min(ceiling), monitor, out);
            }
            Decision::Cwnd(bytes) => {
                let highest = ceiling.bytes_in(srtt);
                self.hold_window(bytes.min(highest) as u64, srtt, out);
            }
            Decision::Parameters(_) => {}
        }
    }

    fn yield_to_rule(&mut self, now: Time, cwnd: u32, timeout: bool, monitor: &Monitor, out: &mut Commands) {
        self.rule.resume(now, Control::window(u64::from(cwnd)));
        if timeout {
            self.rule.on_timeout(now);
        }
        self.hold_window(self.rule.cwnd(), monitor.srtt().unwrap_or(FIRST_INTERVAL), out);
    }

    fn follow_rule(&mut self, now: Time, sample: &Sample, monitor: &Monitor, out: &mut Commands) {
        let srtt = monitor.srtt().unwrap_or(FIRST_INTERVAL);
        let rtt = Some(srtt);
        let (acked, lost, timeout) = (sample.acked, sample.lost, sample.timeout);
        let in_flight = Some(sample.inflight);
        let seen = Feedback {
            acked,
            lost,
            timeout,
            in_flight,
            rtt,
            min_rtt: rtt,
            samples: 1,
            ..Feedback::default()
        };
        self.rule.on_feedback(now, &seen);
        self.hold_window(self.rule.cwnd(), srtt, out);
    }

    fn set_interval(&mut self, us: u32, out: &mut Commands) {
        out.set(control::INTERVAL_US, us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anole_programs::{CWND, RATE, Register};

    const FLOW: FlowInfo = FlowInfo { mss: 1000, init_cwnd: 10_000 };

    /// A path of 50 ms, with one sample of it.
    fn monitor() -> Monitor {
        let mut monitor = Monitor::new(FLOW.mss);
        let values = [1000, 0, 0, 50_000, 50_000, 50_000, 1, 0, 3125, 0, 0, 3125 * 3125, 0, 0, 0, 0];
        let report = Report { program: &rate_hold::PROGRAM, values: &values };
        let sample = Reader::new(report.program).read(Time::ZERO, &report).unwrap();
        monitor.add(Time::ZERO, &sample);
        monitor
    }

    fn applied(decision: Decision, ceiling: f64) -> Vec<(Register, u32)> {
        let mut out = Commands::default();
        let mut hold = Hold::new(FLOW);
        hold.apply(&decision, Rate::from_bytes_per_s(ceiling), &monitor(), &mut out);
        out.fields().to_vec()
    }

    #[test]
    fn a_rate_has_a_window_of_twice_its_product() {
        assert_eq!(applied(Decision::Rate(1e6), 1e9), [(CWND, 100_000), (RATE, 1_000_000)]);
        assert_eq!(applied(Decision::Rate(1e6), 5e5), [(CWND, 50_000), (RATE, 500_000)]);
        // Two packets per round trip, in a window of four.
        assert_eq!(applied(Decision::Rate(0.0), 1e9), [(CWND, 4_000), (RATE, 40_000)]);
    }

    #[test]
    fn a_window_is_paced_at_a_fifth_above_what_it_sends() {
        assert_eq!(applied(Decision::Cwnd(50_000.0), 1e9), [(CWND, 50_000), (RATE, 1_200_000)]);
        assert_eq!(applied(Decision::Cwnd(f64::INFINITY), 2e6), [(CWND, 100_000), (RATE, 2_400_000)]);
        assert_eq!(applied(Decision::Cwnd(-1.0), 1e9), [(CWND, 2_000), (RATE, 48_000)]);
    }

    #[test]
    fn the_rule_goes_on_from_the_window_given() {
        let (mut hold, mut out) = (Hold::new(FLOW), Commands::default());
        hold.yield_to_rule(Time::ZERO, 70_000, false, &monitor(), &mut out);
        assert_eq!(out.fields()[0], (CWND, 70_000));
        out.clear();
        let lost = Sample { lost: 1, ..Sample::default() };
        hold.follow_rule(Time::from_micros(1), &lost, &monitor(), &mut out);
        assert_eq!(out.fields()[0], (CWND, 49_000));
    }

    #[test]
    fn the_rules_window_does_not_grow_while_the_application_leaves_it_unused() {
        let grown = |inflight| {
            let (mut hold, mut out) = (Hold::new(FLOW), Commands::default());
            hold.yield_to_rule(Time::ZERO, 70_000, false, &monitor(), &mut out);
            for round in 1..40 {
                let sample = Sample { acked: 5_000, inflight, ..Sample::default() };
                hold.follow_rule(Time::from_micros(round * 50_000), &sample, &monitor(), &mut out);
            }
            hold.rule.cwnd() > 70_000
        };
        assert!(grown(65_000) && !grown(5_000));
    }
}
