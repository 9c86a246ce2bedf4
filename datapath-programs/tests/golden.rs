//! The byte code of every shipped program, pinned: as a listing, and byte by byte.
//!
//! A changed program or a changed compiler shows here as a readable difference. When the change is
//! meant: `UPDATE_GOLDEN=1 cargo test -p anole-programs --test golden`, and read the difference.

#![allow(clippy::disallowed_methods, reason = "a test reads its files and its switch")]

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;
use std::{env, fs};

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Names of the files with this extension, without it.
fn stems(name: &str, extension: &str) -> BTreeSet<String> {
    let paths = fs::read_dir(folder(name)).unwrap().map(|entry| entry.unwrap().path());
    let paths = paths.filter(|path| path.extension().is_some_and(|e| e == extension));
    paths.map(|path| path.file_stem().unwrap().to_str().unwrap().to_string()).collect()
}

fn golden(name: &str) -> String {
    let source = fs::read_to_string(folder("programs").join(format!("{name}.ccp"))).unwrap();
    let compiled = anole_lang::compile(&source).unwrap();
    let mut text =
        format!("{name}: {}\n\n{}\nbytes\n", compiled.summary(), anole_lang::disassemble(&compiled));
    for row in compiled.code.chunks(16) {
        let row: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "{}", row.join(" ")).unwrap();
    }
    text
}

#[test]
fn byte_code_is_as_recorded() {
    let update = env::var("UPDATE_GOLDEN").is_ok();
    let programs = stems("programs", "ccp");
    for name in &programs {
        let path = folder("golden").join(format!("{name}.txt"));
        let now = golden(name);
        if update {
            fs::write(&path, &now).unwrap();
        }
        let recorded = fs::read_to_string(&path).unwrap_or_default();
        let difference = recorded.lines().zip(now.lines()).find(|(before, now)| before != now);
        assert!(
            recorded == now,
            "the byte code of '{name}' is not what golden/{name}.txt records{}\n\
             when that is meant: UPDATE_GOLDEN=1 cargo test -p anole-programs --test golden",
            difference.map(|(before, now)| format!(":\n- {before}\n+ {now}")).unwrap_or_default()
        );
    }
    let recorded = stems("golden", "txt");
    assert_eq!(recorded, programs, "golden/ and programs/ hold the same names");
}
