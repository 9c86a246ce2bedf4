//! What a check finds, and how it is shown.

use crate::syntax::Position;
use std::fmt::Write;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The program works, but perhaps not as meant, or not for all inputs.
    Warning,
    /// portus refuses the program or panics on it, or it computes something else than it says.
    Error,
}

macro_rules! codes {
    ($($variant:ident $severity:ident $name:literal $meaning:literal,)*) => {
        /// The kind of a finding; its name is stable and is what a waiver names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $(#[doc = $meaning] $variant,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)*];
            /// The name in messages and waivers.
            pub fn name(self) -> &'static str {
                match self { $(Code::$variant => $name,)* }
            }
            /// What it stands for, in one line.
            pub fn meaning(self) -> &'static str {
                match self { $(Code::$variant => $meaning,)* }
            }
            /// How bad it is.
            pub fn severity(self) -> Severity {
                match self { $(Code::$variant => Severity::$severity,)* }
            }
        }
    };
}

codes! {
    Syntax Error "syntax" "the text is not a program",
    Name Error "name" "a name that the language cannot hold",
    Duplicate Error "duplicate" "a name that is declared twice",
    Initial Error "initial" "an initial value that is no number and no truth value, or is taken for another",
    Number Error "number" "a number that portus cannot encode",
    Limit Error "limit" "more registers, temporaries or instructions than a datapath has",
    Operator Error "operator" "an operator or command that does not exist",
    Arity Error "arity" "an operator with more or fewer operands than it takes",
    Nesting Error "nesting" "an assignment, condition or command in a place where it has no effect or crashes portus",
    NoEffect Error "no-effect" "a statement that changes nothing, or crashes portus",
    Unknown Error "unknown" "a name that is declared nowhere",
    BeforeAssignment Error "before-assignment" "a local that is read before it is assigned",
    ReadOnly Error "read-only" "an assignment to something that cannot be written",
    Type Error "type" "a number where a truth value is needed, or the reverse",
    Condition Error "condition" "a when whose condition portus cannot compile",
    EwmaWeight Error "ewma-weight" "an ewma weight above 10, whose complement wraps around",
    Compiler Error "compiler" "portus refuses the program for a reason that this check does not know",
    MixedTypes Warning "mixed-types" "a number kept as a truth value or the reverse, which portus lets pass",
    Underflow Warning "underflow" "a subtraction that can go below zero, which ends the ACK half-way",
    DivisionByZero Warning "division-by-zero" "a division by what can be zero, which ends the ACK half-way",
    Overflow Warning "overflow" "a product that can exceed 64 bits: libccp ends the ACK half-way, or wraps",
    Truncated Warning "truncated" "wrapped_max of values beyond 32 bits",
    OpenWeight Warning "open-weight" "an ewma weight that may exceed 10",
    NoSample Warning "no-sample" "arithmetic on a round-trip time that may have no sample",
    StaleLocal Warning "stale-local" "a local that may hold the value of an earlier ACK",
    UnusedRegister Warning "unused-register" "a register or local that nothing reads",
    VolatileControl Warning "volatile-control" "a volatile control register that the program never writes: each report undoes what the agent set",
    NeverWritten Warning "never-written" "a report field that the program never writes",
    NoReport Warning "no-report" "a program that never reports, or reports nothing",
    Unreachable Warning "unreachable" "a when that never runs",
    StickyFallthrough Warning "sticky-fallthrough" "a when that does not end the ACK, since an earlier one fell through",
    UnusedWaiver Warning "unused-waiver" "a waiver that waives nothing, or gives no reason",
}

/// Something that a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where.
    pub position: Position,
    /// What kind.
    pub code: Code,
    /// What happens, and the way out.
    pub message: String,
}

impl Finding {
    pub(crate) fn new(position: Position, code: Code, message: impl Into<String>) -> Finding {
        Finding { position, code, message: message.into() }
    }

    /// How bad it is.
    pub fn severity(&self) -> Severity {
        self.code.severity()
    }
}

/// True when a program with these findings cannot be used.
pub fn has_errors(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.severity() == Severity::Error)
}

/// Characters of a line that are shown.
const LINE_SHOWN: usize = 200;

/// The findings as a compiler shows them: place, message, the line and a caret.
pub fn render(findings: &[Finding], file_name: &str, source: &str) -> String {
    let lines: Vec<&str> = source.lines().collect();
    let mut out = String::new();
    for finding in findings {
        let Position { line, column } = finding.position;
        let severity = match finding.severity() {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let code = finding.code.name();
        let message: String = finding.message.chars().map(visible).collect();
        let _ = writeln!(out, "{file_name}:{line}:{column}: {severity}[{code}]: {message}");
        if let Some(text) = lines.get(line as usize - 1) {
            // Of a very long line, what stands around the place.
            let skipped = (column as usize).saturating_sub(LINE_SHOWN / 2);
            let skipped = if text.len() > LINE_SHOWN { skipped } else { 0 };
            let text: String = text.chars().skip(skipped).take(LINE_SHOWN).map(visible).collect();
            // A tab stays a tab under the caret too, so that both lines are indented alike.
            let before = text.chars().take(column as usize - 1 - skipped);
            let pad: String = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
            let _ = writeln!(out, "{line:>5} | {}\n      | {pad}^", text.trim_end());
        }
    }
    out
}

/// A file may hold anything; a terminal must not obey it.
fn visible(c: char) -> char {
    if c.is_control() && c != '\t' { char::REPLACEMENT_CHARACTER } else { c }
}
