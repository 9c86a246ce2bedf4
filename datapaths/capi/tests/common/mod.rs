//! The packaged library, messages of an agent, and a C compiler.

#![allow(dead_code, reason = "each test takes what it needs")]

pub mod agent;

use anole_datapath::wire::{FieldUpdate, Install, Message, encode};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
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
pub const SANITIZERS: [&str; 4] =
    ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];
const LIBRARIES: [&str; 3] = ["-lpthread", "-ldl", "-lm"];

pub fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// What a program says that must succeed.
pub fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}{error}", output.status);
    out.into_owned()
}

/// Where the packaged library is, and the messages for the tests; `None` without a compiler.
pub fn package() -> Option<&'static Path> {
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
    let window = |value| FieldUpdate { kind: 8, index: 0, value };
    let rate = FieldUpdate { kind: 2, index: 5, value: 125_000 };
    let mut text = String::from("#include <stdint.h>\n");
    let mut array = |name: &str, message: Message<'_>| {
        let mut bytes = Vec::new();
        encode(&message, &mut bytes).expect("a message");
        let bytes = format!("{bytes:?}").replace('[', "{").replace(']', "}");
        writeln!(text, "static const uint8_t {name}[] __attribute__((unused)) = {bytes};").expect("text");
    };
    with_install(|install| array("install", Message::Install(install)));
    let others = [
        ("change_program", Message::ChangeProgram { sid: 1, uid: 1, updates: vec![window(50_000), rate] }),
        ("change_unknown", Message::ChangeProgram { sid: 1, uid: 9, updates: Vec::new() }),
        ("update", Message::Update(1, vec![window(70_000)])),
        ("empty", Message::Update(1, Vec::new())),
        ("for_nobody", Message::Update(77, Vec::new())),
        ("ready", Message::Ready(1)),
    ];
    for (name, message) in others {
        array(name, message);
    }
    text
}

/// Hands over INSTALL of the program.
pub fn with_install(take: impl FnOnce(Install<'_>)) {
    let compiled = anole_lang::compile(PROGRAM).expect("the program compiles");
    take(Install::of_code(1, compiled.expressions, &compiled.code));
}

/// Compiles a program of `folder` with these further options; returns the file.
pub fn c_program(folder: &str, name: &str, options: &[&str], libraries: &[&str]) -> Option<PathBuf> {
    let package = package()?;
    let program = package.join(format!("{name}-{}", options.len()));
    let mut compiler = Command::new("cc");
    compiler.args(WARNINGS).args(options).arg("-I").arg(package.join("include"));
    compiler.arg(here(folder).join(format!("{name}.c"))).arg("-o").arg(&program);
    compiler.arg(format!("-L{}", package.join("lib").display()));
    succeeds(compiler.args(libraries).args(LIBRARIES));
    Some(program)
}
