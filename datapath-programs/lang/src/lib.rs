//! The CCP fold-program language.
//!
//! [`syntax`] reads a program with the position of everything in it; [`check()`] finds whatever portus or
//! a datapath would stumble over; [`compile`] turns it into the byte code that a datapath installs, by
//! portus's own compiler; [`disassemble`] shows that code. `docs/fold-programs.md` describes the language.

#![forbid(unsafe_code)]

mod byte_code;
mod check;
mod compile;
mod disassemble;
mod finding;
pub mod syntax;
pub mod vocabulary;

pub use byte_code::{Compiled, CompilerError};
pub use check::check;
pub use compile::{CompileError, compile};
pub use disassemble::{Summary, disassemble};
pub use finding::{Code, Finding, Severity, has_errors, render};
pub use syntax::{Declaration, ParsedProgram, SyntaxError};
