// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! The BPF objects in the repository are those of the sources beside them.

#![allow(clippy::disallowed_methods, reason = "reads the sources")]

use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bpf");
/// The C files of a folder in the order of their names.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let is_c = |path: &PathBuf| path.extension().is_some_and(|end| end == "c" || end == "h");
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(is_c).collect();
    files.sort();
    files
}

#[test]
fn the_objects_are_up_to_date() {
    let folder = Path::new(FOLDER);
    let mut hash = Sha256::new();
    for source in sources(folder).into_iter().chain(sources(&folder.join("../../../vm"))) {
        hash.update(fs::read(source).unwrap());
    }
    let hash: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let recorded = fs::read_to_string(folder.join("prebuilt/sources.sha256")).unwrap();
    assert_eq!(hash, recorded.trim(), "the sources have changed: run ccp-kernel/bpf/rebuild.sh");
}

#[test]
fn the_sources_compile() {
    if Command::new("clang").arg("--version").output().is_err() {
        eprintln!("skipped: clang is not installed (package clang)");
        return;
    }
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("prebuilt");
    fs::create_dir_all(&out).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("rebuild.sh");
    let output = Command::new(script).arg(&out).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
