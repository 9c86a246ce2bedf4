//! What is written: a line per figure, a page with all plots.

use super::experiment::Experiment;

use super::outcome::{Figure, Target};
use serde::Serialize;
use std::collections::HashMap;

/// Columns of a figure's line: experiment, what, paper, ours, target, verdict.
const COLUMNS_OF_LINE: usize = 6;

/// Columns of a section's table.
const TABLE: [&str; 6] = ["what", "source", "ours", "95 % of the mean", "target", "verdict"];

/// A figure as `--json` prints it.
#[derive(Serialize)]
pub struct FigureJson<'a> {
    id: &'a str,
    /// What carried the flows, as in a run's result.
    mode: &'a str,
    what: &'a str,
    paper: Option<&'a str>,
    mean: Option<f64>,
    deviation: Option<f64>,
    /// Bounds of the mean's 95 % interval.
    low: Option<f64>,
    high: Option<f64>,
    runs: usize,
    /// Runs during which the host was too busy for real packets; with any, there is no verdict on the target.
    disturbed: usize,
    unit: &'a str,
    target: Option<String>,
    verdict: String,
    version: &'static str,
}

/// A figure for programs; what was not measured is null.
pub fn json<'a>(id: &'a str, mode: &'a str, figure: &'a Figure) -> FigureJson<'a> {
    let known = |x: f64| x.is_finite().then_some(x);
    let interval = figure.interval();
    FigureJson {
        id,
        mode,
        what: &figure.what,
        paper: (!figure.paper.is_empty()).then_some(&figure.paper),
        mean: known(figure.mean()),
        deviation: figure.deviation(),
        low: interval.map(|[low, _]| low),
        high: interval.map(|[_, high]| high),
        runs: figure.values.len(),
        disturbed: figure.disturbed,
        unit: &figure.unit,
        target: (figure.target != Target::None).then(|| target(figure)),
        verdict: verdict(figure),
        version: crate::output::VERSION,
    }
}

/// A number with about three digits.
fn number(x: f64) -> String {
    match x.abs() {
        _ if !x.is_finite() => "–".to_string(),
        size if size >= 1000.0 => format!("{x:.0}"),
        size if size >= 100.0 => format!("{x:.1}"),
        size if size >= 1.0 => format!("{x:.2}"),
        _ => format!("{x:.3}"),
    }
}

fn target(figure: &Figure) -> String {
    let unit = if figure.unit.is_empty() { String::new() } else { format!(" {}", figure.unit) };
    match figure.target {
        Target::AtLeast(bound) => format!("≥ {bound}{unit}"),
        Target::AtMost(bound) => format!("≤ {bound}{unit}"),
        Target::Within(low, high) => format!("{low} to {high}{unit}"),
        Target::None => "–".to_string(),
    }
}

fn verdict(figure: &Figure) -> String {
    if figure.disturbed > 0 {
        return format!("invalid: host too busy in {} runs", figure.disturbed);
    }
    match figure.missed_by() {
        None => "shown".to_string(),
        Some(0.0) => "met".to_string(),
        Some(by) if by.is_finite() => format!("missed by {}", number(by)),
        Some(_) => "missed: nothing measured".to_string(),
    }
}

/// The 95 % interval of a figure's mean.
pub fn interval(figure: &Figure) -> String {
    figure.interval().map_or("–".to_string(), |[low, high]| format!("{} to {}", number(low), number(high)))
}

/// What, paper, ours, target, verdict.
pub fn texts(figure: &Figure) -> [String; 5] {
    let spread = figure.deviation().map_or(String::new(), |deviation| format!(" ± {}", number(deviation)));
    let ours = format!("{}{spread} {}", number(figure.mean()), figure.unit);
    let paper = if figure.paper.is_empty() { "–" } else { &figure.paper };
    [figure.what.clone(), paper.to_string(), ours.trim_end().to_string(), target(figure), verdict(figure)]
}

/// The lines of one experiment, in columns.
pub fn lines(id: &str, figures: &[Figure]) -> String {
    let row = |figure: &Figure| {
        let [what, paper, ours, target, verdict] = texts(figure);
        [id.to_string(), what, paper, ours, target, verdict]
    };
    let rows: Vec<[String; COLUMNS_OF_LINE]> = figures.iter().map(row).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COLUMNS_OF_LINE).map(width).collect();
    let line = |row: &[String; COLUMNS_OF_LINE]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_string()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Contenders by figures, as a Markdown table: the means of what each contender has, a column per figure. Nothing with
/// fewer than two of either.
pub fn matrix(figures: &[Figure]) -> Option<String> {
    let (mut rows, mut columns, mut means) = (Vec::new(), Vec::new(), HashMap::new());
    for figure in figures {
        let Some(contender) = figure.contender.as_deref() else { continue };
        let Some(what) = figure.what.strip_suffix(contender) else { continue };
        let unit = if figure.unit.is_empty() { String::new() } else { format!(" ({})", figure.unit) };
        let column = format!("{}{unit}", what.trim_end_matches([' ', ',']));
        if !rows.contains(&contender) {
            rows.push(contender);
        }
        if !columns.contains(&column) {
            columns.push(column.clone());
        }
        means.insert((contender, column), number(figure.mean()));
    }
    if rows.len() < 2 || columns.len() < 2 {
        return None;
    }
    let mut out = format!("||{}|\n|---|{}\n", columns.join("|"), "---|".repeat(columns.len()));
    for row in rows {
        let cells =
            columns.iter().map(|column| means.get(&(row, column.clone())).map_or("–", String::as_str));
        out += &format!("|{row}|{}|\n", cells.collect::<Vec<_>>().join("|"));
    }
    Some(out)
}

/// The section of one experiment in the page.
pub fn section(experiment: &Experiment, figures: &[Figure]) -> String {
    let (id, title) = (&experiment.id, &experiment.raw.title);
    let (about, source) = (experiment.raw.about.trim(), &experiment.raw.source);
    let mut out = format!("\n## {id}: {title}\n\n{source}. {about}\n\n");
    if let Some(matrix) = matrix(figures) {
        out += &format!("{matrix}\n");
    }
    out += &format!("|{}|\n|---|---|---|---|---|---|\n", TABLE.join("|"));
    for figure in figures {
        let [what, paper, ours, target, verdict] = texts(figure);
        let row = [what, paper, ours, interval(figure), target, verdict].join("|");
        out += &format!("|{}|\n", row.replace('\n', " "));
    }
    out + &format!("\n![{title}]({id}.svg)\n")
}

/// The page's beginning.
pub fn head(what_ran: &str, sections: usize) -> String {
    format!(
        "# Reproduction\n\nanole-eval {}, {what_ran}; {sections} experiments. Each figure is a mean over runs with \
         its standard deviation. Beside each plot `ID.svg` are the runs, `ID.csv`, and the plotted points, `ID-plot.csv`.\n",
        crate::output::VERSION
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(values: &[f64], target: Target) -> Figure {
        Figure {
            what: "throughput, normal".into(),
            contender: None,
            paper: "about 47".into(),
            values: values.to_vec(),
            unit: "Mbps".into(),
            target,
            cells: Vec::new(),
            disturbed: 0,
        }
    }

    #[test]
    fn what_each_contender_has_is_a_table_of_contenders_by_figures() {
        let of = |what: &str, contender: &str, unit: &str, value| Figure {
            what: format!("{what}, {contender}"),
            contender: Some(contender.into()),
            unit: unit.into(),
            ..figure(&[value], Target::None)
        };
        let figures =
            [of("Jain", "reno", "", 0.9), of("Jain", "cubic", "", 0.95), of("loss", "cubic", "%", 1.5)];
        let table = matrix(&figures).unwrap();
        assert_eq!(table, "||Jain|loss (%)|\n|---|---|---|\n|reno|0.900|–|\n|cubic|0.950|1.50|\n");
        assert_eq!(matrix(&figures[..2]), None, "one figure is a list");
    }

    #[test]
    fn a_line_says_paper_ours_target_and_verdict() {
        let figures = [
            figure(&[47.0, 47.2], Target::AtLeast(46.5)),
            figure(&[46.0, 46.0], Target::AtLeast(46.5)),
            figure(&[], Target::AtMost(1.0)),
            figure(&[0.5], Target::None),
        ];
        assert_eq!(
            lines("anole-fig5", &figures),
            "anole-fig5  throughput, normal  about 47  47.10 ± 0.141 Mbps  ≥ 46.5 Mbps  met\n\
             anole-fig5  throughput, normal  about 47  46.00 ± 0.000 Mbps  ≥ 46.5 Mbps  missed by 0.500\n\
             anole-fig5  throughput, normal  about 47  – Mbps              ≤ 1 Mbps     missed: nothing measured\n\
             anole-fig5  throughput, normal  about 47  0.500 Mbps          –            shown"
        );
        let busy = Figure { disturbed: 2, ..figure(&[47.0], Target::AtLeast(1.0)) };
        assert_eq!(verdict(&busy), "invalid: host too busy in 2 runs");
        let nothing = serde_json::to_value(json("x", "sim", &figures[2])).unwrap();
        assert!(
            nothing["mean"].is_null()
                && nothing["deviation"].is_null()
                && nothing["verdict"] == "missed: nothing measured",
            "{nothing}"
        );
    }
}
