//! Installed programs, validated so that running one cannot fault.
//!
//! A program arrives as expressions (a condition and an event, each a range of instructions) and
//! instructions (operation, result, left, right). Installing it checks every operation, register and
//! range once and resolves each operand to its place in the register file, so that running it needs no
//! check but the arithmetic's.
//!
//! Where libccp faults or is undefined, the program is refused:
//! - 256 instructions (its loop counter has 8 bits: it never ends);
//! - an expression whose instructions lie beyond the program's (read out of bounds, or run modulo 256);
//! - a register index beyond the kind's limit (read out of bounds; its writes are dropped);
//! - a definition whose initial value is not an immediate (uninitialised memory);
//! - more than 110 report definitions (overflow of the message on the stack);
//! - an unknown primitive (reads as 0 there, which no program can want);
//! - more than 255 distinct immediates outside definitions (a limit of this runtime's register file;
//!   only a program with instructions on two immediates can pass it).

use crate::register::{MAX_CONSTANTS, MAX_REPORT_REGISTERS, RegisterKind, Slot};
use crate::wire::{Install, MAX_EXPRESSIONS, MAX_INSTRUCTIONS};
use std::ops::Range;

/// The immediate that a definition may use for "infinity" in old agents, and the value that both it
/// and portus's `+infinity` give a register.
const INFINITY_IMMEDIATE: u32 = 0x3fff_ffff;
const INFINITY: u64 = u32::MAX as u64;

/// A validated program.
#[derive(Debug)]
pub struct ValidProgram {
    uid: u32,
    definitions: Box<[Definition]>,
    expressions: Box<[Expression]>,
    code: Box<[Instruction]>,
    constants: Box<[u64]>,
    reports: usize,
    reads_ecn: bool,
}

/// Why a program is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// More instructions than a program may have.
    #[error("{0} instructions; a program has at most 255")]
    TooManyInstructions(u32),
    /// More expressions than a program may have.
    #[error("{0} expressions; a program has at most 256")]
    TooManyExpressions(u32),
    /// The bytes of expressions or instructions are no multiple of 16.
    #[error("an expression or instruction is cut off")]
    Truncated,
    /// An expression's instructions are not all in the program.
    #[error("expression {0} runs instructions that the program does not have")]
    ExpressionRange(usize),
    /// No such operation.
    #[error("instruction {instruction}: {opcode} is no operation")]
    Opcode {
        /// Position in the program.
        instruction: usize,
        /// The operation's number.
        opcode: u8,
    },
    /// No such register, or one that may not stand there.
    #[error("instruction {instruction}: no register {index} of kind {kind} as {operand}")]
    Register {
        /// Position in the program.
        instruction: usize,
        /// "result", "left" or "right".
        operand: &'static str,
        /// The register's kind on the wire.
        kind: u8,
        /// The register's index on the wire.
        index: u32,
    },
    /// A definition's initial value is not an immediate.
    #[error("instruction {0}: a definition needs an immediate as initial value")]
    Definition(usize),
    /// More report registers than a message carries.
    #[error("{0} report definitions; a report carries at most 110")]
    TooManyReports(usize),
    /// More distinct immediates than the register file holds.
    #[error("more than 255 distinct immediates outside definitions")]
    TooManyConstants,
}

/// What an instruction does with its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Op {
    Add,
    Bind,
    /// A definition: it acts when the program starts and when it reports, and does nothing when run.
    Def,
    Div,
    Equal,
    Ewma,
    Greater,
    If,
    Less,
    Max,
    MaxWrap,
    Min,
    Mul,
    NotIf,
    Sub,
}

impl Op {
    fn from_wire(opcode: u8) -> Option<Op> {
        use Op::*;
        const OPS: [Op; 15] =
            [Add, Bind, Def, Div, Equal, Ewma, Greater, If, Less, Max, MaxWrap, Min, Mul, NotIf, Sub];
        OPS.get(usize::from(opcode)).copied()
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Instruction {
    pub op: Op,
    pub result: Slot,
    pub left: Slot,
    pub right: Slot,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Definition {
    pub slot: Slot,
    pub value: u64,
    /// Set again with every report, not only when the program starts.
    pub volatile: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Expression {
    pub condition: Range<u8>,
    pub event: Range<u8>,
}

impl ValidProgram {
    /// Validates an INSTALL message.
    pub fn install(message: &Install<'_>) -> Result<ValidProgram, ProgramError> {
        let (instructions, cut) = message.instructions.as_chunks::<16>();
        let (expressions, cut_too) = message.expressions.as_chunks::<16>();
        if !cut.is_empty() || !cut_too.is_empty() {
            return Err(ProgramError::Truncated);
        }
        if instructions.len() > MAX_INSTRUCTIONS as usize {
            return Err(ProgramError::TooManyInstructions(instructions.len() as u32));
        }
        if expressions.len() > MAX_EXPRESSIONS as usize {
            return Err(ProgramError::TooManyExpressions(expressions.len() as u32));
        }
        let mut builder = Builder::default();
        for bytes in instructions {
            builder.instruction(bytes)?;
        }
        if builder.reports > MAX_REPORT_REGISTERS as usize {
            return Err(ProgramError::TooManyReports(builder.reports));
        }
        let expressions = expressions
            .iter()
            .enumerate()
            .map(|(n, bytes)| expression(bytes, instructions.len()).ok_or(ProgramError::ExpressionRange(n)))
            .collect::<Result<_, _>>()?;
        Ok(ValidProgram {
            uid: message.uid,
            definitions: builder.definitions.into(),
            expressions,
            reads_ecn: builder.code.iter().any(|code| code.left.is_ecn() || code.right.is_ecn()),
            code: builder.code.into(),
            constants: builder.constants.into(),
            reports: builder.reports,
        })
    }

    /// The program's id, chosen by the agent.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Values in each of its reports.
    pub fn reports(&self) -> usize {
        self.reports
    }

    /// It reads `Ack.ecn_packets` or `Ack.ecn_bytes`.
    pub fn reads_ecn(&self) -> bool {
        self.reads_ecn
    }

    pub(crate) fn definitions(&self) -> &[Definition] {
        &self.definitions
    }

    pub(crate) fn expressions(&self) -> &[Expression] {
        &self.expressions
    }

    #[inline(always)]
    pub(crate) fn code(&self, range: &Range<u8>) -> &[Instruction] {
        // Installing has checked the range; an empty slice costs the same as a panic here.
        self.code.get(usize::from(range.start)..usize::from(range.end)).unwrap_or(&[])
    }

    pub(crate) fn constants(&self) -> &[u64] {
        &self.constants
    }
}

fn expression(bytes: &[u8; 16], instructions: usize) -> Option<Expression> {
    let range = |start: usize| {
        let (first, count) = (u64::from(word(bytes, start)), u64::from(word(bytes, start + 4)));
        let end = first + count;
        (end <= instructions as u64).then_some(first as u8..end as u8)
    };
    Some(Expression { condition: range(0)?, event: range(8)? })
}

fn word(bytes: &[u8; 16], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[derive(Default)]
struct Builder {
    code: Vec<Instruction>,
    definitions: Vec<Definition>,
    constants: Vec<u64>,
    reports: usize,
    body_began: bool,
}

impl Builder {
    fn instruction(&mut self, bytes: &[u8; 16]) -> Result<(), ProgramError> {
        let instruction = self.code.len();
        let opcode = bytes[0];
        let op = Op::from_wire(opcode).ok_or(ProgramError::Opcode { instruction, opcode })?;
        let (result_kind, result) = self.register("result", bytes[1], word(bytes, 2))?;
        if matches!(result_kind, RegisterKind::Immediate | RegisterKind::Primitive) {
            let (kind, index) = (bytes[1], word(bytes, 2));
            return Err(ProgramError::Register { instruction, operand: "result", kind, index });
        }
        let (left_kind, left) = self.register("left", bytes[6], word(bytes, 7))?;
        let (right_kind, right) = self.register("right", bytes[11], word(bytes, 12))?;
        if op == Op::Def {
            if right_kind != RegisterKind::Immediate {
                return Err(ProgramError::Definition(instruction));
            }
            self.define(left_kind, left, word(bytes, 12));
            // What runs in its place must do nothing: it gives the result register its own value.
            self.code.push(Instruction { op, result, left: result, right: result });
            return Ok(());
        }
        self.body_began = true;
        // BIND ignores its left operand, so an immediate there needs no constant.
        let left = if op == Op::Bind { result } else { self.operand(left, word(bytes, 7))? };
        let right = self.operand(right, word(bytes, 12))?;
        self.code.push(Instruction { op, result, left, right });
        Ok(())
    }

    /// An operand's kind and slot; immediates get theirs when it is known that they are needed.
    fn register(
        &self,
        operand: &'static str,
        kind: u8,
        index: u32,
    ) -> Result<(RegisterKind, Slot), ProgramError> {
        let error = ProgramError::Register { instruction: self.code.len(), operand, kind, index };
        match RegisterKind::from_wire(kind) {
            Some(RegisterKind::Immediate) => Ok((RegisterKind::Immediate, Slot::IMMEDIATE)),
            Some(known) => Slot::of(known, index).map(|slot| (known, slot)).ok_or(error),
            None => Err(error),
        }
    }

    fn operand(&mut self, slot: Slot, immediate: u32) -> Result<Slot, ProgramError> {
        if slot != Slot::IMMEDIATE {
            return Ok(slot);
        }
        let value = u64::from(immediate);
        let n = self.constants.iter().position(|known| *known == value).unwrap_or_else(|| {
            self.constants.push(value);
            self.constants.len() - 1
        });
        debug_assert!(self.constants.len() <= MAX_CONSTANTS + 1);
        Slot::constant(n).ok_or(ProgramError::TooManyConstants)
    }

    /// Definitions count up to the first other instruction, as in libccp.
    fn define(&mut self, kind: RegisterKind, slot: Slot, initial: u32) {
        if self.body_began {
            return;
        }
        let volatile = match kind {
            RegisterKind::VolatileReport | RegisterKind::VolatileControl => true,
            RegisterKind::Report | RegisterKind::Control => false,
            _ => return,
        };
        if matches!(kind, RegisterKind::Report | RegisterKind::VolatileReport) {
            self.reports += 1;
        }
        let value = if initial == INFINITY_IMMEDIATE { INFINITY } else { u64::from(initial) };
        self.definitions.push(Definition { slot, value, volatile });
    }
}

#[cfg(test)]
mod tests;
