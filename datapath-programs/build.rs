//! Compiles every `programs/*.ccp` and writes a Rust module of typed bindings for each.
//!
//! The `.ccp` file is the one place where a register is named: its reports become the fields of a
//! struct, its control registers become constants, and their comments become documentation.

#![allow(clippy::disallowed_methods, reason = "a build script reads its inputs and cargo's variables")]

use anole_lang::{Compiled, Declaration};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=programs");
    let mut files: Vec<PathBuf> = fs::read_dir("programs")
        .expect("programs/ is part of this crate")
        .map(|entry| entry.expect("programs/ can be listed").path())
        .filter(|path| path.extension().is_some_and(|e| e == "ccp"))
        .collect();
    files.sort();
    let mut out = String::new();
    let mut modules = Vec::new();
    for file in files {
        let name = file.file_stem().and_then(|s| s.to_str()).expect("program names are ASCII").to_string();
        let source = fs::read_to_string(&file).expect("a listed file can be read");
        let compiled = anole_lang::compile(&source)
            .unwrap_or_else(|e| panic!("{}:{e}", Path::new("datapath-programs").join(&file).display()));
        let module = name.replace('-', "_");
        write_module(&mut out, &name, &module, &compiled);
        modules.push(module);
    }
    let all: String = modules.iter().map(|m| format!("&{m}::PROGRAM, ")).collect();
    writeln!(out, "/// Every program of this crate.\npub static ALL: &[&crate::Program] = &[{all}];")
        .unwrap();
    let target = PathBuf::from(env::var("OUT_DIR").expect("cargo sets OUT_DIR")).join("programs.rs");
    fs::write(target, out).expect("OUT_DIR is writable");
}

fn write_module(out: &mut String, name: &str, module: &str, compiled: &Compiled) {
    let program = &compiled.program;
    for line in program.header.lines() {
        writeln!(out, "/// {line}").unwrap();
    }
    writeln!(out, "///\n/// (generated from `programs/{name}.ccp`)\npub mod {module} {{").unwrap();
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
