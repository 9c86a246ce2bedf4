//! What is known about the values at one point of a program: ranges, orderings and definitions, and
//! what follows from them. The assumptions behind the ranges are those of [`super::ranges`].

use super::ast::{Expr, Statement};
use crate::syntax::Position;
use crate::vocabulary::{NOW, Op, RTT, Type, builtin};
use std::collections::BTreeMap;

pub(super) const WORD: u64 = u32::MAX as u64;
const WINDOW: u64 = 1 << 30;
pub(super) const SUM: u64 = (1 << 48) - 1;
const WINDOWS: [&str; 5] =
    ["Ack.bytes_acked", "Ack.bytes_misordered", "Ack.ecn_bytes", "Flow.bytes_in_flight", "Cwnd"];
/// Steps that a proof may take, so that no program makes the check slow.
const PROOF_STEPS: u32 = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub low: u64,
    pub high: u64,
}

impl Range {
    pub const BOOL: Range = Range { low: 0, high: 1 };
    pub const MEASURED: Range = Range { low: 0, high: WORD };

    pub fn exactly(value: u64) -> Range {
        Range { low: value, high: value }
    }
    pub fn join(self, other: Range) -> Range {
        Range { low: self.low.min(other.low), high: self.high.max(other.high) }
    }
}

pub(super) type Ranges = BTreeMap<String, Range>;

/// What is known at one point of the program.
#[derive(Clone)]
pub(super) struct State {
    pub ranges: Ranges,
    /// Pairs of which the first is at most the second.
    ordered: Vec<(Expr, Expr)>,
    /// What registers were last assigned.
    defined: Vec<(String, Expr)>,
    /// True where a condition bounds the round-trip time from above, which only a sample satisfies.
    pub sampled: bool,
}

/// The results that an operation has when it does not end the ACK.
pub(super) fn arithmetic(op: Op, x: Range, y: Range) -> Range {
    match op {
        // || is a sum and && a product of truth values, which can so become larger than 1.
        Op::Add | Op::Or => {
            let high = x.high.saturating_add(y.high);
            let sum = x.high <= SUM && y.high <= SUM;
            Range { low: x.low.saturating_add(y.low).min(SUM), high: if sum { high.min(SUM) } else { high } }
        }
        Op::Sub => Range { low: x.low.saturating_sub(y.high), high: x.high.saturating_sub(y.low) },
        Op::Div => Range { low: x.low / y.high.max(1), high: x.high / y.low.max(1) },
        Op::Mul | Op::And => match x.high.checked_mul(y.high) {
            Some(high) => Range { low: x.low * y.low, high },
            None => Range { low: 0, high: u64::MAX },
        },
        Op::Max => Range { low: x.low.max(y.low), high: x.high.max(y.high) },
        Op::Min => Range { low: x.low.min(y.low), high: x.high.min(y.high) },
        Op::MaxWrap => Range { low: 0, high: x.high.max(y.high).min(WORD) },
        Op::Equal | Op::Greater | Op::Less => Range::BOOL,
    }
}

impl State {
    /// What holds at the start of an ACK.
    pub fn new(ranges: Ranges) -> State {
        State { ranges, ordered: Vec::new(), defined: Vec::new(), sampled: false }
    }

    /// Takes note of an assignment; `plain` is the value, if it does not depend on the old one.
    pub fn assign(&mut self, name: &str, range: Range, plain: Option<&Expr>) {
        self.forget(name);
        self.ranges.insert(name.to_string(), range);
        if let Some(expr) = plain.filter(|expr| !expr.mentions(name)) {
            self.defined.push((name.to_string(), expr.clone()));
        }
    }

    /// True when `less` is at most `more` for a reason that holds for all values.
    pub fn at_most(&self, less: &Expr, more: &Expr) -> bool {
        Proof { state: self, steps: PROOF_STEPS }.at_most(less, more)
    }

    pub fn get(&self, name: &str) -> Range {
        match self.ranges.get(name) {
            Some(range) => *range,
            None if name == RTT => Range { low: 1, high: WORD },
            None if name == NOW => Range { low: 0, high: SUM },
            None if WINDOWS.contains(&name) => Range { low: 0, high: WINDOW },
            None => match builtin(name) {
                Some(known) if known.ty == Type::Bool => Range::BOOL,
                Some(_) => Range::MEASURED,
                None => Range { low: 0, high: u64::MAX }, // A local: what an earlier ACK or program left there.
            },
        }
    }

    pub fn simple(&self, expr: &Expr) -> Range {
        match expr {
            Expr::Number(_, value) => Range::exactly(*value),
            Expr::Bool(_, value) => Range::exactly(u64::from(*value)),
            Expr::Name(_, name) => self.get(name),
            Expr::Binary(..) | Expr::Unclear(_) => Range { low: 0, high: u64::MAX },
        }
    }

    /// The range of an expression, without reports.
    fn range(&self, expr: &Expr) -> Range {
        match expr {
            Expr::Binary(_, op, a, b) => {
                self.tightened(*op, a, b, arithmetic(*op, self.range(a), self.range(b)))
            }
            simple => self.simple(simple),
        }
    }

    /// What `name` was last assigned, if that still has the same value.
    pub fn definition(&self, name: &str) -> Option<Expr> {
        self.defined.iter().find(|(known, _)| known == name).map(|(_, expr)| expr.clone())
    }

    /// The range of `a` when `quotient` is `a / n` and `m` at most `n`: the product is at most `a`.
    pub fn rounded_down(&self, quotient: &Expr, m: &Expr) -> Option<Range> {
        let quotient = match quotient {
            Expr::Name(_, name) => self.definition(name)?,
            expr => expr.clone(),
        };
        match &quotient {
            Expr::Binary(_, Op::Div, a, n) => self.at_most(m, n).then(|| self.range(a)),
            _ => None,
        }
    }

    /// The guarded difference (max p b) - b is at most p, however large b is.
    pub fn tightened(&self, op: Op, a: &Expr, b: &Expr, range: Range) -> Range {
        let high = match a {
            Expr::Binary(_, Op::Max, p, q) if op == Op::Sub && q.same(b) => self.range(p).high,
            Expr::Binary(_, Op::Max, p, q) if op == Op::Sub && p.same(b) => self.range(q).high,
            _ => return range,
        };
        Range { low: range.low.min(high), high: range.high.min(high) }
    }

    /// Takes a condition as true.
    pub fn assume(&mut self, condition: &Expr) {
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
        self.sampled |= less.grows_with(RTT);
        self.ordered.push((less.clone(), more.clone()));
    }

    /// Forgets what no longer holds when `name` changes.
    fn forget(&mut self, name: &str) {
        self.ordered.retain(|(less, more)| !less.mentions(name) && !more.mentions(name));
        self.defined.retain(|(known, expr)| known != name && !expr.mentions(name));
    }

    /// Adds what may have happened in an event that may have run.
    pub fn join(&mut self, inside: &State, body: &[(Position, Statement)]) {
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
            Expr::Binary(_, Op::Mul, a, b) => self.rounded(a, b, more) || self.rounded(b, a, more),
            Expr::Name(_, name) => match self.state.definition(name) {
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
            Expr::Name(_, name) => match self.state.definition(name) {
                Some(expr) => self.at_most(less, &expr),
                None => false,
            },
            _ => false,
        }
    }

    fn rounded(&mut self, quotient: &Expr, m: &Expr, more: &Expr) -> bool {
        let Expr::Binary(_, Op::Div, a, n) = quotient else { return false };
        self.no_more(m, n) && self.at_most(a, more)
    }

    fn scaled(&mut self, product: &Expr, n: &Expr, more: &Expr) -> bool {
        let Expr::Binary(_, Op::Mul, a, m) = product else { return false };
        (self.no_more(m, n) && self.at_most(a, more)) || (self.no_more(a, n) && self.at_most(m, more))
    }

    fn no_more(&self, m: &Expr, n: &Expr) -> bool {
        m.same(n) || self.state.range(m).high <= self.state.range(n).low
    }
}
