//! The results as a site: static pages that need no server and no network.
//!
//! `index.html` has a row per experiment; `ID.html` its figures, its plot and its cells, each with the files of its runs and
//! the command that makes one again; `paper-…`, `algorithm-…` and `scenario-….html` the same across experiments.

mod across;
mod experiment;
mod rows;

use super::experiment::Experiment;

use super::outcome::{Figure, Results};
pub use experiment::quoted;
use rows::Row;

const TEMPLATE: &str = include_str!("page.html");
/// How the names of pages across experiments begin, beside the index.
pub const ACROSS: [&str; 3] = ["paper-", "algorithm-", "scenario-"];

/// What has run so far.
pub struct Site {
    /// A sentence without its end.
    what_ran: String,
    /// The options that chose it, for commands.
    flags: String,
    /// Shorter runs and fewer seeds.
    quick: bool,
    /// `sim`, `quic` or `kernel`.
    mode: &'static str,
    entries: Vec<Entry>,
    rows: Vec<Row>,
}

/// What pages tell of an experiment.
struct Entry {
    id: String,
    title: String,
    family: String,
    source: String,
    /// The table of its figures.
    figures: String,
    /// Targets met, of so many.
    met: usize,
    targets: usize,
}

/// What an experiment's page is made of.
pub struct Outcome<'a> {
    pub experiment: &'a Experiment,
    pub figures: &'a [Figure],
    pub plot: &'a str,
    /// The plot's PNG is there.
    pub png: bool,
    pub results: &'a Results,
    /// The names of each cell's runs, if they are kept.
    pub files: &'a [Vec<String>],
}

impl Site {
    /// Without experiments.
    pub fn new(what_ran: String, flags: String, quick: bool, mode: &'static str) -> Site {
        Site { what_ran, flags, quick, mode, entries: Vec::new(), rows: Vec::new() }
    }

    /// Adds an experiment; its page.
    pub fn add(&mut self, outcome: &Outcome<'_>) -> String {
        let Outcome { experiment, figures, results, .. } = outcome;
        let verdicts: Vec<f64> = figures.iter().filter_map(Figure::missed_by).collect();
        let file = format!("{}.html", slug(&experiment.id));
        self.entries.push(Entry {
            id: experiment.id.clone(),
            title: experiment.raw.title.clone(),
            family: experiment.raw.family.clone(),
            source: experiment.raw.source.clone(),
            figures: experiment::figures(figures, &file),
            met: verdicts.iter().filter(|missed| **missed == 0.0).count(),
            targets: verdicts.len(),
        });
        let rows = rows::of(&experiment.id, results);
        let page = self.experiment(outcome, &rows);
        self.rows.extend(rows);
        page
    }

    fn banner(&self) -> &'static str {
        match self.quick {
            true => {
                "<p class=\"banner\"><b>quick</b>: shorter runs and fewer seeds. A check that everything works, and no result.</p>\n"
            }
            false => "",
        }
    }
}

fn page(title: &str, body: &str) -> String {
    TEMPLATE
        .replace("{{title}}", title)
        .replace("{{version}}", crate::output::VERSION)
        .replace("{{body}}", body.trim_end())
}

/// What stands between backticks, as code.
fn code(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts
        .map(|(n, part)| if n % 2 == 1 { format!("<code>{part}</code>") } else { part.to_string() })
        .collect()
}

/// Text for HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A name as a part of a file's.
pub fn slug(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    name.chars().map(plain).collect()
}

/// Each once, in the order in which they first come.
fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    all.fold(Vec::new(), |mut known, one| {
        if !known.contains(&one) {
            known.push(one);
        }
        known
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_becomes_markup() {
        assert_eq!(escape("a < b & \"c\""), "a &lt; b &amp; &quot;c&quot;");
        let site = Site::new("<b>".to_string(), String::new(), true, "sim");
        assert!(site.index(true).contains("&lt;b&gt;") && site.index(false).contains("<b>quick</b>"));
        assert_eq!(slug("quic:cubic/../x"), "quic-cubic-..-x");
    }
}
