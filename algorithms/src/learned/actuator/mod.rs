//! Actuators: how a policy's decisions, and the rule in its place, take effect through a fold program.
//!
//! | action | program | actuator |
//! |---|---|---|
//! | a rate or a window | `rate-hold` | [`Hold`] |
//! | a factor on CUBIC's window | `orca` | [`Orca`] |
//! | registers of a fold program | the one that the schema names | [`Parameters`] |

mod hold;
mod orca;
mod parameters;

pub(super) use hold::Hold;
pub(super) use orca::Orca;
pub(super) use parameters::{Parameters, Setting};

use super::monitor::Monitor;
use super::report::Sample;
use crate::{Commands, Report};
use anole_model::{Dur, Rate, Time};
use anole_policies::Decision;

/// Before the first round-trip time it is taken to be this.
pub(super) const FIRST_INTERVAL: Dur = Dur::from_millis(100);
/// Pacing rate over window per round-trip time (Linux, tcp_pacing_ca_ratio).
const PACING_GAIN: f64 = 1.2;
/// Round-trip time over the smallest one at which start-up ends without a loss.
const FULL_RTT_RATIO: u64 = 2;

/// What a window sends per round trip.
pub(super) fn rate_of(cwnd: u32, srtt: Dur) -> Rate {
    Rate::from_bytes_in(u64::from(cwnd), srtt)
}

/// True when the last loss, or a queue as long as the path, says that a start-up has found its rate.
fn start_up_is_over(sample: &Sample, monitor: &Monitor) -> bool {
    let full = match (monitor.srtt(), monitor.min_rtt()) {
        (Some(srtt), Some(min_rtt)) => srtt >= min_rtt * FULL_RTT_RATIO,
        _ => false,
    };
    full || sample.lost > 0 || sample.timeout
}

/// Puts one kind of action into effect and, while the rule governs, the rule.
pub(super) trait Actuator: Send {
    /// The flow begins; the first report is wanted after `interval_us`.
    fn start(&mut self, interval_us: u32, out: &mut Commands);

    /// Reads a report; `None` when it is not one of the program that runs now.
    fn read(&mut self, now: Time, report: &Report<'_>) -> Option<Sample>;

    /// The next report is wanted after `us`.
    fn set_interval(&mut self, us: u32, out: &mut Commands);

    /// The first round-trip time was measured.
    fn on_first_rtt(&mut self, _srtt: Dur, _out: &mut Commands) {}

    /// At every report, whoever governs.
    fn on_report(&mut self, _now: Time, _sample: &Sample, _monitor: &Monitor, _out: &mut Commands) {}

    /// True during a start-up of the actuator's own, in which the policy only watches.
    fn is_starting(&self) -> bool {
        false
    }

    /// At each decision during start-up, to a rate of `ceiling` at most.
    fn step_up(&mut self, _ceiling: Rate, _monitor: &Monitor, _out: &mut Commands) {}

    /// The sending rate and the window, bytes, in force.
    fn in_force(&self, monitor: &Monitor) -> (Rate, u64);

    /// Puts a decision into effect, with a rate of `ceiling` or what it sends per round trip at most.
    fn apply(&mut self, decision: &Decision, ceiling: Rate, monitor: &Monitor, out: &mut Commands);

    /// The rule takes over, from a window of `cwnd` bytes.
    fn yield_to_rule(&mut self, now: Time, cwnd: u32, timeout: bool, monitor: &Monitor, out: &mut Commands);

    /// A report while the rule governs.
    fn follow_rule(&mut self, now: Time, sample: &Sample, monitor: &Monitor, out: &mut Commands);
}
