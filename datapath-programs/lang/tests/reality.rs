//! Every error of the check, beside what portus does with the same text.
//!
//! Each row gives portus's own behaviour: should a later portus behave better, the row fails and the
//! check can be relaxed.

mod common;

use anole_lang::{Code, Severity, check};
use common::{Compiles, DEF, Outcome, Panics, Refuses, portus, portus_size, with};

/// The first error that the check finds.
fn error(source: &str) -> Option<Code> {
    check(source).into_iter().find(|f| f.severity() == Severity::Error).map(|f| f.code)
}

fn expect(source: &str, outcome: Outcome, code: Code) {
    expect_all([(source.to_string(), outcome, code)]);
}

/// Compares every row before it fails, so that one run shows all that differ.
fn expect_all(rows: impl IntoIterator<Item = (String, Outcome, Code)>) {
    let mut differences = String::new();
    for (source, outcome, code) in rows {
        let (found, does) = (error(&source), portus(&source));
        if found != Some(code) || does != outcome {
            differences +=
                &format!("check {found:?}, not {code:?}; portus {does:?}, not {outcome:?}:\n{source}\n");
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

#[test]
fn the_shared_definitions_are_fine() {
    let source = with("(:= Report.r c) (:= Report.b (|| flag Flow.was_timeout))");
    assert_eq!(check(&source), []);
    assert_eq!(portus(&source), Compiles);
}

fn statement_rows() -> Vec<(String, Outcome, Code)> {
    let rows = [
        // Forms that work on their target, anywhere but directly in an assignment to a declared register.
        ("(:= Cwnd (if (> c 1) c))", Panics, Code::Nesting),
        ("(:= Rate (!if (> c 1) c))", Panics, Code::Nesting),
        ("(:= Micros (ewma 2 c))", Panics, Code::Nesting),
        ("(:= x (if (> c 1) c)) (:= Report.r x)", Panics, Code::Nesting),
        ("(:= x (!if (> c 1) c)) (:= Report.r x)", Panics, Code::Nesting),
        ("(:= x (ewma 2 c)) (:= Report.r x)", Panics, Code::Nesting),
        ("(:= Report.r (ewma 2 (ewma 2 c)))", Panics, Code::Nesting),
        ("(:= Report.r (if (> c 1) (if (> c 2) 3)))", Panics, Code::Nesting),
        ("(:= Report.r (+ 1 (if (> c 1) 2)))", Refuses, Code::Nesting),
        ("(:= Report.r (+ (if (> c 1) 2) 1))", Refuses, Code::Nesting),
        ("(if (> c 1) c)", Panics, Code::NoEffect),
        ("(ewma 2 c)", Panics, Code::NoEffect),
        // Statements inside expressions.
        ("(:= Report.r (+ (:= x 3) x))", Compiles, Code::Nesting),
        ("(:= Report.b (&& (report) true))", Compiles, Code::Nesting),
        // Statements without effect.
        ("(+ c 1)", Compiles, Code::NoEffect),
        ("c", Compiles, Code::NoEffect),
        // Names that portus makes up.
        ("(:= Report.r undefined)", Compiles, Code::Unknown),
        ("(:= Report.tyop 1)", Compiles, Code::Unknown),
        ("(:= Flow.tyop 1)", Compiles, Code::Unknown),
        ("(:= Report.r (if undefined c))", Compiles, Code::Unknown),
        ("(:= Report.r (+ undefined 1))", Refuses, Code::Unknown),
        ("(:= Report.r Flow.rtt)", Compiles, Code::Unknown),
        ("(:= Report.r x) (:= x 1)", Compiles, Code::BeforeAssignment),
        ("(:= x (+ x 1))", Refuses, Code::BeforeAssignment),
        // Targets.
        ("(:= 5 c)", Refuses, Code::ReadOnly),
        ("(:= true false)", Refuses, Code::ReadOnly),
        ("(:= Ack.now 5)", Refuses, Code::ReadOnly),
        ("(:= (+ c 1) 3)", Compiles, Code::ReadOnly),
        // Types.
        ("(:= Report.r (+ c true))", Refuses, Code::Type),
        ("(:= Report.b (&& c flag))", Refuses, Code::Type),
        ("(:= Report.b (== flag true))", Refuses, Code::Type),
        ("(:= Report.r (max Flow.was_timeout 1))", Refuses, Code::Type),
        // Operators.
        ("(reset)", Refuses, Code::Operator),
        ("(:= Report.b (>= c 1))", Refuses, Code::Operator),
        ("(:= Report.b (<= c 1))", Refuses, Code::Operator),
        ("(:= Report.b (!= c 1))", Refuses, Code::Operator),
        ("(:= Report.b (! flag))", Refuses, Code::Operator),
        ("(:= Report.r (% c 2))", Refuses, Code::Operator),
        ("(:= Report.r (<< c 2))", Refuses, Code::Operator),
        ("(:= Report.r (sqrt c))", Refuses, Code::Operator),
        ("(:= Report.r (minc 3))", Compiles, Code::Operator), // read as (min c 3)
        ("(:= Report.r (+1 c))", Compiles, Code::Operator),
        ("(= c 1)", Refuses, Code::Operator),
        // Operands.
        ("(:= Report.r (+ 1))", Refuses, Code::Arity),
        ("(:= Report.r (+ 1 2 3))", Refuses, Code::Arity),
        ("(:= Report.r)", Refuses, Code::Arity),
        ("(:= Report.r 1 2)", Refuses, Code::Arity),
        ("(:= Report.r (if (> c 1)))", Refuses, Code::Arity),
        ("(:= Report.r (ewma 2))", Refuses, Code::Arity),
        ("(report now)", Refuses, Code::Arity),
        ("(fallthrough true)", Refuses, Code::Arity),
        // Numbers.
        ("(:= Report.r 2147483648)", Refuses, Code::Number),
        ("(:= Report.r 18446744073709551615)", Compiles, Code::Number), // read as +infinity, 2^32 - 1
        ("(:= Report.r 99999999999999999999)", Compiles, Code::Number), // read as a name
        ("(:= Report.r -1)", Refuses, Code::Number),
        ("(:= Report.r 1.5)", Refuses, Code::Number),
        ("(:= Report.r 0x10)", Refuses, Code::Number),
        ("(:= Report.r (+ 12c))", Compiles, Code::Arity), // read as (+ 12 c)
        ("(:= Report.r 12c)", Refuses, Code::Number),
        // Names.
        ("(:= __x 1)", Refuses, Code::Name),
        ("(:= a-b 1)", Refuses, Code::Name),
        ("(:= max 1) (:= Report.r max)", Compiles, Code::Name),
        ("(:= Report.b truex)", Refuses, Code::Name),
        ("(:= falsehood 1)", Refuses, Code::Name),
        ("(:= Report.r (ewma 11 c))", Compiles, Code::EwmaWeight),
        ("(when true (report))", Refuses, Code::Nesting),
        ("((+ 1 2))", Refuses, Code::Syntax),
        ("()", Refuses, Code::Syntax),
    ];
    rows.map(|(statement, outcome, code)| (with(statement), outcome, code)).into()
}

#[test]
fn statements() {
    expect_all(statement_rows());
}

fn event_rows() -> Vec<(String, Outcome, Code)> {
    let rows = [
        ("(when Report.b (report))", Panics, Code::Condition),
        ("(when Report.r (report))", Panics, Code::Condition),
        ("(when flag (report))", Refuses, Code::Condition),
        ("(when Flow.was_timeout (report))", Refuses, Code::Condition),
        ("(when 1 (report))", Refuses, Code::Condition),
        ("(when (+ c 1) (report))", Refuses, Code::Condition),
        ("(when (report) (report))", Panics, Code::Nesting),
        ("(when (:= Report.b true) (report))", Panics, Code::Nesting),
        ("(when (if (> c 1) true) (report))", Refuses, Code::Nesting),
        ("(when true)", Refuses, Code::Syntax),
        ("(when)", Refuses, Code::Condition),
        ("(when truely (report))", Compiles, Code::Name), // read as (when true ly (report))
        ("(when (> c 1)\u{a0}(report))", Refuses, Code::Name),
        ("(whenever true (report))", Refuses, Code::Syntax),
        ("(report)", Refuses, Code::Syntax),
        ("", Refuses, Code::Syntax),
        ("(when true (report)", Refuses, Code::Syntax),
        ("(when true (report)))", Refuses, Code::Syntax),
    ];
    rows.map(|(event, outcome, code)| (format!("{DEF}\n{event}\n"), outcome, code)).into()
}

#[test]
fn events() {
    expect_all(event_rows());
}

fn declaration_rows() -> Vec<(String, Outcome, Code)> {
    let rows = [
        ("(x y)", Compiles, Code::Initial), // no initial value at all
        ("(x 1073741823)", Compiles, Code::Initial),
        ("(x 2147483648)", Refuses, Code::Number),
        ("(x -1)", Refuses, Code::Number),
        ("(x 1) (x 2)", Compiles, Code::Duplicate),
        ("(Cwnd 0)", Compiles, Code::Name),
        ("(Flow.rtt_sample_us 0)", Compiles, Code::Name),
        ("(volatilex 0)", Compiles, Code::Name), // read as (volatile x 0)
        ("(truex 0)", Compiles, Code::Name),
        ("(5x 0)", Compiles, Code::Name),
        ("(if 0)", Compiles, Code::Name),
        ("(__x 0)", Refuses, Code::Name),
        ("(a-b 0)", Refuses, Code::Name),
        ("(\u{161}x 0)", Compiles, Code::Name), // portus looks at the low byte of a character only
        ("(Report.x 0)", Compiles, Code::Name),
        ("(volatile 0)", Refuses, Code::Name),
        ("(Report)", Refuses, Code::Syntax),
        ("(x)", Refuses, Code::Syntax),
        ("(x 1 2)", Refuses, Code::Syntax),
        ("(x (y) 2)", Refuses, Code::Syntax),
        ("x", Refuses, Code::Syntax),
        ("(Report (x 0)) (Report (y 0))", Refuses, Code::Syntax),
    ];
    rows.map(|(declaration, outcome, code)| {
        (format!("(def {declaration})\n(when true (report))\n"), outcome, code)
    })
    .into()
}

#[test]
fn declarations() {
    expect_all(declaration_rows());
}

#[test]
fn limits() {
    let many = |n: usize, f: &dyn Fn(usize) -> String| (0..n).map(f).collect::<String>();
    let reports = |n| format!("(def (Report {}))(when true (report))", many(n, &|i| format!("(r{i} 0)")));
    let controls = |n| format!("(def {})(when true (report))", many(n, &|i| format!("(c{i} 0)")));
    let locals = |n| with(&many(n, &|i| format!("(:= l{i} 0)")));
    for (source, outcome) in [(reports(16), None), (reports(17), Some(Refuses))]
        .into_iter()
        // portus counts registers in eight bits but writes definitions only for what it can encode; a
        // control that nothing uses is still defined, and refused.
        .chain([(controls(16), None), (controls(17), Some(Refuses))])
        .chain([(locals(6), None), (locals(7), Some(Refuses))])
    {
        match outcome {
            None => assert_eq!((error(&source), portus(&source)), (None, Compiles), "{source}"),
            Some(outcome) => expect(&source, outcome, Code::Limit),
        }
    }
}

#[test]
fn a_ninth_temporary_is_compiled_without_a_word() {
    let sum = |operators: usize| (0..operators).fold("c".to_string(), |sum, _| format!("(+ {sum} c)"));
    let eight = with(&format!("(:= Report.r {})", sum(8)));
    assert_eq!((error(&eight), portus_size(&eight).unwrap().0), (None, 8));
    let nine = with(&format!("(:= Report.r {})", sum(9)));
    assert_eq!(portus_size(&nine).unwrap().0, 9);
    expect(&nine, Compiles, Code::Limit);
    expect(&with(&format!("(:= Report.r {})", sum(17))), Refuses, Code::Limit);
    // The last operator of a condition needs none.
    let condition = |operators: usize| format!("{DEF}(when (> {} 1) (report))", sum(operators - 1));
    assert_eq!((error(&condition(9)), portus_size(&condition(9)).unwrap().0), (None, 8));
    expect(&condition(10), Compiles, Code::Limit);
}

#[test]
fn instruction_256_is_compiled_without_a_word() {
    // Four definitions, the event flag and the report leave 249.
    let assignments = |n: usize| with(&"(:= Report.r c)".repeat(n));
    assert_eq!((error(&assignments(249)), portus_size(&assignments(249)).unwrap().1), (None, 255));
    assert_eq!(portus_size(&assignments(250)).unwrap().1, 256);
    expect(&assignments(250), Compiles, Code::Limit);
}

#[test]
fn an_assignment_from_nothing_redirects_later_ones() {
    // portus gives `a` the type "named b"; the next assignment to `a` then goes to `b`.
    let source = with("(:= a b) (:= a 5)");
    let (bin, scope) = portus::lang::compile(source.as_bytes(), &[]).unwrap();
    let written = &bin.instrs[bin.instrs.len() - 2].res;
    assert!(format!("{written:?}").starts_with("Local(1,"), "{written:?}");
    assert!(format!("{:?}", scope.get("a").unwrap()).starts_with("Local(0,"));
    expect(&source, Compiles, Code::Unknown);
}

#[test]
fn comments_and_blanks_that_portus_refuses_are_fine_here() {
    let plain = with("(:= Report.r c) (:= Report.b flag)");
    let commented = plain.replace("(:= Report.r", "# why\n (:= Report.r");
    assert_eq!(portus(&commented), Panics);
    let twice = plain.replace("(when", "# one\n# two\n(when");
    assert_eq!(portus(&twice), Refuses);
    let spaced = plain.replace("(def", "( def");
    assert_eq!(portus(&spaced), Refuses);
    let code = anole_lang::compile(&plain).unwrap().code;
    for source in [commented, twice, spaced] {
        assert_eq!(check(&source), []);
        assert_eq!(anole_lang::compile(&source).unwrap().code, code);
    }
}

#[test]
fn deep_nesting_is_refused_before_anything_recurses() {
    for depth in [70, 1_000_000] {
        let deep = with(&format!("(:= Report.r {}1{})", "(+ 1 ".repeat(depth), ")".repeat(depth)));
        assert_eq!(error(&deep), Some(Code::Syntax));
    }
}

#[test]
fn rubbish_of_any_length_ends_soon() {
    for source in [
        with(&"(:= Report.r nothing) ".repeat(20_000)),
        with(&(0..20_000).map(|i| format!("(:= local{i} locals{i}) ")).collect::<String>()),
        with(&"(+ ".repeat(60)),
        format!("(def {})(when true (report))", "(x 0)".repeat(20_000)),
        "#".repeat(1_000_000),
    ] {
        let findings = check(&source);
        assert!(anole_lang::has_errors(&findings) && findings.len() <= 100);
        let shown = anole_lang::render(&findings, "rubbish.ccp", &source);
        assert!(shown.len() < 200_000, "{}", shown.len());
    }
}

#[test]
fn no_error_goes_untested() {
    let rows = [statement_rows(), event_rows(), declaration_rows()].concat();
    // Limits have tests of their own; the last is for what no known program does.
    let elsewhere = [Code::Limit, Code::Compiler];
    for code in Code::ALL.iter().filter(|code| code.severity() == Severity::Error) {
        assert!(elsewhere.contains(code) || rows.iter().any(|(_, _, tested)| tested == code), "{code:?}");
    }
}
