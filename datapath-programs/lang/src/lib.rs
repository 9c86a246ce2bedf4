//! The CCP fold-program language.
//!
//! [`syntax`] reads a program with the position of everything in it, [`compile`] turns it into the byte
//! code that a datapath installs, by portus's own compiler.

#![forbid(unsafe_code)]

mod compile;
pub mod syntax;

pub use compile::{Compiled, compile};
pub use syntax::{Declaration, Program, SyntaxError};
