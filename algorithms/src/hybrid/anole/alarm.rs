//! The alarm: the datapath reports at once when the round-trip time is far beyond what is tolerated.
//!
//! An alarm is told once it has lasted for a quarter of the time held, half a round trip or more: what waited while a
//! host stood still is through by then (`docs/anole/decisions.md` has the measurement).

use super::decision::{Choice, Source};
use super::drain::{Drain, MIN_SHARE, Reason};
use super::{Anole, MonitorInterval};
use anole_model::{Dur, Rate, Time};
use anole_programs::Commands;
use anole_programs::anole_cycle::control;

/// The alarm goes off at a queue this many times the tolerated one …
const ALARM_QUEUES: f64 = 4.0;
/// … and this many packets.
const ALARM_PACKETS: f64 = 8.0;

impl Anole {
    /// Arms the alarm; a drain after a ramp, an alarm or Track runs without it, for the round-trip time is long already.
    pub(super) fn arm(&self, out: &mut Commands) {
        out.set(control::ALARM_US, self.alarm_us());
    }

    /// The round-trip time that the datapath reports at once when it lasts: far beyond what evaluating the candidates
    /// adds to a tolerated queue, and longer than a few packets take on a slow path.
    pub(super) fn alarm_us(&self) -> u32 {
        let packets =
            Dur::from_secs_f64(ALARM_PACKETS * f64::from(self.flow.mss) / self.rate.bytes_per_s().max(1.0));
        let alarm = self.path.min_rtt().mul_f64(1.0 + ALARM_QUEUES * self.target_queue().tolerated) + packets;
        alarm.as_micros().clamp(1_000, 2_000_000_000) as u32
    }

    /// The round-trip time is far beyond what is tolerated: capacity has shrunk, or others have come.
    pub(super) fn on_alarm(&mut self, now: Time, window: &MonitorInterval, out: &mut Commands) {
        self.forget_evaluations();
        let from = self.rate;
        if window.elapsed >= self.path.min_rtt() && window.acked > 0 {
            let delivered = Rate::from_bytes_in(window.acked, window.elapsed);
            let rate = delivered.clamp(self.rate * MIN_SHARE, self.rate);
            self.apply(now, Choice { rate, source: Source::Inferred, climb: false });
        }
        let drain =
            Drain { reason: Reason::Overload, before: window.last_rtt, repeated: 0, in_vain: false, from };
        self.drain(drain, MIN_SHARE, out);
    }
}
