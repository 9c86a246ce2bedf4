//! Orca's actuator: CUBIC moves the window per ACK (`orca.ccp`), the policy multiplies it at each decision.
//!
//! Abbasloo et al., *Classic Meets Modern: A Pragmatic Learning-Based Congestion Control for the Internet*,
//! SIGCOMM 2020, and its released code. Until the first loss the window grows by a tenth at each decision,
//! on top of slow start, while it is in use, and the policy only watches. CUBIC alone is the rule.
//!
//! Deviations: start-up also ends when the round-trip time has doubled, since a window of two
//! bandwidth-delay products has found the path's rate, whatever the size of its buffer; a window that the
//! policy has chosen is left to congestion avoidance and not to slow start, which in Linux a threshold from
//! long ago may bring back. As in Linux, CUBIC's clock goes on when the policy sets the window; with
//! `rebase` = 1 an epoch begins there instead.

use super::{Actuator, FIRST_INTERVAL, PACING_GAIN, rate_of, start_up_is_over};
use crate::learned::monitor::Monitor;
use crate::learned::report::{Reader, Sample};
use crate::offload::cubic::{Epoch, Grown, Growth, Next};
use crate::{Commands, FlowInfo, Report};
use anole_laws::cubic::Params as CubicParams;
use anole_model::{Bounds, Rate, Time};
use anole_policies::Decision;
use anole_programs::orca::{self, control};

/// Growth at each decision in start-up (released code).
const STEP_UP: f64 = 1.1;

/// CUBIC's window, multiplied.
pub(in crate::learned) struct Orca {
    flow: FlowInfo,
    reader: Reader,
    rebase: bool,
    starting: bool,
    /// In force at the last report or command, bytes.
    cwnd: u32,
    /// More than half of the window was in flight at the last report.
    used: bool,
    growth: Growth,
}

impl Orca {
    /// Slow start from the initial window. With `rebase` an epoch begins at each decision.
    pub fn new(flow: FlowInfo, rebase: bool) -> Orca {
        let cwnd = Bounds::DEFAULT.cwnd(u64::from(flow.init_cwnd), flow.mss);
        let (reader, growth) = (Reader::new(&orca::PROGRAM), Growth::new(flow, CubicParams::default()));
        Orca { flow, reader, rebase, starting: true, cwnd, used: true, growth }
    }

    /// The window that sends at `ceiling`, bytes.
    fn highest(ceiling: Rate, monitor: &Monitor) -> f64 {
        ceiling.bytes_in(monitor.srtt().unwrap_or(FIRST_INTERVAL))
    }

    fn begin(&mut self, epoch: Epoch, out: &mut Commands) {
        self.cwnd = epoch.cwnd;
        out.cwnd(epoch.cwnd)
            .set(control::SSTHRESH, epoch.ssthresh)
            .set(control::W_MAX, epoch.w_max)
            .set(control::K_MS, epoch.k_ms)
            .set(control::PRIOR, epoch.prior)
            .set(control::DIVISOR, 1)
            .set(control::FRESH, 1);
    }
}

impl Actuator for Orca {
    fn start(&mut self, interval_us: u32, out: &mut Commands) {
        out.run(&orca::PROGRAM)
            .cwnd(self.cwnd)
            .set(control::MSS, self.flow.mss)
            .set(control::C_MSS_10, self.growth.c_mss_10())
            .set(control::INTERVAL_US, interval_us);
    }

    fn read(&mut self, now: Time, report: &Report<'_>) -> Option<Sample> {
        self.reader.read(now, report)
    }

    fn set_interval(&mut self, us: u32, out: &mut Commands) {
        out.set(control::INTERVAL_US, us);
    }

    fn on_report(&mut self, now: Time, sample: &Sample, monitor: &Monitor, out: &mut Commands) {
        let cwnd = sample.cwnd.unwrap_or(0);
        self.cwnd = Bounds::DEFAULT.cwnd(cwnd, self.flow.mss);
        self.used = sample.inflight.saturating_add(u64::from(self.flow.mss)) >= cwnd / 2;
        let grown = Grown {
            lost: sample.lost,
            timeout: sample.timeout,
            cwnd,
            rtt_us: sample.rtt_us,
            min_rtt_us: sample.min_rtt_us,
            acked: sample.acked,
        };
        match self.growth.on_report(now, &grown) {
            Next::Epoch(epoch) => self.begin(epoch, out),
            Next::SlowStart(divisor) => {
                out.set(control::DIVISOR, divisor);
            }
            Next::Same => {}
        }
        if self.starting && start_up_is_over(sample, monitor) {
            self.starting = false;
        }
    }

    fn is_starting(&self) -> bool {
        self.starting
    }

    fn step_up(&mut self, ceiling: Rate, monitor: &Monitor, out: &mut Commands) {
        let stepped = (f64::from(self.cwnd) * STEP_UP).min(Orca::highest(ceiling, monitor)) as u64;
        if self.used && stepped > u64::from(self.cwnd) {
            self.cwnd = Bounds::DEFAULT.cwnd(stepped, self.flow.mss);
            out.cwnd(self.cwnd);
        }
    }

    fn in_force(&self, monitor: &Monitor) -> (Rate, u64) {
        // The released features hold the pacing rate.
        let srtt = monitor.srtt().unwrap_or(FIRST_INTERVAL);
        (rate_of(self.cwnd, srtt) * PACING_GAIN, u64::from(self.cwnd))
    }

    fn apply(&mut self, decision: &Decision, ceiling: Rate, monitor: &Monitor, out: &mut Commands) {
        let Decision::Cwnd(bytes) = *decision else { return };
        self.cwnd = Bounds::DEFAULT.cwnd(bytes.min(Orca::highest(ceiling, monitor)) as u64, self.flow.mss);
        if self.rebase {
            let epoch = self.growth.restart(u64::from(self.cwnd));
            self.begin(epoch, out);
        } else {
            out.cwnd(self.cwnd).set(control::FRIENDLY, self.cwnd).set(control::SSTHRESH, self.cwnd);
        }
    }

    fn yield_to_rule(
        &mut self,
        _now: Time,
        cwnd: u32,
        timeout: bool,
        _monitor: &Monitor,
        out: &mut Commands,
    ) {
        // CUBIC has answered the timeout itself.
        if !timeout && cwnd < self.cwnd {
            let epoch = self.growth.restart(u64::from(cwnd));
            self.begin(epoch, out);
        }
    }

    fn follow_rule(&mut self, _now: Time, _sample: &Sample, _monitor: &Monitor, _out: &mut Commands) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: FlowInfo = FlowInfo { mss: 1000, init_cwnd: 10_000 };

    fn field(out: &Commands, name: &str) -> Option<u32> {
        out.fields().iter().find(|(r, _)| r.name == name).map(|&(_, value)| value)
    }

    fn report(orca: &mut Orca, lost: u64, cwnd: u64) -> Commands {
        let mut out = Commands::default();
        let sample = Sample {
            lost,
            cwnd: Some(cwnd),
            inflight: cwnd,
            rtt_us: 50_000,
            min_rtt_us: 50_000,
            ..Sample::default()
        };
        orca.on_report(Time::from_micros(1_000_000), &sample, &Monitor::new(FLOW.mss), &mut out);
        out
    }

    #[test]
    fn start_up_steps_up_until_the_first_loss_and_cubic_takes_the_decrease() {
        let (mut orca, mut out) = (Orca::new(FLOW, false), Commands::default());
        report(&mut orca, 0, 20_000);
        orca.step_up(Rate::from_bytes_per_s(1e9), &Monitor::new(FLOW.mss), &mut out);
        assert_eq!((field(&out, "Cwnd"), orca.is_starting()), (Some(22_000), true));
        let out = report(&mut orca, 1, 100_000);
        assert_eq!((field(&out, "Cwnd"), field(&out, "fresh")), (Some(70_000), Some(1)));
        assert!(!orca.is_starting());
    }

    #[test]
    fn start_up_steps_neither_beyond_what_is_used_nor_beyond_the_ceiling() {
        let stepped = |inflight, ceiling| {
            let (mut orca, mut out) = (Orca::new(FLOW, false), Commands::default());
            let monitor = Monitor::new(FLOW.mss);
            let sample = Sample { cwnd: Some(20_000), inflight, ..Sample::default() };
            orca.on_report(Time::ZERO, &sample, &monitor, &mut Commands::default());
            orca.step_up(Rate::from_bytes_in(ceiling, FIRST_INTERVAL), &monitor, &mut out);
            field(&out, "Cwnd")
        };
        assert_eq!(stepped(9_000, 40_000), Some(22_000));
        assert_eq!(stepped(8_000, 40_000), None);
        assert_eq!(stepped(20_000, 21_000), Some(21_000));
        assert_eq!(stepped(20_000, 10_000), None);
    }

    #[test]
    fn an_action_moves_the_window_and_leaves_cubics_clock_unless_asked() {
        for rebase in [false, true] {
            let (mut orca, mut out) = (Orca::new(FLOW, rebase), Commands::default());
            report(&mut orca, 1, 100_000);
            let decision = Decision::Cwnd(35_000.0);
            let ceiling = Rate::from_bytes_per_s(1e9);
            orca.apply(&decision, ceiling, &Monitor::new(FLOW.mss), &mut out);
            assert_eq!(field(&out, "Cwnd"), Some(35_000));
            // With an epoch of its own, the program begins its estimate of Reno there.
            assert_eq!(field(&out, "friendly"), (!rebase).then_some(35_000));
            assert_eq!(field(&out, "ssthresh"), Some(35_000));
            assert_eq!(field(&out, "fresh"), rebase.then_some(1));
        }
    }
}
