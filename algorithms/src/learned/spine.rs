//! Spine's drive: the policy sets the four parameters of an executor that moves the window per ACK
//! (`spine.ccp`).
//!
//! Tian et al., *Spine: An Efficient DRL-based Congestion Control with Ultra-low Overhead*, CoNEXT 2022.
//! Until the first loss the window grows by a tenth per round trip, and the policy only watches. The rule
//! is Reno, which the executor can be: growth of one packet per window, half of it on a loss.
//!
//! Deviation: start-up also ends when the round-trip time has doubled (see `super::orca`).

use super::drive::{Drive, FIRST_INTERVAL, rate_of};
use super::measure::{Measured, Sample};
use super::orca::start_up_is_over;
use crate::{Commands, FlowInfo, Program};
use anole_model::{Bounds, Rate, Time};
use anole_policies::Decision;
use anole_programs::spine::{self, control};

/// Parameters in the order of the schema: alpha_thr, alpha_lat, alpha_tol, alpha_loss.
pub(super) const PARAMETERS: [&str; 4] = ["alpha_thr", "alpha_lat", "alpha_tol", "alpha_loss"];
/// No policy may set a parameter beyond these (Spine, §4: 0 to 0.5, 0.5, 2 and 1).
const LARGEST: [f64; 4] = [0.5, 0.5, 2.0, 1.0];
/// One, in the fixed point of the program.
const ONE: f64 = 65_536.0;
/// Reno's factor on a loss.
const RENO_BETA: f64 = 0.5;
/// Growth of one packet per packet acknowledged: slow start.
const SLOW_START: f64 = 1.0;

/// The executor and its parameters.
pub(super) struct Spine {
    flow: FlowInfo,
    /// Growth per round trip in start-up.
    growth: f64,
    starting: bool,
    /// In force at the last report or command, bytes.
    cwnd: u32,
    /// The rule's slow-start threshold, bytes.
    ssthresh: u32,
}

impl Spine {
    /// Start-up from the initial window, with this growth per round trip.
    pub fn new(flow: FlowInfo, growth: f64) -> Spine {
        let cwnd = Bounds::DEFAULT.cwnd(u64::from(flow.init_cwnd), flow.mss);
        Spine { flow, growth, starting: true, cwnd, ssthresh: cwnd }
    }

    fn deploy([thr, lat, tol, loss]: [f64; 4], out: &mut Commands) {
        let fixed = |value: f64| (value * ONE).round() as u32;
        out.set(control::ALPHA_THR, fixed(thr))
            .set(control::ALPHA_LAT, fixed(lat))
            .set(control::ALPHA_TOL, fixed(tol))
            .set(control::ALPHA_LOSS, fixed(loss));
    }

    /// Reno's parameters at the window in force.
    fn deploy_rule(&self, out: &mut Commands) {
        let reno = f64::from(self.flow.mss) / f64::from(self.cwnd.max(1));
        let growth = if self.cwnd < self.ssthresh { SLOW_START } else { reno };
        // Beyond the largest delay that can be tolerated the window stands still.
        Spine::deploy([growth, 0.0, LARGEST[2], RENO_BETA], out);
    }
}

impl Drive for Spine {
    fn program(&self) -> &'static Program {
        &spine::PROGRAM
    }

    fn start(&mut self, interval_us: u32, out: &mut Commands) {
        out.run(&spine::PROGRAM)
            .cwnd(self.cwnd)
            .set(control::MSS, self.flow.mss)
            .set(control::INTERVAL_US, interval_us);
        Spine::deploy([self.growth, 0.0, LARGEST[2], RENO_BETA], out);
    }

    fn read(&self, values: &[u64]) -> Option<Sample> {
        spine::Report::read(values).map(Sample::from)
    }

    fn set_interval(&mut self, us: u32, out: &mut Commands) {
        out.set(control::INTERVAL_US, us);
    }

    fn on_report(&mut self, _now: Time, sample: &Sample, measured: &Measured, _out: &mut Commands) {
        self.cwnd = Bounds::DEFAULT.cwnd(sample.cwnd.unwrap_or(0), self.flow.mss);
        if self.starting && start_up_is_over(sample, measured) {
            self.starting = false;
        }
    }

    fn is_starting(&self) -> bool {
        self.starting
    }

    fn in_force(&self, measured: &Measured) -> (Rate, u64) {
        (rate_of(self.cwnd, measured.srtt().unwrap_or(FIRST_INTERVAL)), u64::from(self.cwnd))
    }

    fn apply(&mut self, decision: &Decision, ceiling: Rate, measured: &Measured, out: &mut Commands) {
        let Decision::Parameters(values) = decision else { return };
        let Ok(values) = <[f64; 4]>::try_from(values.as_slice()) else { return };
        let mut bounded = values;
        for (value, largest) in bounded.iter_mut().zip(LARGEST) {
            *value = value.clamp(0.0, largest);
        }
        Spine::deploy(bounded, out);
        let highest = ceiling.bytes_in(measured.srtt().unwrap_or(FIRST_INTERVAL)) as u64;
        if u64::from(self.cwnd) > highest {
            self.cwnd = Bounds::DEFAULT.cwnd(highest, self.flow.mss);
            out.cwnd(self.cwnd);
        }
    }

    fn yield_to_rule(
        &mut self,
        _now: Time,
        cwnd: u32,
        timeout: bool,
        _measured: &Measured,
        out: &mut Commands,
    ) {
        self.ssthresh = cwnd;
        let cwnd = if timeout { Bounds::DEFAULT.cwnd(0, self.flow.mss) } else { cwnd };
        if cwnd < self.cwnd {
            self.cwnd = cwnd;
            out.cwnd(cwnd);
        }
        self.deploy_rule(out);
    }

    fn follow_rule(&mut self, _now: Time, sample: &Sample, _measured: &Measured, out: &mut Commands) {
        let least = Bounds::DEFAULT.cwnd(0, self.flow.mss);
        if sample.timeout {
            // Another one before the window grew is the same congestion (RFC 5681 §3.1).
            if self.cwnd > least {
                self.ssthresh = self.cwnd / 2;
            }
            self.cwnd = least;
            out.cwnd(least);
        } else if sample.lost > 0 {
            self.ssthresh = self.cwnd;
        }
        self.deploy_rule(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: FlowInfo = FlowInfo { mss: 1000, init_cwnd: 10_000 };

    fn fields(out: &Commands) -> Vec<(&'static str, u32)> {
        out.fields().iter().map(|&(register, value)| (register.name, value)).collect()
    }

    #[test]
    fn parameters_are_deployed_in_fixed_point_within_their_bounds() {
        let (mut spine, mut out) = (Spine::new(FLOW, 0.1), Commands::default());
        let values = vec![0.25, -1.0, f64::INFINITY, 0.5];
        let ceiling = Rate::from_bytes_per_s(1e9);
        spine.apply(&Decision::Parameters(values), ceiling, &Measured::new(FLOW.mss), &mut out);
        let wanted =
            [("alpha_thr", 16_384), ("alpha_lat", 0), ("alpha_tol", 131_072), ("alpha_loss", 32_768)];
        assert_eq!(fields(&out), wanted);
    }

    #[test]
    fn the_rule_is_reno() {
        let (mut spine, mut out) = (Spine::new(FLOW, 0.1), Commands::default());
        spine.cwnd = 100_000;
        spine.yield_to_rule(Time::ZERO, 50_000, false, &Measured::new(FLOW.mss), &mut out);
        // One packet in fifty, and a half on a loss.
        assert_eq!(fields(&out)[..2], [("Cwnd", 50_000), ("alpha_thr", 1_311)]);
        assert_eq!(fields(&out)[4], ("alpha_loss", 32_768));
        out.clear();
        let timeout = Sample { timeout: true, ..Sample::default() };
        spine.follow_rule(Time::ZERO, &timeout, &Measured::new(FLOW.mss), &mut out);
        assert_eq!(fields(&out)[..2], [("Cwnd", 2_000), ("alpha_thr", 65_536)]);
    }
}
