//! The gain cycle: eight phases of a smallest round-trip time each, 1.25, 0.75 and six times 1.
//!
//! The phase of 1.25 goes on until a packet was lost or 1.25 bandwidth-delay products are in flight, but no longer than
//! four times its length; the phase of 0.75 ends early once no more than one is in flight (tcp_bbr.c,
//! bbr_is_next_cycle_phase; the bound of four is ours).

use anole_model::{Dur, Time};

/// Phases of a cycle.
const PHASES: u32 = 8;
/// The phase that probes for more bandwidth, and the one that drains what it queued.
const UP: u32 = 0;
const DOWN: u32 = 1;
/// Gains of the two; 1 in all others.
const UP_GAIN: f64 = 1.25;
const DOWN_GAIN: f64 = 0.75;
/// The probing phase lasts this many times its length at most.
const LONGEST: u64 = 4;

/// Where the flow is in the cycle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cycle {
    phase: u32,
    since: Time,
    /// Packets were lost in this phase.
    lost: bool,
}

impl Cycle {
    /// The cycle begins at this phase.
    pub fn begin(now: Time, phase: u32) -> Cycle {
        Cycle { phase, since: now, lost: false }
    }

    /// The present phase.
    pub fn phase(self) -> u32 {
        self.phase
    }

    /// Pacing rate over bandwidth.
    pub fn gain(self) -> f64 {
        match self.phase {
            UP => UP_GAIN,
            DOWN => DOWN_GAIN,
            _ => 1.0,
        }
    }

    /// Goes on to the next phase when this one is over; bytes in flight `before` and after the feedback.
    pub fn advance(&mut self, now: Time, length: Dur, lost: u64, before: u64, in_flight: u64, bdp: u64) {
        self.lost |= lost > 0;
        let lasted = now.since(self.since);
        let over = match self.phase {
            UP => {
                let filled = self.lost || before as f64 >= UP_GAIN * bdp as f64;
                lasted > length * if filled { 1 } else { LONGEST }
            }
            DOWN => lasted > length || in_flight < bdp,
            _ => lasted > length,
        };
        if over {
            *self = Cycle::begin(now, (self.phase + 1) % PHASES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_takes_seven_round_trips_and_a_bit() {
        let (mut cycle, mut gains) = (Cycle::begin(Time::ZERO, 0), Vec::new());
        for ms in 0..400 {
            // The link fills in the first phase, and the queue is gone half-way through the second.
            let in_flight = if cycle.phase() == DOWN && ms < 76 { 110_000 } else { 99_000 };
            let before = if cycle.phase() == UP { 126_000 } else { 100_000 };
            let phase = cycle.phase();
            cycle.advance(Time::from_micros(ms * 1000), Dur::from_millis(50), 0, before, in_flight, 100_000);
            if cycle.phase() != phase {
                gains.push((ms, cycle.gain()));
            }
        }
        assert_eq!(gains[..3], [(51, 0.75), (76, 1.0), (127, 1.0)]);
        assert_eq!(gains.iter().filter(|(_, gain)| *gain == 1.0).count(), 6);
    }

    #[test]
    fn probing_waits_for_a_full_flight_or_a_loss_but_not_for_ever() {
        let ends = |lost: u64, before: u64| {
            let mut cycle = Cycle::begin(Time::ZERO, UP);
            (0..1000).find(|&ms| {
                cycle.advance(
                    Time::from_micros(ms * 1000),
                    Dur::from_millis(50),
                    lost,
                    before,
                    before,
                    100_000,
                );
                cycle.phase() != UP
            })
        };
        assert_eq!([ends(0, 126_000), ends(1, 100_000), ends(0, 100_000)], [51, 51, 201].map(Some));
    }
}
