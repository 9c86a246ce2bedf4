use super::*;
use proptest::prelude::*;

/// One instruction's bytes.
fn instruction(op: u8, result: (u8, u32), left: (u8, u32), right: (u8, u32)) -> Vec<u8> {
    let mut bytes = vec![op];
    for (kind, index) in [result, left, right] {
        bytes.push(kind);
        bytes.extend_from_slice(&index.to_le_bytes());
    }
    bytes
}

fn expression(words: [u32; 4]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn install(expressions: &[u8], instructions: &[u8]) -> Result<ValidProgram, ProgramError> {
    ValidProgram::install(&Install { uid: 7, expressions, instructions })
}

const DEF: u8 = 2;
const ADD: u8 = 0;

#[test]
fn definitions_count_up_to_the_first_other_instruction() {
    let code = [
        instruction(DEF, (5, 0), (5, 0), (1, 9)),
        instruction(DEF, (6, 1), (6, 1), (1, INFINITY_IMMEDIATE)),
        instruction(DEF, (0, 0), (0, 0), (1, u32::MAX)),
        instruction(DEF, (8, 1), (8, 1), (1, 4)),
        instruction(ADD, (7, 0), (1, 3), (1, 3)),
        instruction(DEF, (5, 2), (5, 2), (1, 1)),
    ]
    .concat();
    let program = install(&[], &code).expect("valid");
    assert_eq!((program.uid(), program.reports()), (7, 2));
    let values: Vec<_> = program.definitions().iter().map(|d| (d.value, d.volatile)).collect();
    assert_eq!(values, [(9, true), (INFINITY, false), (INFINITY, false), (4, true)]);
    assert_eq!(program.constants(), [3]);
}

#[test]
fn every_fault_is_named() {
    let add = |result, left, right| install(&[], &instruction(ADD, result, left, right)).map(|_| ());
    let register =
        |operand, kind, index| Err(ProgramError::Register { instruction: 0, operand, kind, index });
    assert_eq!(add((1, 0), (1, 0), (1, 0)), register("result", 1, 0));
    assert_eq!(add((4, 0), (1, 0), (1, 0)), register("result", 4, 0));
    assert_eq!(add((9, 0), (1, 0), (1, 0)), register("result", 9, 0));
    assert_eq!(add((7, 0), (7, 8), (1, 0)), register("left", 7, 8));
    assert_eq!(add((7, 0), (1, 0), (4, 15)), register("right", 4, 15));
    assert_eq!(add((2, 6), (1, 0), (1, 0)), register("result", 2, 6));
    assert_eq!(add((5, 110), (1, 0), (1, 0)), register("result", 5, 110));
    assert_eq!(add((7, 0), (1, 0), (0, u32::MAX)), register("right", 0, u32::MAX));
    let opcode = install(&[], &instruction(15, (7, 0), (7, 0), (7, 0))).map(|_| ());
    assert_eq!(opcode, Err(ProgramError::Opcode { instruction: 0, opcode: 15 }));
    let def = install(&[], &instruction(DEF, (5, 0), (5, 0), (7, 0))).map(|_| ());
    assert_eq!(def, Err(ProgramError::Definition(0)));
    assert_eq!(install(&[0; 15], &[]).map(|_| ()), Err(ProgramError::Truncated));
    let one = instruction(ADD, (7, 0), (1, 0), (1, 0));
    for words in [[0, 2, 0, 0], [0, 0, 1, 1], [2, 0, 0, 0], [u32::MAX, 1, 0, 0], [0, u32::MAX, 0, 0]] {
        assert_eq!(install(&expression(words), &one).map(|_| ()), Err(ProgramError::ExpressionRange(0)));
    }
    assert!(install(&expression([0, 1, 1, 0]), &one).is_ok());
    assert_eq!(install(&[], &one.repeat(256)).map(|_| ()), Err(ProgramError::TooManyInstructions(256)));
    assert!(install(&expression([0, 255, 255, 0]), &one.repeat(255)).is_ok());
    let empty = expression([0; 4]);
    assert_eq!(install(&empty.repeat(257), &[]).map(|_| ()), Err(ProgramError::TooManyExpressions(257)));
    assert!(install(&empty.repeat(256), &[]).is_ok());
    let def = instruction(DEF, (5, 0), (5, 0), (1, 0));
    assert_eq!(install(&[], &def.repeat(111)).map(|_| ()), Err(ProgramError::TooManyReports(111)));
    let immediates = |n: u32| {
        let code: Vec<u8> =
            (0..n).flat_map(|i| instruction(ADD, (7, 0), (1, 2 * i), (1, 2 * i + 1))).collect();
        install(&[], &code).map(|_| ())
    };
    assert_eq!(immediates(127), Ok(()));
    assert_eq!(immediates(128), Err(ProgramError::TooManyConstants));
}

proptest! {
    #[test]
    fn any_bytes_are_a_program_or_an_error(
        expressions in prop::collection::vec(any::<u8>(), 0..100),
        instructions in prop::collection::vec(0u8..16, 0..400),
    ) {
        let _ = install(&expressions, &instructions);
    }
}
