//! The log of `mm-link`: a line per event, times in whole ms since the shell began.
//!
//! ```text
//! # init timestamp: 1780000000000      CLOCK_REALTIME in ms when the shell began
//! 17 + 1504                            a packet of so many bytes came, with the header of its TUN device
//! 18 # 1504                            an opportunity
//! 18 - 1504 1                          a packet left, and how long it had waited
//! 19 d 1 1504                          packets were refused
//! ```
//!
//! The queues are first in, first out, so that what is lost in them needs no event of its own (CoDel's drops have none):
//! of the packets that came before the last one to leave did, those that never left are lost.

use super::plan::{OPPORTUNITY_BYTES, TUN_HEADER_BYTES};
use anole_model::Dur;
use anole_sim::histogram::Histogram;
use std::io::BufRead;
use std::ops::Range;

/// A packet that left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Departure {
    at: u64,
    waited: u64,
    bytes: u64,
}

/// All of a log; times in ms of CLOCK_REALTIME, in order.
#[derive(Clone, Debug, Default)]
pub struct Log {
    arrivals: Vec<u64>,
    departures: Vec<Departure>,
    opportunities: Vec<u64>,
}

/// Why a text is no such log.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    #[error("line {0} of mm-link's log is not what its version 0.98 writes: {1:?}")]
    Line(usize, String),
    #[error("mm-link's log does not say when it began (\"# init timestamp: …\")")]
    NoStart,
    #[error("cannot read mm-link's log: {0}")]
    Read(String),
}

impl Log {
    pub fn read(text: impl BufRead) -> Result<Log, LogError> {
        let mut log = Log::default();
        let mut began = None;
        for (number, line) in text.lines().enumerate() {
            let line = line.map_err(|error| LogError::Read(error.to_string()))?;
            if let Some(comment) = line.strip_prefix('#') {
                if let Some(at) = comment.trim().strip_prefix("init timestamp:") {
                    began = at.trim().parse::<u64>().ok();
                }
                continue;
            }
            let known = log.event(began.ok_or(LogError::NoStart)?, &line);
            known.ok_or_else(|| LogError::Line(number + 1, line.chars().take(80).collect()))?;
        }
        began.map(|_| log).ok_or(LogError::NoStart)
    }

    fn event(&mut self, began: u64, line: &str) -> Option<()> {
        let mut words = line.split_whitespace();
        let (at, event) = (began + words.next()?.parse::<u64>().ok()?, words.next()?);
        let numbers: Vec<u64> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
        match (event, &numbers[..]) {
            ("+", [_]) => self.arrivals.push(at),
            ("-", &[bytes, waited]) => self.departures.push(Departure { at, waited, bytes }),
            ("#", [_]) => self.opportunities.push(at),
            ("d", [_, _]) => {}
            _ => return None,
        }
        Some(())
    }

    fn left(&self, span: Range<u64>) -> impl Iterator<Item = &Departure> {
        self.departures.iter().filter(move |departure| span.contains(&departure.at))
    }

    /// Packets that left in a span.
    pub fn departed(&self, span: Range<u64>) -> u64 {
        self.left(span).count() as u64
    }

    /// Bytes of packets that left in a span, without headers of the TUN device.
    pub fn departed_bytes(&self, span: Range<u64>) -> u64 {
        self.left(span).map(|departure| departure.bytes.saturating_sub(u64::from(TUN_HEADER_BYTES))).sum()
    }

    /// Packets that came in a span and whose fate is known, and those of them that were lost in the queue.
    pub fn settled_and_lost(&self, span: Range<u64>) -> (u64, u64) {
        let came = |departure: &Departure| departure.at.saturating_sub(departure.waited);
        let last = self.departures.last().map(came);
        let settled = self.arrivals.iter().filter(|at| span.contains(at) && Some(**at) <= last).count();
        let left = self.departures.iter().filter(|departure| span.contains(&came(departure))).count();
        (settled as u64, settled.saturating_sub(left) as u64)
    }

    /// How long each packet waited that left in a span, and so much more.
    pub fn waits(&self, span: Range<u64>, more: Dur) -> Histogram {
        let mut histogram = Histogram::new();
        for departure in self.left(span) {
            histogram.add(Dur::from_millis(departure.waited) + more);
        }
        histogram
    }

    /// Bytes that left over bytes that could have.
    pub fn utilization(&self, span: Range<u64>) -> Option<f64> {
        let offered = self.offered(&span);
        let left: u64 = self.left(span).map(|departure| departure.bytes).sum();
        (offered > 0).then(|| left as f64 / (offered * u64::from(OPPORTUNITY_BYTES)) as f64)
    }

    /// Bytes of packets of this size that could have left, without headers of the TUN device.
    pub fn possible_bytes(&self, span: Range<u64>, full_packet: u32) -> f64 {
        let share = f64::from(full_packet) / f64::from(full_packet + TUN_HEADER_BYTES);
        self.offered(&span) as f64 * f64::from(OPPORTUNITY_BYTES) * share
    }

    fn offered(&self, span: &Range<u64>) -> u64 {
        self.opportunities.iter().filter(|at| span.contains(at)).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "# mahimahi mm-link (Uplink) [up] > log\n# queue: droptail [bytes=3008]\n\
        # init timestamp: 1000\n# base timestamp: 0\n\
        0 + 56\n1 # 1504\n1 - 56 1\n\
        10 + 1504\n10 + 1504\n10 + 1504\n10 d 1 1504\n11 # 1504\n11 - 1504 1\n12 # 1504\n12 - 1504 2\n\
        13 # 1504\n20 + 1504\n";

    #[test]
    fn what_came_waited_left_and_was_lost() {
        let log = Log::read(LOG.as_bytes()).unwrap();
        let span = || 1005..1100;
        // The last one is still inside.
        assert_eq!(log.settled_and_lost(span()), (3, 1));
        assert_eq!((log.departed(span()), log.departed_bytes(span())), (2, 3000));
        assert_eq!(log.waits(span(), Dur::from_millis(5)).mean(), Some(Dur::from_micros(6500)));
        assert_eq!(log.utilization(span()), Some(3008.0 / 4512.0));
        assert!((log.possible_bytes(span(), 1500) - 4500.0).abs() < 1e-9);
        assert_eq!(log.departed(1000..1005), 1);
        assert_eq!((log.utilization(2000..2005), log.settled_and_lost(2000..2005)), (None, (0, 0)));
    }

    #[test]
    fn what_is_no_log() {
        let error = |log: &str| Log::read(log.as_bytes()).unwrap_err();
        assert_eq!(error("# queue: droptail\n"), LogError::NoStart);
        assert_eq!(error("3 + 4\n"), LogError::NoStart);
        for bad in ["x + 4", "3 ? 4", "3 + x", "3 -", "3", ""] {
            assert_eq!(error(&format!("# init timestamp: 1\n{bad}\n")), LogError::Line(2, bad.into()));
        }
    }
}
