//! Every warning: a program that earns it, and how to write it so that it does not.

use anole_lang::{Code, Severity, check, compile, render};
use std::collections::HashSet;

const HEAD: &str = "(def (c 5) (Report (volatile r 0) (volatile b false)))\n\
                    (when true (:= Report.r c) (:= Report.b true) (fallthrough))\n";

fn codes(source: &str) -> Vec<Code> {
    check(source).into_iter().map(|finding| finding.code).collect()
}

/// Statements at the end of an otherwise flawless program.
fn with(statements: &str) -> String {
    format!("{HEAD}(when (> Micros c)\n{statements}\n(report))\n")
}

const STATEMENTS: &[(Code, &str, &str)] = &[
    (Code::MixedTypes, "(:= Report.r Flow.was_timeout)", "(:= Report.b Flow.was_timeout)"),
    (Code::MixedTypes, "(:= Report.b c)", "(:= Report.b (> c 0))"),
    (Code::MixedTypes, "(:= Report.r (if c 1))", "(:= Report.r (if (> c 0) 1))"),
    (Code::MixedTypes, "(:= Report.r (ewma 2 Report.b))", "(:= Report.r (ewma 2 c))"),
    (Code::Underflow, "(:= Report.r (- Ack.bytes_acked c))", "(:= Report.r (- (max Ack.bytes_acked c) c))"),
    (Code::Underflow, "(:= Report.r (- c 1))", "(:= Report.r (- c (min 1 c)))"),
    (Code::Underflow, "(:= Report.r (- c (* c 2)))", "(:= Report.r (- c (/ c 2)))"),
    (Code::Underflow, "(:= Report.r (- c (/ (* c 8) 7)))", "(:= Report.r (- c (/ (* c 7) 8)))"),
    (Code::Underflow, "(:= Report.r (- c (* (/ c 2) 3)))", "(:= Report.r (- c (* (/ c 2) 2)))"),
    (Code::Underflow, "(:= Report.r (- c (* 3 (/ c 2))))", "(:= Report.r (- c (* 3 (/ c 3))))"),
    (Code::Underflow, "(:= Report.r (- 10 (min c 11)))", "(:= Report.r (- 10 (min c 10)))"),
    (Code::Underflow, "(:= x (max c 2)) (:= Report.r (- x 3))", "(:= x (max c 2)) (:= Report.r (- x 2))"),
    // A guard no longer holds once what it compares changes.
    (
        Code::Underflow,
        "(:= x (max c Cwnd)) (:= Cwnd (+ Cwnd 1)) (:= Report.r (- x Cwnd))",
        "(:= x (max c Cwnd)) (:= Report.r (- x Cwnd)) (:= Cwnd (+ Cwnd 1))",
    ),
    // The clock moves between two readings.
    (
        Code::Underflow,
        "(:= Report.r (- (max c Ack.now) Ack.now))",
        "(:= x Ack.now) (:= Report.r (- (max c x) x))",
    ),
    (Code::DivisionByZero, "(:= Report.r (/ 5 c))", "(:= Report.r (/ 5 (max 1 c)))"),
    (Code::DivisionByZero, "(:= Report.r (/ c 0))", "(:= Report.r (/ c 1))"),
    // An if computes its value in any case.
    (
        Code::DivisionByZero,
        "(:= Report.r (if (> c 0) (/ 5 c)))",
        "(:= Report.r (if (> c 0) (/ 5 (max 1 c))))",
    ),
    (Code::Overflow, "(:= Report.r (* Ack.now Ack.now))", "(:= Report.r (* Ack.now 5))"),
    (Code::Overflow, "(:= Report.r (* Ack.now Micros))", "(:= Report.r (* (/ Ack.now 65536) Micros))"),
    (
        Code::Overflow,
        "(:= Report.r (+ Report.r (* Ack.now c))) ",
        "(:= Report.r (+ Report.r (* Ack.bytes_acked c)))",
    ),
    (Code::Truncated, "(:= Report.r (wrapped_max c Ack.now))", "(:= Report.r (max c Ack.now))"),
    (Code::OpenWeight, "(:= Report.r (ewma c 5))", "(:= Report.r (ewma (min c 10) 5))"),
    (
        Code::NoSample,
        "(:= Report.r (+ Report.r Flow.rtt_sample_us))",
        "(:= Report.r (if (< Flow.rtt_sample_us +infinity) (+ Report.r Flow.rtt_sample_us)))",
    ),
    (Code::NoSample, "(:= Report.r (ewma 9 Flow.rtt_sample_us))", "(:= Report.r (min c Flow.rtt_sample_us))"),
    (
        Code::NoSample,
        "(:= x (/ Flow.rtt_sample_us 16)) (:= Report.r (+ Report.r x))",
        "(:= x (min c Flow.rtt_sample_us)) (:= Report.r (+ Report.r x))",
    ),
    (Code::UnusedRegister, "(:= x c)", "(:= x c) (:= Report.r x)"),
];

const PROGRAMS: &[(Code, &str, &str)] = &[
    (
        Code::StaleLocal,
        "(when (> c 1) (:= x c) (fallthrough)) (when (> c 2) (:= Report.r x) (report))",
        "(when true (:= x c) (fallthrough)) (when (> c 2) (:= Report.r x) (report))",
    ),
    (Code::NoReport, "(when (> c 1) (:= Report.r 1))", "(when (> c 1) (:= Report.r 1) (report))"),
    (
        Code::StickyFallthrough,
        "(when (> c 1) (:= Report.r 1)) (when (> c 2) (report))",
        "(when (> c 1) (:= Report.r 1) (fallthrough)) (when (> c 2) (report))",
    ),
    (Code::Unreachable, "(when false (report)) (when true (report))", "(when true (report))"),
    (
        Code::Underflow,
        "(when (> Cwnd c) (:= Report.r (- c Cwnd)) (report))",
        "(when (> Cwnd c) (:= Report.r (- Cwnd c)) (report))",
    ),
    (
        Code::DivisionByZero,
        "(when (|| (> c 0) (> Cwnd 0)) (:= Report.r (/ 1 c)) (report))",
        "(when (&& (> c 0) (> Cwnd 0)) (:= Report.r (/ 1 c)) (report))",
    ),
    (
        Code::NoSample,
        "(when (> Flow.rtt_sample_us c) (:= Report.r (+ Report.r Flow.rtt_sample_us)) (report))",
        "(when (< Flow.rtt_sample_us c) (:= Report.r (+ Report.r Flow.rtt_sample_us)) (report))",
    ),
    (
        Code::NoSample,
        "(when (< (/ 1000000 Flow.rtt_sample_us) 5) (:= Report.r (+ Report.r Flow.rtt_sample_us)) (report))",
        "(when (< (/ Flow.rtt_sample_us 1000) 5) (:= Report.r (+ Report.r Flow.rtt_sample_us)) (report))",
    ),
    (
        Code::NoSample,
        "(when (< (min c Flow.rtt_sample_us) 9) (:= Report.r (+ Report.r Flow.rtt_sample_us)) (report))",
        "(when (< (+ c (* 2 Flow.rtt_sample_us)) 9) (:= Report.r (+ Report.r Flow.rtt_sample_us)) (report))",
    ),
    (
        Code::NoSample,
        "(when (< (- (max c Flow.rtt_sample_us) Flow.rtt_sample_us) 9) (:= Report.r (+ Report.r Flow.rtt_sample_us)) (report))",
        "(when (< (- (max c Flow.rtt_sample_us) c) 9) (:= Report.r (+ Report.r Flow.rtt_sample_us)) (report))",
    ),
];

const WHOLE: &[(Code, &str, &str)] = &[
    (
        Code::UnusedRegister,
        "(def (c 5) (Report (r 0))) (when true (:= Report.r 1) (report))",
        "(def (c 5) (Report (r 0))) (when true (:= Report.r c) (report))",
    ),
    (
        Code::VolatileControl,
        "(def (volatile c 5) (Report (r 0))) (when true (:= Report.r c) (report))",
        "(def (volatile c 5) (Report (r 0))) (when true (:= Report.r c) (:= c (min c 9)) (report))",
    ),
    (
        Code::NeverWritten,
        "(def (Report (r 0) (s 0))) (when true (:= Report.r 1) (report))",
        "(def (Report (r 0))) (when true (:= Report.r 1) (report))",
    ),
    (
        Code::NoReport,
        "(def (c 5)) (when (> c 1) (report))",
        "(def (c 5) (Report (r 0))) (when (> c 1) (:= Report.r 1) (report))",
    ),
    (
        Code::Unreachable,
        "(def (Report (r 0))) (when true (:= Report.r 1)) (when true (report))",
        "(def (Report (r 0))) (when true (:= Report.r 1) (fallthrough)) (when true (report))",
    ),
    (
        Code::Overflow,
        "(def (Report (b false))) (when (> Micros 5) (:= Report.b (&& Report.b Report.b)) (:= Report.b (|| Report.b Flow.was_timeout)) (report))",
        "(def (Report (b false))) (when (> Micros 5) (:= Report.b (&& Report.b (> Micros 9))) (:= Report.b (|| Report.b Flow.was_timeout)) (report))",
    ),
    (
        Code::UnusedWaiver,
        "(def (Report (r 0))) (when true (:= Report.r 1) (report)) # check: allow underflow: never",
        "(def (Report (r 0))) (when true (:= Report.r (- 1 Cwnd)) (report)) # check: allow underflow: never",
    ),
];

fn pairs() -> Vec<(Code, String, String)> {
    let statements = STATEMENTS.iter().map(|(code, bad, good)| (*code, with(bad), with(good)));
    let programs =
        PROGRAMS.iter().map(|(code, bad, good)| (*code, format!("{HEAD}{bad}"), format!("{HEAD}{good}")));
    let whole = WHOLE.iter().map(|(code, bad, good)| (*code, bad.to_string(), good.to_string()));
    statements.chain(programs).chain(whole).collect()
}

#[test]
fn each_is_found_and_can_be_avoided() {
    let mut differences = String::new();
    for (code, bad, good) in pairs() {
        if codes(&bad) != [code] {
            differences += &format!("{:?}, not only {code:?}:\n{bad}\n", codes(&bad));
        }
        if !codes(&good).is_empty() {
            differences += &format!("{:?}, not nothing:\n{good}\n", codes(&good));
        }
        assert!(compile(&bad).is_ok(), "a warning does not keep a program from being compiled:\n{bad}");
    }
    assert!(differences.is_empty(), "{differences}");
}

#[test]
fn no_warning_goes_untested() {
    let tested: HashSet<Code> = pairs().into_iter().map(|(code, ..)| code).collect();
    for code in Code::ALL.iter().filter(|code| code.severity() == Severity::Warning) {
        assert!(tested.contains(code), "{code:?}");
    }
}

/// The flow's program before has had the same registers for its own.
#[test]
fn a_stale_local_may_hold_what_another_program_left() {
    let program = "(when (> c 9) (:= x 3) (fallthrough)) (when (> c 2) (:= Report.r (- 10 x)) (report))";
    assert_eq!(codes(&format!("{HEAD}{program}")), [Code::Underflow, Code::StaleLocal]);
}

#[test]
fn sums_settle_and_doubling_is_noticed() {
    let program =
        |growth: &str| format!("{HEAD}(when (> Micros 7) (:= c {growth}) (:= Report.r (* c c)) (report))");
    assert_eq!(codes(&program("(min c 4000000)")), []);
    // Sums are taken to stay below 2^48, whose square does not fit.
    assert_eq!(codes(&program("(+ c 1)")), [Code::Overflow]);
    assert_eq!(codes(&program("(* c 2)")), [Code::Overflow]);
}

/// Each register is twice in the next one's definition.
#[test]
fn a_long_chain_of_registers_is_checked_at_once() {
    let names = |prefix: &str| (0..15).map(|i| format!("{prefix}{i}")).collect::<Vec<_>>();
    let (controls, reports) = (names("c"), names("r"));
    let declared = |names: &[String]| names.iter().map(|name| format!("({name} 5)")).collect::<String>();
    let chain: Vec<String> =
        controls.iter().cloned().chain(reports.iter().map(|name| format!("Report.{name}"))).collect();
    let links = chain.windows(2).map(|pair| format!("(:= {1} (min {0} {0}))", pair[0], pair[1]));
    let program = format!(
        "(def {} (Report {})) (when true {} (report))",
        declared(&controls),
        declared(&reports),
        links.collect::<String>()
    );
    assert_eq!(codes(&program), []);
}

#[test]
fn waivers() {
    let waived = |comment: &str| codes(&with(&format!("(:= Report.r (- c 1)) # {comment}")));
    assert_eq!(waived("check: allow underflow: c is at least 5"), []);
    assert_eq!(waived("one less; check: allow underflow - c is at least 5"), []);
    assert_eq!(waived("check: allow underflow"), [Code::UnusedWaiver], "a reason is asked for");
    assert_eq!(waived("check: allow overflow: c is small"), [Code::Underflow, Code::UnusedWaiver]);
    assert_eq!(waived("check: allow undreflow: c is small"), [Code::Underflow, Code::UnusedWaiver]);
    let error = with("(:= Report.r d) # check: allow unknown: it is fine");
    assert_eq!(codes(&error), [Code::Unknown, Code::UnusedWaiver], "errors cannot be waived");
    let elsewhere = with("(:= Report.r (-\n c 1)) # check: allow underflow: on the line of the subtraction");
    assert_eq!(codes(&elsewhere), [Code::Underflow, Code::UnusedWaiver]);
}

#[test]
fn findings_are_shown_with_their_line() {
    let source = "(def (interval_us 5) (Report (r 0)))\n(when (> Micros intervall_us)\n\t(:= Report.r (- 1 Cwnd))\n\t(report))\n";
    let shown = render(&check(source), "demo.ccp", source);
    assert_eq!(
        shown,
        "demo.ccp:2:17: error[unknown]: 'intervall_us' is declared nowhere, and portus would silently make it a local; did you mean 'interval_us'?\n\
         \x20   2 | (when (> Micros intervall_us)\n\
         \x20     |                 ^\n"
    );
    let source = source.replace("intervall", "interval");
    let shown = render(&check(&source), "demo.ccp", &source);
    assert_eq!(shown.lines().nth(2), Some("      | \t             ^"));
}

#[test]
fn a_terminal_sees_no_control_characters() {
    let source = with("(:= Report.r \u{1b}[2Jname)");
    let shown = render(&check(&source), "demo.ccp", &source);
    assert!(shown.contains("name") && !shown.contains('\u{1b}'), "{shown}");
}

#[test]
fn code_names_are_distinct() {
    let names: HashSet<&str> = Code::ALL.iter().map(|code| code.name()).collect();
    assert_eq!(names.len(), Code::ALL.len());
}

#[test]
fn one_check_finds_all_mistakes_and_each_once() {
    let source = with(
        "(:= x (>= c 3))\n(:= Report.b (&& x flag))\n(:= Report.r (+ x y z))\n(:= Cwnd (if (> c 1) 3))\n(:= Report.r (+ x true))",
    );
    assert_eq!(codes(&source), [Code::Operator, Code::Unknown, Code::Arity, Code::Nesting, Code::Type]);
}
