//! A policy that decides a rate or a window, held by the program `rate-hold` until it decides again.
//!
//! A rate is paced, and twice what it sends in the smallest recent round-trip time is its window, so that
//! no rate queues more than one bandwidth-delay product of its own. A window is paced at 1.2 times what it
//! sends per round trip, the ratio of Linux, so that its growth leaves no burst. The rule is CUBIC, told of
//! each report.

use super::drive::{Drive, FIRST_INTERVAL, MIN_CWND_PACKETS, PACING_GAIN, rate_of};
use super::measure::{Measured, Sample};
use crate::classic::{self, Classic};
use crate::{BuildError, Commands, FlowInfo, Program};
use anole_model::{Bounds, Dur, Rate, Time};
use anole_policies::Decision;
use anole_programs::rate_hold::{self, control};

/// Window over bandwidth-delay product of a rate.
const CWND_GAIN: f64 = 2.0;

/// A rate or a window that is held.
pub(super) struct Hold {
    flow: FlowInfo,
    /// In force, bytes.
    cwnd: u32,
    /// In force; zero before the first round-trip time.
    rate: Rate,
    rule: Box<dyn Classic>,
}

impl Hold {
    /// The initial window.
    pub fn new(flow: FlowInfo) -> Result<Hold, BuildError> {
        let cwnd = Bounds::DEFAULT.cwnd(u64::from(flow.init_cwnd), flow.mss);
        Ok(Hold { flow, cwnd, rate: Rate::ZERO, rule: classic::build("cubic", flow.mss, cwnd)? })
    }

    fn hold_window(&mut self, bytes: u64, srtt: Dur, out: &mut Commands) {
        self.cwnd = Bounds::DEFAULT.cwnd(bytes, self.flow.mss);
        self.rate = rate_of(self.cwnd, srtt);
        out.cwnd(self.cwnd).rate(Bounds::DEFAULT.clamp(self.rate * PACING_GAIN));
    }

    fn hold_rate(&mut self, rate: Rate, measured: &Measured, out: &mut Commands) {
        // The least window, sent once per round trip: a policy may not stop a flow.
        let slowest =
            rate_of(Bounds::DEFAULT.cwnd(0, self.flow.mss), measured.srtt().unwrap_or(FIRST_INTERVAL));
        self.rate = Bounds::DEFAULT.clamp(rate.max(slowest));
        let rtt = measured.recent_rtt().unwrap_or(FIRST_INTERVAL);
        let least = MIN_CWND_PACKETS * u64::from(self.flow.mss);
        let window = (self.rate.bytes_in(rtt) * CWND_GAIN) as u64;
        self.cwnd = Bounds::DEFAULT.cwnd(window.max(least), self.flow.mss);
        out.cwnd(self.cwnd).rate(self.rate);
    }
}

impl Drive for Hold {
    fn program(&self) -> &'static Program {
        &rate_hold::PROGRAM
    }

    fn start(&mut self, interval_us: u32, out: &mut Commands) {
        out.run(&rate_hold::PROGRAM).cwnd(self.cwnd).set(control::INTERVAL_US, interval_us);
    }

    fn read(&self, values: &[u64]) -> Option<Sample> {
        rate_hold::Report::read(values).map(Sample::from)
    }

    fn on_first_rtt(&mut self, srtt: Dur, out: &mut Commands) {
        // All of the initial window within the first round-trip time, as without pacing.
        self.rate = rate_of(self.cwnd, srtt);
        out.rate(Bounds::DEFAULT.clamp(self.rate * PACING_GAIN));
    }

    fn in_force(&self, _measured: &Measured) -> (Rate, u64) {
        (self.rate, u64::from(self.cwnd))
    }

    fn apply(&mut self, decision: &Decision, ceiling: Rate, measured: &Measured, out: &mut Commands) {
        let srtt = measured.srtt().unwrap_or(FIRST_INTERVAL);
        match *decision {
            Decision::Rate(rate) => {
                self.hold_rate(Rate::from_bytes_per_s(rate).min(ceiling), measured, out);
            }
            Decision::Cwnd(bytes) => {
                let highest = ceiling.bytes_in(srtt);
                self.hold_window(bytes.min(highest) as u64, srtt, out);
            }
            Decision::Parameters(_) => {}
        }
    }

    fn yield_to_rule(
        &mut self,
        now: Time,
        cwnd: u32,
        timeout: bool,
        measured: &Measured,
        out: &mut Commands,
    ) {
        self.rule.resume(cwnd);
        if timeout {
            self.rule.on_timeout(now);
        }
        self.hold_window(self.rule.cwnd(), measured.srtt().unwrap_or(FIRST_INTERVAL), out);
    }

    fn follow_rule(&mut self, now: Time, sample: &Sample, measured: &Measured, out: &mut Commands) {
        let srtt = measured.srtt().unwrap_or(FIRST_INTERVAL);
        self.rule.on_ack(now, sample.acked, srtt);
        if sample.timeout {
            self.rule.on_timeout(now);
        } else if sample.lost > 0 {
            self.rule.on_loss(now);
        }
        self.hold_window(self.rule.cwnd(), srtt, out);
    }

    fn set_interval(&mut self, us: u32, out: &mut Commands) {
        out.set(control::INTERVAL_US, us);
    }
}
