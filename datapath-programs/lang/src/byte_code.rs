//! Byte code from portus's compiler, made safe.
//!
//! portus panics on some programs, overflows its stack on others and compiles a few to something else
//! than they say. It is only given programs without errors of [`crate::check()`]; should it panic all the
//! same, that is an error like others.

use crate::syntax::ParsedProgram;
use std::panic::catch_unwind;

/// A program as a datapath installs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// The source without comments, as portus and third-party agents take it.
    pub source: String,
    /// What the source declares.
    pub program: ParsedProgram,
    /// Number of expressions (`when` clauses).
    pub expressions: u32,
    /// Number of instructions, definitions included.
    pub instructions: u32,
    /// Expressions (16 bytes each), then instructions (16 bytes each).
    pub code: Vec<u8>,
}

/// Why portus does not compile a program that the check lets pass.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompilerError {
    /// portus refuses it, in its words.
    #[error("portus refuses the program: {0}")]
    Refused(String),
    /// portus panics on it.
    #[error("portus's compiler panics on the program")]
    Panicked,
}

/// Compiles a program without errors.
pub(crate) fn generate(program: ParsedProgram) -> Result<Compiled, CompilerError> {
    let source = program.text.clone();
    let compiled = catch_unwind(|| {
        let (bin, _scope) = portus::lang::compile(source.as_bytes(), &[]).map_err(|e| e.to_string())?;
        let (expressions, instructions) = (bin.events.len() as u32, bin.instrs.len() as u32);
        bin.serialize().map(|code| (expressions, instructions, code)).map_err(|e| e.to_string())
    });
    let (expressions, instructions, code) =
        compiled.map_err(|_| CompilerError::Panicked)?.map_err(CompilerError::Refused)?;
    Ok(Compiled { source, program, expressions, instructions, code })
}
