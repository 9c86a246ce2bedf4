//! What can go wrong with the values: subtractions below zero, divisions by zero, products beyond 64
//! bits, weights above ten, and round-trip times without a sample.
//!
//! The program is run over ranges instead of numbers: first as often as it takes until the ranges of
//! all registers no longer grow, then once more to report. Two assumptions keep the answer useful:
//!
//! - a window, what is in flight and what one ACK acknowledges stay below 2^30 bytes, TCP's largest
//!   window (RFC 7323 section 2.2); other measured values and registers that the agent sets below 2^32,
//!   as libccp's fields and the agent's updates do; `Ack.now` below 2^48 (nine years in us);
//! - a register that sums such values up stays below 2^48. Overflow of additions, and of products with a
//!   literal, is not reported: it takes a value that has grown without bound before.
//!
//! A subtraction is taken as safe when [`State::at_most`] finds a reason that holds for all values.

use super::ast::{Event, Expr, Statement, Value};
use super::facts::{Range, Ranges, SUM, State, WORD, arithmetic};
use crate::finding::{Code, Finding};
use crate::syntax::{ParsedProgram, Position};
use crate::vocabulary::{Op, RTT, builtin};
use std::collections::BTreeSet;

/// Rounds in which ranges may grow by themselves; those that still do are widened. Programs settle
/// within two or three unless a register sums up.
const PATIENT_ROUNDS: usize = 4;

pub(super) fn check(program: &ParsedProgram, events: &[Event], findings: &mut Vec<Finding>) {
    let mut invariant = Ranges::new();
    for (prefix, declarations) in [("Report.", &program.reports), ("", &program.controls)] {
        for declaration in declarations {
            let (initial, set) = match declaration.initial.as_str() {
                "true" => (1, Range::BOOL),
                "false" => (0, Range::BOOL),
                word => (super::lower::number(word).and_then(Result::ok).unwrap_or(WORD), Range::MEASURED),
            };
            // The agent may set a control register to anything of its type.
            let range = if prefix.is_empty() { set } else { Range::exactly(initial) };
            invariant.insert(format!("{prefix}{}", declaration.name), range);
        }
    }
    for round in 0.. {
        let mut run = Run { program, reached: invariant.clone(), findings: None };
        run.events(events, &invariant);
        if run.reached == invariant {
            break;
        }
        if round >= PATIENT_ROUNDS {
            for (name, range) in &mut run.reached {
                if invariant.get(name) != Some(range) {
                    *range = Range { low: 0, high: if range.high <= SUM { SUM } else { u64::MAX } };
                }
            }
        }
        invariant = run.reached;
    }
    Run { program, reached: invariant.clone(), findings: Some(findings) }.events(events, &invariant);
}

struct Run<'a> {
    program: &'a ParsedProgram,
    /// The ranges of all declared registers at the start of an ACK, and all values that they are assigned in this run.
    reached: Ranges,
    findings: Option<&'a mut Vec<Finding>>,
}

impl Run<'_> {
    fn events(&mut self, events: &[Event], invariant: &Ranges) {
        let mut state = State::new(invariant.clone());
        for event in events {
            self.value(&event.condition, &state);
            let mut inside = state.clone();
            inside.assume(&event.condition);
            for (_, statement) in &event.body {
                if let Statement::Assign(_, target, value) = statement {
                    self.assign(target, value, &mut inside);
                }
            }
            match event.condition {
                Expr::Bool(_, true) => state = inside,
                Expr::Bool(_, false) => {}
                _ => state.join(&inside, &event.body),
            }
        }
    }

    fn is_local(&self, name: &str) -> bool {
        let declared = self.program.controls.iter().any(|control| control.name == name);
        !declared && !name.contains('.') && builtin(name).is_none()
    }

    fn assign(&mut self, target: &str, value: &Value, state: &mut State) {
        let old = state.get(target);
        let mut plain = None;
        let new = match value {
            Value::Plain(expr) => {
                plain = Some(expr);
                // A local is not kept; what is made of it later is looked at then.
                if !self.is_local(target) {
                    self.sampled(expr, state, &mut BTreeSet::new());
                }
                self.value(expr, state)
            }
            Value::If(condition, expr) | Value::IfNot(condition, expr) => {
                if !condition.mentions(RTT) {
                    self.sampled(expr, state, &mut BTreeSet::new());
                }
                self.value(condition, state);
                self.value(expr, state).join(old)
            }
            Value::Ewma(weight, sample) => {
                if !state.sampled {
                    self.no_sample(sample);
                }
                self.sampled(sample, state, &mut BTreeSet::new());
                let range = self.value(sample, state).join(old);
                let tenths = self.value(weight, state).high;
                if tenths > 10 {
                    let message = "the weight counts tenths, and above 10 the complement wraps around; write (min weight 10)";
                    self.report(weight.position(), Code::OpenWeight, message.to_string());
                }
                if range.high.checked_mul(10).is_none() {
                    let message =
                        "the average can exceed 64 bits and then wraps around; bound the sample with min";
                    self.report(sample.position(), Code::Overflow, message.to_string());
                }
                range
            }
        };
        state.assign(target, new, plain);
        // Cwnd, Rate and Micros are set anew at each ACK, and of locals nothing is known at its start; a declared
        // register keeps its value, also where an ACK ends half-way, so that every assignment counts, not only the last.
        if let Some(reached) = self.reached.get_mut(target) {
            *reached = reached.join(new);
        }
    }

    fn value(&mut self, expr: &Expr, state: &State) -> Range {
        let (at, op, a, b) = match expr {
            Expr::Binary(at, op, a, b) => (*at, *op, a, b),
            simple => return state.simple(simple),
        };
        let (x, y) = (self.value(a, state), self.value(b, state));
        if op == Op::Sub && self.findings.is_some() && !state.at_most(b, a) {
            let message = "this can go below zero, and the ACK then ends half-way without a report; write (- (max a b) b) or (- a (min a b))";
            self.report(at, Code::Underflow, message.to_string());
        }
        if op == Op::Div && y.low == 0 {
            let message = "the divisor can be zero, and the ACK then ends half-way without a report; write (max b 1) (an if does not help: its value is computed in any case)";
            self.report(b.position(), Code::DivisionByZero, message.to_string());
        }
        if op == Op::Mul
            && let Some(whole) = state.rounded_down(a, b).or_else(|| state.rounded_down(b, a))
        {
            return Range { low: 0, high: whole.high };
        }
        let vary = x.low < x.high && y.low < y.high;
        if op == Op::Mul && vary && x.high.checked_mul(y.high).is_none() {
            let message = format!(
                "the product can exceed 64 bits (factors up to {} and {}), which libccp notices only sometimes; divide first, or bound a factor with min",
                x.high, y.high
            );
            self.report(at, Code::Overflow, message);
        }
        if op == Op::And && vary && x.high.checked_mul(y.high).is_none() {
            let message = "&& is computed as a product, and these truth values have grown so large, by || into themselves, that it can exceed 64 bits; set such a register by if instead: (:= b (if c true))";
            self.report(at, Code::Overflow, message.to_string());
        }
        if op == Op::MaxWrap && (x.high > WORD || y.high > WORD) {
            let message = "wrapped_max compares and keeps the low 32 bits only; use max, or bound the values";
            self.report(at, Code::Truncated, message.to_string());
        }
        state.tightened(op, a, b, arithmetic(op, x, y))
    }

    /// Reports arithmetic on a round-trip time that may be missing, also by way of locals; `seen` are those that it has
    /// looked into.
    fn sampled(&mut self, expr: &Expr, state: &State, seen: &mut BTreeSet<String>) {
        if state.sampled {
            return;
        }
        match expr {
            Expr::Binary(_, op, a, b) => {
                for operand in [a, b] {
                    if !matches!(op, Op::Min) {
                        self.no_sample(operand);
                    }
                    self.sampled(operand, state, seen);
                }
            }
            Expr::Name(_, name) => {
                if seen.insert(name.clone())
                    && let Some(expr) = state.definition(name)
                {
                    self.sampled(&expr, state, seen);
                }
            }
            _ => {}
        }
    }

    fn no_sample(&mut self, operand: &Expr) {
        if matches!(operand, Expr::Name(_, name) if name == RTT) {
            let message = "without a round-trip sample this reads 4294967295 and spoils what is kept; do it in a (when (< Flow.rtt_sample_us +infinity) …)";
            self.report(operand.position(), Code::NoSample, message.to_string());
        }
    }

    fn report(&mut self, at: Position, code: Code, message: String) {
        if let Some(findings) = &mut self.findings {
            findings.push(Finding::new(at, code, message));
        }
    }
}
