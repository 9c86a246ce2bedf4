//! Compilation by portus, made safe.
//!
//! portus panics on some programs, overflows its stack on others and compiles a few to something else
//! than they say. It is only given what [`crate::check()`] finds free of errors; should it panic all the
//! same, that is an error like others.

use crate::check::obstacles;
use crate::finding::Finding;
use crate::syntax::{self, Program, SyntaxError};
use std::panic::catch_unwind;

/// A program as a datapath installs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// The source without comments, as portus and third-party agents take it.
    pub source: String,
    /// What the source declares.
    pub program: Program,
    /// Number of expressions (`when` clauses).
    pub expressions: u32,
    /// Number of instructions, definitions included.
    pub instructions: u32,
    /// Expressions (16 bytes each), then instructions (16 bytes each).
    pub code: Vec<u8>,
}

/// Why a program does not compile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The source cannot be read.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// The check finds errors; at least one.
    #[error("{}", list(.0))]
    Errors(Vec<Finding>),
    /// portus refuses what the check lets pass, in its words.
    #[error("portus refuses the program: {0}")]
    Refused(String),
    /// portus panics on what the check lets pass.
    #[error("portus's compiler panics on the program")]
    Panicked,
}

fn list(findings: &[Finding]) -> String {
    let one = |f: &Finding| format!("{}:{}: {}", f.position.line, f.position.column, f.message);
    findings.iter().map(one).collect::<Vec<_>>().join("\n")
}

/// Compiles a fold program. Warnings of the check do not keep a program from being compiled.
pub fn compile(source: &str) -> Result<Compiled, CompileError> {
    let program = syntax::parse(source)?;
    let errors = obstacles(&program);
    if !errors.is_empty() {
        return Err(CompileError::Errors(errors));
    }
    compile_checked(program)
}

/// Compiles a program without errors.
pub(crate) fn compile_checked(program: Program) -> Result<Compiled, CompileError> {
    let source = program.text.clone();
    let compiled = catch_unwind(|| {
        let (bin, _scope) = portus::lang::compile(source.as_bytes(), &[]).map_err(|e| e.to_string())?;
        let (expressions, instructions) = (bin.events.len() as u32, bin.instrs.len() as u32);
        bin.serialize().map(|code| (expressions, instructions, code)).map_err(|e| e.to_string())
    });
    let (expressions, instructions, code) =
        compiled.map_err(|_| CompileError::Panicked)?.map_err(CompileError::Refused)?;
    Ok(Compiled { source, program, expressions, instructions, code })
}
