//! Whether the path swings, and the round-trip time that it has in another of its states.
//!
//! A path that is now long, now short has two round-trip times without a queue, and the longer one looks like a queue
//! over the shorter. A queue of this flow's follows its window; a round-trip time that comes again, whatever the window,
//! is the path's. Where flows share a queue, one also comes again by chance, so that this counts only where round-trip
//! times jump again and again.

use anole_model::{Dur, Time};

/// A round-trip time that differs from the last one by more than this factor is a jump …
const JUMP: f64 = 1.25;
/// … if it is by the time of more packets than these: on a thin link one packet more in the queue is a long time.
const JUMP_PACKETS: f64 = 2.0;
/// A queue may be shorter than the window that shrank leaves it by this share: what is acknowledged meanwhile is older.
const SLACK: f64 = 0.05;
/// What a round trip leaves of the jumps counted …
const FORGETS: f64 = 0.95;
/// … and how many make a path that swings.
const SWINGS: f64 = 2.5;
/// Round-trip times this near to each other are the same, share.
const NEAR: f64 = 0.01;
/// A window this share of another should have another round-trip time, if that was its queue.
const DIFFERS: f64 = 0.85;
/// How long a round-trip time is taken for the path's after it last came again.
const AGE: Dur = Dur::from_millis(10_000);

/// A round-trip time beyond the base, s, and the smallest and largest windows under which it was seen, bytes.
#[derive(Clone, Copy, Debug)]
struct Level {
    rtt: f64,
    windows: (f64, f64),
    /// When the windows told that it is the path's.
    proved: Option<Time>,
}

/// What a flow knows of a path that swings.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Swings {
    /// Jumps of late.
    jumps: f64,
    /// The windows in force in the last two round trips, the latest first, bytes.
    windows: (f64, f64),
    level: Option<Level>,
}

impl Swings {
    /// Takes a round trip's time after that of the one before, the time that each of its packets takes, s, and the window,
    /// bytes; true where it jumped. One that is longer by no more than the window grew, or shorter by no more than it shrank, is
    /// the window's queue.
    pub fn jumped(&mut self, last: f64, rtt: f64, packet_s: f64, cwnd: f64) -> bool {
        let [shrank, grew] = [cwnd.min(self.windows.0), cwnd.max(self.windows.0)]
            .map(|window| window / self.windows.1.max(1.0));
        self.saw_window(cwnd);
        let own = if rtt > last { rtt <= grew * last } else { rtt >= (1.0 - SLACK) * shrank * last };
        let jumped =
            !own && last.max(rtt) > JUMP * last.min(rtt) && (last - rtt).abs() > JUMP_PACKETS * packet_s;
        self.jumps = FORGETS * self.jumps + f64::from(u8::from(jumped));
        jumped
    }

    /// Takes the window, bytes, of a round trip whose time is not compared with the one before.
    pub fn saw_window(&mut self, cwnd: f64) {
        self.windows = (cwnd, self.windows.0);
    }

    /// True where round-trip times jump again and again.
    pub fn is_swinging(&self) -> bool {
        self.jumps > SWINGS
    }

    /// Takes a round-trip time beyond the base under `cwnd` bytes. Where it turns out to be the path's, the window to go
    /// on from: the largest that met it.
    pub fn saw_long(&mut self, now: Time, rtt: f64, cwnd: f64) -> Option<f64> {
        if !self.is_swinging() {
            return None;
        }
        self.level = self.level.filter(|level| level.proved.is_none_or(|proved| now.since(proved) <= AGE));
        let level = match &mut self.level {
            Some(level) if (rtt / level.rtt - 1.0).abs() <= NEAR => level,
            Some(level) if level.proved.is_some() => return None,
            _ => {
                self.level = Some(Level { rtt, windows: (cwnd, cwnd), proved: None });
                return None;
            }
        };
        let (least, most) = (level.windows.0.min(cwnd), level.windows.1.max(cwnd));
        level.windows = (least, most);
        if least > DIFFERS * most {
            return None;
        }
        level.windows = (cwnd, cwnd);
        let known = level.proved.replace(now).is_some();
        Some(if known { cwnd } else { most })
    }

    /// True where a round-trip time beyond the base is known to be the path's.
    pub fn is_known(&self) -> bool {
        self.is_swinging() && self.level.is_some_and(|level| level.proved.is_some())
    }

    /// What the path's round-trip time is where this one was seen, s, if not the base.
    pub fn base(&self, rtt: f64) -> Option<f64> {
        let level = self.level.filter(|_| self.is_known())?;
        (rtt >= level.rtt * (1.0 - NEAR)).then_some(level.rtt)
    }

    /// What was the path's longer round-trip time is its only one.
    pub fn forget_level(&mut self) {
        self.level = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Time {
        Time::from_micros(s * 1_000_000)
    }

    /// After two round trips with the same window.
    fn steady() -> Swings {
        let mut swings = Swings::default();
        for _ in 0..2 {
            assert!(!swings.jumped(0.1, 0.1, 0.01, 10.0));
        }
        swings
    }

    /// After ten jumps between 100 and 200 ms.
    fn swinging() -> Swings {
        let mut swings = steady();
        for _ in 0..5 {
            assert!(swings.jumped(0.1, 0.2, 0.01, 10.0) && swings.jumped(0.2, 0.1, 0.01, 10.0));
        }
        swings
    }

    #[test]
    fn a_round_trip_time_that_comes_again_under_a_smaller_window_is_the_paths() {
        let mut swings = swinging();
        assert_eq!([10.0, 9.0, 8.0].map(|cwnd| swings.saw_long(at(1), 0.2, cwnd)), [None, None, Some(10.0)]);
        assert_eq!([0.1, 0.15, 0.2, 0.25].map(|rtt| swings.base(rtt)), [None, None, Some(0.2), Some(0.2)]);
        assert_eq!(swings.saw_long(at(2), 0.2, 6.0), Some(6.0), "known already");
        assert_eq!(swings.saw_long(at(13), 0.2, 4.0), None, "forgotten since");
        assert_eq!(swings.base(0.2), None);
    }

    #[test]
    fn a_queue_that_follows_the_window_is_none() {
        let mut swings = swinging();
        for cwnd in [10.0, 9.0, 8.0, 7.0, 6.0] {
            assert_eq!(swings.saw_long(at(1), 0.02 * cwnd, cwnd), None);
        }
        assert!(!swings.is_known());
    }

    #[test]
    fn a_path_whose_round_trip_times_do_not_jump_is_not_asked() {
        let mut swings = steady();
        assert!(!swings.jumped(0.1, 0.12, 0.001, 10.0) && swings.jumped(0.1, 0.2, 0.001, 10.0));
        assert!(!swings.jumped(0.1, 0.2, 0.05, 10.0), "two packets of four");
        assert!(!swings.jumped(0.1, 0.2, 0.001, 20.0), "the window has doubled");
        assert!(swings.jumped(0.2, 0.1, 0.001, 20.0), "which makes no queue shorter");
        for cwnd in [10.0, 8.0, 6.0] {
            assert_eq!(swings.saw_long(at(1), 0.2, cwnd), None);
        }
    }

    #[test]
    fn a_round_trip_time_that_falls_as_the_window_does_has_not_jumped() {
        let mut swings = steady();
        assert!(!swings.jumped(0.2, 0.14, 0.001, 7.0));
        assert!(swings.jumped(0.2, 0.1, 0.001, 7.0));
    }

    #[test]
    fn a_swing_is_forgotten_where_nothing_jumps_any_more() {
        let mut swings = swinging();
        swings.saw_long(at(1), 0.2, 10.0);
        swings.saw_long(at(1), 0.2, 6.0);
        assert!(swings.is_known());
        for _ in 0..40 {
            swings.jumped(0.1, 0.1, 0.01, 10.0);
        }
        assert_eq!((swings.is_known(), swings.base(0.2)), (false, None));
    }
}
