//! Programs from a grammar: mostly sound, with mistakes strewn in.

use proptest::prelude::*;

const DEF: &str = "(def (c 5) (k 7) (volatile v 3) (flag false)
  (Report (volatile r 0) (s 0) (volatile m +infinity) (volatile b false)))";

fn number() -> BoxedStrategy<String> {
    let names = prop::sample::select(vec![
        "c",
        "k",
        "v",
        "Report.r",
        "Report.s",
        "Report.m",
        "x",
        "y",
        "Ack.bytes_acked",
        "Ack.packets_acked",
        "Ack.lost_pkts_sample",
        "Ack.now",
        "Flow.rtt_sample_us",
        "Flow.rate_incoming",
        "Flow.bytes_in_flight",
        "Micros",
        "Cwnd",
        "Rate",
    ]);
    let leaf = prop_oneof![
        3 => names.prop_map(str::to_string),
        2 => prop::sample::select(vec!["0", "1", "2", "10", "1000", "2147483647", "+infinity"]).prop_map(str::to_string),
    ];
    let operator = prop::sample::select(vec![
        "+",
        "+",
        "*",
        "max",
        "min",
        "min",
        "+",
        "*",
        "max",
        "-",
        "/",
        "wrapped_max",
    ]);
    leaf.prop_recursive(2, 3, 2, move |inner| {
        // Guards of the usual shapes, and anything else.
        let two = (inner.clone(), inner);
        prop_oneof![
            4 => (operator.clone(), two.clone()).prop_map(|(op, (a, b))| format!("({op} {a} {b})")),
            1 => two.clone().prop_map(|(a, b)| format!("(- (max {a} {b}) {b})")),
            1 => two.clone().prop_map(|(a, b)| format!("(- {a} (min {b} {a}))")),
            1 => two.clone().prop_map(|(a, b)| format!("(/ {a} (max 1 {b}))")),
            1 => two.prop_map(|(a, b)| format!("(- {a} (* (/ {a} (max {b} 1)) {b}))")),
        ]
    })
    .boxed()
}

fn truth() -> BoxedStrategy<String> {
    let leaf = prop_oneof![
        prop::sample::select(vec!["flag", "Report.b", "Flow.was_timeout", "true", "false"])
            .prop_map(str::to_string),
        (prop::sample::select(vec!["<", ">", "=="]), number(), number())
            .prop_map(|(op, a, b)| format!("({op} {a} {b})")),
    ];
    leaf.prop_recursive(1, 2, 2, |inner| {
        (prop::sample::select(vec!["&&", "||"]), inner.clone(), inner)
            .prop_map(|(op, a, b)| format!("({op} {a} {b})"))
    })
    .boxed()
}

fn statement() -> BoxedStrategy<String> {
    let register = prop::sample::select(vec!["Report.r", "Report.s", "Report.m", "c", "v"]);
    let target =
        prop::sample::select(vec!["Report.r", "Report.s", "c", "x", "y", "x", "y", "Micros", "Cwnd", "Rate"]);
    let special = prop::sample::select(vec!["if", "!if"]);
    prop_oneof![
        12 => (target, number()).prop_map(|(t, e)| format!("(:= {t} {e})")),
        3 => (register.clone(), special, truth(), number()).prop_map(|(t, op, c, e)| format!("(:= {t} ({op} {c} {e}))")),
        2 => (register, prop_oneof![20 => 0..11u32, 1 => Just(11)], number()).prop_map(|(t, w, e)| format!("(:= {t} (ewma {w} {e}))")),
        2 => truth().prop_map(|e| format!("(:= Report.b {e})")),
        2 => Just("(fallthrough)".to_string()),
        2 => Just("(report)".to_string()),
    ]
    .boxed()
}

/// A program; about half of them are free of errors.
pub fn program() -> BoxedStrategy<String> {
    let condition = prop_oneof![3 => truth(), 2 => Just("true".to_string())];
    let body = prop::collection::vec(statement(), 1..6).prop_map(|statements| statements.join("\n  "));
    let event = (condition, body).prop_map(|(condition, body)| format!("(when {condition}\n  {body})"));
    // Both locals are assigned first, so that most programs may read them.
    let first = "(when true (:= x Ack.packets_acked) (:= y 1) (fallthrough))";
    prop::collection::vec(event, 1..5)
        .prop_map(move |events| format!("{DEF}\n{first}\n{}\n", events.join("\n")))
        .boxed()
}

/// A program in which some words were replaced, doubled or dropped.
pub fn broken_program() -> BoxedStrategy<String> {
    let word = prop::sample::select(vec![
        "(",
        ")",
        "if",
        "!if",
        "ewma",
        ":=",
        "report",
        "(report)",
        "when",
        "true",
        "truex",
        "x",
        "z",
        "12",
        "12a",
        "-1",
        "Report.r",
        "Report.z",
        "Flow.was_timeout",
        "volatile",
        "def",
        "__a",
        "+",
        "&&",
        ">=",
        "1073741823",
        "# no",
        "99999999999999999999",
        "Micros",
        "Ack.now",
        "(if true 1)",
        "(ewma 1 2)",
        "(:= c 1)",
        "\u{161}",
        "+infinity",
    ]);
    let change = (any::<prop::sample::Index>(), word, 0..3u8);
    (program(), prop::collection::vec(change, 1..4))
        .prop_map(|(program, changes)| {
            let spaced = program.replace('(', " ( ").replace(')', " ) ");
            let mut words: Vec<&str> = spaced.split_whitespace().collect();
            for (index, word, kind) in changes {
                let at = index.index(words.len());
                match kind {
                    0 => words[at] = word,
                    1 => words.insert(at, word),
                    _ => _ = words.remove(at),
                }
            }
            words.join(" ")
        })
        .boxed()
}
