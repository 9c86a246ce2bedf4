//! Finds everything in a fold program that portus or a datapath would stumble over.
//!
//! ```text
//! syntax ─▶ declarations ─▶ lower ─▶ types ─▶ usage, ranges ─▶ waivers
//!                 errors end the check here ──┘   (warnings)
//! ```
//! Errors are what portus refuses, panics on or compiles to something else than the text says. Warnings
//! are what runs but may end an ACK half-way or surprise. A warning that is meant can be waived by a
//! comment on its line, with a reason: `# check: allow underflow: sent is never below acked`.

mod ast;
mod declarations;
mod facts;
mod lower;
mod ranges;
mod types;
mod usage;
mod waivers;

use crate::byte_code;
use crate::finding::{Code, Finding, Severity, has_errors};
use crate::syntax::{self, ParsedProgram, Position};
use std::cmp::Reverse;

/// Findings that a check gives at most; nobody reads on, and a file of rubbish has many.
const MAX_FINDINGS: usize = 100;

/// Everything there is to say about a program, in the order of the text; nothing when it is fine. Of
/// more than a hundred findings the errors are kept first.
pub fn check(source: &str) -> Vec<Finding> {
    let program = match syntax::parse(source) {
        Ok(program) => program,
        Err(error) => return vec![Finding::new(error.position, Code::Syntax, error.message)],
    };
    let (events, mut findings) = errors(&program);
    if !has_errors(&findings) {
        usage::check(&program, &events, &mut findings);
        ranges::check(&program, &events, &mut findings);
    }
    if !has_errors(&findings)
        && let Err(error) = byte_code::generate(program)
    {
        findings.push(Finding::new(Position { line: 1, column: 1 }, Code::Compiler, error.to_string()));
    }
    let wrong = waivers::apply(source, &mut findings);
    findings.extend(wrong);
    findings.sort_by_key(|finding| (Reverse(finding.severity()), finding.position));
    findings.dedup();
    findings.truncate(MAX_FINDINGS);
    findings.sort_by_key(|finding| finding.position);
    findings
}

/// The program's events, with what keeps portus from compiling them to what they say.
fn errors(program: &ParsedProgram) -> (Vec<ast::Event>, Vec<Finding>) {
    let mut findings = Vec::new();
    declarations::check(program, &mut findings);
    let events = lower::events(&program.events, &mut findings);
    types::check(program, &events, &mut findings);
    (events, findings)
}

/// What stands in the way of compiling `program`.
pub(crate) fn obstacles(program: &ParsedProgram) -> Vec<Finding> {
    let (_, mut findings) = errors(program);
    findings.retain(|finding| finding.severity() == Severity::Error);
    findings
}
