//! What a program declares and never uses, and in which order its events really run.

use super::ast::{Event, Expr, Statement};
use crate::finding::{Code, Finding};
use crate::syntax::{ParsedProgram, Position};
use anole_model::names::nearest;
use std::collections::{BTreeMap, HashSet};

pub(super) fn check(program: &ParsedProgram, events: &[Event], findings: &mut Vec<Finding>) {
    reporting(program, events, findings);
    registers(program, events, findings);
    flow(events, findings);
    stale_locals(program, events, findings);
}

fn reporting(program: &ParsedProgram, events: &[Event], findings: &mut Vec<Finding>) {
    let Some(first) = events.first() else { return };
    let reports = events.iter().flat_map(|event| &event.body).any(|(_, s)| matches!(s, Statement::Report));
    let message = match (reports, program.reports.is_empty()) {
        (true, false) => return,
        (false, _) => "the program never says (report), so its agent never hears of the flow",
        (true, true) => {
            "the program reports without a (Report …) of what; libccp's message then means that the flow ends"
        }
    };
    findings.push(Finding::new(first.position, Code::NoReport, message));
}

/// Calls `f` for every expression of an event: its condition, then the values of its assignments.
fn expressions<'a>(event: &'a Event, mut f: impl FnMut(&'a Expr)) {
    f(&event.condition);
    for (_, statement) in &event.body {
        if let Statement::Assign(_, _, value) = statement {
            value.parts().into_iter().for_each(&mut f);
        }
    }
}

fn registers(program: &ParsedProgram, events: &[Event], findings: &mut Vec<Finding>) {
    let mut read = HashSet::new();
    let mut written: BTreeMap<&str, Position> = BTreeMap::new();
    for event in events {
        expressions(event, |expr| expr.names(&mut |_, name| _ = read.insert(name)));
        for (_, statement) in &event.body {
            if let Statement::Assign(at, target, _) = statement {
                written.entry(target).or_insert(*at);
            }
        }
    }
    for report in &program.reports {
        if !written.contains_key(format!("Report.{}", report.name).as_str()) {
            let message =
                format!("Report.{} is never written, so every report says {}", report.name, report.initial);
            findings.push(Finding::new(report.position, Code::NeverWritten, message));
        }
    }
    let controls: HashSet<&str> = program.controls.iter().map(|control| control.name.as_str()).collect();
    for control in &program.controls {
        if !read.contains(control.name.as_str()) {
            let message = format!("nothing reads '{}'; use it or remove it", control.name);
            findings.push(Finding::new(control.position, Code::UnusedRegister, message));
        }
    }
    for control in program.controls.iter().filter(|control| control.volatile) {
        if !written.contains_key(control.name.as_str()) {
            let message = format!(
                "each report sets '{}' back to {}, whatever the agent set; remove the word volatile",
                control.name, control.initial
            );
            findings.push(Finding::new(control.position, Code::VolatileControl, message));
        }
    }
    let builtin = ["Micros", "Cwnd", "Rate"];
    for (name, at) in &written {
        let local = !name.contains('.') && !controls.contains(name) && !builtin.contains(name);
        if local && !read.contains(name) {
            let known = controls.iter().copied().chain(builtin);
            let hint =
                nearest(name, known).map(|near| format!(": did you mean '{near}'?")).unwrap_or_default();
            let message = format!("nothing reads the local '{name}'{hint}");
            findings.push(Finding::new(*at, Code::UnusedRegister, message));
        }
    }
}

/// libccp clears its fall-through flag only at the start of an ACK. Once one event fell through, every
/// later one is tried, whether or not those between say so.
fn flow(events: &[Event], findings: &mut Vec<Finding>) {
    let mut fell = false;
    let mut ended = false;
    for (index, event) in events.iter().enumerate() {
        let always = matches!(event.condition, Expr::Bool(_, true));
        let never = matches!(event.condition, Expr::Bool(_, false));
        let falls = event.falls_through();
        if never || ended {
            let message = match never {
                true => "a when false never runs",
                false => "this never runs: a (when true …) above ends every ACK; add (fallthrough) there",
            };
            findings.push(Finding::new(event.position, Code::Unreachable, message));
        } else if !falls && fell && index + 1 < events.len() {
            let message = "this does not end the ACK: once a when above fell through, all later ones are tried as well; add (fallthrough) to say so, and let the conditions below exclude this one";
            findings.push(Finding::new(event.position, Code::StickyFallthrough, message));
        }
        ended |= always && !falls && !fell;
        fell |= falls && !never;
    }
}

/// Locals keep their value from ACK to ACK. One that is assigned only in an event that did not run
/// holds what it held then.
fn stale_locals(program: &ParsedProgram, events: &[Event], findings: &mut Vec<Finding>) {
    let declared: HashSet<&str> = program.controls.iter().map(|control| control.name.as_str()).collect();
    let builtin = |name: &str| name.contains('.') || matches!(name, "Micros" | "Cwnd" | "Rate");
    let mut fresh: HashSet<&str> = HashSet::new();
    for event in events {
        let before = fresh.clone();
        let mut report = |expr: &Expr, fresh: &HashSet<&str>| {
            expr.names(&mut |at, name| {
                if !builtin(name) && !declared.contains(name) && !fresh.contains(name) {
                    let message = format!(
                        "'{name}' is assigned above, but perhaps not at this ACK, and then holds an older value; assign it in this when, or in a (when true …), or declare it"
                    );
                    findings.push(Finding::new(at, Code::StaleLocal, message));
                }
            });
        };
        report(&event.condition, &fresh);
        for (_, statement) in &event.body {
            if let Statement::Assign(_, target, value) = statement {
                value.parts().into_iter().for_each(|part| report(part, &fresh));
                fresh.insert(target);
            }
        }
        if !matches!(event.condition, Expr::Bool(_, true)) {
            fresh = before;
        }
    }
}
