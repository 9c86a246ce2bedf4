//! Delays that pass: data held for a while and let go at once makes a round trip longer, and what is delivered over
//! several of them stays as it was. A queue of the flow's stands, and where the capacity falls less is delivered.

/// A delay may pass while one of so many round trips had no queue …
const ROUNDS: u32 = 3;
/// … and while this share of the most that was delivered is delivered still.
const CARRIED: f64 = 0.9;
/// What a round trip leaves of the mean delivery rate, and of the largest one.
const KEEPS: (f64, f64) = (0.75, 0.98);

/// What the last round trips carried.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Passing {
    /// Mean delivery rate of the last round trips, and the largest one, bytes/s.
    delivered: (f64, f64),
    /// Round trips since one without a queue.
    long: u32,
}

impl Passing {
    /// A round trip is over, without a queue or under one.
    pub fn saw(&mut self, empty: bool, delivered: f64) {
        self.long = if empty { 0 } else { self.long.saturating_add(1) };
        let mean = KEEPS.0 * self.delivered.0 + (1.0 - KEEPS.0) * delivered;
        self.delivered = (mean, mean.max(KEEPS.1 * self.delivered.1));
    }

    /// True where the delay of now may pass; false before anything was delivered.
    pub fn may_pass(&self) -> bool {
        let (mean, largest) = self.delivered;
        self.long <= ROUNDS && mean > 0.0 && mean >= CARRIED * largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carried(rate: f64) -> Passing {
        let mut passing = Passing::default();
        for _ in 0..40 {
            passing.saw(true, rate);
        }
        passing
    }

    #[test]
    fn a_delay_may_pass_for_three_round_trips() {
        let mut passing = carried(1e6);
        for _ in 0..3 {
            passing.saw(false, 1e6);
            assert!(passing.may_pass());
        }
        passing.saw(false, 1e6);
        assert!(!passing.may_pass(), "it stands");
        passing.saw(true, 1e6);
        assert!(passing.may_pass());
    }

    #[test]
    fn a_burst_after_a_pause_is_no_less_than_before() {
        let mut passing = carried(1e6);
        passing.saw(false, 0.8e6);
        passing.saw(false, 1.2e6);
        assert!(passing.may_pass());
    }

    #[test]
    fn nothing_is_known_at_first() {
        assert!(!Passing::default().may_pass());
    }

    #[test]
    fn where_less_is_delivered_it_is_a_queue() {
        let mut passing = carried(1e6);
        passing.saw(false, 0.5e6);
        assert!(!passing.may_pass());
    }

    #[test]
    fn what_was_delivered_once_is_forgotten() {
        let mut passing = carried(1e6);
        for _ in 0..80 {
            passing.saw(true, 0.5e6);
        }
        passing.saw(false, 0.5e6);
        assert!(passing.may_pass());
    }
}
