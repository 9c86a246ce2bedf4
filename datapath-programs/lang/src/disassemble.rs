//! Byte code in words.

use crate::byte_code::Compiled;
use crate::syntax::Declaration;
use crate::vocabulary::{
    MAX_CONTROLS, MAX_INSTRUCTIONS, MAX_LOCALS, MAX_REPORTS, MAX_TEMPORARIES, PRIMITIVES,
};
use std::fmt::{self, Write};

/// What a program takes of what a datapath has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Report registers.
    pub reports: usize,
    /// Control registers.
    pub controls: usize,
    /// Local registers.
    pub locals: usize,
    /// Temporaries of the statement that needs most.
    pub temporaries: usize,
    /// Expressions (`when` clauses).
    pub expressions: usize,
    /// Instructions.
    pub instructions: usize,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {MAX_REPORTS} report, {} of {MAX_CONTROLS} control, {} of {MAX_LOCALS} local registers, \
             {} of {MAX_TEMPORARIES} temporaries, {} of {MAX_INSTRUCTIONS} instructions in {} expression{}",
            self.reports,
            self.controls,
            self.locals,
            self.temporaries,
            self.instructions,
            self.expressions,
            if self.expressions == 1 { "" } else { "s" },
        )
    }
}

const EXPRESSION_BYTES: usize = 16;
const INSTRUCTION_BYTES: usize = 16;
const LOCAL: u8 = 3;
const TEMPORARY: u8 = 7;

#[derive(Clone, Copy)]
struct Register {
    kind: u8,
    index: u32,
}

struct Instruction {
    op: u8,
    result: Register,
    left: Register,
    right: Register,
}

impl Compiled {
    /// What the program takes of what a datapath has.
    pub fn summary(&self) -> Summary {
        let used = |kind: u8| {
            let registers = self.instructions().flat_map(|i| [i.result, i.left, i.right]);
            registers.filter(|r| r.kind == kind).map(|r| r.index as usize + 1).max().unwrap_or(0)
        };
        Summary {
            reports: self.program.reports.len(),
            controls: self.program.controls.len(),
            locals: used(LOCAL),
            temporaries: used(TEMPORARY),
            expressions: self.expressions as usize,
            instructions: self.instructions as usize,
        }
    }

    fn instructions(&self) -> impl Iterator<Item = Instruction> {
        let code = self.code.get(EXPRESSION_BYTES * self.expressions as usize..).unwrap_or(&[]);
        code.chunks_exact(INSTRUCTION_BYTES).map(|bytes| {
            let register = |at: usize| Register { kind: bytes[at], index: word(&bytes[at + 1..]) };
            Instruction { op: bytes[0], result: register(1), left: register(6), right: register(11) }
        })
    }
}

fn word(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).rev().fold(0, |value, byte| value << 8 | u32::from(*byte))
}

/// The byte code as a listing: one line per instruction, grouped by event, registers by name.
pub fn disassemble(compiled: &Compiled) -> String {
    let instructions: Vec<Instruction> = compiled.instructions().collect();
    let names = Names { reports: &compiled.program.reports, controls: &compiled.program.controls };
    let mut out = String::new();
    let mut list = |title: &str, from: u32, count: u32| {
        let _ = writeln!(out, "{title}");
        let range = instructions.iter().enumerate().skip(from as usize).take(count as usize);
        for (index, instruction) in range {
            let _ = writeln!(out, "{index:5}  {}", names.instruction(instruction));
        }
    };
    let expressions: Vec<[u32; 4]> = compiled
        .code
        .chunks_exact(EXPRESSION_BYTES)
        .take(compiled.expressions as usize)
        .map(|bytes| [0, 4, 8, 12].map(|at| word(&bytes[at..])))
        .collect();
    list("definitions", 0, expressions.first().map_or(0, |e| e[0]));
    for (index, [condition, conditions, body, bodies]) in expressions.into_iter().enumerate() {
        list(&format!("when {index}"), condition, conditions);
        list("  then", body, bodies);
    }
    out
}

struct Names<'a> {
    reports: &'a [Declaration],
    controls: &'a [Declaration],
}

impl Names<'_> {
    fn instruction(&self, i: &Instruction) -> String {
        let [result, left, right] = [i.result, i.left, i.right].map(|register| self.register(register));
        let op = match i.op {
            0 => "+",
            1 => return format!("{result} = {right}"),
            2 => return format!("{left} starts as {right}"),
            3 => "/",
            4 => "==",
            5 => return format!("{result} = {left} tenths of {result}, the rest of {right}"),
            6 => ">",
            7 => return format!("{result} = {right} if {left}"),
            8 => "<",
            9 => "max",
            10 => "wrapped_max",
            11 => "min",
            12 => "*",
            13 => return format!("{result} = {right} unless {left}"),
            14 => "-",
            unknown => return format!("{result} = {left} ?{unknown} {right}"),
        };
        format!("{result} = {left} {op} {right}")
    }

    fn register(&self, Register { kind, index }: Register) -> String {
        let at = index as usize;
        let (name, prefix) = match kind {
            0 | 8 => (self.controls.get(at).map(|d| d.name.clone()), "control"),
            1 if index == u32::MAX => return "+infinity".to_string(),
            1 => return index.to_string(),
            2 => {
                let names = ["event flag", "fall through", "report", "Micros", "Cwnd", "Rate"];
                (names.get(at).map(ToString::to_string), "implicit")
            }
            LOCAL => (None, "local"),
            4 => (PRIMITIVES.get(at).map(|p| p.name.to_string()), "primitive"),
            5 | 6 => (self.reports.get(at).map(|d| format!("Report.{}", d.name)), "report"),
            TEMPORARY => (None, "tmp"),
            _ => (None, "unknown"),
        };
        name.unwrap_or_else(|| format!("{prefix}{index}"))
    }
}
