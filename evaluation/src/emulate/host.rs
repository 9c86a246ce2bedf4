//! What the machine did during runs in real time: rates and delays are as good as it was idle.
//!
//! A virtual machine stands still whenever its host runs something else on the processor. Every round-trip time then
//! rises, and pacing loses the time; the kernel counts it as stolen (proc_stat(5)). What a program inside can do about it
//! is never to let a processor go idle.

use anole_emulator::Awake;
use std::fmt;

/// From this share of stolen time on, figures say more about the host than about the flows: on the paper's normal
/// link Anole has 46 Mbps over the kernel with 5 % stolen, 43 with 12 and 37 with 26, the kernel's BBR 45.7 with 1 % and
/// 31 to 41 with 36 (docs/measurements/results.md).
const DISTURBING: f64 = 0.05;

/// Up to this share figures are held against targets: on that link with 0.1 % loss, over QUIC, Anole has 46.7 to 47.1
/// Mbps and 34 to 36 ms (95th percentile of the one-way delay) with up to 0.2 % stolen, 46.4 and 39 with 0.8, 45.3 and
/// 45 with 3.2.
const QUIET: f64 = 0.01;

/// Processor time up to a moment, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessorTime {
    stolen: u64,
    all: u64,
}

/// What the host took of the processors' time, 0…1.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Stolen(f64);

impl ProcessorTime {
    /// Up to now; `None` where the kernel doesn't tell.
    pub fn now() -> Option<ProcessorTime> {
        ProcessorTime::read(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    fn read(stat: &str) -> Option<ProcessorTime> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().map_while(|ticks| ticks.parse().ok()).collect();
        // Guests' time, behind the eighth, is part of the first two.
        let all = ticks.get(..8)?.iter().fold(0, |sum: u64, ticks| sum.saturating_add(*ticks));
        Some(ProcessorTime { stolen: ticks[7], all })
    }

    /// What the host took since then.
    pub fn stolen_until(self, now: ProcessorTime) -> Stolen {
        let all = now.all.saturating_sub(self.all);
        Stolen(if all > 0 { now.stolen.saturating_sub(self.stolen) as f64 / all as f64 } else { 0.0 })
    }
}

/// Keeps the processors awake where the host has ever taken one. What it takes is mostly one that went idle: a thread
/// that sleeps for half a millisecond at a time was late by 160 ms in 4 s beside idle processors, by 20 ms beside awake
/// ones (medians of 14 runs each, in turn).
pub fn keep_awake() -> Option<Awake> {
    ProcessorTime::now().filter(|host| host.stolen > 0).map(|_| Awake::keep())
}

/// What the host has taken since then, where the kernel tells.
pub fn stolen_since(begin: Option<ProcessorTime>) -> Option<Stolen> {
    Some(begin?.stolen_until(ProcessorTime::now()?))
}

impl Stolen {
    /// This share, 0…1.
    #[cfg(test)]
    pub fn share(share: f64) -> Stolen {
        Stolen(share)
    }

    /// True when it was so little that figures can be held against targets.
    pub fn is_quiet(self) -> bool {
        self.0 <= QUIET
    }

    /// True when it was so much that the figures are not worth keeping.
    pub fn disturbs(self) -> bool {
        self.0 > DISTURBING
    }
}

impl fmt::Display for Stolen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the host took {:.1} % of this machine's processor time", self.0 * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_that_of_all_ticks() {
        let read = |line: &str| ProcessorTime::read(&format!("{line}\ncpu0 1 2 3 4 5 6 7 8 0 0\n"));
        let begin = read("cpu  100 0 50 800 0 0 0 50 100 0").unwrap();
        let end = read("cpu  150 0 100 1500 0 0 0 250 150 0").unwrap();
        let stolen = begin.stolen_until(end);
        assert_eq!(stolen, Stolen(0.2));
        assert!(stolen.disturbs() && !Stolen(0.02).disturbs() && !Stolen(0.02).is_quiet());
        assert!(Stolen(0.002).is_quiet());
        assert_eq!(stolen.to_string(), "the host took 20.0 % of this machine's processor time");
        assert_eq!(end.stolen_until(begin), Stolen(0.0), "counters that went backwards");
        assert_eq!([read("cpu  1 2 3"), read("intr 1"), ProcessorTime::read("")], [None; 3]);
    }
}
