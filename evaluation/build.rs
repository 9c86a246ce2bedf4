//! Lists the experiments in `evaluation/experiments/`, so that they are part of the program.

#![allow(clippy::disallowed_methods, reason = "a build script is told its folders by cargo")]

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = env::var("CARGO_MANIFEST_DIR").expect("set by cargo");
    let out = env::var("OUT_DIR").expect("set by cargo");
    let folder = Path::new(&root).join("experiments");
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = fs::read_dir(&folder).expect("experiments/ can be listed");
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
    paths.sort();
    let entry = |path: &PathBuf| {
        let stem = path.file_stem()?.to_str()?;
        Some(format!("    ({stem:?}, include_str!({:?})),\n", path.to_str()?))
    };
    let list: String = paths.iter().filter_map(entry).collect();
    let text = format!("const SHIPPED: &[(&str, &str)] = &[\n{list}];\n");
    fs::write(Path::new(&out).join("experiments.rs"), text).expect("OUT_DIR can be written");
}
