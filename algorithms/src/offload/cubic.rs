//! CUBIC (RFC 9438) over the `cubic` program: the window grows per ACK in the datapath, which evaluates
//! W(t) = C·(t − K)³ + W_max; the decreases are taken here.
//!
//! On a loss, once per congestion event (RFC 9438 §4.6, 4.7):
//!   W_max = cwnd, or cwnd·(1 + β)/2 when it lies below the W_max before (fast convergence)
//!   cwnd = ssthresh = β·cwnd, K = ∛((W_max − cwnd)/C)
//! Slow start ends without a loss when the smallest round-trip time of a round has risen by an eighth
//! (HyStart, RFC 9406 §4.2; its conservative phase is left out, as in Linux).
//!
//! Deviations: the losses that belong to a decrease already made are told by time, (2 − β) round trips; no window is
//! restored after a spurious loss; no pacing rate is set, so the transport paces by the window.

use super::{AVOIDANCE_INTERVAL_US, FIRST_INTERVAL};
use crate::{Algorithm, Build, BuildError, Commands, FlowInfo, Report, Spec};
use anole_laws::parameters;
use anole_model::{Bounds, Dur, Time};
use anole_programs::cubic::{self, control};

parameters! {
    /// What a user may change.
    struct Params {
        beta = 0.7, 0.1..=0.95, "What is left of the window after a loss (RFC 9438 §4.6).";
        fast_convergence = 1.0, 0.0..=1.0, "1: leave room for newer flows by a smaller W_max (RFC 9438 §4.7).";
        hystart = 1.0, 0.0..=1.0, "1: leave slow start when the round-trip time rises (RFC 9406 §4.2).";
    }
}

/// CUBIC in the registry.
pub(crate) const SPEC: Spec = Spec {
    name: "cubic",
    kind: "rule",
    summary: "Cubic growth around the window of the last loss: the default of Linux",
    programs: &[&cubic::PROGRAM],
    parameters: Params::PARAMETERS,
    source: "RFC 9438",
    build,
};

/// Steepness of the cubic, segments/s³ (RFC 9438 §5.1); the program has the same figure.
const C: f64 = 0.4;
/// Smallest window after a loss, segments (RFC 9438 §4.6).
const MIN_CWND_PACKETS: u64 = 2;
/// The rise that ends slow start is the round-trip time over this … (RFC 9406 §4.3, RTT_DIVISOR).
const HYSTART_DIVISOR: u64 = 8;
/// … within these bounds (RFC 9406 §4.3, MIN_RTT_THRESH and MAX_RTT_THRESH).
const HYSTART_RISE_US: core::ops::RangeInclusive<u64> = 4_000..=16_000;
/// While slow start grows the window, reports come once per round trip, but no faster than the least rise can show
/// itself.
const MIN_INTERVAL_US: u64 = *HYSTART_RISE_US.start();
/// Windows below this leave slow start by loss only, segments (as in Linux, hystart_low_window).
const HYSTART_LOW_PACKETS: u64 = 16;

fn build(what: &Build) -> Result<Box<dyn Algorithm>, BuildError> {
    Ok(Box::new(Cubic::new(what.flow, Params::with(&what.params)?)))
}

struct Cubic {
    flow: FlowInfo,
    decreases: Decreases,
    /// The window at the last report, bytes.
    cwnd: u64,
}

impl Cubic {
    fn new(flow: FlowInfo, params: Params) -> Cubic {
        Cubic { flow, decreases: Decreases::new(flow.mss, params), cwnd: 0 }
    }
}

impl Algorithm for Cubic {
    fn start(&mut self, _now: Time, out: &mut Commands) {
        out.run(&cubic::PROGRAM)
            .cwnd(Bounds::DEFAULT.cwnd(u64::from(self.flow.init_cwnd), self.flow.mss))
            .set(control::MSS, self.flow.mss)
            .set(control::INTERVAL_US, FIRST_INTERVAL.as_micros() as u32);
    }

    fn on_report(&mut self, now: Time, report: &Report<'_>, out: &mut Commands) {
        if report.program.name != cubic::PROGRAM.name {
            return;
        }
        let Some(seen) = cubic::Report::read(report.values) else { return };
        let growth = Growth {
            lost: seen.lost,
            timeout: seen.timeout > 0,
            cwnd: seen.cwnd,
            rtt_us: seen.rtt_us,
            min_rtt_us: seen.min_rtt_us,
        };
        if let Some(epoch) = self.decreases.on_report(now, &growth) {
            out.cwnd(epoch.cwnd)
                .set(control::SSTHRESH, epoch.ssthresh)
                .set(control::W_MAX, epoch.w_max)
                .set(control::K_MS, epoch.k_ms)
                .set(control::FRIENDLY, epoch.cwnd)
                .set(control::FRESH, 1);
        }
        // Every report is answered: the datapath takes silence for the agent's death.
        let doubles = self.decreases.in_slow_start(seen.cwnd) && seen.cwnd > self.cwnd;
        self.cwnd = seen.cwnd;
        let least = if doubles { MIN_INTERVAL_US } else { AVOIDANCE_INTERVAL_US };
        out.set(control::INTERVAL_US, seen.rtt_us.clamp(least, 1_000_000) as u32);
    }
}

/// What a report told of a window that grows in the datapath.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Growth {
    /// Packets found lost.
    pub lost: u64,
    /// A retransmission timeout happened.
    pub timeout: bool,
    /// The window reached, bytes.
    pub cwnd: u64,
    /// Last round-trip time.
    pub rtt_us: u64,
    /// Smallest round-trip time of late; `u64::MAX` (or the datapath's infinity) without a sample.
    pub min_rtt_us: u64,
}

/// An epoch of the cubic that begins: windows in bytes, within their bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch {
    /// Where it begins.
    pub cwnd: u32,
    /// Slow-start threshold.
    pub ssthresh: u32,
    /// Where it heads for.
    pub w_max: u32,
    /// The time until it gets there, ms.
    pub k_ms: u32,
}

/// The decreases of CUBIC, for any program that grows a window as `cubic` does.
pub(crate) struct Decreases {
    mss: u32,
    params: Params,
    ssthresh: u64,
    w_max: u64,
    min_rtt_us: u64,
    /// Losses found before this time belong to the decrease already made.
    recovery_until: Time,
}

impl Decreases {
    /// Those of a new flow, with the RFC's parameters.
    pub(crate) fn standard(mss: u32) -> Decreases {
        Decreases::new(mss, Params::default())
    }

    /// True while a window of `cwnd` bytes grows exponentially.
    fn in_slow_start(&self, cwnd: u64) -> bool {
        cwnd < self.ssthresh
    }

    fn new(mss: u32, params: Params) -> Decreases {
        let (ssthresh, w_max, min_rtt_us) = (u64::MAX, 0, u64::MAX);
        Decreases { mss: mss.max(1), params, ssthresh, w_max, min_rtt_us, recovery_until: Time::ZERO }
    }

    /// The epoch that begins with this report, if one does.
    pub(crate) fn on_report(&mut self, now: Time, seen: &Growth) -> Option<Epoch> {
        self.min_rtt_us = self.min_rtt_us.min(seen.min_rtt_us.max(1));
        if seen.timeout {
            // Another one before the window grew is the same congestion (RFC 5681 §3.1).
            if seen.cwnd > MIN_CWND_PACKETS * self.mss() {
                self.decrease(now, seen.cwnd, seen.rtt_us);
            }
            Some(self.begin_epoch(self.mss()))
        } else if seen.lost > 0 {
            (now >= self.recovery_until).then(|| {
                let cwnd = self.decrease(now, seen.cwnd, seen.rtt_us);
                self.begin_epoch(cwnd)
            })
        } else if self.slow_start_is_over(seen) {
            Some(self.restart(seen.cwnd))
        } else {
            None
        }
    }

    /// Goes on from `cwnd` bytes in congestion avoidance: an epoch that is flat there.
    pub(crate) fn restart(&mut self, cwnd: u64) -> Epoch {
        self.ssthresh = cwnd;
        self.w_max = cwnd;
        self.begin_epoch(cwnd)
    }

    fn mss(&self) -> u64 {
        u64::from(self.mss)
    }

    /// The epoch that begins at `cwnd` bytes and heads for `w_max`.
    fn begin_epoch(&self, cwnd: u64) -> Epoch {
        let segments = self.w_max.saturating_sub(cwnd) as f64 / self.mss() as f64;
        let k_s = (segments / C).cbrt();
        let bounded = |bytes| Bounds::DEFAULT.cwnd(bytes, self.mss);
        Epoch {
            cwnd: bounded(cwnd),
            ssthresh: bounded(self.ssthresh),
            w_max: bounded(self.w_max),
            k_ms: (k_s * 1e3).round() as u32,
        }
    }

    /// Remembers the window of a loss and returns what is left of it.
    fn decrease(&mut self, now: Time, cwnd: u64, rtt_us: u64) -> u64 {
        let beta = self.params.beta;
        // A sender that drops to β·cwnd is silent for (1 − β) of a round trip, so the last loss of the old
        // window shows after (2 − β) of one.
        self.recovery_until = now + Dur::from_micros(rtt_us).mul_f64(2.0 - beta);
        let converge = self.params.fast_convergence > 0.5 && cwnd < self.w_max;
        self.w_max = if converge { (cwnd as f64 * (1.0 + beta) / 2.0) as u64 } else { cwnd };
        self.ssthresh = ((cwnd as f64 * beta) as u64).max(MIN_CWND_PACKETS * self.mss());
        self.ssthresh
    }

    fn slow_start_is_over(&self, seen: &Growth) -> bool {
        let rise =
            (self.min_rtt_us / HYSTART_DIVISOR).clamp(*HYSTART_RISE_US.start(), *HYSTART_RISE_US.end());
        self.params.hystart > 0.5
            && seen.cwnd < self.ssthresh
            && seen.cwnd >= HYSTART_LOW_PACKETS * self.mss()
            && seen.min_rtt_us != u64::MAX
            && seen.min_rtt_us > self.min_rtt_us.saturating_add(rise)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: FlowInfo = FlowInfo { mss: 1000, init_cwnd: 10_000 };

    fn answer(
        cubic: &mut Cubic,
        at_ms: u64,
        lost: u64,
        timeout: u64,
        min_rtt_us: u64,
        cwnd: u64,
    ) -> Commands {
        let mut out = Commands::default();
        let values = [1000, lost, timeout, min_rtt_us, min_rtt_us, cwnd];
        let report = Report { program: &cubic::PROGRAM, values: &values };
        cubic.on_report(Time::from_micros(at_ms * 1000), &report, &mut out);
        out
    }

    fn field(out: &Commands, name: &str) -> Option<u32> {
        out.fields().iter().find(|(r, _)| r.name == name).map(|&(_, value)| value)
    }

    #[test]
    fn a_loss_begins_an_epoch_with_the_k_of_the_rfc() {
        let mut cubic = Cubic::new(FLOW, Params::default());
        let out = answer(&mut cubic, 100, 1, 0, 50_000, 100_000);
        assert_eq!(field(&out, "Cwnd"), Some(70_000));
        assert_eq!(field(&out, "w_max"), Some(100_000));
        // ∛(30 segments / 0.4) = 4.217 s
        assert_eq!(field(&out, "k_ms"), Some(4217));
        assert_eq!(field(&out, "fresh"), Some(1));
    }

    #[test]
    fn one_decrease_per_round_trip_and_fast_convergence_after() {
        let mut cubic = Cubic::new(FLOW, Params::default());
        answer(&mut cubic, 100, 1, 0, 50_000, 100_000);
        assert_eq!(field(&answer(&mut cubic, 164, 1, 0, 50_000, 70_000), "Cwnd"), None);
        let out = answer(&mut cubic, 165, 1, 0, 50_000, 80_000);
        assert_eq!((field(&out, "Cwnd"), field(&out, "w_max")), (Some(56_000), Some(68_000)));
    }

    #[test]
    fn a_window_that_does_not_grow_is_reported_seldom() {
        let mut cubic = Cubic::new(FLOW, Params::default());
        let mut interval = |cwnd| field(&answer(&mut cubic, 100, 0, 0, 1_000, cwnd), "interval_us");
        assert_eq!([interval(10_000), interval(20_000), interval(20_000)], [4_000, 4_000, 200_000].map(Some));
    }

    #[test]
    fn a_timeout_falls_back_to_the_smallest_window() {
        let mut cubic = Cubic::new(FLOW, Params::default());
        let out = answer(&mut cubic, 100, 0, 1, 50_000, 100_000);
        assert_eq!((field(&out, "Cwnd"), field(&out, "ssthresh")), (Some(2000), Some(70_000)));
    }

    #[test]
    fn timeouts_in_a_row_are_one_congestion() {
        let mut cubic = Cubic::new(FLOW, Params::default());
        answer(&mut cubic, 100, 0, 1, 50_000, 100_000);
        let out = answer(&mut cubic, 500, 0, 1, 50_000, 2_000);
        assert_eq!((field(&out, "Cwnd"), field(&out, "ssthresh")), (Some(2000), Some(70_000)));
    }

    #[test]
    fn a_rise_of_an_eighth_ends_slow_start() {
        let mut cubic = Cubic::new(FLOW, Params::default());
        assert_eq!(field(&answer(&mut cubic, 100, 0, 0, 50_000, 40_000), "ssthresh"), None);
        assert_eq!(field(&answer(&mut cubic, 150, 0, 0, 56_000, 80_000), "ssthresh"), None);
        assert_eq!(field(&answer(&mut cubic, 200, 0, 0, 56_300, 90_000), "ssthresh"), Some(90_000));
        assert_eq!(field(&answer(&mut cubic, 250, 0, 0, 60_000, 91_000), "ssthresh"), None);
    }
}
