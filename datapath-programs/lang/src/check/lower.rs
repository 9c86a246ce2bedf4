//! From the tree of syntax to recognised forms. What portus's parser would refuse, or take for
//! something else than it looks, is found here.

use super::ast::{Event, Expr, Statement, Value};
use crate::finding::{Code, Finding};
use crate::syntax::{Node, Position};
use crate::vocabulary::{INFINITY, KEYWORDS, MAX_NUMBER, Op, way_out};
use anole_model::names::nearest;

/// Recognises every event; statements that cannot be recognised are reported and left out.
pub(super) fn events(nodes: &[Node], findings: &mut Vec<Finding>) -> Vec<Event> {
    let mut lower = Lower { findings };
    nodes.iter().filter_map(|node| lower.event(node)).collect()
}

/// The value of a word that looks like a number, or what is wrong with it.
pub(super) fn number(word: &str) -> Option<Result<u64, &'static str>> {
    if word == "+infinity" {
        return Some(Ok(INFINITY));
    }
    if !word.starts_with(|c: char| c.is_ascii_digit() || ((c == '-' || c == '+') && word.len() > 1)) {
        return None;
    }
    Some(if word.starts_with('-') {
        Err("there are no negative numbers; write (- a b) with a guard")
    } else if word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.') {
        Err("there are no fractions; scale both sides, as in (/ (* x 7) 10)")
    } else if !word.chars().all(|c| c.is_ascii_digit()) {
        Err("a number is written in decimal digits only; portus would read the digits and then a name")
    } else {
        match word.parse::<u64>() {
            Ok(value) if value <= MAX_NUMBER => Ok(value),
            _ => Err("the largest number is 2147483647; write +infinity for 4294967295, or a product"),
        }
    })
}

/// Why a name cannot be one, if so.
pub(super) fn bad_name(name: &str) -> Option<&'static str> {
    if KEYWORDS.contains(&name) {
        Some("a word of the language cannot name a register")
    } else if name.starts_with(|c: char| c.is_ascii_digit()) {
        Some(
            "a name cannot begin with a digit: portus reads the digits as a number and the rest as another word",
        )
    } else if name.starts_with("true") || name.starts_with("false") {
        Some("a name cannot begin with true or false: portus reads the truth value and then another word")
    } else if name.starts_with("__") {
        Some("names that begin with two underscores are portus's own")
    } else if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.') {
        Some("a name consists of letters, digits, '_' and '.'")
    } else {
        None
    }
}

const STATEMENTS: &str = "a statement is (:= register value), (report) or (fallthrough)";

struct Lower<'a> {
    findings: &'a mut Vec<Finding>,
}

impl Lower<'_> {
    fn error<T>(&mut self, at: Position, code: Code, message: impl Into<String>) -> Option<T> {
        self.findings.push(Finding::new(at, code, message));
        None
    }

    fn event(&mut self, node: &Node) -> Option<Event> {
        let position = node.position();
        let [_, condition, body @ ..] = node.list()? else {
            return self.error(position, Code::Condition, "expected (when condition statement…)");
        };
        if body.is_empty() {
            return self.error(position, Code::Syntax, "portus refuses a when without statements; add one");
        }
        let condition = self.expression(condition).unwrap_or(Expr::Unclear(condition.position()));
        let body = body.iter().filter_map(|node| Some((node.position(), self.statement(node)?))).collect();
        Some(Event { position, condition, body })
    }

    fn statement(&mut self, node: &Node) -> Option<Statement> {
        let at = node.position();
        let Some(parts) = node.list() else {
            let word = node.atom().unwrap_or("");
            self.word(at, word)?; // What is no word at all is reported as such.
            return self.error(at, Code::NoEffect, format!("'{word}' alone does nothing; {STATEMENTS}"));
        };
        let Some(word) = parts.first().and_then(Node::atom) else {
            return self.error(at, Code::Syntax, format!("a list begins with a word; {STATEMENTS}"));
        };
        match word {
            "report" | "fallthrough" if parts.len() > 1 => {
                self.error(at, Code::Arity, format!("({word}) takes no operands"))
            }
            "report" => Some(Statement::Report),
            "fallthrough" => Some(Statement::Fallthrough),
            ":=" | "bind" => self.assignment(at, parts),
            "if" | "!if" | "ewma" => self.error(
                at,
                Code::NoEffect,
                format!("portus panics on a bare ({word} …); write (:= register ({word} a b))"),
            ),
            _ if Op::named(word).is_some() => {
                self.error(at, Code::NoEffect, format!("the result of ({word} …) is not used; {STATEMENTS}"))
            }
            "when" => {
                self.error(at, Code::Nesting, "a when cannot stand inside another; join conditions with &&")
            }
            _ => {
                let hint = hint(word, &[":=", "report", "fallthrough"]);
                self.error(at, Code::Operator, format!("unknown command '{word}'; {hint}{STATEMENTS}"))
            }
        }
    }

    fn assignment(&mut self, at: Position, parts: &[Node]) -> Option<Statement> {
        let [_, target, value] = parts else {
            let message = format!(":= takes a register and a value, here are {}", parts.len() - 1);
            return self.error(at, Code::Arity, message);
        };
        let Some(name) = target.atom() else {
            let message = "the left of := must be a register, not a list";
            return self.error(target.position(), Code::ReadOnly, message);
        };
        if number(name).is_some() || name == "true" || name == "false" {
            let message = format!("'{name}' is a constant and cannot be assigned");
            return self.error(target.position(), Code::ReadOnly, message);
        }
        if let Some(reason) = bad_name(name) {
            return self.error(target.position(), Code::Name, format!("'{name}': {reason}"));
        }
        // With an unclear value the target still counts as assigned.
        let value = self.value(value).unwrap_or(Value::Plain(Expr::Unclear(value.position())));
        Some(Statement::Assign(target.position(), name.to_string(), value))
    }

    fn value(&mut self, node: &Node) -> Option<Value> {
        let special = node.list().and_then(|parts| Some((parts.first()?.atom()?, parts)));
        let Some((word @ ("if" | "!if" | "ewma"), parts)) = special else {
            return Some(Value::Plain(self.expression(node)?));
        };
        let [_, a, b] = parts else {
            let what = if word == "ewma" { "a weight and a sample" } else { "a condition and a value" };
            let message = format!("{word} takes {what}, here are {}", parts.len() - 1);
            return self.error(node.position(), Code::Arity, message);
        };
        let (a, b) = (self.expression(a), self.expression(b));
        let (a, b) = (a?, b?);
        Some(match word {
            "if" => Value::If(a, b),
            "!if" => Value::IfNot(a, b),
            _ => Value::Ewma(a, b),
        })
    }

    fn expression(&mut self, node: &Node) -> Option<Expr> {
        match node {
            Node::Atom(at, word) => self.word(*at, word),
            Node::List(at, parts) => self.operation(*at, parts),
        }
    }

    fn word(&mut self, at: Position, word: &str) -> Option<Expr> {
        match word {
            "true" => return Some(Expr::Bool(at, true)),
            "false" => return Some(Expr::Bool(at, false)),
            _ => {}
        }
        match number(word) {
            Some(Ok(value)) => return Some(Expr::Number(at, value)),
            Some(Err(reason)) => return self.error(at, Code::Number, format!("'{word}': {reason}")),
            None => {}
        }
        match bad_name(word) {
            Some(reason) => self.error(at, Code::Name, format!("'{word}': {reason}")),
            None => Some(Expr::Name(at, word.to_string())),
        }
    }

    fn operation(&mut self, at: Position, parts: &[Node]) -> Option<Expr> {
        let Some(word) = parts.first().and_then(Node::atom) else {
            return self.error(at, Code::Syntax, "expected (operator a b)");
        };
        let Some(op) = Op::named(word) else {
            return match word {
                "if" | "!if" | "ewma" => {
                    let message = format!(
                        "{word} can only stand directly in an assignment, as (:= register ({word} a b)); elsewhere portus refuses it or panics"
                    );
                    self.error(at, Code::Nesting, message)
                }
                ":=" | "bind" | "report" | "fallthrough" | "when" => self.error(
                    at,
                    Code::Nesting,
                    format!("({word} …) is a statement and cannot stand inside an expression"),
                ),
                _ => {
                    let hint = hint(word, &OPERATORS);
                    self.error(
                        at,
                        Code::Operator,
                        format!("unknown operator '{word}'; {hint}the operators are {}", OPERATORS.join(" ")),
                    )
                }
            };
        };
        let [_, a, b] = parts else {
            let message =
                format!("{word} takes two operands, here are {}; nest it for more", parts.len() - 1);
            return self.error(at, Code::Arity, message);
        };
        let (a, b) = (self.expression(a), self.expression(b));
        Some(Expr::Binary(at, op, Box::new(a?), Box::new(b?)))
    }
}

const OPERATORS: [&str; 12] = ["+", "-", "*", "/", "==", "<", ">", "&&", "||", "min", "max", "wrapped_max"];

fn hint(word: &str, known: &[&str]) -> String {
    match (way_out(word), nearest(word, known.iter().copied())) {
        (Some(way), _) => format!("{way}; "),
        (None, Some(near)) => format!("did you mean '{near}'? "),
        (None, None) => String::new(),
    }
}
