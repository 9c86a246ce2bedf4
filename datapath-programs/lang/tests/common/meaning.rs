//! What a program says, computed from its text: the reference for what its byte code does.

use crate::machine::Fault;
use anole_lang::syntax::{Node, ParsedProgram};
use std::collections::HashMap;

pub struct Meaning {
    program: ParsedProgram,
    /// Every register, local and primitive by name; absent is 0.
    pub values: HashMap<String, u64>,
}

fn literal(word: &str) -> Option<u64> {
    match word {
        "true" => Some(1),
        "false" => Some(0),
        "+infinity" => Some(u64::from(u32::MAX)),
        word => word.parse().ok(),
    }
}

impl Meaning {
    pub fn new(program: &ParsedProgram) -> Meaning {
        let mut meaning = Meaning { program: program.clone(), values: HashMap::new() };
        meaning.define(true);
        meaning
    }

    fn define(&mut self, all: bool) {
        for (prefix, declarations) in [("Report.", &self.program.reports), ("", &self.program.controls)] {
            for declaration in declarations.iter().filter(|declaration| all || declaration.volatile) {
                let value = literal(&declaration.initial).unwrap();
                self.values.insert(format!("{prefix}{}", declaration.name), value);
            }
        }
    }

    pub fn ack(&mut self) -> Result<(), Fault> {
        let (mut fell, mut report) = (false, false);
        for event in self.program.events.clone() {
            let parts = event.list().unwrap();
            if self.value(&parts[1])? == 0 {
                continue;
            }
            for statement in &parts[2..] {
                match statement.list().unwrap() {
                    [Node::Atom(_, word)] if word == "report" => report = true,
                    [Node::Atom(_, word)] if word == "fallthrough" => fell = true,
                    [_, target, value] => self.assign(target.atom().unwrap(), value)?,
                    other => panic!("no statement: {other:?}"),
                }
            }
            if !fell {
                break;
            }
        }
        if report {
            self.define(false);
        }
        Ok(())
    }

    fn assign(&mut self, target: &str, value: &Node) -> Result<(), Fault> {
        let old = self.values.get(target).copied().unwrap_or(0);
        let special = value.list().and_then(|parts| Some((parts[0].atom()?, parts)));
        let new = match special {
            Some((word @ ("if" | "!if"), parts)) => {
                let (condition, value) = (self.value(&parts[1])?, self.value(&parts[2])?);
                if (condition != 0) == (word == "if") { value } else { old }
            }
            Some(("ewma", parts)) => {
                let (weight, sample) =
                    (u128::from(self.value(&parts[1])?), u128::from(self.value(&parts[2])?));
                if weight > 10 {
                    return Err(Fault::EwmaWeight);
                }
                let average = (weight * u128::from(old) + (10 - weight) * sample) / 10;
                let average = if old == 0 { sample } else { average };
                u64::try_from(average).map_err(|_| Fault::ProductOverflow)?
            }
            _ => self.value(value)?,
        };
        self.values.insert(target.to_string(), new);
        Ok(())
    }

    fn value(&self, node: &Node) -> Result<u64, Fault> {
        let parts = match node {
            Node::Atom(_, word) => {
                return Ok(literal(word).or(self.values.get(word).copied()).unwrap_or(0));
            }
            Node::List(_, parts) => parts,
        };
        let (a, b) = (self.value(&parts[1])?, self.value(&parts[2])?);
        let truth = |value: bool| Ok(u64::from(value));
        match parts[0].atom().unwrap() {
            "+" => a.checked_add(b).ok_or(Fault::SumOverflow),
            "-" => a.checked_sub(b).ok_or(Fault::Underflow),
            "*" => a.checked_mul(b).ok_or(Fault::ProductOverflow),
            "/" => a.checked_div(b).ok_or(Fault::DivisionByZero),
            "max" => Ok(a.max(b)),
            "min" => Ok(a.min(b)),
            "wrapped_max" if a.max(b) > u64::from(u32::MAX) => Err(Fault::Truncated),
            "wrapped_max" => Ok(a.max(b)),
            "<" => truth(a < b),
            ">" => truth(a > b),
            "==" => truth(a == b),
            "&&" => truth(a != 0 && b != 0),
            "||" => truth(a != 0 || b != 0),
            other => panic!("no operator: {other}"),
        }
    }
}
