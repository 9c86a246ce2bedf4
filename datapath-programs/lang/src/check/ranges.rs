//! What can go wrong with the values: subtractions below zero, divisions by zero, products beyond 64
//! bits, weights above ten, and round-trip times without a sample.
//!
//! The program is run over ranges instead of numbers: first as often as it takes until the ranges of
//! all registers no longer grow, then once more to report. Two assumptions keep the answer useful:
//!
//! - a measured value and a register that the agent sets lie below 2^32, as libccp's fields and the
//!   agent's updates do, `Ack.now` below 2^48 (nine years in us);
//! - a register that sums such values up stays below 2^48. Overflow of additions is not reported.
//!
//! A subtraction is taken as safe when [`Proof`] finds a reason that holds for all values.

use super::ast::{Event, Expr, Statement, Value};
use crate::finding::{Code, Finding};
use crate::syntax::{Position, Program};
use crate::vocabulary::{NOW, Op, RTT, builtin};
use std::collections::BTreeMap;

const WORD: u64 = u32::MAX as u64;
const SUM: u64 = (1 << 48) - 1;
/// Rounds in which ranges may grow by themselves; those that still do are widened. Programs settle
/// within two or three unless a register sums up.
const PATIENT_ROUNDS: usize = 4;
/// Steps that a proof may take, so that no program makes the check slow.
const PROOF_STEPS: u32 = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    low: u64,
    high: u64,
}

impl Range {
    const BOOL: Range = Range { low: 0, high: 1 };
    const MEASURED: Range = Range { low: 0, high: WORD };

    fn exactly(value: u64) -> Range {
        Range { low: value, high: value }
    }
    fn join(self, other: Range) -> Range {
        Range { low: self.low.min(other.low), high: self.high.max(other.high) }
    }
}

type Ranges = BTreeMap<String, Range>;

/// What is known at one point of the program.
#[derive(Clone)]
struct State {
    ranges: Ranges,
    /// Pairs of which the first is at most the second.
    ordered: Vec<(Expr, Expr)>,
    /// What registers were last assigned.
    defined: Vec<(String, Expr)>,
}

pub(super) fn check(program: &Program, events: &[Event], findings: &mut Vec<Finding>) {
    let mut invariant = Ranges::new();
    for (prefix, declarations) in [("Report.", &program.reports), ("", &program.controls)] {
        for declaration in declarations {
            let initial = match declaration.initial.as_str() {
                "true" => 1,
                "false" => 0,
                word => super::lower::number(word).and_then(Result::ok).unwrap_or(WORD),
            };
            // The agent may set a control register to anything.
            let range = if prefix.is_empty() { Range::MEASURED } else { Range::exactly(initial) };
            invariant.insert(format!("{prefix}{}", declaration.name), range);
        }
    }
    for round in 0.. {
        let mut run = Run { reached: invariant.clone(), findings: None };
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
    Run { reached: invariant.clone(), findings: Some(findings) }.events(events, &invariant);
}

struct Run<'a> {
    /// The ranges of all registers at the start of an ACK, and all values assigned in this run.
    reached: Ranges,
    findings: Option<&'a mut Vec<Finding>>,
}

impl Run<'_> {
    fn events(&mut self, events: &[Event], invariant: &Ranges) {
        let mut state = State { ranges: invariant.clone(), ordered: Vec::new(), defined: Vec::new() };
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

    fn assign(&mut self, target: &str, value: &Value, state: &mut State) {
        let old = state.get(target);
        let mut plain = None;
        let new = match value {
            Value::Plain(expr) => {
                plain = Some(expr.clone());
                self.sampled(expr, state);
                self.value(expr, state)
            }
            Value::If(condition, expr) | Value::IfNot(condition, expr) => {
                if !condition.mentions(RTT) {
                    self.sampled(expr, state);
                }
                self.value(condition, state);
                self.value(expr, state).join(old)
            }
            Value::Ewma(weight, sample) => {
                self.sampled(sample, state);
                if matches!(sample, Expr::Name(_, name) if name == RTT) {
                    self.no_sample(sample.position(), state);
                }
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
        state.forget(target);
        state.ranges.insert(target.to_string(), new);
        if let Some(expr) = plain.filter(|expr| !expr.mentions(target)) {
            state.defined.push((target.to_string(), expr));
        }
        // Cwnd, Rate and Micros are set anew at each ACK, everything else keeps its value; an ACK that
        // ends half-way keeps it too, so that every assignment counts, not only the last.
        if builtin(target).is_none() {
            let start = if target.contains('.') { new } else { new.join(Range::exactly(0)) };
            let reached = self.reached.entry(target.to_string()).or_insert(start);
            *reached = reached.join(new);
        }
    }

    fn value(&mut self, expr: &Expr, state: &State) -> Range {
        let (at, op, a, b) = match expr {
            Expr::Binary(at, op, a, b) => (*at, *op, a, b),
            simple => return state.simple(simple),
        };
        let (x, y) = (self.value(a, state), self.value(b, state));
        if op == Op::Sub && self.findings.is_some() && !(Proof { state, steps: PROOF_STEPS }).at_most(b, a) {
            let message = "this can go below zero, and the ACK then ends half-way without a report; write (- (max a b) b) or (- a (min a b))";
            self.report(at, Code::Underflow, message.to_string());
        }
        if op == Op::Div && y.low == 0 {
            let message = "the divisor can be zero, and the ACK then ends half-way without a report; write (max b 1) (an if does not help: its value is computed in any case)";
            self.report(b.position(), Code::DivisionByZero, message.to_string());
        }
        if op == Op::Mul && x.high.checked_mul(y.high).is_none() {
            let message = format!(
                "the product can exceed 64 bits (factors up to {} and {}), which libccp notices only sometimes; divide first, or bound a factor with min",
                x.high, y.high
            );
            self.report(at, Code::Overflow, message);
        }
        if op == Op::MaxWrap && (x.high > WORD || y.high > WORD) {
            let message = "wrapped_max compares and keeps the low 32 bits only; use max, or bound the values";
            self.report(at, Code::Truncated, message.to_string());
        }
        arithmetic(op, x, y)
    }

    /// Reports arithmetic on a round-trip time that may be missing.
    fn sampled(&mut self, expr: &Expr, state: &State) {
        let Expr::Binary(_, op, a, b) = expr else { return };
        for operand in [a, b] {
            let direct = matches!(&**operand, Expr::Name(_, name) if name == RTT);
            if direct && matches!(op, Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Max | Op::MaxWrap) {
                self.no_sample(operand.position(), state);
            }
            self.sampled(operand, state);
        }
    }

    fn no_sample(&mut self, at: Position, state: &State) {
        if state.get(RTT).high == WORD {
            let message = "without a round-trip sample this reads 4294967295; do it in a (when (< Flow.rtt_sample_us +infinity) …)";
            self.report(at, Code::NoSample, message.to_string());
        }
    }

    fn report(&mut self, at: Position, code: Code, message: String) {
        if let Some(findings) = &mut self.findings {
            findings.push(Finding::new(at, code, message));
        }
    }
}

/// The results that an operation has when it does not end the ACK.
fn arithmetic(op: Op, x: Range, y: Range) -> Range {
    match op {
        Op::Add => {
            let high = x.high.saturating_add(y.high);
            let sum = x.high <= SUM && y.high <= SUM;
            Range { low: x.low.saturating_add(y.low).min(SUM), high: if sum { high.min(SUM) } else { high } }
        }
        Op::Sub => Range { low: x.low.saturating_sub(y.high), high: x.high.saturating_sub(y.low) },
        Op::Div => Range { low: x.low / y.high.max(1), high: x.high / y.low.max(1) },
        Op::Mul => match x.high.checked_mul(y.high) {
            Some(high) => Range { low: x.low * y.low, high },
            None => Range { low: 0, high: u64::MAX },
        },
        Op::Max => Range { low: x.low.max(y.low), high: x.high.max(y.high) },
        Op::Min => Range { low: x.low.min(y.low), high: x.high.min(y.high) },
        Op::MaxWrap => Range { low: 0, high: x.high.max(y.high).min(WORD) },
        Op::And | Op::Or | Op::Equal | Op::Greater | Op::Less => Range::BOOL,
    }
}

impl State {
    fn get(&self, name: &str) -> Range {
        match self.ranges.get(name) {
            Some(range) => *range,
            None if name == RTT => Range { low: 1, high: WORD },
            None if name == NOW => Range { low: 0, high: SUM },
            None => match builtin(name) {
                Some(known) if known.ty == crate::vocabulary::Type::Bool => Range::BOOL,
                Some(_) => Range::MEASURED,
                None => Range::exactly(0), // A local that no run has assigned yet.
            },
        }
    }

    fn simple(&self, expr: &Expr) -> Range {
        match expr {
            Expr::Number(_, value) => Range::exactly(*value),
            Expr::Bool(_, value) => Range::exactly(u64::from(*value)),
            Expr::Name(_, name) => self.get(name),
            Expr::Binary(..) => Range { low: 0, high: u64::MAX },
        }
    }

    /// The range of an expression, without reports.
    fn range(&self, expr: &Expr) -> Range {
        match expr {
            Expr::Binary(_, op, a, b) => arithmetic(*op, self.range(a), self.range(b)),
            simple => self.simple(simple),
        }
    }

    /// Takes a condition as true.
    fn assume(&mut self, condition: &Expr) {
        match condition {
            Expr::Binary(_, Op::And, a, b) => {
                self.assume(a);
                self.assume(b);
            }
            Expr::Binary(_, Op::Greater, a, b) => self.assume_less(b, a),
            Expr::Binary(_, Op::Less, a, b) => self.assume_less(a, b),
            Expr::Binary(_, Op::Equal, a, b) => {
                self.ordered.push(((**a).clone(), (**b).clone()));
                self.ordered.push(((**b).clone(), (**a).clone()));
            }
            _ => {}
        }
    }

    fn assume_less(&mut self, less: &Expr, more: &Expr) {
        let (low, high) = (self.range(less), self.range(more));
        if let Expr::Name(_, name) = less {
            let bound = Range { high: low.high.min(high.high.saturating_sub(1)).max(low.low), ..low };
            self.ranges.insert(name.clone(), bound);
        }
        if let Expr::Name(_, name) = more {
            let bound = Range { low: high.low.max(low.low.saturating_add(1)).min(high.high), ..high };
            self.ranges.insert(name.clone(), bound);
        }
        self.ordered.push((less.clone(), more.clone()));
    }

    /// Forgets what no longer holds when `name` changes.
    fn forget(&mut self, name: &str) {
        self.ordered.retain(|(less, more)| !less.mentions(name) && !more.mentions(name));
        self.defined.retain(|(known, expr)| known != name && !expr.mentions(name));
    }

    /// Adds what may have happened in an event that may have run.
    fn join(&mut self, inside: &State, body: &[(Position, Statement)]) {
        for (_, statement) in body {
            if let Statement::Assign(_, target, _) = statement {
                self.forget(target);
                let range = self.get(target).join(inside.get(target));
                self.ranges.insert(target.clone(), range);
            }
        }
    }
}

/// Looks for a reason why one expression never exceeds another.
struct Proof<'a> {
    state: &'a State,
    steps: u32,
}

impl Proof<'_> {
    fn at_most(&mut self, less: &Expr, more: &Expr) -> bool {
        if self.steps == 0 {
            return false;
        }
        self.steps -= 1;
        let state = self.state;
        less.same(more)
            || state.range(less).high <= state.range(more).low
            || state.ordered.iter().any(|(a, b)| a.same(less) && b.same(more))
            || self.by_the_smaller(less, more)
            || self.by_the_larger(less, more)
    }

    fn by_the_smaller(&mut self, less: &Expr, more: &Expr) -> bool {
        match less {
            Expr::Binary(_, Op::Min, a, b) => self.at_most(a, more) || self.at_most(b, more),
            Expr::Binary(_, Op::Max, a, b) => self.at_most(a, more) && self.at_most(b, more),
            Expr::Binary(_, Op::Sub, a, _) => self.at_most(a, more),
            // A quotient; also a * m / n with m at most n.
            Expr::Binary(_, Op::Div, a, n) => self.at_most(a, more) || self.scaled(a, n, more),
            // a / n * m with m at most n: the rounded-down multiple.
            Expr::Binary(_, Op::Mul, quotient, m) => match &**quotient {
                Expr::Binary(_, Op::Div, a, n) => self.no_more(m, n) && self.at_most(a, more),
                _ => false,
            },
            Expr::Name(_, name) => match self.definition(name) {
                Some(expr) => self.at_most(&expr, more),
                None => false,
            },
            _ => false,
        }
    }

    fn by_the_larger(&mut self, less: &Expr, more: &Expr) -> bool {
        match more {
            Expr::Binary(_, Op::Max | Op::Add, a, b) => self.at_most(less, a) || self.at_most(less, b),
            Expr::Binary(_, Op::Min, a, b) => self.at_most(less, a) && self.at_most(less, b),
            Expr::Name(_, name) => match self.definition(name) {
                Some(expr) => self.at_most(less, &expr),
                None => false,
            },
            _ => false,
        }
    }

    fn scaled(&mut self, product: &Expr, n: &Expr, more: &Expr) -> bool {
        let Expr::Binary(_, Op::Mul, a, m) = product else { return false };
        (self.no_more(m, n) && self.at_most(a, more)) || (self.no_more(a, n) && self.at_most(m, more))
    }

    fn no_more(&self, m: &Expr, n: &Expr) -> bool {
        m.same(n) || self.state.range(m).high <= self.state.range(n).low
    }

    fn definition(&self, name: &str) -> Option<Expr> {
        self.state.defined.iter().find(|(known, _)| known == name).map(|(_, expr)| expr.clone())
    }
}
