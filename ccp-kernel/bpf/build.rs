// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! Compiles the reader of the agent's messages. The BPF object is in the repository as it is loaded
//! (src/bpf/prebuilt), so that building needs no clang.

fn main() {
    for file in ["src/fold.c", "src/bpf/datapath.h", "src/bpf/switch.h", "../vm"] {
        println!("cargo::rerun-if-changed={file}");
    }
    cc::Build::new()
        .file("src/fold.c")
        .flag("-Wall")
        .flag("-Wextra")
        .warnings_into_errors(true)
        .compile("anole_fold");
}
