//! Aggregation: packets that are ready wait for each other and go on together, as frames do on Wi-Fi
//! (IEEE 802.11 A-MPDU) and behind hosts that coalesce interrupts.
//!
//! The first packet opens a burst, and everything that comes until the burst is closed goes on at its
//! end. How long a burst stays open is drawn uniformly for each. On a busy link it is the time between two
//! deliveries; a lone packet waits for all of it.

use anole_model::{Dur, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// How a link aggregates; by default not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aggregation {
    /// Shortest and longest burst of data.
    pub data: Option<(Dur, Dur)>,
    /// Shortest and longest burst of ACKs.
    pub acks: Option<(Dur, Dur)>,
}

/// One direction.
#[derive(Clone, Debug)]
pub(super) struct Bursts {
    length: Option<(Dur, Dur)>,
    /// When the present burst is closed.
    end: Time,
    rng: Pcg64Mcg,
}

impl Bursts {
    pub fn new(length: Option<(Dur, Dur)>, seed: u64) -> Bursts {
        Bursts { length, end: Time::ZERO, rng: Pcg64Mcg::seed_from_u64(seed) }
    }

    /// When a packet that is ready `at` goes on. Times must not decrease.
    pub fn release(&mut self, at: Time) -> Time {
        let Some((shortest, longest)) = self.length else { return at };
        if at > self.end {
            let nanos = self.rng.random_range(shortest.as_nanos()..=longest.as_nanos());
            self.end = at + Dur::from_nanos(nanos);
        }
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn without_a_length_nothing_waits() {
        let mut none = Bursts::new(None, 1);
        assert_eq!(none.release(Time::from_micros(7)), Time::from_micros(7));
    }

    proptest! {
        #[test]
        fn bursts_have_their_lengths_and_keep_the_order(
            gaps_us in proptest::collection::vec(0u64..20_000, 1..200), seed in any::<u64>()
        ) {
            let (shortest, longest) = (Dur::from_millis(2), Dur::from_millis(8));
            let mut bursts = Bursts::new(Some((shortest, longest)), seed);
            let (mut now, mut last) = (Time::ZERO, Time::ZERO);
            for gap in gaps_us {
                now += Dur::from_micros(gap);
                let at = bursts.release(now);
                prop_assert!(at >= now && at <= now + longest, "{:?} {:?}", now, at);
                // A new burst ends later than the one before by its own length at least.
                prop_assert!(at == last || at >= last + shortest, "{:?} {:?}", last, at);
                last = at;
            }
        }
    }
}
