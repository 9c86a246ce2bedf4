//! Whether the flow has the path for itself, and the rate at which the path then serves it.
//!
//! Where a queue stands the bottleneck is never idle. To a flow that is alone it delivers at one and the same rate,
//! whatever the window: a larger window makes the round-trip time longer, or is lost, and that is all. To one flow of
//! several it delivers more for a larger window, and another share with every step that the others take. What tells is
//! that the round-trip time has moved and the rate has not. Packets lost count as if they had been queued.
//!
//! Flows that grow alike keep their shares as well, so that longer round-trip times alone do not tell it. Where CUBIC governs
//! the window shrinks by losses, which flows have in common: one shorter time is too little there.

/// A move of the round-trip time by less than this share tells nothing …
const MOVED: f64 = 0.03;
/// … and it tells that the flow is alone if the rate has moved by less than a third of that.
const STAYED: f64 = 1.0 / 3.0;
/// A rate this near to the one before is the same, share.
const SAME: f64 = 0.03;
/// One further away than this share is that of a path that has changed, and nothing is believed any more.
const FAR: f64 = 0.25;
/// Moves that tell so before it is believed, and the most that are counted; a rate that is another halves them.
const ENOUGH: u32 = 4;
const MOST: u32 = 16;
/// Moves to a shorter round-trip time that have to be among them; the second where CUBIC governs.
const FALLS: (u32, u32) = (1, 2);

/// What the rounds under a standing queue have told.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Alone {
    /// The rate, bytes/s.
    rate: f64,
    /// The round-trip time under it, s.
    rtt: f64,
    moves: u32,
    /// To a shorter round-trip time.
    falls: u32,
    /// The last round had no queue, though more was sent than the rate carries.
    larger: bool,
}

impl Alone {
    /// Takes a round under a standing queue: its round-trip time, s, what was delivered and lost per second, bytes, and
    /// whether CUBIC governs.
    pub fn saw(&mut self, rtt: f64, delivered: f64, lost: f64, cubic_governs: bool) {
        let rtt = rtt * (1.0 + lost / delivered.max(1.0));
        self.larger = false;
        let within = |share: f64| {
            delivered < self.rate * (1.0 + share) && delivered + lost > self.rate * (1.0 - share)
        };
        if !within(FAR) {
            *self = Alone { rate: delivered, rtt, ..Alone::default() };
        } else if !within(SAME) {
            self.moves /= 2;
            if !self.is_told() {
                *self = Alone { rate: delivered, rtt, moves: self.moves.min(1), ..Alone::default() };
            }
        } else {
            self.count(rtt, delivered, if cubic_governs { FALLS.1 } else { FALLS.0 });
        }
    }

    /// Takes a round with the same rate: does it tell that the flow is alone? It is believed only once so many falls have.
    fn count(&mut self, rtt: f64, delivered: f64, least_falls: u32) {
        let [moved, changed] = [rtt / self.rtt, delivered / self.rate].map(|ratio| (ratio - 1.0).abs());
        if moved > MOVED && changed < STAYED * moved {
            let falls = self.falls.saturating_add(u32::from(rtt < self.rtt));
            let most = if self.is_told() || falls >= least_falls { MOST } else { ENOUGH - 1 };
            *self = Alone { rate: delivered, rtt, moves: (self.moves + 1).min(most), falls, larger: false };
        }
    }

    /// Takes a round without a queue under a window that is larger, or not, than what the rate fills: two larger ones in a
    /// row, of which the second tells what the first has met, and the path carries more.
    pub fn saw_empty(&mut self, larger: bool) {
        if larger && self.larger {
            *self = Alone::default();
        } else {
            self.larger = larger;
        }
    }

    fn is_told(&self) -> bool {
        self.moves >= ENOUGH
    }

    /// The rate of the path, bytes/s, where this flow has it for itself.
    pub fn rate(&self) -> Option<f64> {
        self.is_told().then_some(self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After rounds of windows, packets, over a path of 1000 packets a second on which others keep `others` packets.
    fn after(windows: &[f64], others: f64) -> Alone {
        let mut alone = Alone::default();
        for &window in windows {
            let rtt = (window + others) / 1000.0;
            alone.saw(rtt, window / rtt, 0.0, false);
        }
        alone
    }

    #[test]
    fn a_flow_alone_has_the_same_rate_under_any_window() {
        assert_eq!(after(&[10.0, 11.0, 12.0, 11.0], 0.0).rate(), None, "three moves");
        assert!((after(&[10.0, 11.0, 12.0, 11.0, 12.0], 0.0).rate().unwrap() - 1000.0).abs() < 1e-6);
        assert_eq!(after(&[10.0; 20], 0.0).rate(), None, "nothing moved");
    }

    #[test]
    fn one_of_several_has_not() {
        let windows: Vec<f64> = (0..40).map(|round| f64::from(10 + round % 4)).collect();
        for others in [10.0, 30.0] {
            assert_eq!(after(&windows, others).rate(), None, "{others}");
        }
    }

    #[test]
    fn a_rate_that_stays_under_queues_that_only_grow_may_be_a_share() {
        let told = |rtts: &[f64], cubic_governs| {
            let mut alone = Alone::default();
            rtts.iter().for_each(|&rtt| alone.saw(rtt, 1000.0, 0.0, cubic_governs));
            alone.rate().is_some()
        };
        let grows: Vec<f64> = (10..40).map(|n| 0.01 * f64::from(n)).collect();
        assert!(!told(&grows, false), "it grows with the others");
        assert!(told(&[&grows[..], &[0.2]].concat(), false));
        assert!(!told(&[&grows[..], &[0.2]].concat(), true), "all have lost");
        assert!(told(&[&grows[..], &[0.2, 0.1]].concat(), true));
    }

    #[test]
    fn two_rounds_in_a_row_without_the_queue_that_they_should_have_made_end_the_belief() {
        let windows = [10.0, 11.0, 12.0, 11.0, 12.0];
        let mut alone = after(&windows, 0.0);
        for (larger, told) in [(true, true), (false, true), (true, true), (true, false)] {
            alone.saw_empty(larger);
            assert_eq!(alone.rate().is_some(), told);
        }
    }

    #[test]
    fn what_overflows_a_buffer_tells_what_a_longer_queue_tells() {
        let mut alone = Alone::default();
        for lost in [0.0, 100.0, 0.0, 100.0, 0.0] {
            alone.saw(0.02, 1000.0, lost, false);
        }
        assert_eq!(alone.rate(), Some(1000.0));
    }

    #[test]
    fn another_rate_again_and_again_ends_the_belief() {
        let windows = [10.0, 11.0, 12.0, 11.0, 12.0, 11.0, 12.0];
        let mut alone = after(&windows, 0.0);
        let mut rounds = 0;
        while alone.rate().is_some() {
            alone.saw(0.012, 900.0, 0.0, false);
            rounds += 1;
        }
        assert_eq!(rounds, 1);
        let mut alone = after(&windows, 0.0);
        alone.saw(0.012, 500.0, 0.0, false);
        assert_eq!(alone.rate(), None);
    }
}
