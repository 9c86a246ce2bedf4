//! Files of JSON lines: whole ones, whatever happens.

use crate::own_file::{self, OwnFileError};
use anyhow::Context;
use serde::Serialize;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// No file grows beyond this.
const MOST_BYTES: u64 = 1 << 30;

/// The file, or nothing.
#[derive(Debug, Default)]
pub struct Lines {
    file: Option<(PathBuf, File)>,
    /// The flag that names it.
    flag: &'static str,
    /// Bytes of whole lines.
    whole: u64,
    error: Option<String>,
}

impl Lines {
    /// Opens or makes the file at `path`, which `flag` names, and leaves what is in it.
    pub fn open(flag: &'static str, path: &Path) -> Result<Lines, OwnFileError> {
        let file = own_file::open_alone(path, 0o644)?;
        Ok(Lines { file: Some((path.to_path_buf(), file)), flag, ..Lines::default() })
    }

    /// Empties it, before the first line.
    pub fn begin(&mut self) -> anyhow::Result<()> {
        let Some((path, file)) = &self.file else { return Ok(()) };
        // A device has no length.
        let emptied =
            file.metadata().and_then(|found| if found.is_file() { file.set_len(0) } else { Ok(()) });
        emptied.with_context(|| format!("{} {}: cannot empty it", self.flag, path.display()))
    }

    /// Writes a line. After an error the file keeps its whole lines and gets no more.
    pub fn write(&mut self, line: &impl Serialize) {
        let Some((path, file)) = &mut self.file else { return };
        let full = || io::Error::new(io::ErrorKind::FileTooLarge, format!("it has {MOST_BYTES} bytes"));
        let written = serde_json::to_vec(line).map_err(io::Error::from).and_then(|mut bytes| {
            bytes.push(b'\n');
            let length = bytes.len() as u64;
            if self.whole + length > MOST_BYTES {
                return Err(full());
            }
            file.write_all(&bytes).map(|()| length)
        });
        match written {
            Ok(bytes) => self.whole += bytes,
            Err(error) => {
                let cut = file.set_len(self.whole).and_then(|()| file.seek(SeekFrom::End(0)));
                let rest = if cut.is_ok() { "it holds whole lines only" } else { "its last line may be cut" };
                let message =
                    format!("{} {}: {error}; later lines are missing, {rest}", self.flag, path.display());
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
    use crate::stats::FlowLine;
    use anole_algorithms::Metrics;
    use anole_model::Time;

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
        let mut stats = Lines::open("--stats", &path).unwrap();
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
            let error = Lines::open("--stats", &path).unwrap_err();
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
        let mut stats = Lines::open("--stats", &path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 29);
        stats.begin().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
    }

    #[test]
    fn a_file_has_one_writer() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stats");
        let mut stats = Lines::open("--stats", &path).unwrap();
        stats.write(&line());
        let error = Lines::open("--antelope-log", &path).unwrap_err();
        assert!(error.to_string().contains("another flag, writes it"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 1);
        drop(stats);
        Lines::open("--stats", &path).unwrap();
    }

    #[test]
    fn a_full_disk_is_told_once_and_ends_nothing() {
        let mut stats = Lines::open("--stats", Path::new("/dev/full")).unwrap();
        stats.write(&line());
        stats.write(&line());
        assert!(stats.error().unwrap().contains("/dev/full"));
    }
}
