//! PCC, performance-oriented congestion control: a flow tries rates and goes by the utility of what came back, with no model of
//! the path. [`allegro`] decides by randomised trials, [`vivace`] climbs the gradient of its utility.
//!
//! They share the monitor intervals (`monitor`), the climb that goes on until the utility falls (`Climb`: starting, and
//! Allegro's rate adjusting), and how a rate is put into effect (`Pace`).

pub mod allegro;
mod monitor;
pub mod vivace;

use crate::bbr::NOMINAL_RTT;
use crate::{Control, Feedback, FlowStart};
use anole_model::{Bounds, Dur, Rate};
use monitor::Outcome;

/// Reports per round trip: an interval's ACKs are told from those of its neighbours to an eighth.
const REPORTS_PER_RTT: u32 = 8;
/// No interval is shorter: reports come a millisecond apart at least.
const SHORTEST: Dur = Dur::from_millis(4);
/// An interval has at least so many packets (Allegro §3.1).
const INTERVAL_PACKETS: u64 = 10;
/// The window over rate times round-trip time: room for a rate that has doubled.
const CWND_GAIN: f64 = 2.0;
/// No round-trip time is longer.
const LONGEST_RTT: Dur = Dur::from_millis(60_000);
/// The share of packets lost from which on a rate is no experiment any more.
const OVERLOAD: f64 = 0.2;
/// What a timeout leaves of the rate (chosen: the papers ignore timeouts).
const TIMEOUT_KEPT: f64 = 0.5;

/// The rate in force, and the window that carries it.
#[derive(Clone, Debug)]
struct Pace {
    flow: FlowStart,
    /// `None` before the first round-trip time.
    rate: Option<Rate>,
    rtt: Option<Dur>,
}

impl Pace {
    fn new(flow: FlowStart) -> Pace {
        Pace { flow, rate: None, rtt: None }
    }

    /// Takes the latest round-trip time; the first makes a rate of the initial window.
    fn saw(&mut self, seen: &Feedback) {
        let Some(rtt) = seen.rtt.filter(|rtt| !rtt.is_zero() && *rtt <= LONGEST_RTT) else { return };
        self.rtt = Some(rtt);
        if self.rate.is_none() {
            self.set(Rate::from_bytes_in(u64::from(self.flow.init_cwnd), rtt));
        }
    }

    fn rtt(&self) -> Dur {
        self.rtt.unwrap_or(NOMINAL_RTT)
    }

    /// Sets the rate, within bounds, and returns what is in force.
    fn set(&mut self, rate: Rate) -> Rate {
        let two_packets = Rate::from_bytes_in(2 * u64::from(self.flow.mss), self.rtt());
        let rate = Bounds::DEFAULT.clamp(rate.max(two_packets));
        self.rate = Some(rate);
        rate
    }

    /// What a timeout leaves of the rate.
    fn half(&self) -> Rate {
        self.rate.unwrap_or(Rate::ZERO) * TIMEOUT_KEPT
    }

    /// The length of an interval of so many round trips.
    fn interval(&self, rate: Rate, rtts: f64) -> Dur {
        let packets = INTERVAL_PACKETS as f64 * f64::from(self.flow.mss);
        self.rtt().mul_f64(rtts).max(SHORTEST).max(Dur::from_secs_f64(packets / rate.bytes_per_s()))
    }

    fn control(&self) -> Control {
        let initial = u64::from(self.flow.init_cwnd).max(1);
        match self.rate {
            None => Control::window(initial),
            Some(rate) => {
                let carries = (CWND_GAIN * rate.bytes_in(self.rtt())) as u64;
                let packets = INTERVAL_PACKETS * u64::from(self.flow.mss);
                Control { cwnd: carries.saturating_add(packets), rate: Some(rate) }
            }
        }
    }
}

impl Outcome {
    /// What came back, where much was lost: the rate to go on from at once. (Ours: the papers step down from there as
    /// from anywhere.)
    fn overload(&self) -> Option<Rate> {
        (self.loss > OVERLOAD).then_some(self.throughput)
    }

    /// The rate to leave starting with: what came back of a rate that had doubled past the capacity already.
    fn carried(&self) -> Rate {
        self.rate.min(self.throughput)
    }
}

/// Rates that go one way as long as the utility rises.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Climb {
    /// The last rate's outcome and utility.
    last: Option<(Outcome, f64)>,
}

impl Climb {
    /// Takes the next outcome. That of the rate before, when this one's utility is lower.
    fn judge(&mut self, outcome: Outcome, utility: f64) -> Option<Outcome> {
        let before = self.last.replace((outcome, utility));
        before.filter(|&(_, known)| utility < known).map(|(outcome, _)| outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_climb_ends_with_the_rate_before_the_first_fall() {
        let mut climb = Climb::default();
        let mut judge = |mbps: f64, utility: f64| {
            climb
                .judge(Outcome { rate: Rate::from_mbps(mbps), ..Outcome::default() }, utility)
                .map(|best| best.rate)
        };
        assert_eq!(
            [judge(1.0, 1.0), judge(2.0, 2.0), judge(4.0, 1.5)],
            [None, None, Some(Rate::from_mbps(2.0))]
        );
    }
}
