//! Pages across experiments: the index, and one per paper, per algorithm and per scenario.

use super::rows::{Lead, Row, table};
use super::{Entry, Site, distinct, escape, page, slug};

/// The names of families, as headings.
fn heading(family: &str) -> String {
    match family {
        "anole" => "Anole, and beyond it".to_string(),
        "libra" => "Libra".to_string(),
        "spine" => "Spine".to_string(),
        "antelope" => "Antelope".to_string(),
        "study" => "The experimental study".to_string(),
        "overview" => "Overview".to_string(),
        other => escape(other),
    }
}

impl Site {
    /// The page with all experiments. The other pages are linked once all experiments have run.
    pub fn index(&self, complete: bool) -> String {
        let mut body = format!(
            "<h1>Reproduction</h1>\n<p>anole-eval {}, {}. Each figure is a mean over runs, with its standard deviation; every run \
             is in it. A figure leads to the runs that it was read off, with their files and commands.</p>\n{}",
            crate::output::VERSION,
            escape(&self.what_ran),
            self.banner()
        );
        for family in self.families() {
            body += &match complete {
                true => format!("<h2><a href=\"paper-{}.html\">{}</a></h2>\n", slug(family), heading(family)),
                false => format!("<h2>{}</h2>\n", heading(family)),
            };
            body += "<div class=\"wide\"><table>\n<tr><th>experiment</th><th>shows</th><th>source</th><th>targets met</th></tr>\n";
            for entry in self.of_family(family) {
                body += &entry.line();
            }
            body += "</table></div>\n";
        }
        if complete {
            let list = |title: &str, kind: &str, names: Vec<&str>| {
                let link =
                    |name: &&str| format!("<a href=\"{kind}-{}.html\">{}</a>", slug(name), escape(name));
                let links: Vec<String> = names.iter().map(link).collect();
                format!("<h2>{title}</h2>\n<p class=\"list\">{}</p>\n", links.join(" "))
            };
            body += &list("By algorithm", "algorithm", self.sorted(|row| &row.alg));
            body += &list("By scenario", "scenario", self.sorted(|row| &row.place));
            body += "<p class=\"small\"><a href=\"report.md\">report.md</a> has all of it as one text.</p>\n";
        }
        page("Reproduction", &body)
    }

    /// The pages across experiments, by their files' names.
    pub fn pages(&self) -> Vec<(String, String)> {
        let mut pages = Vec::new();
        for family in self.families() {
            pages.push((format!("paper-{}.html", slug(family)), self.paper(family)));
        }
        for alg in self.sorted(|row| &row.alg) {
            pages.push((format!("algorithm-{}.html", slug(alg)), self.algorithm(alg)));
        }
        for place in self.sorted(|row| &row.place) {
            pages.push((format!("scenario-{}.html", slug(place)), self.scenario(place)));
        }
        pages
    }

    fn families(&self) -> Vec<&str> {
        distinct(self.entries.iter().map(|entry| entry.family.as_str()))
    }

    fn of_family<'a>(&'a self, family: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.entries.iter().filter(move |entry| entry.family == family)
    }

    fn sorted<'a>(&'a self, of: impl Fn(&'a Row) -> &'a String) -> Vec<&'a str> {
        let mut names = distinct(self.rows.iter().map(|row| of(row).as_str()));
        names.sort_unstable();
        names
    }

    fn paper(&self, family: &str) -> String {
        let mut body = self.head(&heading(family));
        for entry in self.of_family(family) {
            let [id, title, source] = [&entry.id, &entry.title, &entry.source].map(|text| escape(text));
            body += &format!(
                "<h2><a href=\"{}.html\">{id}</a>: {title}</h2>\n<p>{source}.</p>\n{}",
                slug(&entry.id),
                entry.figures
            );
        }
        page(&heading(family), &body)
    }

    fn algorithm(&self, alg: &str) -> String {
        let rows = self.rows.iter().filter(|row| row.alg == alg);
        let body = self.head(&escape(alg))
            + "<p>Every cell that it ran in. Regret is the power that it gave away against the best contender there.</p>\n"
            + &table(rows, Lead::Setting, |_| String::new());
        page(&escape(alg), &body)
    }

    fn scenario(&self, place: &str) -> String {
        let mut body = self.head(&escape(place));
        let rows = || self.rows.iter().filter(|row| row.place == place);
        for (id, setting) in distinct(rows().map(|row| (row.id.as_str(), row.setting.as_str()))) {
            body +=
                &format!("<h2>{}, <a href=\"{}.html\">{}</a></h2>\n", escape(setting), slug(id), escape(id));
            let own = rows().filter(|row| row.id == id && row.setting == setting);
            body += &table(own, Lead::Contender, |_| String::new());
        }
        page(&escape(place), &body)
    }

    fn head(&self, title: &str) -> String {
        format!("<nav><a href=\"index.html\">All experiments</a></nav>\n<h1>{title}</h1>\n{}", self.banner())
    }
}

impl Entry {
    fn line(&self) -> String {
        let class = if self.met == self.targets { "met" } else { "missed" };
        let targets = match self.targets {
            0 => "<td>–</td>".to_string(),
            targets => format!("<td class=\"{class}\">{} of {targets}</td>", self.met),
        };
        let [id, title, source] = [&self.id, &self.title, &self.source].map(|text| escape(text));
        let file = slug(&self.id);
        format!(
            "<tr><td><a href=\"{file}.html\">{id}</a></td><td>{title}</td><td>{source}</td>{targets}</tr>\n"
        )
    }
}
