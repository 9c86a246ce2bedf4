//! Compilation by portus, made safe: comments are stripped and a panic of its compiler is an error.

use crate::syntax::{self, SyntaxError};
use std::panic::catch_unwind;

/// A program as a datapath installs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// The source without comments, as portus and third-party agents take it.
    pub source: String,
    /// What the source declares.
    pub program: syntax::Program,
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
    /// portus refuses it, in its words.
    #[error("portus refuses the program: {0}")]
    Refused(String),
    /// portus panics on it.
    #[error("portus's compiler panics on the program; `anole-ccp check` says where")]
    Panicked,
}

/// Compiles a fold program.
pub fn compile(source: &str) -> Result<Compiled, CompileError> {
    let program = syntax::parse(source)?;
    let stripped = syntax::strip_comments(source);
    let compiled = catch_unwind(|| {
        let (bin, _scope) = portus::lang::compile(stripped.as_bytes(), &[]).map_err(|e| e.to_string())?;
        let (expressions, instructions) = (bin.events.len() as u32, bin.instrs.len() as u32);
        bin.serialize().map(|code| (expressions, instructions, code)).map_err(|e| e.to_string())
    });
    let (expressions, instructions, code) =
        compiled.map_err(|_| CompileError::Panicked)?.map_err(CompileError::Refused)?;
    Ok(Compiled { source: stripped, program, expressions, instructions, code })
}
