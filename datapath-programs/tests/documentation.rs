//! `docs/fold-programs.md` says what the code says: its tables hold a row for everything, word for word.

#![allow(clippy::disallowed_methods, reason = "a test reads its files")]

use anole_lang::{Code, syntax, vocabulary};
use std::fs;

fn page() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/fold-programs.md")).unwrap()
}

/// Fails with the rows to add, so that they can be copied.
fn expect_rows(rows: impl Iterator<Item = String>) {
    let page = page();
    let missing: Vec<String> = rows.filter(|row| !page.contains(row.as_str())).collect();
    assert!(missing.is_empty(), "docs/fold-programs.md lacks\n{}", missing.join("\n"));
}

#[test]
fn every_code_is_listed() {
    expect_rows(Code::ALL.iter().map(|code| format!("| `{}` | {} |", code.name(), code.meaning())));
}

#[test]
fn every_builtin_is_listed() {
    let all = vocabulary::PRIMITIVES.iter().chain(&vocabulary::IMPLICIT);
    expect_rows(all.map(|builtin| format!("| `{}` | {} |", builtin.name, builtin.meaning)));
}

#[test]
fn every_program_is_listed() {
    let rows = anole_programs::ALL.iter().map(|program| {
        let path = format!("{}/programs/{}.ccp", env!("CARGO_MANIFEST_DIR"), program.name);
        let header = syntax::parse(&fs::read_to_string(path).unwrap()).unwrap().header;
        let first = header.lines().next().unwrap_or("");
        let (name, what) = first.split_once(": ").expect("a header begins with 'name: what it does'");
        assert_eq!(name, program.name);
        format!("| `{name}` | {what} |")
    });
    expect_rows(rows);
}

#[test]
fn the_example_passes_the_check() {
    let page = page();
    let example = page.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert_eq!(syntax::parse(example).unwrap().reports.len(), 2);
    assert_eq!(anole_lang::check(example), []);
}
