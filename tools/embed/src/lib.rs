//! For build scripts: the files of a folder as Rust text, so that they are part of a program by name.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "a build script is told its folders by cargo")]

use std::path::{Path, PathBuf};
use std::{env, fs};

/// An entry `("STEM", include!("PATH")),` per file with this extension in `folder`, relative to the crate, in the order of
/// their names; `include` is `include_str` or `include_bytes`. Cargo is told to watch the folder. No folder, no entry.
pub fn entries(folder: &str, extension: &str, include: &str) -> String {
    let root = env::var("CARGO_MANIFEST_DIR").expect("set by cargo");
    let folder = Path::new(&root).join(folder);
    println!("cargo::rerun-if-changed={}", folder.display());
    let found = fs::read_dir(&folder).into_iter().flatten();
    let paths = found.filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|e| e == extension)).collect();
    paths.sort_by(|a, b| a.file_stem().cmp(&b.file_stem()));
    let entry = |path: &PathBuf| {
        let stem = path.file_stem()?.to_str()?;
        Some(format!("    ({stem:?}, {include}!({:?})),\n", path.to_str()?))
    };
    paths.iter().filter_map(entry).collect()
}

/// Writes a file into `OUT_DIR`, for `include!(concat!(env!("OUT_DIR"), …))`.
pub fn write(name: &str, text: &str) {
    let out = env::var("OUT_DIR").expect("set by cargo");
    fs::write(Path::new(&out).join(name), text).expect("OUT_DIR can be written");
}
