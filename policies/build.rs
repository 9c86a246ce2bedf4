//! Lists the schemas in `schemas/` and the policies in `shipped/`, so that both are part of the library.

#![allow(clippy::disallowed_methods, reason = "a build script is told its folders by cargo")]

use std::path::Path;
use std::{env, fs};

fn main() {
    let root = env::var("CARGO_MANIFEST_DIR").expect("set by cargo");
    let out = env::var("OUT_DIR").expect("set by cargo");
    let schemas = list(&root, "schemas", "toml", "include_str");
    let shipped = list(&root, "shipped", "safetensors", "include_bytes");
    let text = format!(
        "const SCHEMAS: &[(&str, &str)] = &[\n{schemas}];\n\
         pub(crate) const SHIPPED: &[(&str, &[u8])] = &[\n{shipped}];\n"
    );
    fs::write(Path::new(&out).join("embedded_files.rs"), text).expect("OUT_DIR can be written");
}

/// One entry per file with this extension, in order of their names.
fn list(root: &str, folder: &str, extension: &str, include: &str) -> String {
    let folder = Path::new(root).join(folder);
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = fs::read_dir(&folder).into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<_> = paths.filter(|path| path.extension().is_some_and(|e| e == extension)).collect();
    paths.sort_by(|a, b| a.file_stem().cmp(&b.file_stem()));
    let entry = |path: &std::path::PathBuf| {
        let stem = path.file_stem()?.to_str()?;
        Some(format!("    ({stem:?}, {include}!({:?})),\n", path.to_str()?))
    };
    paths.iter().filter_map(entry).collect()
}
