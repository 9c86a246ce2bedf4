//! A program as the checks see it: the tree of syntax with every form recognised.

use crate::syntax::Position;
use crate::vocabulary::{NOW, Op};

/// Something that yields a value.
#[derive(Clone, Debug)]
pub(super) enum Expr {
    Number(Position, u64),
    Bool(Position, bool),
    Name(Position, String),
    Binary(Position, Op, Box<Expr>, Box<Expr>),
    /// What could not be recognised and is reported as such.
    Unclear(Position),
}

/// What an assignment assigns. The last three work on the target itself, which is why portus takes
/// them only here.
#[derive(Debug)]
pub(super) enum Value {
    Plain(Expr),
    /// `(if condition value)`
    If(Expr, Expr),
    /// `(!if condition value)`
    IfNot(Expr, Expr),
    /// `(ewma weight sample)`
    Ewma(Expr, Expr),
}

#[derive(Debug)]
pub(super) enum Statement {
    /// `(:= target value)`, with the position of the target.
    Assign(Position, String, Value),
    Report,
    Fallthrough,
}

#[derive(Debug)]
pub(super) struct Event {
    pub position: Position,
    pub condition: Expr,
    pub body: Vec<(Position, Statement)>,
}

impl Event {
    /// True when the body says `(fallthrough)`.
    pub fn falls_through(&self) -> bool {
        self.body.iter().any(|(_, statement)| matches!(statement, Statement::Fallthrough))
    }
}

impl Value {
    /// The expressions in it, in the order in which portus compiles them.
    pub fn parts(&self) -> Vec<&Expr> {
        match self {
            Value::Plain(value) => vec![value],
            Value::If(a, b) | Value::IfNot(a, b) | Value::Ewma(a, b) => vec![a, b],
        }
    }
}

impl Expr {
    pub fn position(&self) -> Position {
        match self {
            Expr::Number(at, _)
            | Expr::Bool(at, _)
            | Expr::Name(at, _)
            | Expr::Binary(at, ..)
            | Expr::Unclear(at) => *at,
        }
    }

    /// Number of operators: portus gives each a temporary and an instruction.
    pub fn operators(&self) -> usize {
        match self {
            Expr::Binary(_, _, a, b) => 1 + a.operators() + b.operators(),
            _ => 0,
        }
    }

    /// Calls `f` for every name, in order.
    pub fn names<'a>(&'a self, f: &mut impl FnMut(Position, &'a str)) {
        match self {
            Expr::Name(at, name) => f(*at, name),
            Expr::Binary(_, _, a, b) => {
                a.names(f);
                b.names(f);
            }
            _ => {}
        }
    }

    /// True when the name occurs in it.
    pub fn mentions(&self, name: &str) -> bool {
        let mut found = false;
        self.names(&mut |_, known| found |= known == name);
        found
    }

    /// True when it is large where `name` is: the name itself, or what arithmetic makes of it without a bound from above.
    pub fn grows_with(&self, name: &str) -> bool {
        match self {
            Expr::Name(_, known) => known == name,
            Expr::Binary(_, Op::Add | Op::Mul | Op::Max, a, b) => a.grows_with(name) || b.grows_with(name),
            Expr::Binary(_, Op::Sub, a, b) => a.grows_with(name) && !b.mentions(name),
            Expr::Binary(_, Op::Div, a, b) => a.grows_with(name) && matches!(**b, Expr::Number(..)),
            _ => false,
        }
    }

    /// True when both have the same value for certain: the same text, without the clock, which moves.
    pub fn same(&self, other: &Expr) -> bool {
        match (self, other) {
            (Expr::Number(_, a), Expr::Number(_, b)) => a == b,
            (Expr::Bool(_, a), Expr::Bool(_, b)) => a == b,
            (Expr::Name(_, a), Expr::Name(_, b)) => a == b && a != NOW,
            (Expr::Binary(_, p, a, b), Expr::Binary(_, q, c, d)) => p == q && a.same(c) && b.same(d),
            _ => false,
        }
    }
}
