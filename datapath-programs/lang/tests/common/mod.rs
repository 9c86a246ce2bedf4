//! portus itself, as a test sees it, and programs to give it.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use portus::lang::Reg;
use std::panic::catch_unwind;

/// What portus does with a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Compiles,
    Refuses,
    Panics,
}

pub use Outcome::{Compiles, Panics, Refuses};

/// What portus alone does with a source.
pub fn portus(source: &str) -> Outcome {
    let compiled = catch_unwind(|| {
        portus::lang::compile(source.as_bytes(), &[]).and_then(|(bin, _)| bin.serialize()).is_ok()
    });
    match compiled {
        Ok(true) => Compiles,
        Ok(false) => Refuses,
        Err(_) => Panics,
    }
}

/// The highest temporary and the number of instructions that portus gives a source, if it compiles it.
pub fn portus_size(source: &str) -> Option<(usize, usize)> {
    let bin = catch_unwind(|| portus::lang::compile(source.as_bytes(), &[]).ok()).ok()??.0;
    let temporaries = |reg: &Reg| if let Reg::Tmp(index, _) = reg { *index as usize + 1 } else { 0 };
    let highest = bin.instrs.iter().flat_map(|i| [&i.res, &i.left, &i.right]).map(temporaries).max();
    Some((highest.unwrap_or(0), bin.instrs.len()))
}

/// Definitions that the tests' programs share.
pub const DEF: &str = "(def (c 5) (flag false) (Report (volatile r 0) (volatile b false)))";

/// A program with one event.
pub fn with(statements: &str) -> String {
    format!("{DEF}\n(when true {statements} (report))\n")
}
