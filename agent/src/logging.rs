//! Structured logs on stderr, and counters that speak at most once a minute each.

use crate::cli::LogFormat;
use crate::stats::FlowLine;
use anole_model::{Dur, Time};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// A kind of trouble is logged once in this time.
const LOG_EVERY: Dur = Dur::from_millis(60_000);

/// Sends logs of `level` and above to stderr, and panics with them.
pub fn start(format: LogFormat, level: tracing::Level) {
    // portus reports each READY and each foreign message as news: whoever sends them would fill the log.
    let portus = if level == tracing::Level::INFO { tracing::Level::WARN } else { level };
    let filter = EnvFilter::new(format!("{level},portus={portus}"));
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        // A closed stderr must not end the agent: its own report of the error would panic.
        .log_internal_errors(false);
    match format {
        LogFormat::Text => logs.with_target(false).init(),
        LogFormat::Json => logs.json().flatten_event(true).with_target(false).init(),
    }
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, reason = panic_text(panic.payload()), "panic");
    }));
}

/// What a panic said.
pub fn panic_text(payload: &(dyn std::any::Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no text)")
}

/// Lets news of one kind pass, but only so many a second: a busy host has thousands of flows.
#[derive(Debug, Default)]
pub struct Throttle {
    begun: Option<Time>,
    passed: u32,
    left_out: u64,
}

impl Throttle {
    /// Lines of one kind in a second.
    const LINES: u32 = 10;

    /// It happened; how many were left out before it when a line is due.
    pub fn take(&mut self, now: Time) -> Option<u64> {
        if self.begun.is_none_or(|begun| now.since(begun) >= Dur::from_millis(1_000)) {
            (self.begun, self.passed) = (Some(now), 0);
        }
        if self.passed == Throttle::LINES {
            self.left_out += 1;
            return None;
        }
        self.passed += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// What the log tells of flows that come and go.
#[derive(Debug, Default)]
pub struct FlowNews {
    begins: Throttle,
    ends: Throttle,
}

impl FlowNews {
    /// A flow begins, or its datapath announces it once more, as it does until it is answered: the first time is news.
    pub fn begins(&mut self, now: Time, line: &FlowLine, peer: Option<String>, again: bool) {
        let FlowLine { flow, algorithm, .. } = *line;
        let left_out = if again { None } else { self.begins.take(now) };
        match left_out {
            Some(left_out) => tracing::info!(flow, algorithm, peer, left_out = some(left_out), "flow begins"),
            None => tracing::debug!(flow, algorithm, peer, again, "flow begins"),
        }
    }

    /// A flow has ended, or is dropped: announced again, or left by the agent as it stops.
    pub fn ends(&mut self, now: Time, line: &FlowLine) {
        let FlowLine { flow, algorithm, end, reports, .. } = *line;
        let seconds = line.end_s - line.start_s;
        let left_out = if end == "dropped" { None } else { self.ends.take(now) };
        match left_out.map(some) {
            Some(left_out) => tracing::info!(flow, algorithm, end, seconds, reports, left_out, "flow ends"),
            None => tracing::debug!(flow, algorithm, end, seconds, reports, "flow ends"),
        }
    }
}

/// Nothing for 0, so that it is not logged.
fn some(count: u64) -> Option<u64> {
    (count > 0).then_some(count)
}

/// Counts of trouble, each kind logged at once and then at most once a minute.
#[derive(Debug, Default)]
pub struct Tally {
    kinds: BTreeMap<&'static str, Count>,
}

#[derive(Debug, Default)]
struct Count {
    total: u64,
    unlogged: u64,
    logged: Option<Time>,
}

/// Numbers for a log line that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueLine {
    /// Since the start.
    pub total: u64,
    /// Since the last line.
    pub new: u64,
}

impl Tally {
    /// It happened again; the numbers when a line is due.
    pub fn count(&mut self, now: Time, kind: &'static str) -> Option<DueLine> {
        let count = self.kinds.entry(kind).or_default();
        count.total += 1;
        count.unlogged += 1;
        if count.logged.is_some_and(|logged| now.since(logged) < LOG_EVERY) {
            return None;
        }
        count.logged = Some(now);
        Some(DueLine { total: count.total, new: std::mem::take(&mut count.unlogged) })
    }

    /// Logs the totals.
    pub fn summary(&self) {
        for (kind, count) in &self.kinds {
            tracing::info!(kind, total = count.total, "trouble since the start");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_pass_until_they_are_too_many() {
        let mut news = Throttle::default();
        let at = |ms: u64| Time::ZERO + Dur::from_millis(ms);
        let passed = (0..25).filter(|&n| news.take(at(n)).is_some()).count();
        assert_eq!(passed, 10);
        assert_eq!(news.take(at(1000)), Some(15));
        assert_eq!(news.take(at(1001)), Some(0));
    }

    #[test]
    fn each_kind_speaks_once_a_minute_and_counts_everything() {
        let mut tally = Tally::default();
        let at = |seconds: u64| Time::ZERO + Dur::from_millis(1000 * seconds);
        assert_eq!(tally.count(at(0), "a"), Some(DueLine { total: 1, new: 1 }));
        for second in 1..60 {
            assert_eq!(tally.count(at(second), "a"), None);
        }
        assert_eq!(tally.count(at(30), "b"), Some(DueLine { total: 1, new: 1 }));
        assert_eq!(tally.count(at(60), "a"), Some(DueLine { total: 61, new: 60 }));
    }
}
