// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! Compiles a fold program to BPF byte code.
//!
//! Registers of the fold program stay in the flow's memory; each of its instructions loads its operands
//! into r1 and r2, computes, and stores. r6 holds the program's context and r7 the flow. Nothing is kept
//! in registers between two instructions, so the verifier forgets what it knew of them and its work grows
//! with the program's length alone. Jumps lead forward only.
//!
//! A run that is aborted notes why and ends like one that is not: with a jump to `finish`
//! (`bpf/machine.bpf.h`).

use crate::assembler::*;
use crate::layout::{CONSTANT, EVENT_FLAG, FALLTHROUGH, FoldProgram, Insn, JUMP_FINISH, Offsets};
use libbpf_rs::libbpf_sys::bpf_insn;

/// Where the flow is found, and where it goes on.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The map that holds the flow.
    pub state_map: i32,
    /// How to look it up.
    pub lookup: Lookup,
    /// Where in its value the machine is.
    pub offsets: Offsets,
    /// The map of programs to jump to.
    pub jumps: i32,
}

/// How a flow is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Socket storage; the context's first word is the socket.
    Socket,
    /// The first entry of an array, for tests.
    Array,
}

/// The program cannot be compiled; the interpreter runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenerateError {
    /// Beyond what a jump's 16 bits reach.
    #[error("the byte code is too long")]
    TooLong,
    /// No such operation; a validated program has none.
    #[error("operation {0} is not known")]
    Operation(u8),
}

/// `enum fold_op` (`../../vm/fold.h`); DEF is in no flattened program.
mod op {
    pub const ADD: u8 = 0;
    pub const BIND: u8 = 1;
    pub const DIV: u8 = 3;
    pub const EQUAL: u8 = 4;
    pub const EWMA: u8 = 5;
    pub const GREATER: u8 = 6;
    pub const IF: u8 = 7;
    pub const LESS: u8 = 8;
    pub const MAX: u8 = 9;
    pub const MAX_WRAP: u8 = 10;
    pub const MIN: u8 = 11;
    pub const MUL: u8 = 12;
    pub const NOT_IF: u8 = 13;
    pub const SUB: u8 = 14;
    pub const UNLESS: u8 = 15;
    pub const NEXT: u8 = 16;
}

const ADD_OVERFLOW: u8 = 1;
const DIVISION_BY_ZERO: u8 = 2;
const MUL_OVERFLOW: u8 = 3;
const SUB_UNDERFLOW: u8 = 4;

struct Generator<'a> {
    asm: Assembler,
    program: &'a FoldProgram,
    place: Place,
}

impl Generator<'_> {
    fn offset(&self, slot: u16) -> i16 {
        self.place.offsets.registers + 8 * slot as i16
    }

    fn load(&mut self, to: u8, slot: u16) {
        if slot >= CONSTANT {
            let set = self.program.set.get(usize::from(slot - CONSTANT));
            self.asm.emit(MOV32_K, to, 0, 0, set.map_or(0, |set| set.value) as i32);
        } else {
            self.asm.emit(LDX_DW, to, 7, self.offset(slot), 0);
        }
    }

    fn store(&mut self, slot: u16, from: u8) {
        self.asm.emit(STX_DW, 7, from, self.offset(slot), 0);
    }

    fn prologue(&mut self) {
        let asm = &mut self.asm;
        asm.emit(MOV_X, 6, 1, 0, 0);
        match self.place.lookup {
            Lookup::Socket => {
                asm.emit(LDX_DW, 2, 1, 0, 0);
                asm.load_map(1, self.place.state_map);
                asm.emit(MOV_K, 3, 0, 0, 0);
                asm.emit(MOV_K, 4, 0, 0, 0);
                asm.emit(CALL, 0, 0, 0, HELPER_SK_STORAGE_GET);
            }
            Lookup::Array => {
                asm.emit(ST_DW, 10, 0, -8, 0);
                asm.emit(MOV_X, 2, 10, 0, 0);
                asm.emit(0x07, 2, 0, 0, -8);
                asm.load_map(1, self.place.state_map);
                asm.emit(CALL, 0, 0, 0, HELPER_MAP_LOOKUP);
            }
        }
        asm.emit(JNE_K, 0, 0, 2, 0);
        asm.emit(MOV_K, 0, 0, 0, 0);
        asm.emit(EXIT, 0, 0, 0, 0);
        asm.emit(MOV_X, 7, 0, 0, 0);
    }

    fn instruction(&mut self, insn: &Insn) -> Result<(), GenerateError> {
        let result = insn.result;
        match insn.op {
            op::UNLESS => {
                self.load(1, EVENT_FLAG);
                self.asm.jump(JEQ_K, 1, 0, 0, JumpTarget::Fold(usize::from(result)));
                return Ok(());
            }
            op::NEXT => {
                self.load(1, EVENT_FLAG);
                self.asm.emit(JEQ_K, 1, 0, 2, 0);
                self.load(2, FALLTHROUGH);
                self.asm.jump(JEQ_K, 2, 0, 0, JumpTarget::End);
                return Ok(());
            }
            // It ignores its left operand.
            op::BIND => {}
            _ => self.load(1, insn.left),
        }
        self.load(2, insn.right);
        match insn.op {
            op::BIND => self.store(result, 2),
            op::ADD | op::SUB | op::MUL | op::DIV => self.arithmetic(insn.op, result),
            op::EQUAL => self.compare(JEQ_X, result),
            op::GREATER => self.compare(JGT_X, result),
            op::LESS => self.compare(JLT_X, result),
            op::MAX => self.choose(JGE_X, result),
            op::MIN => self.choose(JLE_X, result),
            op::IF => self.assign_unless(JEQ_K, result),
            op::NOT_IF => self.assign_unless(JNE_K, result),
            op::EWMA => self.ewma(result),
            op::MAX_WRAP => self.max_wrapped(result),
            other => return Err(GenerateError::Operation(other)),
        }
        Ok(())
    }

    /// r1 and r2, unless the operation aborts the run.
    fn arithmetic(&mut self, operation: u8, result: u16) {
        let asm = &mut self.asm;
        let computed = match operation {
            op::ADD => {
                asm.emit(MOV_X, 3, 1, 0, 0);
                asm.emit(ADD_X, 3, 2, 0, 0);
                asm.jump(JLT_X, 3, 1, 0, JumpTarget::Abort(ADD_OVERFLOW));
                3
            }
            op::SUB => {
                asm.jump(JGT_X, 2, 1, 0, JumpTarget::Abort(SUB_UNDERFLOW));
                asm.emit(SUB_X, 1, 2, 0, 0);
                1
            }
            op::MUL => {
                asm.emit(MOV_X, 3, 1, 0, 0);
                asm.emit(MUL_X, 3, 2, 0, 0);
                // libccp's check, which misses some overflows.
                asm.emit(JGE_X, 3, 1, 1, 0);
                asm.jump(JNE_K, 2, 0, 0, JumpTarget::Abort(MUL_OVERFLOW));
                3
            }
            _ => {
                asm.jump(JEQ_K, 2, 0, 0, JumpTarget::Abort(DIVISION_BY_ZERO));
                asm.emit(DIV_X, 1, 2, 0, 0);
                1
            }
        };
        self.store(result, computed);
    }

    /// Whether `holds` (a jump from r1 to r2), as 0 or 1.
    fn compare(&mut self, holds: u8, result: u16) {
        self.asm.emit(MOV_K, 3, 0, 0, 1);
        self.asm.emit(holds, 1, 2, 1, 0);
        self.asm.emit(MOV_K, 3, 0, 0, 0);
        self.store(result, 3);
    }

    /// r1 if `keep` (a jump from r1 to r2), otherwise r2.
    fn choose(&mut self, keep: u8, result: u16) {
        self.asm.emit(keep, 1, 2, 1, 0);
        self.asm.emit(MOV_X, 1, 2, 0, 0);
        self.store(result, 1);
    }

    /// r2, unless `skip` (a jump that compares r1 with 0).
    fn assign_unless(&mut self, skip: u8, result: u16) {
        self.asm.emit(skip, 1, 0, 1, 0);
        self.store(result, 2);
    }

    /// (r1·old + (10 − r1)·r2) / 10, modulo 2^64; r2 alone while the old value is 0.
    fn ewma(&mut self, result: u16) {
        self.load(3, result);
        let asm = &mut self.asm;
        asm.emit(JEQ_K, 3, 0, 7, 0);
        asm.emit(MUL_X, 3, 1, 0, 0);
        asm.emit(MOV_K, 4, 0, 0, 10);
        asm.emit(SUB_X, 4, 1, 0, 0);
        asm.emit(MUL_X, 4, 2, 0, 0);
        asm.emit(ADD_X, 3, 4, 0, 0);
        asm.emit(DIV_K, 3, 0, 0, 10);
        asm.emit(JA, 0, 0, 1, 0);
        asm.emit(MOV_X, 3, 2, 0, 0);
        self.store(result, 3);
    }

    /// The later of the 32-bit numbers r1 and r2, which may have wrapped; 0 is no number.
    fn max_wrapped(&mut self, result: u16) {
        let asm = &mut self.asm;
        asm.emit(MOV_X, 3, 2, 0, 0);
        asm.emit(JEQ_K, 1, 0, 15, 0);
        asm.emit(MOV_X, 3, 1, 0, 0);
        asm.emit(JEQ_K, 2, 0, 13, 0);
        asm.emit(MOV32_X, 1, 1, 0, 0);
        asm.emit(MOV32_X, 2, 2, 0, 0);
        // r4 and r5: from b to a and from a to b, modulo 2^32 less one where the subtraction wraps.
        for (to, from, distance) in [(1, 2, 4), (2, 1, 5)] {
            asm.emit(MOV_X, distance, to, 0, 0);
            asm.emit(SUB_X, distance, from, 0, 0);
            asm.emit(JGT_X, to, from, 1, 0);
            asm.emit(ADD_X, distance, 8, 0, 0);
        }
        asm.emit(MOV_X, 3, 1, 0, 0);
        asm.emit(JLT_X, 4, 5, 1, 0);
        asm.emit(MOV_X, 3, 2, 0, 0);
        self.store(result, 3);
    }

    fn end(&mut self, aborts: &[u8]) -> Vec<(JumpTarget, usize)> {
        let mut places = Vec::new();
        let end = |asm: &mut Assembler, jumps| {
            asm.emit(MOV_X, 1, 6, 0, 0);
            asm.load_map(2, jumps);
            asm.emit(MOV_K, 3, 0, 0, JUMP_FINISH as i32);
            asm.emit(CALL, 0, 0, 0, HELPER_TAIL_CALL);
            asm.emit(MOV_K, 0, 0, 0, 0);
            asm.emit(EXIT, 0, 0, 0, 0);
        };
        places.push((JumpTarget::End, self.asm.code.len()));
        end(&mut self.asm, self.place.jumps);
        for &abort in aborts {
            places.push((JumpTarget::Abort(abort), self.asm.code.len()));
            self.asm.emit(ST_W, 7, 0, self.place.offsets.abort, i32::from(abort));
            end(&mut self.asm, self.place.jumps);
        }
        places
    }
}

/// Compiles a program.
pub fn generate(program: &FoldProgram, place: Place) -> Result<Vec<bpf_insn>, GenerateError> {
    let mut generator = Generator { asm: Assembler::default(), program, place };
    generator.prologue();
    // 2^32 − 1, for max_wrapped.
    generator.asm.emit(MOV32_K, 8, 0, 0, -1);
    let mut starts = Vec::with_capacity(program.code().len() + 1);
    for insn in program.code() {
        starts.push(generator.asm.code.len());
        generator.instruction(insn)?;
    }
    starts.push(generator.asm.code.len());
    let wanted =
        |abort: &u8| generator.asm.jumps.iter().any(|(_, target)| *target == JumpTarget::Abort(*abort));
    let aborts: Vec<u8> = (ADD_OVERFLOW..=SUB_UNDERFLOW).filter(wanted).collect();
    let ends = generator.end(&aborts);
    let Assembler { mut code, jumps } = generator.asm;
    for (at, target) in jumps {
        let to = match target {
            JumpTarget::Fold(n) => starts.get(n).copied(),
            other => ends.iter().find(|(known, _)| *known == other).map(|(_, to)| *to),
        };
        let off =
            to.and_then(|to| i16::try_from(to.checked_sub(at + 1)?).ok()).ok_or(GenerateError::TooLong)?;
        code[at].off = off;
    }
    Ok(code)
}
