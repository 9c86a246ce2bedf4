// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! The BPF objects in the repository are those of the sources beside them: their hashes are pinned to a compiler,
//! and where that one is installed they are compiled again and compared.

#![allow(clippy::disallowed_methods, reason = "reads the sources")]

use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bpf");

/// Of every file in `folder` whose name has one of these endings, in the order of their names.
fn files(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let wanted =
        |path: &PathBuf| path.extension().is_some_and(|end| endings.iter().any(|known| end == *known));
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(wanted).collect();
    files.sort();
    files
}

fn hash(files: &[PathBuf]) -> String {
    let mut hash = Sha256::new();
    files.iter().for_each(|file| hash.update(fs::read(file).unwrap()));
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What `prebuilt/manifest.txt` says: lines of a name and its value.
fn manifest(folder: &Path) -> Vec<(String, String)> {
    let text = fs::read_to_string(folder.join("manifest.txt")).unwrap();
    let line = |line: &str| line.split_once(' ').map(|(name, value)| (name.to_string(), value.to_string()));
    text.lines().map(|text| line(text).unwrap_or_else(|| panic!("{text}"))).collect()
}

#[test]
fn sources_and_objects_are_those_of_the_manifest() {
    let folder = Path::new(FOLDER);
    let sources = [files(folder, &["c", "h"]), files(&folder.join("../../../vm"), &["c", "h"])].concat();
    let objects = files(&folder.join("prebuilt"), &["o"]);
    let name = |object: &PathBuf| object.file_name().unwrap().to_str().unwrap().to_string();
    let hashes = objects.iter().map(|object| (name(object), hash(std::slice::from_ref(object))));
    let expected: Vec<_> = [("sources".to_string(), hash(&sources))].into_iter().chain(hashes).collect();
    assert_eq!(manifest(&folder.join("prebuilt"))[1..], expected, "run ccp-kernel/bpf/rebuild.sh");
}

#[test]
fn the_sources_compile_to_the_same_objects() {
    if Command::new("clang").arg("--version").output().is_err() {
        anole_testing::skip!("clang is not installed (package clang)");
        return;
    }
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("prebuilt");
    let _ = fs::remove_dir_all(&out);
    fs::create_dir_all(&out).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("rebuild.sh");
    let output = Command::new(script).arg(&out).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (rebuilt, recorded) = (manifest(&out), manifest(&Path::new(FOLDER).join("prebuilt")));
    if rebuilt[0] != recorded[0] {
        anole_testing::skip!(
            "not compared: the objects are of {}, and this is {}",
            recorded[0].1,
            rebuilt[0].1
        );
        return;
    }
    assert_eq!(rebuilt, recorded, "run ccp-kernel/bpf/rebuild.sh");
}
