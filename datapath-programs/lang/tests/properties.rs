//! What holds for every program: what the check lets pass compiles, fits and does not fault.

mod common;
#[path = "common/generate.rs"]
mod generate;
#[path = "common/machine.rs"]
mod machine;
#[path = "common/meaning.rs"]
mod meaning;

use anole_lang::vocabulary::{IMPLICIT, MAX_INSTRUCTIONS, MAX_TEMPORARIES, PRIMITIVES};
use anole_lang::{Code, CompileError, check, compile, disassemble, render};
use common::portus_size;
use machine::{Fault, Machine};
use meaning::Meaning;
use proptest::prelude::*;

/// Values of the fifteen primitives within the bounds that the check assumes.
fn primitives() -> impl Strategy<Value = [u64; 15]> {
    let bytes = || prop_oneof![Just(0), 1..100_000u64, Just(1 << 30)];
    let value = || prop_oneof![Just(0), 1..100_000u64, Just(u64::from(u32::MAX))];
    let now = prop_oneof![1..1_000_000_000u64, Just((1 << 48) - 1)];
    let counts = prop::array::uniform15(value());
    (counts, prop::array::uniform4(bytes()), now, any::<bool>()).prop_map(|(mut all, bytes, now, timeout)| {
        (all[0], all[1], all[2], all[8]) = (bytes[0], bytes[1], bytes[2], bytes[3]);
        all[5] = now;
        all[13] = all[13].max(1);
        all[14] = u64::from(timeout);
        all
    })
}

/// Whether the check said that a fault can happen. A fault that follows from an earlier one, or from
/// sums that outgrow 64 bits, is none of its business.
fn foretold(codes: &[Code], fault: Fault) -> bool {
    match fault {
        Fault::Underflow => codes.contains(&Code::Underflow),
        Fault::DivisionByZero => codes.contains(&Code::DivisionByZero),
        Fault::EwmaWeight => codes.contains(&Code::OpenWeight),
        Fault::Truncated => codes.contains(&Code::Truncated),
        Fault::ProductOverflow | Fault::SumOverflow => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_passes_compiles(source in prop_oneof![generate::program(), generate::broken_program()]) {
        let findings = check(&source);
        prop_assert!(findings.iter().all(|f| f.code != Code::Compiler), "{}", render(&findings, "", &source));
        match compile(&source) {
            Ok(compiled) => {
                prop_assert!(!anole_lang::has_errors(&findings));
                let summary = compiled.summary();
                prop_assert!(summary.temporaries <= MAX_TEMPORARIES && summary.instructions <= MAX_INSTRUCTIONS);
                let listed = |line: &str| line.trim_start().starts_with(|c: char| c.is_ascii_digit());
                let lines = disassemble(&compiled).lines().filter(|line| listed(line)).count();
                prop_assert_eq!(lines, summary.instructions);
            }
            Err(CompileError::Syntax(_) | CompileError::Errors(_)) => prop_assert!(anole_lang::has_errors(&findings)),
            Err(other) => prop_assert!(false, "{other}"),
        }
    }

    #[test]
    fn limits_are_portus_counts(source in generate::program()) {
        // What is counted here is what portus allocates, for every program that both can read.
        let codes: Vec<Code> = check(&source).iter().map(|f| f.code).collect();
        if let Some((temporaries, instructions)) = portus_size(&source)
            && codes.iter().all(|code| code.severity() == anole_lang::Severity::Warning || *code == Code::Limit)
        {
            let over = temporaries > MAX_TEMPORARIES || instructions > MAX_INSTRUCTIONS;
            prop_assert_eq!(over, codes.contains(&Code::Limit), "{} {}", temporaries, instructions);
        }
    }

    #[test]
    fn faults_are_foretold(source in generate::program(), acks in prop::collection::vec(primitives(), 1..20), agent in any::<u32>()) {
        let Ok(compiled) = compile(&source) else { return Ok(()) };
        let codes: Vec<Code> = check(&source).iter().map(|f| f.code).collect();
        let mut machine = Machine::new(&compiled);
        for (index, primitives) in acks.into_iter().enumerate() {
            machine.registers[4][..15].copy_from_slice(&primitives);
            machine.registers[2][3..6].copy_from_slice(&[primitives[4], primitives[8], primitives[12]]);
            if index % 3 == 1 {
                machine.registers[0][index % 2] = u64::from(agent);
            }
            if let Err(fault) = machine.ack() {
                prop_assert!(foretold(&codes, fault), "{fault:?} in\n{source}");
            }
            // Beyond what registers are taken to hold, nothing is promised.
            if machine.registers.iter().flatten().any(|value| *value >= 1 << 48) {
                break;
            }
        }
    }

    #[test]
    fn byte_code_does_what_the_text_says(source in prop_oneof![generate::program(), generate::broken_program()], acks in prop::collection::vec(primitives(), 1..20)) {
        let Ok(compiled) = compile(&source) else { return Ok(()) };
        let (mut machine, mut meaning) = (Machine::new(&compiled), Meaning::new(&compiled.program));
        for primitives in acks {
            let implicit = [primitives[4], primitives[8], primitives[12]];
            machine.registers[4][..15].copy_from_slice(&primitives);
            machine.registers[2][3..6].copy_from_slice(&implicit);
            let values = PRIMITIVES.iter().zip(primitives).chain(IMPLICIT.iter().zip(implicit));
            meaning.values.extend(values.map(|(builtin, value)| (builtin.name.to_string(), value)));
            let (did, said) = (machine.ack(), meaning.ack());
            if did != said {
                // Truth values that were joined with themselves too often.
                prop_assert!(matches!(did, Err(Fault::SumOverflow | Fault::ProductOverflow)), "{did:?} {said:?}");
                break;
            }
            let declared = [(&compiled.program.controls, "", [0, 8]), (&compiled.program.reports, "Report.", [6, 5])];
            for (declarations, prefix, kinds) in declared {
                for (index, declaration) in declarations.iter().enumerate() {
                    let mut does = machine.registers[kinds[usize::from(declaration.volatile)]][index];
                    let mut says = meaning.values[&format!("{prefix}{}", declaration.name)];
                    if declaration.initial == "false" {
                        (does, says) = (u64::from(does != 0), u64::from(says != 0));
                    }
                    prop_assert_eq!(does, says, "{}", declaration.name);
                }
            }
            for (index, builtin) in IMPLICIT.iter().enumerate() {
                prop_assert_eq!(machine.registers[2][3 + index], meaning.values[builtin.name]);
            }
        }
    }

    #[test]
    fn no_text_is_too_strange(source in "\\PC{0,200}|[()#:=a-z0-9 .\\n\\t]{0,200}") {
        let findings = check(&source);
        render(&findings, "file", &source);
        prop_assert_eq!(compile(&source).is_ok(), !anole_lang::has_errors(&findings));
    }
}
