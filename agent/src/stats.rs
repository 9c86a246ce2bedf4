//! One JSON line per ended flow, for whoever measures.

use crate::own_file::{self, OwnFileError};
use anole_algorithms::{Metrics, Shares};
use anole_model::Time;
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

impl FlowLine {
    /// A flow that begins, with its source and destination port.
    pub fn new(flow: u32, (src_port, dst_port): (u32, u32), now: Time) -> FlowLine {
        FlowLine {
            algorithm: "",
            flow,
            src_port,
            dst_port,
            start_s: seconds(now),
            end_s: seconds(now),
            end: "dropped",
            reports: 0,
            updates: 0,
            decisions: 0,
            inferences: 0,
            applied: None,
        }
    }

    /// What its session did.
    pub fn note(&mut self, metrics: &Metrics) {
        self.reports = metrics.reports;
        self.updates = metrics.updates;
        self.decisions = metrics.telemetry.decisions;
        self.inferences = metrics.telemetry.inferences;
        self.applied = metrics.telemetry.applied.shares();
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
    /// Replaces the contents of the file at `path`.
    pub fn create(path: &Path) -> Result<Stats, OwnFileError> {
        let file = own_file::open(path, 0o644)?;
        // A device has no length.
        if file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        Ok(Stats { file: Some((path.to_path_buf(), file)), ..Stats::default() })
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

    fn line() -> FlowLine {
        let mut line = FlowLine::new(1, (2, 3), Time::ZERO);
        line.algorithm = "reno";
        line.note(&Metrics { reports: 10, updates: 9, ..Metrics::default() });
        line
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
    fn what_is_somebody_elses_stays() {
        let directory = tempfile::tempdir().unwrap();
        let (precious, path) = (directory.path().join("precious"), directory.path().join("stats"));
        std::fs::write(&precious, "precious").unwrap();
        let refused = || {
            let error = Stats::create(&path).unwrap_err();
            assert!(matches!(error, OwnFileError::Foreign), "{error}");
            assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
            std::fs::remove_file(&path).unwrap();
        };
        std::os::unix::fs::symlink(&precious, &path).unwrap();
        refused();
        std::fs::hard_link(&precious, &path).unwrap();
        refused();
        // Opening a pipe waits for a reader.
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        refused();
        std::fs::write(&path, "of an earlier run, and longer").unwrap();
        Stats::create(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
    }

    #[test]
    fn a_full_disk_is_told_once_and_ends_nothing() {
        let mut stats = Stats::create(Path::new("/dev/full")).unwrap();
        stats.write(&line());
        stats.write(&line());
        assert!(stats.error().unwrap().contains("/dev/full"));
    }
}
