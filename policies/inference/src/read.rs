//! Files of policies and models, as bytes.

use crate::refused;
use anole_policies::file::{MAX_DATA, MAX_HEADER};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Largest policy file, bytes: its tensors and its header.
pub(crate) const MAX_FILE: u64 = (MAX_DATA + MAX_HEADER + 8) as u64;

/// The bytes of a file that has no more than `most`. Pipes and devices, which may have no end, are refused.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    // Opening a pipe waits for a writer.
    let opened = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path);
    let file = opened.map_err(|error| match error.raw_os_error().map(Errno::from_raw) {
        Some(denied @ Errno::EACCES) => format!("cannot open it: {}", refused::why(path, denied)),
        _ => format!("cannot open it: {error}"),
    })?;
    let unreadable = |error: std::io::Error| format!("cannot read it: {error}");
    let too_large = || format!("larger than {most} bytes, the most that are read");
    let found = file.metadata().map_err(unreadable)?;
    if !found.is_file() {
        return Err("is no file".to_string());
    }
    if found.len() > most {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > most { Err(too_large()) } else { Ok(bytes) }
}
