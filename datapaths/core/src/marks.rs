//! ECN marks, as programs are told of them.
//!
//! A program that does not read `Ack.ecn_packets` or `Ack.ecn_bytes` would go on as if nothing had been marked, while the
//! other end is told that the window was reduced (RFC 3168 §6.1.2), or takes the marks for the only sign of congestion that
//! there is. It is told a lost packet for the marks of a round trip.

use crate::AckSample;

/// What is known of marks and of the round trip.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    /// The latest sample, µs; 0 before the first.
    rtt_us: u64,
    /// Marks before this time belong to one that was told, µs.
    end_us: u64,
}

impl Marks {
    /// Packets lost, as the program is told.
    #[inline(always)]
    pub fn told_losses(&mut self, now_us: u64, sample: &AckSample, reads_ecn: bool) -> u64 {
        if sample.rtt_us > 0 {
            self.rtt_us = sample.rtt_us;
        }
        let lost = u64::from(sample.lost_packets);
        if reads_ecn || sample.ecn_packets == 0 || now_us < self.end_us {
            return lost;
        }
        self.end_us = now_us.wrapping_add(self.rtt_us);
        lost + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_a_round_trip_are_one_loss_to_a_program_that_reads_none() {
        let mut marks = Marks::default();
        let mut told = |now_us, lost_packets, ecn_packets, rtt_us| {
            let sample = AckSample { lost_packets, ecn_packets, rtt_us, ..AckSample::default() };
            marks.told_losses(now_us, &sample, false)
        };
        assert_eq!(told(1_000, 0, 0, 50_000), 0);
        assert_eq!(told(2_000, 0, 3, 0), 1);
        assert_eq!(told(3_000, 2, 1, 50_000), 2);
        assert_eq!(told(51_999, 0, 1, 50_000), 0);
        assert_eq!(told(52_000, 4, 1, 50_000), 5);
    }

    #[test]
    fn a_program_that_reads_marks_is_told_none_as_losses() {
        let sample = AckSample { ecn_packets: 9, lost_packets: 2, ..AckSample::default() };
        assert_eq!(Marks::default().told_losses(1, &sample, true), 2);
    }
}
