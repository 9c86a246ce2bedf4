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
        match now < self.app.until {
            true => self.app.rate.bytes_in(now.since(self.start)) as u64,
            false => u64::MAX,
        }
    }

    /// When so much payload is there.
    pub fn has_at(&self, bytes: u64) -> Time {
        let takes = Dur::from_secs_f64(bytes as f64 / self.app.rate.bytes_per_s());
        // Rounded up, so that it is there then.
        (self.start + takes + Dur::from_nanos(1_000)).min(self.app.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anole_model::Rate;

    #[test]
    fn what_is_there_then_is_there() {
        let app = App { rate: Rate::from_mbps(8.0), until: Time::from_secs_f64(3.0) };
        let supply = Supply::new(app, Time::from_secs_f64(1.0));
        assert_eq!(supply.has(Time::from_secs_f64(1.5)), 500_000);
        assert_eq!(supply.has(Time::from_secs_f64(3.0)), u64::MAX);
        for bytes in [1, 1448, 999_999, 1_999_999] {
            assert!(supply.has(supply.has_at(bytes)) >= bytes);
        }
        assert_eq!(supply.has_at(5_000_000), Time::from_secs_f64(3.0));
    }
}
