//! Names, types and counts, as portus's compiler keeps them.

use super::ast::{Event, Expr, Statement, Value};
use crate::finding::{Code, Finding};
use crate::syntax::{ParsedProgram, Position};
use crate::vocabulary::{
    IMPLICIT, MAX_INSTRUCTIONS, MAX_LOCALS, MAX_TEMPORARIES, PRIMITIVES, Type, is_primitive,
};
use anole_model::names::nearest;
use std::collections::{HashMap, HashSet};

pub(super) fn check(program: &ParsedProgram, events: &[Event], findings: &mut Vec<Finding>) {
    let mut types = Types {
        known: HashMap::new(),
        locals: 0,
        assigned: assigned(events),
        instructions: 0,
        over: None,
        findings,
    };
    for builtin in PRIMITIVES.iter().chain(&IMPLICIT) {
        types.known.insert(builtin.name.to_string(), (Some(builtin.ty), false));
    }
    for (prefix, declarations) in [("Report.", &program.reports), ("", &program.controls)] {
        for declaration in declarations {
            let truth = declaration.initial == "true" || declaration.initial == "false";
            let ty = if truth { Type::Bool } else { Type::Number };
            types.known.insert(format!("{prefix}{}", declaration.name), (Some(ty), true));
            types.count(declaration.position, 1);
        }
    }
    for event in events {
        types.event(event);
    }
    if let Some(position) = types.over {
        let message = format!(
            "here the program exceeds {MAX_INSTRUCTIONS} instructions (it has {}); libccp never returns from the 256th",
            types.instructions
        );
        types.error(position, Code::Limit, message);
    }
}

/// Every name that the program assigns.
fn assigned(events: &[Event]) -> HashSet<String> {
    let statements = events.iter().flat_map(|event| &event.body);
    let targets = statements.filter_map(|(_, statement)| match statement {
        Statement::Assign(_, target, _) => Some(target.clone()),
        _ => None,
    });
    targets.collect()
}

struct Types<'a> {
    /// Types of the names met so far, as far as they are clear, and whether the program declares them.
    /// portus meets names in the order of the text, whatever the order of execution.
    known: HashMap<String, (Option<Type>, bool)>,
    locals: usize,
    assigned: HashSet<String>,
    instructions: usize,
    /// Where the program grew too long.
    over: Option<Position>,
    findings: &'a mut Vec<Finding>,
}

impl Types<'_> {
    fn error(&mut self, at: Position, code: Code, message: impl Into<String>) {
        self.findings.push(Finding::new(at, code, message));
    }

    fn count(&mut self, at: Position, instructions: usize) {
        self.instructions += instructions;
        if self.instructions > MAX_INSTRUCTIONS && self.over.is_none() {
            self.over = Some(at);
        }
    }

    fn event(&mut self, event: &Event) {
        let at = event.condition.position();
        match &event.condition {
            Expr::Bool(..) | Expr::Unclear(_) => {}
            Expr::Binary(_, op, ..) if op.result() == Type::Bool => {
                self.expression(&event.condition);
            }
            Expr::Name(_, name) => {
                let message = format!(
                    "portus refuses a register as the condition, and panics on a report register; write (|| {name} false) for a truth value, (> {name} 0) for a number"
                );
                self.error(at, Code::Condition, message);
            }
            _ => self.error(at, Code::Condition, "the condition must be true, false, a comparison, && or ||"),
        }
        // The last instruction of a condition writes the event flag instead of a temporary.
        let operators = event.condition.operators();
        self.temporaries(at, operators.saturating_sub(1));
        self.count(event.position, operators.max(1));
        for (at, statement) in &event.body {
            match statement {
                Statement::Report | Statement::Fallthrough => self.count(*at, 1),
                Statement::Assign(target_at, target, value) => {
                    let operators = value.parts().iter().map(|part| part.operators()).sum();
                    self.temporaries(*at, operators);
                    self.count(*at, operators + 1);
                    self.assignment(*target_at, target, value);
                }
            }
        }
    }

    fn temporaries(&mut self, at: Position, used: usize) {
        if used > MAX_TEMPORARIES {
            let message = format!(
                "{used} temporaries in one statement, one per operator; a ninth silently reads another register: assign a part to a local first"
            );
            self.error(at, Code::Limit, message);
        }
    }

    fn assignment(&mut self, at: Position, target: &str, value: &Value) {
        let yields = match value {
            Value::Plain(value) => self.expression(value),
            Value::If(condition, value) | Value::IfNot(condition, value) => {
                if self.expression(condition) == Some(Type::Number) {
                    let message = "portus lets a number pass as the condition: everything but 0 counts as true; write (> x 0)";
                    self.error(condition.position(), Code::MixedTypes, message);
                }
                self.expression(value)
            }
            Value::Ewma(weight, sample) => {
                for part in [weight, sample] {
                    if self.expression(part) == Some(Type::Bool) {
                        let message = "ewma takes numbers; portus lets a truth value pass as 0 or 1";
                        self.error(part.position(), Code::MixedTypes, message);
                    }
                }
                if let Expr::Number(at, weight @ 11..) = weight {
                    let message =
                        format!("the weight counts tenths, and 10 - {weight} wraps around; use 0 to 10");
                    self.error(*at, Code::EwmaWeight, message);
                }
                Some(Type::Number)
            }
        };
        self.target(at, target, matches!(value, Value::Plain(_)));
        let (holds, _) = *self.known.entry(target.to_string()).or_insert((yields, false));
        if let (Some(holds), Some(yields)) = (holds, yields)
            && holds != yields
        {
            let message = format!("'{target}' is {holds} and gets {yields}; portus does not notice");
            self.error(at, Code::MixedTypes, message);
        }
    }

    /// Checks that `name` can be assigned, by `:=` alone or with a form that works on the register itself.
    fn target(&mut self, at: Position, name: &str, plain: bool) {
        let new = !self.known.contains_key(name);
        if is_primitive(name) {
            self.error(
                at,
                Code::ReadOnly,
                format!("'{name}' is measured by the datapath and cannot be assigned"),
            );
        } else if new && name.contains('.') {
            self.unknown(at, name);
        } else if new {
            self.locals += 1;
            if self.locals > MAX_LOCALS {
                let message = format!(
                    "'{name}' is local number {}; portus refuses more than {MAX_LOCALS}: use a declared register, or one local for two purposes",
                    self.locals
                );
                self.error(at, Code::Limit, message);
            }
        }
        let declared = self.known.get(name).is_some_and(|(_, declared)| *declared);
        if !plain && !is_primitive(name) && !declared && !name.contains('.') {
            let message = format!(
                "portus panics on if, !if and ewma into '{name}': the target must be a declared register; assign to one, then (:= {name} register)"
            );
            self.error(at, Code::Nesting, message);
        }
    }

    /// Reports a name that portus would silently make a local with whatever value is there.
    fn unknown(&mut self, at: Position, name: &str) {
        if self.assigned.contains(name) && !name.contains('.') {
            let message = format!("'{name}' is read before its first assignment; assign it above");
            return self.error(at, Code::BeforeAssignment, message);
        }
        // Locals beyond the limit are no help, and a file of rubbish has many.
        let candidates =
            self.known.iter().filter(|(_, (_, declared))| *declared || self.locals <= MAX_LOCALS);
        let near = match nearest(name, candidates.map(|(known, _)| known.as_str())) {
            Some(near) => format!("did you mean '{near}'?"),
            None => "declare it in (def …) or assign it first".to_string(),
        };
        let message =
            format!("'{name}' is declared nowhere, and portus would silently make it a local; {near}");
        self.error(at, Code::Unknown, message);
    }

    fn expression(&mut self, expr: &Expr) -> Option<Type> {
        match expr {
            Expr::Number(..) => Some(Type::Number),
            Expr::Bool(..) => Some(Type::Bool),
            Expr::Name(at, name) => match self.known.get(name) {
                Some((ty, _)) => *ty,
                None => {
                    self.unknown(*at, name);
                    None
                }
            },
            Expr::Binary(_, op, a, b) => {
                for operand in [a, b] {
                    let wanted = op.operands();
                    if self.expression(operand).is_some_and(|ty| ty != wanted) {
                        let hint = match wanted {
                            Type::Bool => "compare it first, as in (> x 0)",
                            Type::Number => {
                                "truth values are joined with && and ||; (!if b value) assigns unless b"
                            }
                        };
                        let message = format!("{} takes {wanted}; {hint}", op.symbol());
                        self.error(operand.position(), Code::Type, message);
                    }
                }
                Some(op.result())
            }
            Expr::Unclear(_) => None,
        }
    }
}
