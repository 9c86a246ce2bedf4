//! How a policy's decisions take effect: one implementation per fold program.

use super::measure::{Measured, Sample};
use crate::{Commands, Program};
use anole_model::{Dur, Rate, Time};
use anole_policies::Decision;

/// Before the first round-trip time it is taken to be this.
pub(super) const FIRST_INTERVAL: Dur = Dur::from_millis(100);
/// The least window while ACKs come: delayed ACKs keep flowing, as in BBR.
pub(super) const MIN_CWND_PACKETS: u64 = 4;
/// Pacing rate over window per round-trip time (Linux, tcp_pacing_ca_ratio).
pub(super) const PACING_GAIN: f64 = 1.2;

/// What a window sends per round trip.
pub(super) fn rate_of(cwnd: u32, srtt: Dur) -> Rate {
    Rate::from_bytes_in(u64::from(cwnd), srtt)
}

/// Puts decisions into effect and, while the rule governs, the rule.
pub(super) trait Drive: Send {
    /// The program.
    fn program(&self) -> &'static Program;

    /// The flow begins; the first report is wanted after `interval_us`.
    fn start(&mut self, interval_us: u32, out: &mut Commands);

    /// Reads a report of the program; `None` when the values are not its.
    fn read(&self, values: &[u64]) -> Option<Sample>;

    /// The next report is wanted after `us`.
    fn set_interval(&mut self, us: u32, out: &mut Commands);

    /// The first round-trip time was measured.
    fn on_first_rtt(&mut self, _srtt: Dur, _out: &mut Commands) {}

    /// At every report, whoever governs.
    fn on_report(&mut self, _now: Time, _sample: &Sample, _measured: &Measured, _out: &mut Commands) {}

    /// True during a start-up of the drive's own, in which the policy only watches.
    fn is_starting(&self) -> bool {
        false
    }

    /// At each decision during start-up.
    fn step_up(&mut self, _out: &mut Commands) {}

    /// The sending rate and the window, bytes, in force.
    fn in_force(&self, measured: &Measured) -> (Rate, u64);

    /// Puts a decision into effect, with a rate of `ceiling` or what it sends per round trip at most.
    fn apply(&mut self, decision: &Decision, ceiling: Rate, measured: &Measured, out: &mut Commands);

    /// The rule takes over, from a window of `cwnd` bytes.
    fn yield_to_rule(&mut self, now: Time, cwnd: u32, timeout: bool, measured: &Measured, out: &mut Commands);

    /// A report while the rule governs.
    fn follow_rule(&mut self, now: Time, sample: &Sample, measured: &Measured, out: &mut Commands);
}
