//! The words of the language and its limits: the one table that checker, disassembler and
//! documentation share. Names, types and indices are portus 0.9's; widths are libccp's.

/// Report registers of a program (portus refuses a seventeenth).
pub const MAX_REPORTS: usize = 16;
/// Control registers of a program (portus refuses a seventeenth).
pub const MAX_CONTROLS: usize = 16;
/// Local registers of a program (portus refuses a seventh).
pub const MAX_LOCALS: usize = 6;
/// Temporaries of a statement. libccp has eight; portus encodes up to sixteen, and libccp then reads
/// whatever lies behind them.
pub const MAX_TEMPORARIES: usize = 8;
/// Instructions of a program. libccp has room for 256, but walks them with an eight-bit counter that
/// never reaches 256.
pub const MAX_INSTRUCTIONS: usize = 255;
/// The largest number that portus encodes.
pub const MAX_NUMBER: u64 = (1 << 31) - 1;
/// What `+infinity` is in a datapath, and what a round-trip time without a sample reads as.
pub const INFINITY: u64 = u32::MAX as u64;
/// The initial value that libccp takes for infinity.
pub const INFINITY_MARK: u64 = 0x3fff_ffff;

/// What a value is; portus keeps numbers and truth values apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// An unsigned 64-bit number.
    Number,
    /// A truth value: zero is false, everything else is true.
    Bool,
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Type::Number => "a number",
            Type::Bool => "a truth value",
        })
    }
}

/// A value that the datapath measures; programs read it.
#[derive(Clone, Copy, Debug)]
pub struct Primitive {
    /// The name in a program.
    pub name: &'static str,
    /// What it is.
    pub ty: Type,
    /// Meaning and unit.
    pub meaning: &'static str,
}

const fn number(name: &'static str, meaning: &'static str) -> Primitive {
    Primitive { name, ty: Type::Number, meaning }
}

/// The primitives; the position in this table is the index on the wire.
pub const PRIMITIVES: [Primitive; 15] = [
    number("Ack.bytes_acked", "bytes newly acknowledged, in order or not, each counted once"),
    number("Ack.bytes_misordered", "those of the newly acknowledged bytes that arrived out of order"),
    number("Ack.ecn_bytes", "bytes marked by ECN"),
    number("Ack.ecn_packets", "packets marked by ECN"),
    number("Ack.lost_pkts_sample", "packets newly found lost"),
    number("Ack.now", "the datapath's clock, us since it started; libccp reads it anew at each use"),
    number("Ack.packets_acked", "packets newly acknowledged, in order or not"),
    number("Ack.packets_misordered", "those of the newly acknowledged packets that arrived out of order"),
    number("Flow.bytes_in_flight", "bytes sent and neither acknowledged nor lost"),
    number("Flow.bytes_pending", "bytes that wait in the sender's buffer"),
    number("Flow.packets_in_flight", "packets sent and neither acknowledged nor lost"),
    number("Flow.rate_incoming", "delivery rate, bytes/s"),
    number("Flow.rate_outgoing", "sending rate, bytes/s"),
    number("Flow.rtt_sample_us", "last round-trip time, us; 4294967295 when there is no sample"),
    Primitive { name: "Flow.was_timeout", ty: Type::Bool, meaning: "a retransmission timeout just happened" },
];

/// Registers that every program has and may write; the position is the wire index less three.
pub const IMPLICIT: [Primitive; 3] = [
    number("Micros", "us since the program started or since it was last set"),
    number("Cwnd", "congestion window, bytes; applied at the end of the ACK unless 0"),
    number("Rate", "pacing rate, bytes/s; applied at the end of the ACK unless 0"),
];

/// The primitive whose value needs care when it has no sample.
pub const RTT: &str = "Flow.rtt_sample_us";
/// The primitive that libccp reads anew at each use.
pub const NOW: &str = "Ack.now";

/// A primitive or an implicit register of this name.
pub fn builtin(name: &str) -> Option<&'static Primitive> {
    PRIMITIVES.iter().chain(&IMPLICIT).find(|known| known.name == name)
}

/// True for a primitive, which a program cannot write.
pub fn is_primitive(name: &str) -> bool {
    PRIMITIVES.iter().any(|known| known.name == name)
}

/// An operator that yields a value from two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `+`
    Add,
    /// `&&`, compiled to a multiplication
    And,
    /// `/`, truncating
    Div,
    /// `==`
    Equal,
    /// `>`
    Greater,
    /// `<`
    Less,
    /// `max`
    Max,
    /// `wrapped_max`: the later of two 32-bit sequence numbers
    MaxWrap,
    /// `min`
    Min,
    /// `*`
    Mul,
    /// `||`, compiled to an addition
    Or,
    /// `-`
    Sub,
}

impl Op {
    /// The operator of this name; the words are portus's second spelling.
    pub fn named(word: &str) -> Option<Op> {
        Some(match word {
            "+" | "add" => Op::Add,
            "&&" | "and" => Op::And,
            "/" | "div" => Op::Div,
            "==" | "eq" => Op::Equal,
            ">" | "gt" => Op::Greater,
            "<" | "lt" => Op::Less,
            "max" => Op::Max,
            "wrapped_max" => Op::MaxWrap,
            "min" => Op::Min,
            "*" | "mul" => Op::Mul,
            "||" | "or" => Op::Or,
            "-" | "sub" => Op::Sub,
            _ => return None,
        })
    }

    /// What both operands must be.
    pub fn operands(self) -> Type {
        if matches!(self, Op::And | Op::Or) { Type::Bool } else { Type::Number }
    }

    /// What it yields.
    pub fn result(self) -> Type {
        match self {
            Op::And | Op::Or | Op::Equal | Op::Greater | Op::Less => Type::Bool,
            _ => Type::Number,
        }
    }

    /// The usual spelling.
    pub fn symbol(self) -> &'static str {
        match self {
            Op::Add => "+",
            Op::And => "&&",
            Op::Div => "/",
            Op::Equal => "==",
            Op::Greater => ">",
            Op::Less => "<",
            Op::Max => "max",
            Op::MaxWrap => "wrapped_max",
            Op::Min => "min",
            Op::Mul => "*",
            Op::Or => "||",
            Op::Sub => "-",
        }
    }
}

/// Words with a meaning of their own, which no register may carry.
pub const KEYWORDS: [&str; 23] = [
    "def",
    "when",
    "Report",
    "volatile",
    "true",
    "false",
    "report",
    "fallthrough",
    "bind",
    "if",
    "ewma",
    "add",
    "and",
    "div",
    "eq",
    "gt",
    "lt",
    "max",
    "wrapped_max",
    "min",
    "mul",
    "or",
    "sub",
];

/// How to say what a familiar operator or command says, for those that the language lacks.
pub fn way_out(word: &str) -> Option<&'static str> {
    Some(match word {
        ">=" => "write (> a (- b 1)) for a literal b, or (|| (> a b) (== a b))",
        "<=" => "write (< a (+ b 1)), or (|| (< a b) (== a b))",
        "!=" => "write (|| (< a b) (> a b))",
        "!" | "not" => "write (:= register (!if condition value)), or compare the other way round",
        "=" => "write (== a b) to compare, (:= register value) to assign",
        "<<" => "multiply by a power of two",
        ">>" => "divide by a power of two",
        "%" | "mod" => "write (- a (* (/ a b) b))",
        "&" | "|" | "^" => "there are no bit operations; && and || join conditions",
        "reset" => "volatile registers are reset by each (report); set others with :=",
        "else" | "cond" => "assign once with if and once with !if on the same condition",
        "set" | "let" => "write (:= register value)",
        "sqrt" | "pow" | "cbrt" | "exp" | "log" => "compute it in the agent and set a control register",
        _ => return None,
    })
}
