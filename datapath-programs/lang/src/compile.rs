//! From the text of a fold program to byte code, through the check.

use crate::byte_code::{self, Compiled, CompilerError};
use crate::check::obstacles;
use crate::finding::Finding;
use crate::syntax::{self, SyntaxError};

/// Why a program does not compile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The source cannot be read.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// The check finds errors; at least one.
    #[error("{}", list(.0))]
    Errors(Vec<Finding>),
    /// portus does not compile what the check lets pass.
    #[error(transparent)]
    Compiler(#[from] CompilerError),
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
    Ok(byte_code::generate(program)?)
}
