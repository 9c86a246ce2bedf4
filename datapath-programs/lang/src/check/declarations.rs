//! What a program declares: names, initial values, numbers of registers.

use super::lower::{bad_name, number};
use crate::finding::{Code, Finding};
use crate::syntax::{Declaration, ParsedProgram};
use crate::vocabulary::{INFINITY_MARK, MAX_CONTROLS, MAX_REPORTS, builtin};
use std::collections::HashMap;

pub(super) fn check(program: &ParsedProgram, findings: &mut Vec<Finding>) {
    for (kind, declarations, max) in
        [("report", &program.reports, MAX_REPORTS), ("control", &program.controls, MAX_CONTROLS)]
    {
        if let Some(first) = declarations.get(max) {
            let message = format!("{} {kind} registers; portus refuses more than {max}", declarations.len());
            findings.push(Finding::new(first.position, Code::Limit, message));
        }
        let mut seen = HashMap::new();
        for declaration in declarations {
            if let Some(line) = seen.insert(&declaration.name, declaration.position.line) {
                let message = format!(
                    "'{}' is declared in line {line} already; portus would keep both and reach only this one",
                    declaration.name
                );
                findings.push(Finding::new(declaration.position, Code::Duplicate, message));
            }
            if let Some((code, message)) =
                name(declaration, kind == "control").or_else(|| initial(declaration))
            {
                findings.push(Finding::new(declaration.position, code, message));
            }
        }
    }
}

fn name(declaration: &Declaration, control: bool) -> Option<(Code, String)> {
    let name = declaration.name.as_str();
    let reason = if control && builtin(name).is_some() {
        "the datapath's own register of this name would be out of reach"
    } else if name.starts_with("volatile") && name != "volatile" {
        "portus reads the word volatile and takes the rest for the name"
    } else if name.starts_with("Report.") {
        "report registers are declared inside (Report …), without 'Report.'"
    } else if control && (name.starts_with("Ack.") || name.starts_with("Flow.")) {
        "Ack. and Flow. are for what the datapath measures"
    } else {
        // Inside (Report …) the name is only ever used with `Report.` in front, where a leading digit
        // does no harm; it is refused all the same, so that one rule holds everywhere.
        bad_name(name)?
    };
    Some((Code::Name, format!("'{name}': {reason}")))
}

fn initial(declaration: &Declaration) -> Option<(Code, String)> {
    let word = declaration.initial.as_str();
    if word == "true" || word == "false" {
        return None;
    }
    match number(word) {
        Some(Ok(INFINITY_MARK)) => Some((
            Code::Initial,
            format!(
                "libccp takes the initial value {INFINITY_MARK} for infinity; write another, or +infinity"
            ),
        )),
        Some(Ok(_)) => None,
        Some(Err(reason)) => Some((Code::Number, format!("'{word}': {reason}"))),
        None => Some((
            Code::Initial,
            format!(
                "the initial value '{word}' must be a number, +infinity, true or false: portus would leave the register without one, and a report register out of the report"
            ),
        )),
    }
}
