//! The library as C sees it: programs of `tests/c` under the address and undefined-behaviour sanitizers, linked with
//! what `package.sh` makes; the symbols; the header in C++.

#![allow(clippy::disallowed_methods, reason = "runs a C compiler")]

mod common;

use common::{SANITIZERS, c_program, here, package, succeeds};
use std::process::Command;

/// Runs a program of `tests/c`.
fn passes(name: &str, options: &[&str], library: &str) {
    let Some(program) = c_program("tests/c", name, options, &[library]) else { return };
    let libraries = package().expect("it was linked").join("lib");
    assert_eq!(succeeds(Command::new(program).env("LD_LIBRARY_PATH", libraries)), "passed\n");
}

fn sanitized(name: &str) {
    passes(name, &SANITIZERS, "-l:libanole_datapath.a");
}

#[test]
fn life_of_a_connection() {
    sanitized("life");
}

#[test]
fn every_error_has_its_number() {
    sanitized("errors");
}

#[test]
fn any_bytes_and_any_measurements() {
    sanitized("wild");
}

#[test]
fn no_agent() {
    sanitized("in_process");
}

#[test]
fn datapaths_of_several_threads() {
    sanitized("threads");
}

#[test]
fn the_shared_library() {
    passes("life", &["-O2"], "-lanole_datapath");
}

#[test]
fn every_symbol_is_ours() {
    let Some(package) = package() else { return };
    let header = std::fs::read_to_string(here("include/anole_datapath.h")).expect("the header");
    for (library, table) in [("libanole_datapath.a", "-sW"), ("libanole_datapath.so", "--dyn-syms")] {
        let listed =
            succeeds(Command::new("readelf").args([table, "-W"]).arg(package.join("lib").join(library)));
        // Number, value, size, type, binding, visibility, section, name.
        let rows = listed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let defined: Vec<String> = rows
            .filter(|row| row.len() == 8 && (row[4] == "GLOBAL" || row[4] == "WEAK") && row[6] != "UND")
            .map(|row| row[7].to_owned())
            .collect();
        assert!(defined.len() >= 11, "{library}: {defined:?}");
        for name in defined {
            assert!(name.starts_with("anole_") && header.contains(&format!("{name}(")), "{library}: {name}");
        }
    }
    let dynamic = succeeds(Command::new("readelf").arg("-dW").arg(package.join("lib/libanole_datapath.so")));
    assert!(dynamic.contains("soname: [libanole_datapath.so.1]"), "{dynamic}");
}

#[test]
fn the_header_in_cpp() {
    let Some(package) = package() else { return };
    let Ok(_) = Command::new("c++").arg("--version").output() else {
        anole_testing::skip!("no C++ compiler (package build-essential)");
        return;
    };
    let source = package.join("twice.cpp");
    std::fs::write(&source, "#include <anole_datapath.h>\n#include <anole_datapath.h>\nint main() { return anole_config_of_header().id; }\n")
        .expect("a file");
    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"]);
    succeeds(compiler.arg(package.join("include")).arg(source));
}
