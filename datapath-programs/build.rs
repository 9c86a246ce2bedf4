//! Compiles every `programs/*.ccp` and writes a Rust module of typed bindings for each.
//!
//! The `.ccp` file is the one place where a register is named: its reports become the fields of a
//! struct, its control registers become constants, and their comments become documentation.

#![allow(clippy::disallowed_methods, reason = "a build script reads its inputs and cargo's variables")]

use anole_lang::{Compiled, Declaration, ParsedProgram};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, process};

fn main() {
    println!("cargo::rerun-if-changed=programs");
    let mut files: Vec<PathBuf> = fs::read_dir("programs")
        .expect("programs/ is part of this crate")
        .map(|entry| entry.expect("programs/ can be listed").path())
        .filter(|path| path.extension().is_some_and(|e| e == "ccp"))
        .collect();
    files.sort();
    let mut out = String::new();
    let (mut modules, mut texts) = (Vec::new(), String::new());
    for file in files {
        let shown = Path::new("datapath-programs").join(&file).display().to_string();
        let name = file.file_stem().and_then(|s| s.to_str()).unwrap_or("").to_string();
        let module = name.replace('-', "_");
        if let Some(reason) = no_rust_name(&module) {
            fail(&format!("{shown}: the file's name becomes a module, and {reason}"));
        }
        let source = fs::read_to_string(&file).unwrap_or_else(|e| fail(&format!("{shown}: {e}")));
        let compiled = anole_lang::compile(&source).unwrap_or_else(|e| {
            let findings = anole_lang::render(&anole_lang::check(&source), &shown, &source);
            fail(&if findings.is_empty() { format!("{shown}: {e}") } else { findings })
        });
        check_names(&shown, &compiled.program);
        write_module(&mut out, &name, &module, &compiled);
        modules.push(module);
        write!(texts, "{source:?}, ").unwrap();
    }
    let all: String = modules.iter().map(|m| format!("&{m}::PROGRAM, ")).collect();
    writeln!(out, "/// Every program of this crate.\npub static ALL: &[&crate::Program] = &[{all}];")
        .unwrap();
    writeln!(
        out,
        "/// Their files, comments included, in the same order.\npub static TEXTS: &[&str] = &[{texts}];"
    )
    .unwrap();
    let target = PathBuf::from(env::var("OUT_DIR").expect("cargo sets OUT_DIR")).join("programs.rs");
    fs::write(target, out).expect("OUT_DIR is writable");
}

fn fail(message: &str) -> ! {
    eprintln!("{message}");
    process::exit(1)
}

/// Checks that every register can name a field or, in capitals, a constant.
fn check_names(file: &str, program: &ParsedProgram) {
    for declaration in program.reports.iter().chain(&program.controls) {
        if let Some(reason) = no_rust_name(&declaration.name) {
            let (line, column) = (declaration.position.line, declaration.position.column);
            fail(&format!(
                "{file}:{line}:{column}: '{}' names a field or constant, and {reason}",
                declaration.name
            ));
        }
    }
}

/// Words that Rust keeps for itself, of those that the language allows.
const RUST_KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "final", "fn", "for", "gen", "impl", "in", "let", "loop", "macro", "match",
    "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super",
    "trait", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

fn no_rust_name(name: &str) -> Option<&'static str> {
    let snake = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(snake) {
        Some("must be of small letters, digits and underscores, a letter first")
    } else if RUST_KEYWORDS.contains(&name) {
        Some("must not be a keyword of Rust")
    } else {
        None
    }
}

fn write_module(out: &mut String, name: &str, module: &str, compiled: &Compiled) {
    let program = &compiled.program;
    // A header holds formulas and pictures: shown as it is written.
    writeln!(out, "/// ```text").unwrap();
    for line in program.header.lines() {
        writeln!(out, "/// {line}").unwrap();
    }
    writeln!(out, "/// ```\n///\n/// {}; generated from `programs/{name}.ccp`.", compiled.summary()).unwrap();
    writeln!(out, "pub mod {module} {{").unwrap();
    let reports: String = program.reports.iter().map(|d| format!("\"Report.{}\", ", d.name)).collect();
    let controls: String =
        program.controls.iter().map(|d| format!("control::{}, ", d.name.to_uppercase())).collect();
    writeln!(
        out,
        "/// The program.\npub static PROGRAM: crate::Program = crate::Program {{ name: {name:?}, source: {:?}, \
         reports: &[{reports}], controls: &[{controls}], expressions: {}, instructions: {}, code: &{:?} }};",
        compiled.source, compiled.expressions, compiled.instructions, compiled.code
    )
    .unwrap();
    write_report(out, &program.reports);
    write_controls(out, &program.controls);
    out.push_str("}\n");
}

fn write_report(out: &mut String, reports: &[Declaration]) {
    out.push_str("/// One report of this program.\n#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]\npub struct Report {\n");
    for d in reports {
        writeln!(out, "/// {}\npub {}: u64,", doc(d), d.name).unwrap();
    }
    let names: String = reports.iter().map(|d| format!("{}, ", d.name)).collect();
    writeln!(
        out,
        "}}\nimpl Report {{\n/// Reads the values of a report message; `None` when their number is not this program's.\n\
         pub fn read(values: &[u64]) -> Option<Report> {{\nlet &[{names}] = values else {{ return None }};\n\
         Some(Report {{ {names} }})\n}}\n}}"
    )
    .unwrap();
}

fn write_controls(out: &mut String, controls: &[Declaration]) {
    out.push_str("/// The registers that the agent may set.\npub mod control {\n");
    for (index, d) in controls.iter().enumerate() {
        let kind = if d.volatile { 8 } else { 0 };
        writeln!(
            out,
            "/// {}\npub const {}: crate::Register = crate::Register {{ name: {:?}, kind: {kind}, index: {index} }};",
            doc(d),
            d.name.to_uppercase(),
            d.name
        )
        .unwrap();
    }
    out.push_str("}\n");
}

fn doc(declaration: &Declaration) -> String {
    match declaration.comment.as_str() {
        "" => format!("`{}`, initially {}.", declaration.name, declaration.initial),
        comment => format!("{comment} (initially {})", declaration.initial),
    }
}
