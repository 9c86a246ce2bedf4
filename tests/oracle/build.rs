//! Builds the programs that contain C: libccp (the four C files of the `libccp` crate's source, as Cargo fetched it)
//! with `src/harness.c` and with `src/datapath.c`, the machine of the kernel datapaths (`ccp-kernel/vm` and
//! `src/kernel.c`) and CUBIC of the netlink module (`src/cubic.c`), the latter two under sanitizers.

#![allow(clippy::disallowed_methods, reason = "a build script reads what cargo sets")]

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// As in libccp's Makefile, with its default log level.
const FLAGS: [&str; 6] =
    ["-O2", "-std=gnu99", "-fgnu89-inline", "-Wno-declaration-after-statement", "-fPIC", "-D__LOG_INFO__"];
/// Every warning of the kernel's build and more; a bad access or undefined arithmetic ends the process.
const KERNEL_FLAGS: [&str; 9] = [
    "-O1",
    "-g",
    "-std=gnu11",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
];
const KERNEL_VM: &str = "../../ccp-kernel/vm";
/// The header of the C interface.
const CAPI: &str = "../../datapaths/capi/include";
const SOURCES: [&str; 4] = ["ccp.c", "machine.c", "serialize.c", "ccp_priv.c"];

fn main() {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed={KERNEL_VM}");
    println!("cargo::rerun-if-changed=../../ccp-kernel/module");
    println!("cargo::rerun-if-changed=Cargo.lock");
    let source = libccp_source();
    let files = SOURCES.map(|file| source.join(file));
    let mut libccp = compiler();
    libccp.args(FLAGS).arg("-I").arg(&source).args(files).args(["src/harness.c", "-lpthread"]);
    build(libccp, "LIBCCP_ORACLE", "libccp-oracle");
    let mut datapath = compiler();
    datapath.args(FLAGS).arg("-I").arg(&source).args(SOURCES.map(|file| source.join(file)));
    datapath.args(["src/datapath.c", "-lpthread"]);
    build(datapath, "LIBCCP_DATAPATH", "libccp-datapath");
    let mut kernel = compiler();
    kernel.args(KERNEL_FLAGS).args(["-I", KERNEL_VM, "src/kernel.c"]);
    build(kernel, "KERNEL_VM", "kernel-vm");
    let mut cubic = compiler();
    // Of pipe.h it needs the frame alone.
    cubic.args(KERNEL_FLAGS).arg("-Wno-unused-function").args(["-I", "src/kernel-headers", "-I", KERNEL_VM]);
    cubic.arg("src/cubic.c");
    build(cubic, "KERNEL_CUBIC", "kernel-cubic");
    transport();
}

/// The transport in C of the benchmark, which alone links it.
fn transport() {
    println!("cargo::rerun-if-changed={CAPI}");
    let mut transport = cc::Build::new();
    transport.file("src/transport.c").include(CAPI).std("gnu11").opt_level(2).cargo_metadata(false);
    transport.compile("transport");
    println!("cargo::rustc-link-search=native={}", env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
}

fn compiler() -> Command {
    cc::Build::new().warnings(false).get_compiler().to_command()
}

/// Runs the compiler and tells the crate, in the variable `name`, where the program is.
fn build(mut compiler: Command, name: &str, file: &str) {
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets OUT_DIR")).join(file);
    let status =
        compiler.arg("-o").arg(&out).status().expect("a C compiler is installed (package build-essential)");
    assert!(status.success(), "the C compiler refused {file}: see above");
    println!("cargo::rustc-env={name}={}", out.display());
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
