//! BBR's window: up to its target by what is acknowledged, and packet conservation in the first round of a recovery
//! (tcp_bbr.c, bbr_set_cwnd and bbr_set_cwnd_to_recover_or_restore).
//!
//! ```text
//! at a loss:                   cwnd = in flight + acked
//! in the round after it:       cwnd = max(cwnd − lost, in flight + acked): no more is sent than what leaves, sooner or later
//! while what was in flight at the loss is repaired:  cwnd = min(cwnd + acked, target)
//! then, and without a loss:    cwnd = min(max(cwnd, what it was before) + acked, target)
//! ```
//! What was in flight at a loss is repaired after [`REPAIR_ROUNDS`]. In Linux it is once all of it has arrived; here nobody
//! says of a later loss whether it is of new data or, again, of what was sent in place of the first.

use anole_model::{Dur, Time};

/// Rounds from a loss until what was in flight is repaired: one in which its losses are found, one in which what is sent
/// again arrives, and one for what of that is lost again (chosen: Linux's own carries the same at 5 to 15 % of random
/// loss; with two rounds flows do not leave slow start at 8 %).
const REPAIR_ROUNDS: f64 = 3.0;

/// The window and the recovery under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    cwnd: u64,
    /// The window before a recovery or a hold, to be restored after it.
    prior: Option<u64>,
    /// Until when no more is sent than what leaves.
    conserves_until: Option<Time>,
    /// Until when what was in flight at the loss is repaired.
    repairs_until: Option<Time>,
}

impl Window {
    /// Starts with `cwnd` bytes.
    pub fn new(cwnd: u64) -> Window {
        Window { cwnd, ..Window::default() }
    }

    /// The window, bytes.
    pub fn cwnd(&self) -> u64 {
        self.cwnd
    }

    /// Sets the window, whatever it was, and ends a recovery.
    pub fn set(&mut self, cwnd: u64) {
        *self = Window::new(cwnd);
    }

    /// Holds the window at `cwnd` bytes or less for a while; what it was is restored afterwards.
    pub fn hold(&mut self, cwnd: u64) {
        self.prior.get_or_insert(self.cwnd);
        self.cwnd = self.cwnd.min(cwnd);
        (self.conserves_until, self.repairs_until) = (None, None);
    }

    /// True where losses of now begin a recovery.
    pub fn begins(&self, now: Time, lost: u64) -> bool {
        lost > 0 && self.repairs_until.is_none_or(|until| now >= until)
    }

    /// Takes what was acknowledged and lost, bytes; `keep` is what was in flight before, less what was lost.
    pub fn take(&mut self, now: Time, rtt: Dur, acked: u64, lost: u64, keep: u64, target: u64) {
        let before = |until: Option<Time>| until.is_some_and(|until| now < until);
        if self.begins(now, lost) {
            self.prior.get_or_insert(self.cwnd);
            self.conserves_until = Some(now + rtt);
            self.repairs_until = Some(now + rtt.mul_f64(REPAIR_ROUNDS));
            self.cwnd = 0;
        }
        if before(self.conserves_until) {
            self.cwnd = self.cwnd.saturating_sub(lost).max(keep);
        } else {
            if !before(self.repairs_until) {
                self.cwnd = self.prior.take().map_or(self.cwnd, |prior| prior.max(self.cwnd));
            }
            self.cwnd = self.cwnd.saturating_add(acked);
        }
        self.cwnd = self.cwnd.min(target);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Dur = Dur::from_millis(50);

    fn at(ms: u64) -> Time {
        Time::from_micros(ms * 1000)
    }

    #[test]
    fn a_loss_sends_what_leaves_for_a_round_and_then_restores_the_window() {
        let mut window = Window::new(200_000);
        window.take(at(0), RTT, 1000, 3000, 120_000, 200_000);
        assert_eq!(window.cwnd(), 120_000);
        // What pacing has not sent yet stays in the window; what was lost does not.
        window.take(at(20), RTT, 1000, 5000, 110_000, 200_000);
        assert_eq!(window.cwnd(), 115_000);
        // A loss among what is sent again begins nothing anew; one after it does, from the window before.
        window.take(at(50), RTT, 1000, 1000, 110_000, 200_000);
        assert_eq!(window.cwnd(), 116_000);
        window.take(at(149), RTT, 1000, 1000, 110_000, 200_000);
        assert_eq!(window.cwnd(), 117_000);
        let mut again = window.clone();
        window.take(at(150), RTT, 1000, 0, 110_000, 200_000);
        assert_eq!(window.cwnd(), 200_000);
        again.take(at(150), RTT, 1000, 1000, 110_000, 200_000);
        assert_eq!(again.cwnd(), 110_000);
        again.take(at(300), RTT, 1000, 0, 110_000, 200_000);
        assert_eq!(again.cwnd(), 200_000);
    }

    #[test]
    fn the_window_grows_by_what_is_acknowledged_up_to_its_target() {
        let mut window = Window::new(10_000);
        for (acked, cwnd) in [(5000, 15_000), (5000, 18_000)] {
            window.take(at(0), RTT, acked, 0, 10_000, 18_000);
            assert_eq!(window.cwnd(), cwnd);
        }
        window.take(at(1), RTT, 0, 0, 18_000, 4000);
        assert_eq!(window.cwnd(), 4000);
    }
}
