//! `--explain`: why a flow went as it did, step by step, as a table (CSV) and as a picture (SVG).
//!
//! A row is a step at which the algorithm changed what it does; after an evaluation it carries the verdicts on
//! the rates that competed. Rates in Mbps, times in seconds or milliseconds, as the heads say; an empty cell is
//! a figure that there was not.

use crate::output;
use crate::plot::{self, Frame, Series};
use anole_algorithms::{Explanation, Judged};
use anole_sim::result::RunResult;
use anyhow::Result;
use std::fmt::Write as _;
use std::path::Path;

/// Width and height of each of the pictures that stand on each other, pixels.
const PANEL: (u32, u32) = (1100, 280);

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

/// Writes a table and a picture for every flow of a run that explains itself; says how many there were.
pub fn write(folder: &Path, result: &RunResult) -> Result<usize> {
    let name = output::file_name(result);
    let stem = name.strip_suffix(".json").unwrap_or(&name);
    let mut written = 0;
    for (index, flow) in result.flows.iter().enumerate().filter(|(_, flow)| !flow.explained.is_empty()) {
        let title = format!("{}: {} of flow {index}", result.scenario, flow.alg);
        output::write_whole(folder, &format!("{stem}-flow{index}-explained.csv"), &table(&flow.explained))?;
        output::write_whole(
            folder,
            &format!("{stem}-flow{index}-explained.svg"),
            &picture(&title, &flow.explained)?,
        )?;
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
fn picture(title: &str, steps: &[Explanation]) -> Result<String> {
    let line = |label: &str, value: &dyn Fn(&Explanation) -> Option<f64>| Series {
        label: label.to_string(),
        points: steps.iter().filter_map(|s| Some((s.at.as_secs_f64(), value(s)?))).collect(),
    };
    let frame = |title, y| Frame { title, x: "time, s", y, size: PANEL };
    // A rate is in force until the next step.
    let mut in_force = Series { label: "in force".to_string(), points: Vec::new() };
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
    Ok(plot::stacked(&[
        plot::lines(&frame(title, "rate, Mbps"), &rates, None)?,
        plot::points(&frame("what each evaluation chose", "rate, Mbps"), &sources)?,
        plot::lines(&frame("delay", "ms"), &delays, None)?,
        plot::lines(&frame("confidence", "η"), &trust, None)?,
    ]))
}
