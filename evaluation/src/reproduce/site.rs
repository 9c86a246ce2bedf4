//! The results as a site: static pages that need no server and no network. `index.html` has a row per experiment,
//! `ID.html` its figures, its plot, and every run with its file and the command that makes it again.

use super::experiment::{Cell, Experiment, Figure, Packets, Results, Source};
use super::report;

const TEMPLATE: &str = include_str!("site.html");

/// What the index tells of an experiment.
pub struct Entry {
    id: String,
    title: String,
    family: String,
    source: String,
    /// Targets met, of so many.
    met: usize,
    targets: usize,
}

impl Entry {
    /// Of an experiment with these figures.
    pub fn new(experiment: &Experiment, figures: &[Figure]) -> Entry {
        let verdicts: Vec<f64> = figures.iter().filter_map(Figure::missed_by).collect();
        Entry {
            id: experiment.id.clone(),
            title: experiment.raw.title.clone(),
            family: experiment.raw.family.clone(),
            source: experiment.raw.source.clone(),
            met: verdicts.iter().filter(|missed| **missed == 0.0).count(),
            targets: verdicts.len(),
        }
    }
}

/// The page with all experiments; `what_ran` is a sentence without its end.
pub fn index(what_ran: &str, entries: &[Entry]) -> String {
    let mut body = format!(
        "<h1>Reproduction</h1>\n<p>anole-eval {}, {}. Each figure is a mean over runs; nothing is left out of it.</p>\n",
        crate::output::VERSION,
        escape(what_ran)
    );
    let mut families: Vec<&str> = Vec::new();
    for entry in entries {
        if !families.contains(&entry.family.as_str()) {
            families.push(&entry.family);
        }
    }
    for family in families {
        body += &format!("<h2>{}</h2>\n<div class=\"wide\"><table>\n", escape(family));
        body += "<tr><th>experiment</th><th>shows</th><th>source</th><th>targets met</th></tr>\n";
        for entry in entries.iter().filter(|entry| entry.family == family) {
            let class = if entry.met == entry.targets { "met" } else { "missed" };
            let targets = match entry.targets {
                0 => "<td>–</td>".to_string(),
                targets => format!("<td class=\"{class}\">{} of {targets}</td>", entry.met),
            };
            let [id, title, source] = [&entry.id, &entry.title, &entry.source].map(|text| escape(text));
            body += &format!(
                "<tr><td><a href=\"{id}.html\">{id}</a></td><td>{title}</td><td>{source}</td>{targets}</tr>\n"
            );
        }
        body += "</table></div>\n";
    }
    page("Reproduction", &body)
}

/// The page of one experiment. `files` has the names of each cell's runs, if they are kept.
pub fn experiment(
    experiment: &Experiment,
    figures: &[Figure],
    plot: &str,
    results: &Results,
    files: &[Vec<String>],
) -> String {
    let raw = &experiment.raw;
    let id = escape(&experiment.id);
    let mut body = format!(
        "<nav><a href=\"index.html\">All experiments</a></nav>\n<h1>{id}: {}</h1>\n<p>{}. {}</p>\n",
        escape(&raw.title),
        escape(&raw.source),
        code(&escape(raw.about.trim()))
    );
    body += "<div class=\"wide\"><table>\n<tr><th>figure</th><th>source</th><th>ours</th><th>95 % of the mean</th><th>target</th><th></th></tr>\n";
    for figure in figures {
        let [what, paper, ours, target, verdict] = report::texts(figure).map(|text| escape(&text));
        let interval = report::interval(figure);
        let class = if verdict == "met" {
            "met"
        } else if verdict.starts_with("missed") {
            "missed"
        } else {
            "small"
        };
        body += &format!(
            "<tr><td>{what}</td><td>{paper}</td><td class=\"number\">{ours}</td><td class=\"number\">{interval}</td>\
             <td class=\"number\">{target}</td><td class=\"{class}\">{verdict}</td></tr>\n"
        );
    }
    body += &format!(
        "</table></div>\n{plot}\n<p class=\"small\"><a href=\"{id}.svg\">plot</a>, <a href=\"{id}-plot.csv\">its points</a>, \
         <a href=\"{id}.csv\">every flow of every run</a></p>\n"
    );
    if experiment.packets() == Packets::Everyone {
        body += "<p class=\"small\">Its figures compare: it runs with all its contenders.</p>\n";
    }
    body += &format!("<p>All of it again: <code>anole-eval reproduce {id}</code></p>\n");
    if !files.is_empty() {
        body += "<details><summary>Every run, and the command that makes it again</summary>\n";
        for (outcome, files) in results.0.iter().zip(files) {
            let links: Vec<String> = files
                .iter()
                .zip(&outcome.runs)
                .map(|(file, run)| {
                    format!("<a href=\"{}/{}\">{}</a>", super::cells::FOLDER, escape(file), run.seed)
                })
                .collect();
            body += &format!(
                "<h3>{} on {}</h3>\n<p class=\"small\">seeds {}</p>\n<pre>{}</pre>\n",
                escape(&outcome.cell.contender.label),
                escape(&outcome.cell.setting.name),
                links.join(", "),
                escape(&command(&outcome.cell))
            );
        }
        body += "</details>\n";
    }
    page(&format!("{id}: {}", escape(&raw.title)), &body)
}

/// What runs a cell alone, with the noise that experiments add to each ACK.
fn command(cell: &Cell) -> String {
    let choice = &cell.contender.choice;
    let mut words = vec!["anole-eval".to_string()];
    words.push(match &cell.setting.source {
        Source::Scenario(name) => format!("sim {name}"),
        Source::Random => "suite --links 1 --seed SEED".to_string(),
    });
    let options = [("--alg", &choice.alg), ("--classic", &choice.classic), ("--policy", &choice.policy)];
    words.extend(
        options.iter().filter_map(|(flag, value)| Some(format!("{flag} {}", quoted(value.as_ref()?)))),
    );
    let noise = "flow.ack_jitter_us=200".to_string();
    for option in [&noise].into_iter().chain(&cell.setting.set).chain(&cell.contender.params) {
        words.push(format!("--set {}", quoted(option)));
    }
    words.push("--seed SEED".to_string());
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "._-=/:".contains(c));
    if plain { word.to_string() } else { format!("'{word}'") }
}

fn page(title: &str, body: &str) -> String {
    TEMPLATE.replace("{{title}}", title).replace("{{body}}", body.trim_end())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::experiment::{Contender, Setting};

    #[test]
    fn a_command_is_one_that_a_shell_takes() {
        let setting = Setting {
            name: "x".into(),
            source: Source::Scenario("dumbbell".into()),
            set: vec!["bottleneck.lte={ mean_mbps = 8 }".into()],
            quick: Vec::new(),
        };
        assert_eq!(
            command(&Cell { setting, contender: Contender::peer("cubic") }),
            "anole-eval sim dumbbell --alg cubic --set flow.ack_jitter_us=200 --set 'bottleneck.lte={ mean_mbps = 8 }' --seed SEED"
        );
    }

    #[test]
    fn nothing_of_a_text_becomes_markup() {
        assert_eq!(escape("a < b & \"c\""), "a &lt; b &amp; &quot;c&quot;");
        assert!(index("<b>", &[]).contains("&lt;b&gt;"));
    }
}
