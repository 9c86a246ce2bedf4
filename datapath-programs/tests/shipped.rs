//! The shipped programs: free of findings, and bound to the registers that portus gives them.

#![allow(clippy::disallowed_methods, reason = "a test reads its files")]

use portus::lang::Reg;
use std::fs;
use std::path::Path;

#[test]
fn the_check_finds_nothing() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    let mut shown = String::new();
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let source = fs::read_to_string(&path).unwrap();
        shown += &anole_lang::render(&anole_lang::check(&source), &path.display().to_string(), &source);
        count += 1;
    }
    assert_eq!(count, anole_programs::ALL.len());
    assert!(shown.is_empty(), "\n{shown}");
}

#[test]
fn bindings_are_portus_registers() {
    for program in anole_programs::ALL {
        let (bin, scope) = portus::lang::compile(program.source.as_bytes(), &[]).unwrap();
        assert_eq!(bin.serialize().unwrap(), program.code, "{}", program.name);
        for control in program.controls {
            let Some(Reg::Control(index, _, volatile)) = scope.get(control.name) else {
                panic!("{}: {}", program.name, control.name);
            };
            assert_eq!((u32::from(*index), if *volatile { 8 } else { 0 }), (control.index, control.kind));
        }
        for (position, report) in program.reports.iter().enumerate() {
            let Some(Reg::Report(index, ..)) = scope.get(report) else {
                panic!("{}: {report}", program.name)
            };
            assert_eq!(usize::from(*index), position);
        }
        for (register, at) in [(anole_programs::CWND, 4), (anole_programs::RATE, 5)] {
            let Some(Reg::Implicit(index, _)) = scope.get(register.name) else { panic!("{}", register.name) };
            assert_eq!((*index, register.index, register.kind), (at, u32::from(at), 2));
        }
    }
}

#[test]
fn every_register_is_documented() {
    for program in anole_programs::ALL {
        let path = format!("{}/programs/{}.ccp", env!("CARGO_MANIFEST_DIR"), program.name);
        let read = anole_lang::syntax::parse(&fs::read_to_string(path).unwrap()).unwrap();
        assert!(!read.header.is_empty(), "{} begins with a comment on what it computes", program.name);
        for declaration in read.reports.iter().chain(&read.controls) {
            let name = &declaration.name;
            assert!(!declaration.comment.is_empty(), "{}: {name} has a comment with its unit", program.name);
        }
    }
}

#[test]
fn programs_are_found_by_name() {
    for program in anole_programs::ALL {
        assert!(anole_programs::find(program.name).is_some_and(|found| std::ptr::eq(found, *program)));
    }
    assert!(anole_programs::find("no-such-program").is_none());
}
