//! A Mahimahi trace: the times at which a link may deliver 1504 bytes, repeated for ever. Mahimahi counts the 4-byte
//! header of its TUN device with each packet, so that an opportunity carries one packet of 1500 bytes.

use anole_model::{Dur, Rate, Time};

/// Bytes that one opportunity delivers, with the TUN header of each packet (Mahimahi: PACKET_SIZE).
pub(super) const OPPORTUNITY_BYTES: u32 = 1504;
/// What Mahimahi's TUN device puts before each packet.
pub(super) const TUN_HEADER_BYTES: u32 = 4;
/// Bytes of the largest packet that passes in one opportunity.
pub(super) const OPPORTUNITY_PACKET_BYTES: u32 = OPPORTUNITY_BYTES - TUN_HEADER_BYTES;

/// Delivery opportunities, one per line of the file, in milliseconds; after the last one the file
/// begins again, counted from that last time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    at_ms: Vec<u32>,
}

/// Why a file is not a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// No opportunity.
    #[error(
        "the trace is empty; a Mahimahi trace has one delivery time in milliseconds per line, at least one above 0"
    )]
    Empty,
    /// A line that is not a whole number of milliseconds.
    #[error("line {line}: \"{text}\" is not a whole number of milliseconds")]
    NotANumber {
        /// Line, from 1.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// A time that is smaller than the one before.
    #[error("line {line}: {at_ms} ms comes after {before_ms} ms; sort the trace by time")]
    Unsorted {
        /// Line, from 1.
        line: usize,
        /// The time there.
        at_ms: u32,
        /// The time before.
        before_ms: u32,
    },
}

impl Trace {
    /// Reads the text of a trace file; empty lines are skipped.
    pub fn parse(text: &str) -> Result<Trace, TraceError> {
        let mut at_ms: Vec<u32> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            let time: u32 = line.parse().map_err(|_| TraceError::NotANumber {
                line: index + 1,
                text: line.chars().take(40).collect(),
            })?;
            match at_ms.last() {
                Some(&before_ms) if time < before_ms => {
                    return Err(TraceError::Unsorted { line: index + 1, at_ms: time, before_ms });
                }
                _ => at_ms.push(time),
            }
        }
        if at_ms.last().is_none_or(|&period| period == 0) {
            return Err(TraceError::Empty);
        }
        Ok(Trace { at_ms })
    }

    /// From times in milliseconds, which must be in order, the last of them above 0.
    pub(crate) fn from_times(at_ms: Vec<u32>) -> Trace {
        debug_assert!(at_ms.is_sorted() && at_ms.last().is_some_and(|&last| last > 0));
        Trace { at_ms }
    }

    /// The times of one repetition, ms, in order; the last one is its length.
    pub fn times_ms(&self) -> &[u32] {
        &self.at_ms
    }

    /// Opportunities before one repetition.
    fn len(&self) -> u64 {
        self.at_ms.len() as u64
    }

    /// Length of one repetition.
    fn period_ms(&self) -> u64 {
        u64::from(self.at_ms[self.at_ms.len() - 1])
    }

    /// The time of an opportunity, counted from 0.
    pub fn time_of(&self, opportunity: u64) -> Time {
        let ms = u64::from(self.at_ms[(opportunity % self.len()) as usize]);
        let round = (opportunity / self.len()).saturating_mul(self.period_ms());
        Time::ZERO + Dur::from_millis(round.saturating_add(ms))
    }

    /// Opportunities before `now`.
    pub fn count_before(&self, now: Time) -> u64 {
        // Whole milliseconds strictly before `now`: a time of n ms is before it exactly if n < ceil(now).
        let ms = now.as_nanos().div_ceil(1_000_000);
        let within = |ms: u64| self.at_ms.partition_point(|&at| u64::from(at) < ms) as u64;
        // An opportunity at the very end of one round and one at 0 of the next may coincide, so that
        // up to two rounds matter for one instant.
        let round = ms / self.period_ms();
        let offset = ms % self.period_ms();
        match round.checked_sub(1) {
            Some(earlier) if offset == 0 => earlier * self.len() + within(self.period_ms()),
            _ => round * self.len() + within(offset),
        }
    }

    /// Opportunities up to `now`, one at this very time among them.
    pub fn count_up_to(&self, now: Time) -> u64 {
        self.count_before(now + Dur::from_nanos(1))
    }

    /// The capacity for full packets, averaged over one repetition.
    pub fn mean_rate(&self) -> Rate {
        Rate::from_bytes_in(
            self.len() * u64::from(OPPORTUNITY_PACKET_BYTES),
            Dur::from_millis(self.period_ms()),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn loops_from_its_last_time() {
        let trace = Trace::parse("1\n1\n3\n").unwrap();
        let times: Vec<u64> = (0..7).map(|i| trace.time_of(i).as_micros() / 1000).collect();
        assert_eq!(times, [1, 1, 3, 4, 4, 6, 7]);
        assert_eq!(trace.mean_rate().mbps(), 3.0 * 1500.0 * 8.0 / 3000.0);
    }

    #[test]
    fn refuses_what_is_not_a_trace() {
        assert_eq!(Trace::parse("\n"), Err(TraceError::Empty));
        assert_eq!(Trace::parse("0\n0\n"), Err(TraceError::Empty));
        assert_eq!(Trace::parse("5\n4\n"), Err(TraceError::Unsorted { line: 2, at_ms: 4, before_ms: 5 }));
        assert!(matches!(Trace::parse("1\nx\n"), Err(TraceError::NotANumber { line: 2, .. })));
        assert!(matches!(Trace::parse("-1\n"), Err(TraceError::NotANumber { line: 1, .. })));
    }

    proptest! {
        #[test]
        fn count_before_agrees_with_time_of(
            mut at in proptest::collection::vec(0u32..50, 1..20), now_us in 0u64..400_000
        ) {
            at.sort_unstable();
            at.push(50);
            let text: String = at.iter().map(|t| format!("{t}\n")).collect();
            let trace = Trace::parse(&text).unwrap();
            let now = Time::from_micros(now_us);
            let n = trace.count_before(now);
            prop_assert!(n == 0 || trace.time_of(n - 1) < now);
            prop_assert!(trace.time_of(n) >= now);
        }
    }
}
