//! Which losses belong to one congestion event.
//!
//! A sender that finds a loss has sent for a round trip since that packet, and the queue that dropped it may have
//! dropped more of those: they are the same event, and the window decreases once (RFC 5681 §3.2, RFC 9438 §4.6).
//! TCP tells them apart by sequence numbers (RFC 6675's RecoveryPoint); feedback has none, so the event is measured
//! in time.

use anole_model::{Dur, Time};

/// The congestion event under way, if there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Episode {
    until: Option<Time>,
}

impl Episode {
    /// A decrease is made now: losses found within `rtts` round trips belong to it.
    pub fn begin(&mut self, now: Time, rtt: Dur, rtts: f64) {
        self.until = Some(now + rtt.mul_f64(rtts));
    }

    /// True when a loss found now belongs to the decrease already made.
    pub fn covers(&self, now: Time) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}
