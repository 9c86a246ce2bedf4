//! An application that has its data bit by bit: its flow is limited by it, and says so.

use crate::scenario::App;
use anole_model::{Dur, Time};

/// What an application has to send.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Supply {
    app: App,
    start: Time,
}

impl Supply {
    /// Of a flow that starts then.
    pub fn new(app: App, start: Time) -> Supply {
        Supply { app, start }
    }

    /// Payload that was there by `now`.
    pub fn has(&self, now: Time) -> u64 {
        if now >= self.app.until {
            return u64::MAX;
        }
        match self.frame_bytes() {
            Some(frame) => frame * (now.since(self.start).as_nanos() / self.app.frame.as_nanos() + 1),
            None => self.app.rate.bytes_in(now.since(self.start)) as u64,
        }
    }

    /// When so much payload is there.
    pub fn has_at(&self, bytes: u64) -> Time {
        let at = match self.frame_bytes() {
            Some(frame) => self.start + self.app.frame * (bytes.div_ceil(frame).max(1) - 1),
            // Rounded up, so that it is there then.
            None => {
                let takes = Dur::from_secs_f64(bytes as f64 / self.app.rate.bytes_per_s());
                self.start + takes + Dur::from_nanos(1_000)
            }
        };
        at.min(self.app.until)
    }

    /// The same; `None` of what comes once everything is there.
    pub fn had_at(&self, bytes: u64) -> Option<Time> {
        Some(self.has_at(bytes)).filter(|&at| at < self.app.until)
    }

    /// Payload of a frame, of an application that has frames.
    fn frame_bytes(&self) -> Option<u64> {
        let frame = self.app.frame;
        (!frame.is_zero()).then(|| (self.app.rate.bytes_in(frame).round() as u64).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anole_model::Rate;

    #[test]
    fn what_is_there_then_is_there() {
        let app = App { rate: Rate::from_mbps(8.0), until: Time::from_secs_f64(3.0), frame: Dur::ZERO };
        let supply = Supply::new(app, Time::from_secs_f64(1.0));
        assert_eq!(supply.has(Time::from_secs_f64(1.5)), 500_000);
        assert_eq!(supply.has(Time::from_secs_f64(3.0)), u64::MAX);
        for bytes in [1, 1448, 999_999, 1_999_999] {
            assert!(supply.has(supply.has_at(bytes)) >= bytes);
        }
        assert_eq!(supply.has_at(5_000_000), Time::from_secs_f64(3.0));
    }

    #[test]
    fn frames_come_whole() {
        let app =
            App { rate: Rate::from_mbps(8.0), until: Time::from_secs_f64(3.0), frame: Dur::from_millis(20) };
        let supply = Supply::new(app, Time::from_secs_f64(1.0));
        for (at_s, bytes) in [(1.0, 20_000), (1.019, 20_000), (1.02, 40_000), (1.5, 520_000)] {
            assert_eq!(supply.has(Time::from_secs_f64(at_s)), bytes, "{at_s}");
        }
        for bytes in [1, 20_000, 20_001, 999_999] {
            let at = supply.has_at(bytes);
            assert!(supply.has(at) >= bytes);
            assert!(supply.has(at) - 20_000 < bytes && supply.had_at(bytes) == Some(at));
        }
    }
}
