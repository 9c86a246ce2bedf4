//! The page of one experiment.

use super::super::cells::FOLDER;
use super::super::outcome::{Cell, Figure, Source};
use super::super::report;
use super::super::run::HOST_NOISE;
use super::rows::{Lead, Row, table};
use super::{Outcome, Site, code, escape, page, slug};
use crate::options;
use std::path::Path;

/// The table of an experiment's figures. Each leads to the cells on that page which it was read off.
pub fn figures(figures: &[Figure], file: &str) -> String {
    let heads = ["figure", "source", "ours", "95 % of the mean", "target", "", "from cells"];
    let heads: String = heads.iter().map(|head| format!("<th>{head}</th>")).collect();
    let mut out = format!("<div class=\"wide\"><table>\n<tr>{heads}</tr>\n");
    for figure in figures {
        let [what, paper, ours, target, verdict] = report::texts(figure).map(|text| escape(&text));
        let interval = report::interval(figure);
        let class = match verdict.split([' ', ':']).next() {
            Some("met") => "met",
            Some("missed" | "invalid") => "missed",
            _ => "small",
        };
        let link = |cell: usize, text: &str| format!("<a href=\"{file}#cell-{}\">{text}</a>", cell + 1);
        let cells: Vec<String> =
            figure.cells.iter().map(|&cell| link(cell, &(cell + 1).to_string())).collect();
        let ours = figure.cells.first().map_or(ours.clone(), |&cell| link(cell, &ours));
        out += &format!(
            "<tr><td>{what}</td><td>{paper}</td><td class=\"number\">{ours}</td><td class=\"number\">{interval}</td>\
             <td class=\"number\">{target}</td><td class=\"{class}\">{verdict}</td><td class=\"cells\">{}</td></tr>\n",
            cells.join(" ")
        );
    }
    out + "</table></div>\n"
}

impl Site {
    pub(super) fn experiment(&self, outcome: &Outcome<'_>, rows: &[Row]) -> String {
        let Outcome { experiment, plot, results, files, .. } = outcome;
        let raw = &experiment.raw;
        let (id, file) = (escape(&experiment.id), slug(&experiment.id));
        let mut body = format!(
            "<nav><a href=\"index.html\">All experiments</a> · <a href=\"paper-{}.html\">{}</a></nav>\n<h1>{id}: {}</h1>\n{}\
             <p>{}. {}</p>\n",
            slug(&raw.family),
            escape(&raw.family),
            escape(&raw.title),
            self.banner(),
            escape(&raw.source),
            code(&escape(raw.about.trim()))
        );
        body += &figures(outcome.figures, "");
        let png = if outcome.png { format!(" (<a href=\"{file}.png\">PNG</a>)") } else { String::new() };
        body += &format!(
            "{plot}\n<p class=\"small\"><a href=\"{file}.svg\">plot</a>{png}, <a href=\"{file}-plot.csv\">its points</a>, every flow \
             of every run as <a href=\"{file}.csv\">CSV</a> and <a href=\"{file}.parquet\">Parquet</a></p>\n"
        );
        if raw.with_peers() {
            body += "<p class=\"small\">Its figures compare: it runs with all its contenders.</p>\n";
        }
        let argument = quoted(&experiment.argument().to_string_lossy());
        body += &format!(
            "<p>All of it again: <code>anole-eval reproduce {}{}</code></p>\n",
            escape(&argument),
            escape(&self.flags)
        );
        body += "<h2>Cells</h2>\n<p class=\"small\">Means over runs. Delay is one-way, of packets: mean and percentiles. Regret is the \
                 power given away against the best contender of the setting; ● marks the Pareto front of delay and utilisation. The \
                 numbers lead to the runs: each is the SEED that the command takes for that run.</p>\n";
        let after = |row: &Row| {
            let place = row.number - 1;
            let (cell, runs) = (&results.0[place].cell, &results.0[place].runs);
            let names = files.get(place).map_or(&[][..], Vec::as_slice);
            // The seed that a command takes: of the random suite's runs, each has another one of its own.
            let link = |(seed, (name, run)): (u64, (&String, &anole_sim::result::RunResult))| {
                let disturbed = if run.disturbed.is_some() { "*" } else { "" };
                format!("<a href=\"{FOLDER}/{}\">{seed}</a>{disturbed}", escape(name))
            };
            let links: Vec<String> = (1..).zip(names.iter().zip(runs)).map(link).collect();
            let command = escape(&self.command(&argument, row.number, cell));
            format!(
                "<td>{} <details><summary>command</summary><pre>{command}</pre></details></td>",
                links.join(" ")
            )
        };
        body += &table(rows.iter(), Lead::Both, after);
        page(&format!("{id}: {}", escape(&raw.title)), &body)
    }

    /// What makes one of a cell's runs again: of scenarios that come with the program, in a form that can be changed by hand,
    /// with the noise that experiments add to each ACK, where `--set` gives it to every flow that has it.
    fn command(&self, argument: &str, number: usize, cell: &Cell) -> String {
        let set = [&cell.setting.set[..], &cell.contender.params].concat();
        let shipped = match &cell.setting.source {
            Source::Scenario(name) if !name.ends_with(".toml") && !self.quick => Some(name),
            _ => None,
        };
        let noise = |name: &String| if self.mode == "sim" { noise(name, &set) } else { Some(None) };
        let Some((scenario, noise)) = shipped.and_then(|name| Some((name, noise(name)?))) else {
            // Single runs are simulations.
            let one = if self.mode == "sim" { format!(" --only {number}.SEED") } else { String::new() };
            return format!("anole-eval reproduce {argument}{}{one}", self.flags);
        };
        let choice = &cell.contender.choice;
        let subcommand = match self.mode {
            "sim" => format!("sim {scenario}"),
            mode => {
                let through = mode.strip_prefix("mahimahi-");
                let emulator = through.map_or("", |_| " --emulator mahimahi");
                format!("emulate {scenario} --datapath {}{emulator}", through.unwrap_or(mode))
            }
        };
        let mut words = vec!["anole-eval".to_string(), subcommand];
        let options = [("--alg", &choice.alg), ("--classic", &choice.classic), ("--policy", &choice.policy)];
        words.extend(
            options.iter().filter_map(|(flag, value)| Some(format!("{flag} {}", quoted(value.as_ref()?)))),
        );
        for option in noise.iter().chain(&set) {
            words.push(format!("--set {}", quoted(option)));
        }
        words.push("--seed SEED".to_string());
        words.join(" ")
    }
}

/// The change that gives the flows of a shipped scenario the noise of experiments; an inner `None` where all have their own.
/// Where other flows run beside those under test, no change reaches all of them.
fn noise(scenario: &str, set: &[String]) -> Option<Option<String>> {
    let flows = options::load(Path::new(scenario), set).ok()?.flows;
    if flows.iter().all(|flow| !flow.ack_jitter.is_zero()) {
        return Some(None);
    }
    let all = flows.iter().all(|flow| flow.under_test && flow.ack_jitter.is_zero());
    all.then(|| Some(format!("flow.ack_jitter_us={}", HOST_NOISE.as_micros())))
}

/// A word as a shell takes it.
pub fn quoted(word: &str) -> String {
    let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "._-=/:".contains(c));
    if plain { word.to_string() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::super::super::outcome::{Contender, Links, Setting};
    use super::*;

    #[test]
    fn a_command_is_one_that_a_shell_takes() {
        let setting = |source| Setting {
            name: "x".into(),
            source,
            set: vec!["bottleneck.lte={ mean_mbps = 8 }".into()],
            quick: Vec::new(),
            links: Links::default(),
        };
        let site = |mode| Site::new(String::new(), " --subject copa".to_string(), false, mode);
        let shipped = Cell {
            setting: setting(Source::Scenario("dumbbell".into())),
            contender: Contender::peer("cubic"),
        };
        assert_eq!(
            site("sim").command("mine", 3, &shipped),
            "anole-eval sim dumbbell --alg cubic --set flow.ack_jitter_us=200 --set 'bottleneck.lte={ mean_mbps = 8 }' --seed SEED"
        );
        assert_eq!(
            site("quic").command("mine", 3, &shipped),
            "anole-eval emulate dumbbell --datapath quic --alg cubic --set 'bottleneck.lte={ mean_mbps = 8 }' --seed SEED"
        );
        // The flow beside it has the noise too.
        let beside = Cell { setting: setting(Source::Scenario("beside".into())), ..shipped.clone() };
        assert!(site("sim").command("mine", 3, &beside).ends_with("mine --subject copa --only 3.SEED"));
        assert!(site("quic").command("mine", 3, &beside).contains("emulate beside --datapath quic"));
        let mut quiet = shipped.clone();
        quiet.setting.set = vec!["flow.ack_jitter_us=20".into()];
        assert_eq!(
            site("sim").command("mine", 3, &quiet),
            "anole-eval sim dumbbell --alg cubic --set flow.ack_jitter_us=20 --seed SEED"
        );
        let random = Cell { setting: setting(Source::Random), ..shipped };
        assert_eq!(
            site("sim").command("mine", 3, &random),
            "anole-eval reproduce mine --subject copa --only 3.SEED"
        );
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }
}
