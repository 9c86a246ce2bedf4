//! What pages tell of a cell: means over its runs, and how it stands among the cells of its setting.

use super::super::outcome::{Links, Results, Source, mean};
use super::super::panels::legend;
use super::{escape, slug};
use anole_sim::result::{FlowResult, RunResult};

/// A figure of a run: its heading, and how to read it off.
type Column = (&'static str, fn(&RunResult) -> Option<f64>);

/// Rates and power are of all flows over the whole time that counts; delays are of packets, and means over flows where there
/// are several.
const COLUMNS: [Column; 9] = [
    ("Mbps", |run| run.total(|flow| flow.throughput_mbps)),
    ("utilisation, %", |run| Some(100.0 * run.links.first()?.utilization?)),
    ("delay, ms", |run| over_flows(run, |flow| flow.owd_mean_ms)),
    ("p50", |run| over_flows(run, |flow| flow.owd_p50_ms)),
    ("p95", |run| over_flows(run, |flow| flow.owd_p95_ms)),
    ("p99", |run| over_flows(run, |flow| flow.owd_p99_ms)),
    ("loss, %", |run| over_flows(run, |flow| Some(100.0 * flow.loss_rate?))),
    ("Jain", |run| run.jain_index.filter(|_| run.flows.len() > 1)),
    ("power", RunResult::total_power),
];
/// What the Pareto front and the regret go by.
const UTILISATION: usize = 1;
const DELAY: usize = 2;
const POWER: usize = 8;

fn over_flows(run: &RunResult, of: impl Fn(&FlowResult) -> Option<f64>) -> Option<f64> {
    let known: Vec<f64> = run.flows.iter().filter_map(of).collect();
    (!known.is_empty()).then(|| mean(&known))
}

/// A cell.
pub struct Row {
    /// Its experiment.
    pub id: String,
    /// Its number there, from 1.
    pub number: usize,
    pub setting: String,
    /// The scenario that its setting changes, or the random suite.
    pub place: String,
    /// As in legends.
    pub contender: String,
    pub alg: String,
    links: Links,
    runs: usize,
    disturbed: usize,
    /// Means over the runs that measured something; NaN where none did.
    values: [f64; COLUMNS.len()],
    /// Power given away against the best contender of the setting, share of it.
    regret: f64,
    /// No other contender of the setting has both less delay and more utilisation.
    front: bool,
}

/// Every cell of an experiment.
pub fn of(id: &str, results: &Results) -> Vec<Row> {
    let row = |(number, outcome): (usize, &super::super::outcome::CellRuns)| {
        let cell = &outcome.cell;
        let value = |(_, of): Column| mean(&outcome.runs.iter().filter_map(of).collect::<Vec<f64>>());
        Row {
            id: id.to_string(),
            number,
            setting: cell.setting.name.clone(),
            place: match &cell.setting.source {
                Source::Scenario(name) => name.trim_end_matches(".toml").to_string(),
                Source::Random => "random links".to_string(),
            },
            contender: legend(&cell.contender),
            alg: cell.contender.choice.alg.clone().unwrap_or_default(),
            links: cell.setting.links,
            runs: outcome.runs.len(),
            disturbed: outcome.runs.iter().filter(|run| run.disturbed.is_some()).count(),
            values: COLUMNS.map(value),
            regret: f64::NAN,
            front: false,
        }
    };
    let mut rows: Vec<Row> = (1..).zip(&results.0).map(row).collect();
    for setting in results.settings() {
        let numbers: Vec<usize> = (0..rows.len()).filter(|&at| rows[at].setting == setting).collect();
        let best = numbers.iter().map(|&at| rows[at].values[POWER]).fold(f64::NAN, f64::max);
        let points: Vec<(f64, f64)> =
            numbers.iter().map(|&at| (rows[at].values[DELAY], rows[at].values[UTILISATION])).collect();
        let front = anole_plot::front(&points);
        for (place, &at) in numbers.iter().enumerate() {
            rows[at].regret = 1.0 - rows[at].values[POWER] / best;
            rows[at].front = numbers.len() > 1 && front.contains(&place);
        }
    }
    rows
}

/// What stands before the figures of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Lead {
    /// Experiment and setting: on the page of an algorithm.
    Setting,
    /// The contender: where all rows are of one setting.
    Contender,
    /// Both, and no experiment: on its own page.
    Both,
}

/// A table of cells; every figure leads to its cell.
pub fn table<'a>(rows: impl Iterator<Item = &'a Row>, lead: Lead, after: impl Fn(&Row) -> String) -> String {
    let mut heads: Vec<&str> = match lead {
        Lead::Setting => vec!["experiment", "setting", "as"],
        Lead::Contender => vec!["contender"],
        Lead::Both => vec!["", "setting", "contender"],
    };
    heads.extend(COLUMNS.iter().map(|(name, _)| *name));
    heads.extend(["regret, %", "front"]);
    if lead == Lead::Both {
        heads.push("runs");
    }
    let heads: String = heads.iter().map(|head| format!("<th>{head}</th>")).collect();
    let mut out = format!("<div class=\"wide\"><table>\n<tr>{heads}</tr>\n");
    for row in rows {
        out += &row.line(lead, &after(row));
    }
    out + "</table></div>\n"
}

impl Row {
    /// Where its cell is told of.
    fn place(&self, lead: Lead) -> String {
        let page = if lead == Lead::Both { String::new() } else { format!("{}.html", slug(&self.id)) };
        format!("{page}#cell-{}", self.number)
    }

    fn line(&self, lead: Lead, after: &str) -> String {
        let place = self.place(lead);
        let [id, setting, contender] = [&self.id, &self.setting, &self.contender].map(|text| escape(text));
        let (scenario, algorithm) = (slug(&self.place), slug(&self.alg));
        let setting = format!("<a href=\"scenario-{scenario}.html\">{setting}</a>{}", self.tags());
        let who = format!("<a href=\"algorithm-{algorithm}.html\">{contender}</a>");
        let mut out = match lead {
            Lead::Setting => {
                let page = slug(&self.id);
                format!("<tr><td><a href=\"{page}.html\">{id}</a></td><td>{setting}</td><td>{contender}</td>")
            }
            Lead::Contender => format!("<tr><td>{who}{}</td>", self.tags()),
            Lead::Both => {
                let number = self.number;
                format!(
                    "<tr id=\"cell-{number}\"><td>{number}</td><td class=\"name\">{setting}</td><td class=\"name\">{who}</td>"
                )
            }
        };
        let figures = self.values.iter().copied().chain([100.0 * self.regret]);
        for value in figures {
            let text = match value.is_finite() {
                true => format!("<a href=\"{place}\">{}</a>", number(value)),
                false => "–".to_string(),
            };
            out += &format!("<td class=\"number\">{text}</td>");
        }
        let front = if self.front {
            "<span title=\"on the Pareto front of delay and utilisation\">●</span>"
        } else {
            ""
        };
        out + &format!("<td>{front}</td>{after}</tr>\n")
    }

    /// Labels of its links and runs.
    fn tags(&self) -> String {
        let mut tags = Vec::new();
        if !self.links.name().is_empty() {
            tags.push(self.links.name().to_string());
        }
        if self.disturbed > 0 {
            tags.push(format!("invalid: host too busy in {} of {} runs", self.disturbed, self.runs));
        }
        tags.iter().map(|tag| format!(" <span class=\"tag\">{tag}</span>")).collect()
    }
}

/// A number with about three digits.
fn number(x: f64) -> String {
    match x.abs() {
        size if size >= 100.0 => format!("{x:.0}"),
        size if size >= 10.0 => format!("{x:.1}"),
        size if size >= 0.1 || size == 0.0 => format!("{x:.2}"),
        _ => format!("{x:.4}"),
    }
}
