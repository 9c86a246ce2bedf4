//! The border between the process's monotonic clock and the runtime's time.

use anole_model::Time;
use std::time::Instant;

/// Turns instants of the monotonic clock into [`Time`]: nanoseconds since the clock was made.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: Instant,
}

impl Clock {
    /// A clock whose epoch is now.
    pub fn start() -> Clock {
        Clock { epoch: Instant::now() }
    }

    /// `instant` in the runtime's terms; instants before the epoch become the epoch.
    pub fn time(&self, instant: Instant) -> Time {
        let nanos = instant.saturating_duration_since(self.epoch).as_nanos();
        Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The present.
    pub fn now(&self) -> Time {
        self.time(Instant::now())
    }
}
