//! The library as C sees it: programs of `tests/c` under the address and undefined-behaviour sanitizers, linked with
//! what `package.sh` makes; the symbols; the header in C++.

#![allow(clippy::disallowed_methods, reason = "runs a C compiler")]

use anole_datapath::wire::{FieldUpdate, Install, Message, encode};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// A window that the agent sets, in a control register; a report at every ACK.
const PROGRAM: &str = "
(def (Report (volatile acked 0)) (window 0))
(when true
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Cwnd window)
    (report))
";
const WARNINGS: [&str; 5] = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g"];
const SANITIZERS: [&str; 4] =
    ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];
const LIBRARIES: [&str; 3] = ["-lpthread", "-ldl", "-lm"];

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn succeeds(command: &mut Command) -> String {
    let output = run(command);
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}{error}", output.status);
    out.into_owned()
}

/// Where the packaged library is, and the messages for the tests; `None` without a compiler.
fn package() -> Option<&'static Path> {
    static MADE: OnceLock<Option<tempfile::TempDir>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        for tool in ["cc", "ld", "objcopy", "ar", "readelf"] {
            Command::new(tool).arg("--version").output().ok()?;
        }
        let folder = tempfile::tempdir().expect("a folder");
        // Cargo leaves the libraries beside the tests.
        let test = std::env::current_exe().expect("a test is a file");
        let built = test.parent().expect("a file lies in a folder");
        succeeds(Command::new(here("package.sh")).arg(built).arg(folder.path()));
        std::fs::write(folder.path().join("include/messages.h"), messages())
            .expect("the messages are written");
        Some(folder)
    });
    if made.is_none() {
        anole_testing::skip!("no C compiler or binutils (package build-essential)");
    }
    made.as_ref().map(tempfile::TempDir::path)
}

/// What an agent sends, as arrays of a C header.
fn messages() -> String {
    let compiled = anole_lang::compile(PROGRAM).expect("the program compiles");
    let install = Install::of_code(1, compiled.expressions, &compiled.code);
    let window = |value| FieldUpdate { kind: 8, index: 0, value };
    let rate = FieldUpdate { kind: 2, index: 5, value: 125_000 };
    let all = [
        ("install", Message::Install(install)),
        ("change_program", Message::ChangeProgram { sid: 1, uid: 1, updates: vec![window(50_000), rate] }),
        ("change_unknown", Message::ChangeProgram { sid: 1, uid: 9, updates: Vec::new() }),
        ("update", Message::Update(1, vec![window(70_000)])),
        ("for_nobody", Message::Update(77, Vec::new())),
        ("ready", Message::Ready(1)),
    ];
    let mut text = String::from("#include <stdint.h>\n");
    for (name, message) in all {
        let mut bytes = Vec::new();
        encode(&message, &mut bytes).expect("a message");
        writeln!(text, "static const uint8_t {name}[] __attribute__((unused)) = {bytes:?};").expect("text");
    }
    text.replace('[', "{").replace(']', "}").replace("{}", "[]")
}

/// Compiles and runs a program of `folder` with these further options.
fn c_program(folder: &str, name: &str, options: &[&str], libraries: &[&str]) -> Option<String> {
    let package = package()?;
    let program = package.join(format!("{name}-{}", options.len()));
    let mut compiler = Command::new("cc");
    compiler.args(WARNINGS).args(options).arg("-I").arg(package.join("include"));
    compiler.arg(here(folder).join(format!("{name}.c"))).arg("-o").arg(&program);
    compiler.arg(format!("-L{}", package.join("lib").display()));
    succeeds(compiler.args(libraries).args(LIBRARIES));
    Some(succeeds(Command::new(program).env("LD_LIBRARY_PATH", package.join("lib"))))
}

fn sanitized(name: &str) {
    if let Some(said) = c_program("tests/c", name, &SANITIZERS, &["-l:libanole_datapath.a"]) {
        assert_eq!(said, "passed\n");
    }
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
fn datapaths_of_several_threads() {
    sanitized("threads");
}

#[test]
fn the_shared_library() {
    if let Some(said) = c_program("tests/c", "life", &["-O2"], &["-lanole_datapath"]) {
        assert_eq!(said, "passed\n");
    }
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
