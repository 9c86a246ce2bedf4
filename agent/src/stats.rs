//! One JSON line per ended flow, for whoever measures.

use anole_algorithms::Telemetry;
use anole_model::{Dur, Time};
use serde::Serialize;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// What happened in one flow.
#[derive(Clone, Debug, Serialize)]
pub struct FlowLine {
    /// The algorithm that ran it.
    pub algorithm: &'static str,
    /// The flow's id at its datapath.
    pub flow: u32,
    /// Source port, as the datapath told.
    pub src_port: u32,
    /// Destination port, as the datapath told.
    pub dst_port: u32,
    /// Seconds from the agent's start to the flow's.
    pub start_s: f64,
    /// Seconds to its end.
    pub end_s: f64,
    /// `closed` by its datapath (or silence), `failed` by its algorithm, or `dropped`: announced again,
    /// or the agent stopped.
    pub end: &'static str,
    /// Reports taken.
    pub reports: u64,
    /// Commands sent.
    pub updates: u64,
    /// Decisions of the algorithm.
    pub decisions: u64,
    /// Runs of its learned policy.
    pub inferences: u64,
    /// Shares of the time during which each kind of rate was in force; null when none was told.
    pub applied: Option<Shares>,
}

/// Shares of time, 0 to 1.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs, reason = "as in the algorithms' telemetry")]
pub struct Shares {
    pub rule: f64,
    pub learned: f64,
    pub inferred: f64,
    pub previous: f64,
}

impl Shares {
    /// The shares, when any time was told.
    pub fn of(telemetry: &Telemetry) -> Option<Shares> {
        let applied = &telemetry.applied;
        let total = applied.rule + applied.learned + applied.inferred + applied.previous;
        let share = |part: Dur| part.as_secs_f64() / total.as_secs_f64();
        (!total.is_zero()).then(|| Shares {
            rule: share(applied.rule),
            learned: share(applied.learned),
            inferred: share(applied.inferred),
            previous: share(applied.previous),
        })
    }
}

/// Seconds since the agent's start.
pub fn seconds(time: Time) -> f64 {
    time.as_secs_f64()
}

/// The file, or nothing.
#[derive(Debug, Default)]
pub struct Stats {
    file: Option<(PathBuf, File)>,
    /// Bytes of whole lines.
    whole: u64,
    error: Option<String>,
}

impl Stats {
    /// Replaces the file at `path`.
    pub fn create(path: &Path) -> io::Result<Stats> {
        Ok(Stats { file: Some((path.to_path_buf(), File::create(path)?)), ..Stats::default() })
    }

    /// Writes a line. After an error the file keeps its whole lines and gets no more.
    pub fn write(&mut self, line: &FlowLine) {
        let Some((path, file)) = &mut self.file else { return };
        let written = serde_json::to_vec(line).map_err(io::Error::from).and_then(|mut bytes| {
            bytes.push(b'\n');
            file.write_all(&bytes).map(|()| bytes.len() as u64)
        });
        match written {
            Ok(bytes) => self.whole += bytes,
            Err(error) => {
                let cut = file.set_len(self.whole).and_then(|()| file.seek(SeekFrom::End(0)));
                let rest = if cut.is_ok() { "it holds whole lines only" } else { "its last line may be cut" };
                let message = format!("--stats {}: {error}; later flows are missing, {rest}", path.display());
                tracing::error!("{message}");
                self.error = Some(message);
                self.file = None;
            }
        }
    }

    /// What went wrong, if anything did.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anole_algorithms::Telemetry;

    fn line() -> FlowLine {
        FlowLine {
            algorithm: "reno",
            flow: 1,
            src_port: 2,
            dst_port: 3,
            start_s: 0.5,
            end_s: 1.5,
            end: "closed",
            reports: 10,
            updates: 9,
            decisions: 0,
            inferences: 0,
            applied: None,
        }
    }

    #[test]
    fn shares_add_up_and_are_absent_when_nothing_was_told() {
        let mut telemetry = Telemetry::default();
        assert!(Shares::of(&telemetry).is_none());
        telemetry.applied.rule = Dur::from_millis(1);
        telemetry.applied.previous = Dur::from_millis(3);
        let shares = Shares::of(&telemetry).unwrap();
        assert_eq!((shares.rule, shares.learned, shares.inferred, shares.previous), (0.25, 0.0, 0.0, 0.75));
    }

    #[test]
    fn a_line_per_flow() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stats");
        let mut stats = Stats::create(&path).unwrap();
        stats.write(&line());
        stats.write(&line());
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 2);
        let value: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!((value["algorithm"].as_str(), value["reports"].as_u64()), (Some("reno"), Some(10)));
        assert!(value["applied"].is_null());
    }

    #[test]
    fn a_full_disk_is_told_once_and_ends_nothing() {
        let mut stats = Stats::create(Path::new("/dev/full")).unwrap();
        stats.write(&line());
        stats.write(&line());
        assert!(stats.error().unwrap().contains("/dev/full"));
    }
}
