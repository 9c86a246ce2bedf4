//! Files of policies and models, as bytes.

use anole_policies::file::{MAX_DATA, MAX_HEADER};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Largest policy file, bytes: its tensors and its header.
const MAX_FILE: u64 = (MAX_DATA + MAX_HEADER + 8) as u64;

/// The file's bytes; no more are read than a policy file may have.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    let file = File::open(path).map_err(|error| format!("cannot open it: {error}"))?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(|error| format!("cannot read it: {error}"))?;
    match bytes.len() as u64 > MAX_FILE {
        true => Err(format!("larger than the {MAX_FILE} bytes that a policy file may have")),
        false => Ok(bytes),
    }
}
