//! CUBIC over the `cubic` program: the window grows per ACK in the datapath, which evaluates
//! W(t) = C·(t − K)³ + W_max; the decreases and the end of slow start are the law's.
//!
//! Deviations from the law: the program's Reno-friendly α is that of β = 0.7, whatever β is; the window grows during the
//! round trip after a decrease.

use super::{AVOIDANCE_INTERVAL_US, FIRST_INTERVAL};
use crate::{Algorithm, Build, BuildError, Commands, FlowInfo, Report, Spec};
use anole_laws::cubic::{self as law, Params};
use anole_model::{Bounds, Dur, Time};
use anole_programs::cubic::{self, control};

/// CUBIC in the registry.
pub(crate) const SPEC: Spec = Spec {
    name: law::SPEC.name,
    kind: "rule",
    summary: law::SPEC.summary,
    programs: &[&cubic::PROGRAM],
    parameters: law::SPEC.parameters,
    source: law::SPEC.source,
    takes_classic: false,
    takes_policy: false,
    builder: &build,
};

/// While slow start grows the window, this many reports come per round trip, so that its end is seen in time …
const SLOW_START_REPORTS: u64 = 4;
/// … but no faster than the least rise that ends it can show itself (RFC 9406 §4.3, MIN_RTT_THRESH).
const SLOW_START_INTERVAL_US: u64 = 4_000;
/// No interval is longer.
const LONGEST_INTERVAL_US: u64 = 1_000_000;

fn build(what: &Build) -> Result<Box<dyn Algorithm>, BuildError> {
    let params = Params::with(&what.params)?;
    Ok(Box::new(Cubic::new(what.flow, params)))
}

struct Cubic {
    flow: FlowInfo,
    growth: Growth,
    /// The window at the last report, bytes.
    cwnd: u64,
}

impl Cubic {
    fn new(flow: FlowInfo, params: Params) -> Cubic {
        Cubic { flow, growth: Growth::new(flow, params), cwnd: 0 }
    }
}

impl Algorithm for Cubic {
    fn start(&mut self, _now: Time, out: &mut Commands) {
        out.run(&cubic::PROGRAM)
            .cwnd(Bounds::DEFAULT.cwnd(u64::from(self.flow.init_cwnd), self.flow.mss))
            .set(control::MSS, self.flow.mss)
            .set(control::C_MSS_10, self.growth.c_mss_10())
            .set(control::INTERVAL_US, FIRST_INTERVAL.as_micros() as u32);
    }

    fn on_report(&mut self, now: Time, report: &Report<'_>, out: &mut Commands) {
        if report.program.name != cubic::PROGRAM.name {
            return;
        }
        let Some(seen) = cubic::Report::read(report.values) else { return };
        let grown = Grown {
            lost: seen.lost,
            timeout: seen.timeout > 0,
            cwnd: seen.cwnd,
            rtt_us: seen.rtt_us,
            min_rtt_us: seen.min_rtt_us,
            acked: seen.acked,
        };
        match self.growth.on_report(now, &grown) {
            Next::Epoch(epoch) => {
                out.cwnd(epoch.cwnd)
                    .set(control::SSTHRESH, epoch.ssthresh)
                    .set(control::W_MAX, epoch.w_max)
                    .set(control::K_MS, epoch.k_ms)
                    .set(control::PRIOR, epoch.prior)
                    .set(control::DIVISOR, 1)
                    .set(control::FRESH, 1);
            }
            Next::SlowStart(divisor) => {
                out.set(control::DIVISOR, divisor);
            }
            Next::Same => {}
        }
        // Every report is answered: the datapath takes silence for the agent's death.
        let doubles = self.growth.in_slow_start(seen.cwnd) && seen.cwnd > self.cwnd;
        self.cwnd = seen.cwnd;
        let interval = match doubles {
            true => (seen.rtt_us / SLOW_START_REPORTS).max(SLOW_START_INTERVAL_US),
            false => seen.rtt_us.max(AVOIDANCE_INTERVAL_US),
        };
        out.set(control::INTERVAL_US, interval.min(LONGEST_INTERVAL_US) as u32);
    }
}

/// What a report told of a window that grows in the datapath.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grown {
    /// Packets found lost.
    pub lost: u64,
    /// A retransmission timeout happened.
    pub timeout: bool,
    /// The window reached, bytes.
    pub cwnd: u64,
    /// Last round-trip time.
    pub rtt_us: u64,
    /// Smallest round-trip time of late; the datapath's infinity without a sample.
    pub min_rtt_us: u64,
    /// Bytes acknowledged.
    pub acked: u64,
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
    /// Where the estimate of Reno begins to grow by a whole segment per window.
    pub prior: u32,
}

/// What growth in the datapath goes on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// As it does.
    Same,
    /// Slow start, with this many bytes acknowledged per byte of growth.
    SlowStart(u32),
    /// An epoch begins.
    Epoch(Epoch),
}

/// The law of a window that grows in a fold program.
pub(crate) struct Growth {
    mss: u32,
    c: f64,
    law: law::Cubic,
    /// Bytes acknowledged per byte of growth in slow start, as the program was told.
    divisor: u32,
}

impl Growth {
    /// Slow start from the initial window.
    pub fn new(flow: FlowInfo, params: Params) -> Growth {
        Growth {
            mss: flow.mss,
            c: params.c,
            law: law::Cubic::with(flow.mss, flow.init_cwnd, params),
            divisor: 1,
        }
    }

    /// C times the segment size, 1/10 bytes/s³, as the programs take it.
    pub fn c_mss_10(&self) -> u32 {
        (10.0 * self.c * f64::from(self.mss)).round() as u32
    }

    /// True while a window of `cwnd` bytes grows exponentially.
    pub fn in_slow_start(&self, cwnd: u64) -> bool {
        cwnd < self.law.epoch().ssthresh
    }

    /// Takes a report.
    pub fn on_report(&mut self, now: Time, seen: &Grown) -> Next {
        self.law.observe(seen.cwnd, seen.acked);
        let samples = seen.acked / u64::from(self.mss.max(1));
        let sane = |us: u64| us <= LONGEST_RTT_US;
        let rtt = [seen.min_rtt_us, seen.rtt_us].into_iter().find(|&us| sane(us)).unwrap_or(0);
        let slow_start_over = self.law.on_rtt(now, Dur::from_micros(rtt), samples);
        let begins = if seen.timeout {
            self.law.on_timeout(now);
            true
        } else if seen.lost > 0 {
            self.law.on_loss(now)
        } else {
            slow_start_over
        };
        let divisor = (1.0 / self.law.growth()).round() as u32;
        if begins {
            self.divisor = 1;
            Next::Epoch(self.epoch())
        } else if divisor != self.divisor {
            self.divisor = divisor;
            Next::SlowStart(divisor)
        } else {
            Next::Same
        }
    }

    /// Goes on from `cwnd` bytes in congestion avoidance: an epoch that is flat there.
    pub fn restart(&mut self, cwnd: u64) -> Epoch {
        self.law.resume_at(cwnd);
        self.epoch()
    }

    fn epoch(&self) -> Epoch {
        let epoch = self.law.epoch();
        let bounded = |bytes| Bounds::DEFAULT.cwnd(bytes, self.mss);
        Epoch {
            cwnd: bounded(epoch.cwnd),
            ssthresh: bounded(epoch.ssthresh),
            w_max: bounded(epoch.w_max),
            k_ms: (epoch.k_s * 1e3).round() as u32,
            prior: bounded(epoch.prior),
        }
    }
}

/// No round-trip time is longer, us; a larger figure is no measurement.
const LONGEST_RTT_US: u64 = 60_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: FlowInfo = FlowInfo { mss: 1000, init_cwnd: 10_000 };

    fn cubic() -> Cubic {
        Cubic::new(FLOW, Params::default())
    }

    fn answer(cubic: &mut Cubic, at_ms: u64, lost: u64, timeout: u64, rtt_us: u64, cwnd: u64) -> Commands {
        let mut out = Commands::default();
        let acked = if timeout > 0 { 0 } else { 10_000 };
        let values = [acked, lost, timeout, rtt_us, rtt_us, cwnd];
        let report = Report { program: &cubic::PROGRAM, values: &values };
        cubic.on_report(Time::from_micros(at_ms * 1000), &report, &mut out);
        out
    }

    fn field(out: &Commands, name: &str) -> Option<u32> {
        out.fields().iter().find(|(r, _)| r.name == name).map(|&(_, value)| value)
    }

    #[test]
    fn a_loss_begins_an_epoch_with_the_k_of_the_rfc() {
        let out = answer(&mut cubic(), 100, 1, 0, 50_000, 100_000);
        assert_eq!(field(&out, "Cwnd"), Some(70_000));
        assert_eq!(field(&out, "w_max"), Some(100_000));
        // ∛(30 segments / 0.4) = 4.217 s
        assert_eq!(field(&out, "k_ms"), Some(4217));
        assert_eq!(field(&out, "fresh"), Some(1));
    }

    #[test]
    fn one_decrease_per_event_and_fast_convergence_after() {
        let mut cubic = cubic();
        answer(&mut cubic, 100, 1, 0, 50_000, 100_000);
        // 1.3 round trips later.
        assert_eq!(field(&answer(&mut cubic, 164, 1, 0, 50_000, 70_000), "Cwnd"), None);
        let out = answer(&mut cubic, 165, 1, 0, 50_000, 80_000);
        assert_eq!((field(&out, "Cwnd"), field(&out, "w_max")), (Some(56_000), Some(68_000)));
    }

    #[test]
    fn a_window_that_does_not_grow_is_reported_seldom() {
        let mut cubic = cubic();
        let mut interval = |cwnd| field(&answer(&mut cubic, 100, 0, 0, 40_000, cwnd), "interval_us");
        assert_eq!(
            [interval(10_000), interval(20_000), interval(20_000)],
            [10_000, 10_000, 200_000].map(Some)
        );
    }

    #[test]
    fn after_a_timeout_slow_start_leads_to_a_flat_epoch() {
        let mut cubic = cubic();
        let out = answer(&mut cubic, 100, 0, 1, 50_000, 100_000);
        assert_eq!((field(&out, "Cwnd"), field(&out, "ssthresh")), (Some(2000), Some(70_000)));
        assert_eq!((field(&out, "w_max"), field(&out, "k_ms")), (Some(70_000), Some(0)));
    }

    #[test]
    fn timeouts_in_a_row_are_one_congestion() {
        let mut cubic = cubic();
        answer(&mut cubic, 100, 0, 1, 50_000, 100_000);
        let out = answer(&mut cubic, 900, 0, 1, 50_000, 2_000);
        assert_eq!((field(&out, "Cwnd"), field(&out, "ssthresh")), (Some(2000), Some(70_000)));
    }

    #[test]
    fn a_rise_of_an_eighth_slows_slow_start_down_and_ends_it_five_rounds_later() {
        let mut cubic = cubic();
        for (at_ms, rtt_us) in [(100, 50_000), (151, 50_000), (202, 56_000)] {
            assert_eq!(field(&answer(&mut cubic, at_ms, 0, 0, rtt_us, 40_000), "divisor"), None);
        }
        assert_eq!(field(&answer(&mut cubic, 260, 0, 0, 63_100, 80_000), "divisor"), Some(4));
        for round in 1..5 {
            let out = answer(&mut cubic, 260 + 64 * round, 0, 0, 63_100, 80_000);
            assert_eq!((field(&out, "divisor"), field(&out, "ssthresh")), (None, None));
        }
        let out = answer(&mut cubic, 260 + 64 * 5, 0, 0, 63_100, 90_000);
        assert_eq!((field(&out, "divisor"), field(&out, "ssthresh")), (Some(1), Some(90_000)));
    }
}
