//! Builds the program that contains C libccp: the four C files of the `libccp` crate's source, as Cargo
//! fetched it, and `src/harness.c`.

#![allow(clippy::disallowed_methods, reason = "a build script reads what cargo sets")]

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// As in libccp's Makefile, with its default log level.
const FLAGS: [&str; 6] =
    ["-O2", "-std=gnu99", "-fgnu89-inline", "-Wno-declaration-after-statement", "-fPIC", "-D__LOG_INFO__"];
const SOURCES: [&str; 4] = ["ccp.c", "machine.c", "serialize.c", "ccp_priv.c"];

fn main() {
    println!("cargo::rerun-if-changed=src/harness.c");
    println!("cargo::rerun-if-changed=Cargo.lock");
    let source = libccp_source();
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets OUT_DIR")).join("libccp-oracle");
    let mut compiler = cc::Build::new().warnings(false).get_compiler().to_command();
    compiler.args(FLAGS).arg("-I").arg(&source).args(SOURCES.map(|file| source.join(file)));
    compiler.arg("src/harness.c").arg("-o").arg(&out).arg("-lpthread");
    let status = compiler.status().expect("a C compiler is installed (package build-essential)");
    assert!(status.success(), "the C compiler refused libccp: see above");
    println!("cargo::rustc-env=LIBCCP_ORACLE={}", out.display());
}

/// Where Cargo keeps the source of the pinned `libccp` crate.
fn libccp_source() -> PathBuf {
    let cargo = env::var("CARGO").expect("cargo sets CARGO");
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--all-features", "--locked"])
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let manifest = metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|package| package["name"] == "libccp")
        .and_then(|package| package["manifest_path"].as_str())
        .expect("libccp is a dependency of this package");
    Path::new(manifest).parent().expect("a manifest lies in a folder").join("libccp")
}
