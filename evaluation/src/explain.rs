//! `--explain`: why a flow went as it did, step by step, as a table (CSV) and as a picture (SVG).
//!
//! A row is a step at which the algorithm changed what it does; after an evaluation it carries the verdicts on
//! the rates that competed. Rates in Mbps, times in seconds or milliseconds, as the heads say; an empty cell is
//! a figure that there was not. `--explain-span` draws a part of the flow larger, by its stages.

use crate::output;
use anole_algorithms::{Explanation, Judged};
use anole_plot::{self as plot, Curve, Frame};
use anole_sim::result::RunResult;
use anyhow::Result;
use std::fmt::Write as _;
use std::path::Path;

/// Width and height of each of the pictures that stand on each other, pixels.
const PANEL: (u32, u32) = (plot::WIDTH, 270);

const SHARED: [&str; 10] = [
    "at_s",
    "stage",
    "rate_mbps",
    "source",
    "rtt_ms",
    "min_rtt_ms",
    "aim_ms",
    "situation",
    "rule_confidence",
    "learned_confidence",
];
const VERDICTS: [&str; 3] = ["rule", "learned", "previous"];
const VERDICT: [&str; 6] = ["rate_mbps", "utility", "slope", "slope_error", "gradient", "rtt_ratio"];

/// The same of a part, where more of them may stand on each other.
const PART_PANEL: (u32, u32) = (plot::WIDTH, 240);

/// Stages in the order of a flow's life, so that a colour means the same in every picture; others come behind.
const STAGES: [&str; 6] = ["ramp", "drain", "check", "evaluation", "probing", "acceleration"];

/// A part of a run, s: from, to.
pub type Span = (f64, f64);

/// Reads `FROM:TO` in seconds.
pub fn parse_span(text: &str) -> Result<Span, String> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|s| s.is_finite() && *s >= 0.0);
    let ends = text.split_once(':').and_then(|(from, to)| Some((number(from)?, number(to)?)));
    ends.filter(|(from, to)| from < to).ok_or_else(|| "give FROM:TO in seconds, such as 0.8:2.4".to_string())
}

/// Writes a table and a picture, of all or of a part, for every flow of a run that explains itself; says how
/// many there were.
pub fn write(folder: &Path, result: &RunResult, part: Option<Span>) -> Result<usize> {
    let name = output::file_name(result);
    let stem = name.strip_suffix(".json").unwrap_or(&name);
    let mut written = 0;
    for (number, flow) in (1..).zip(&result.flows).filter(|(_, flow)| !flow.explained.is_empty()) {
        let title = format!("{}: {} of flow {number}", result.scenario, flow.alg);
        output::write_whole(folder, &format!("{stem}-flow{number}-explained.csv"), table(&flow.explained))?;
        let svg = match part {
            None => picture(&title, &flow.explained),
            Some(span) => part_picture(&title, &flow.explained, span),
        };
        output::write_whole(folder, &format!("{stem}-flow{number}-explained.svg"), svg.svg())?;
        written += 1;
    }
    Ok(written)
}

fn cell(value: Option<f64>) -> String {
    value.filter(|v| v.is_finite()).map_or(String::new(), |v| format!("{v:.6}"))
}

fn table(steps: &[Explanation]) -> String {
    let verdicts = VERDICTS.iter().flat_map(|who| VERDICT.iter().map(move |what| format!("{who}_{what}")));
    let mut text =
        SHARED.iter().map(ToString::to_string).chain(verdicts).collect::<Vec<_>>().join(",") + "\n";
    for step in steps {
        let _ = write!(
            text,
            "{:.6},{},{:.6},{},{:.3},{:.3},{:.3},{},{:.3},{:.3}",
            step.at.as_secs_f64(),
            step.stage,
            step.rate.mbps(),
            step.source,
            step.rtt.as_millis_f64(),
            step.min_rtt.as_millis_f64(),
            step.aim.as_millis_f64(),
            step.situation.unwrap_or_default(),
            step.confidence[0],
            step.confidence[1]
        );
        for verdict in [step.rule, step.learned, step.previous] {
            let of = |what: fn(&Judged) -> Option<f64>| cell(verdict.as_ref().and_then(what));
            let _ = write!(
                text,
                ",{},{},{},{},{},{}",
                of(|v| Some(v.rate.mbps())),
                of(|v| Some(v.utility)),
                of(|v| v.slope),
                of(|v| v.error),
                of(|v| Some(v.gradient)),
                of(|v| Some(v.rtt_ratio))
            );
        }
        text.push('\n');
    }
    text
}

/// Rates that compete, what was chosen, round-trip time and confidence, one above the other.
fn picture(title: &str, steps: &[Explanation]) -> plot::Picture {
    let line = |label: &str, value: &dyn Fn(&Explanation) -> Option<f64>| Curve {
        label: label.to_string(),
        points: steps.iter().filter_map(|s| Some((s.at.as_secs_f64(), value(s)?))).collect(),
    };
    let frame = |title, y| Frame { title, x: "time, s", y, size: PANEL };
    // A rate is in force until the next step.
    let mut in_force = Curve { label: "in force".to_string(), points: Vec::new() };
    for (step, next) in steps.iter().zip(steps.iter().skip(1)) {
        in_force.points.push((step.at.as_secs_f64(), step.rate.mbps()));
        in_force.points.push((next.at.as_secs_f64(), step.rate.mbps()));
    }
    let rates = [
        in_force,
        line("rule-based", &|s| s.rule.map(|v| v.rate.mbps())),
        line("learned", &|s| s.learned.map(|v| v.rate.mbps())),
    ];
    let sources = ["previous", "rule", "learned", "inferred"].map(|source| {
        let chosen = |s: &Explanation| s.rule.or(s.learned).is_some() && s.source == source;
        line(source, &move |s| chosen(s).then(|| s.rate.mbps()))
    });
    let delays = [
        line("round-trip time", &|s| Some(s.rtt.as_millis_f64())),
        line("smallest", &|s| Some(s.min_rtt.as_millis_f64())),
        line("aimed at", &|s| Some((s.min_rtt + s.aim).as_millis_f64())),
    ];
    let trust = [line("rule-based", &|s| Some(s.confidence[0])), line("learned", &|s| Some(s.confidence[1]))];
    plot::stacked(&[
        plot::lines(&frame(title, "rate, Mbps"), &rates, None),
        plot::dots(&frame("what each evaluation chose", "rate, Mbps"), &sources),
        plot::lines(&frame("delay", "ms"), &delays, None),
        plot::lines(&frame("confidence", "η"), &trust, None),
    ])
}

/// A rate that holds from a time to another, as a piece of a broken line, in time since `from`.
fn piece((from, to): Span, start: f64, end: f64, y: f64) -> Vec<(f64, f64)> {
    let (start, end) = (start.max(from) - from, end.min(to) - from);
    if start >= end { Vec::new() } else { vec![(start, y), (end, y), (f64::NAN, f64::NAN)] }
}

/// A part of a flow: rate by stage, rates tested, queue, confidence; the last three where there is something to
/// see.
fn part_picture(title: &str, steps: &[Explanation], span: Span) -> plot::Picture {
    let at = |step: &Explanation| step.at.as_secs_f64();
    let x = format!("time since {} s, s", span.0);
    let frame = |title, y| Frame { title, x: &x, y, size: PART_PANEL };
    let spans = || steps.iter().zip(steps.iter().skip(1));
    let pieces = |label: &str, value: &dyn Fn(&Explanation) -> Option<f64>| {
        let points = spans().filter_map(|(step, next)| Some(piece(span, at(step), at(next), value(step)?)));
        Curve { label: label.to_string(), points: points.flatten().collect() }
    };
    // The pieces joined to a stair.
    let over = |label: &str, value: &dyn Fn(&Explanation) -> f64| {
        let mut stair = pieces(label, &|step| Some(value(step)));
        stair.points.retain(|(at, _)| at.is_finite());
        stair
    };
    let mut names = STAGES.to_vec();
    for step in steps {
        if !names.contains(&step.stage) {
            names.push(step.stage);
        }
    }
    let stages: Vec<Curve> = names
        .iter()
        .map(|name| pieces(name, &|step| (step.stage == *name).then(|| step.rate.mbps())))
        .collect();
    let mut panels = vec![plot::lines(&frame(title, "rate, Mbps"), &stages, None)];
    // An evaluation's verdicts come with the step that ends it.
    let tested = |label: &str, verdict: fn(&Explanation) -> Option<Judged>| {
        let points = spans()
            .filter_map(|(step, next)| Some(piece(span, at(step), at(next), verdict(next)?.rate.mbps())));
        Curve { label: label.to_string(), points: points.flatten().collect() }
    };
    let rates = [
        over("in force", &|step| step.rate.mbps()),
        tested("tested: rule-based", |step| step.rule),
        tested("tested: learned", |step| step.learned),
    ];
    if rates[1..].iter().any(|series| !series.points.is_empty()) {
        panels.push(plot::lines(&frame("rates that were tested", "rate, Mbps"), &rates, None));
    }
    let queue = [
        over("smoothed round-trip time", &|step| (step.rtt - step.min_rtt).as_millis_f64()),
        over("aimed at", &|step| step.aim.as_millis_f64()),
    ];
    panels.push(plot::lines(&frame("beyond the smallest round-trip time", "queue, ms"), &queue, None));
    let trust = [over("rule-based", &|s| s.confidence[0]), over("learned", &|s| s.confidence[1])];
    if trust.iter().flat_map(|series| &series.points).any(|(_, eta)| *eta < 1.0) {
        panels.push(plot::lines(&frame("confidence", "η"), &trust, None));
    }
    plot::stacked(&panels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_span() {
        assert_eq!(parse_span("0.8: 2.4"), Ok((0.8, 2.4)));
        for bad in ["", "3", "3:2", "2:2", "-1:2", "nan:2", "1:inf", "a:b"] {
            assert!(parse_span(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_piece_is_cut_to_the_span() {
        assert_eq!(piece((1.0, 2.0), 0.5, 1.25, 7.0)[..2], [(0.0, 7.0), (0.25, 7.0)]);
        assert!(piece((1.0, 2.0), 2.0, 3.0, 7.0).is_empty());
    }
}
