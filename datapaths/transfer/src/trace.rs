//! A trace of a transfer: one row per connection and interval, as CSV or JSON.
//!
//! The rows go to a temporary file beside the target, which takes the target's name only when the
//! trace is complete: a file under that name is always whole.

use crate::Reading;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The columns of a trace, in CSV order.
const COLUMNS: &str = "time_s,connection,sent_packets,sent_bytes,delivered_packets,delivered_bytes,lost_packets,rtt_ms,cwnd_bytes,pacing_mbps,governor";

/// Why a trace could not be written.
#[derive(Debug, thiserror::Error)]
pub enum TraceWriteError {
    /// The name tells no format.
    #[error("--trace {}: the name has to end in .csv or .json, which is the format to write", path.display())]
    Format {
        /// The file.
        path: PathBuf,
    },
    /// The file could not be made or written.
    #[error("--trace {}: {reason}; choose a file in a directory that exists, is writable and has space", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Csv,
    Json,
}

/// A trace that is being written. Dropped before [`TraceWriter::finish`], it leaves nothing behind.
#[derive(Debug)]
pub struct TraceWriter {
    out: BufWriter<File>,
    format: Format,
    target: PathBuf,
    temporary: PathBuf,
    rows: u64,
}

impl TraceWriter {
    /// Opens a trace; the file's name decides the format.
    pub fn create(target: &Path) -> Result<TraceWriter, TraceWriteError> {
        let format = match target.extension().and_then(|extension| extension.to_str()) {
            Some("csv") => Format::Csv,
            Some("json") => Format::Json,
            _ => return Err(TraceWriteError::Format { path: target.to_owned() }),
        };
        let failed = |reason| TraceWriteError::Write { path: target.to_owned(), reason };
        if target.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        let mut temporary = target.as_os_str().to_owned();
        temporary.push(format!(".{}.part", std::process::id()));
        let temporary = PathBuf::from(temporary);
        let file = File::create(&temporary).map_err(failed)?;
        let mut trace =
            TraceWriter { out: BufWriter::new(file), format, target: target.to_owned(), temporary, rows: 0 };
        let head = match format {
            Format::Csv => writeln!(trace.out, "{COLUMNS}"),
            Format::Json => write!(trace.out, "["),
        };
        head.map_err(failed)?;
        Ok(trace)
    }

    /// Adds a row.
    pub fn add(&mut self, time_s: f64, connection: usize, reading: &Reading) -> Result<(), TraceWriteError> {
        let written = match self.format {
            Format::Csv => self.add_csv(time_s, connection, reading),
            Format::Json => self.add_json(time_s, connection, reading),
        };
        self.rows += 1;
        written.map_err(|reason| TraceWriteError::Write { path: self.target.clone(), reason })
    }

    fn add_csv(&mut self, time_s: f64, connection: usize, r: &Reading) -> io::Result<()> {
        let optional = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.3}"));
        writeln!(
            self.out,
            "{time_s:.4},{connection},{},{},{},{},{},{},{},{},{}",
            r.sent_packets,
            r.sent_bytes,
            r.delivered_packets,
            r.delivered_bytes,
            r.lost_packets,
            optional(r.rtt_ms()),
            r.cwnd_bytes,
            optional(r.pacing_mbps()),
            r.governor.name(),
        )
    }

    fn add_json(&mut self, time_s: f64, connection: usize, r: &Reading) -> io::Result<()> {
        let row = serde_json::json!({
            "time_s": time_s, "connection": connection,
            "sent_packets": r.sent_packets, "sent_bytes": r.sent_bytes,
            "delivered_packets": r.delivered_packets, "delivered_bytes": r.delivered_bytes,
            "lost_packets": r.lost_packets, "rtt_ms": r.rtt_ms(), "cwnd_bytes": r.cwnd_bytes,
            "pacing_mbps": r.pacing_mbps(), "governor": r.governor.name(),
        });
        write!(self.out, "{}\n{row}", if self.rows == 0 { "" } else { "," })
    }

    /// Completes the trace: from now on the file stands under its name.
    pub fn finish(mut self) -> Result<(), TraceWriteError> {
        let failed = |reason| TraceWriteError::Write { path: self.target.clone(), reason };
        if self.format == Format::Json {
            write!(self.out, "\n]\n").map_err(failed)?;
        }
        self.out.flush().map_err(failed)?;
        std::fs::rename(&self.temporary, &self.target).map_err(failed)
    }
}

impl Drop for TraceWriter {
    fn drop(&mut self) {
        // After a rename there is nothing under this name.
        let _ = std::fs::remove_file(&self.temporary);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> [Reading; 2] {
        let first =
            Reading { sent_packets: 3, rtt_us: Some(20_500), cwnd_bytes: 14_720, ..Reading::default() };
        [first, Reading { pacing_bytes_per_s: Some(1_000_000), ..first }]
    }

    fn written(name: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        let mut trace = TraceWriter::create(&path).unwrap();
        for (index, row) in rows().iter().enumerate() {
            trace.add(0.05 * index as f64, 0, row).unwrap();
        }
        assert!(!path.exists());
        trace.finish().unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        std::fs::read_to_string(&path).unwrap()
    }

    #[test]
    fn csv() {
        let text = written("trace.csv");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], COLUMNS);
        assert_eq!(lines[1], "0.0000,0,3,0,0,0,0,20.500,14720,,stack");
        assert_eq!(lines[2], "0.0500,0,3,0,0,0,0,20.500,14720,8.000,stack");
    }

    #[test]
    fn json() {
        let rows: Vec<serde_json::Value> = serde_json::from_str(&written("trace.json")).unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0]["pacing_mbps"], serde_json::Value::Null);
        assert_eq!(rows[1]["pacing_mbps"], 8.0);
        let mut columns: Vec<&str> = COLUMNS.split(',').collect();
        columns.sort_unstable();
        assert_eq!(rows[0].as_object().unwrap().keys().map(String::as_str).collect::<Vec<_>>(), columns);
    }

    #[test]
    fn an_abandoned_trace_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut trace = TraceWriter::create(&dir.path().join("t.csv")).unwrap();
        trace.add(0.0, 0, &rows()[0]).unwrap();
        drop(trace);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn errors_name_the_file() {
        let error = TraceWriter::create(Path::new("/nonexistent/t.csv")).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/t.csv"), "{error}");
        let error = TraceWriter::create(Path::new("t.txt")).unwrap_err().to_string();
        assert!(error.contains(".csv or .json"), "{error}");
    }
}
