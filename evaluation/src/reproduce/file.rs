//! An experiment's file: what may stand in it, and what it means once every name and axis is put in.
//!
//! An axis is a list; a table that is `for` axes stands for one of each combination of their entries, in which
//! `{axis}` and, where entries are tables, `{axis.column}` are replaced. `{subject}` is the algorithm that the
//! experiment is about.

use super::measure::Measure;
use super::outcome::{Cell, Contender, Links, Setting, Source};
use anole_policies::beside;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::Value;

/// What the file of an experiment holds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Raw {
    /// The user's own file; none for those that come with the program.
    #[serde(skip)]
    pub file: Option<PathBuf>,
    pub title: String,
    /// Paper and figure.
    pub source: String,
    /// What the source says, and where ours is something else.
    pub about: String,
    /// The family, as a page of the report: `anole`, `libra`, …
    pub family: String,
    /// The algorithm that it is about, unless `--subject` names another.
    #[serde(default = "subject")]
    pub subject: String,
    /// Seeds of each cell, in full and with `--quick`.
    pub seeds: [u64; 2],
    #[serde(default)]
    pub packets: RawPackets,
    /// Why it does not run with real packets, where `packets` is `never`.
    #[serde(default)]
    pub packets_reason: String,
    /// Long, and not part of `all`.
    #[serde(default)]
    pub sweep: bool,
    #[serde(default)]
    pub axes: BTreeMap<String, Vec<Value>>,
    pub contenders: Vec<RawContender>,
    #[serde(rename = "setting")]
    pub settings: Vec<RawSetting>,
    #[serde(default, rename = "figure")]
    pub figures: Vec<RawFigure>,
    #[serde(default, rename = "panel")]
    pub panels: Vec<RawPanel>,
}

fn subject() -> String {
    "anole".to_string()
}

fn one() -> f64 {
    1.0
}

/// With real packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RawPackets {
    /// The subject alone, unless its peers are asked for or its figures compare with them.
    #[default]
    Tested,
    /// With the peers.
    Everyone,
    /// Not at all.
    Never,
}

/// Who runs: an algorithm by its name (`subject` for the one that the experiment is about), or with more said.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum RawContender {
    Name(String),
    Table(RawContenderTable),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawContenderTable {
    label: String,
    /// The subject if left out.
    alg: Option<String>,
    classic: Option<String>,
    policy: Option<String>,
    /// Changes of the scenario in its cells, such as `param.NAME=VALUE`.
    #[serde(default)]
    set: Vec<String>,
    #[serde(default, rename = "for")]
    over: Vec<String>,
    /// Settings in which it runs; all if left out.
    #[serde(default)]
    settings: Vec<String>,
}

/// Links and flows.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawSetting {
    name: String,
    /// A scenario that comes with the program, or a file beside the experiment's.
    scenario: Option<String>,
    /// The random suite instead: each seed is another link.
    #[serde(default)]
    suite: bool,
    #[serde(default)]
    set: Vec<String>,
    #[serde(default)]
    quick: Vec<String>,
    #[serde(default, rename = "for")]
    over: Vec<String>,
}

/// What is read off.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawFigure {
    pub what: String,
    pub measure: Measure,
    /// Where; the one setting if left out.
    pub setting: Option<String>,
    /// The runs of several settings together.
    #[serde(default)]
    pub settings: Vec<String>,
    /// Whose; the subject's if left out. `each` stands for a figure of every contender.
    #[serde(default = "subject_label")]
    pub contender: String,
    /// One figure, of the contender among these whose mean is lowest.
    #[serde(default)]
    pub lowest_of: Vec<String>,
    #[serde(default = "one")]
    pub scale: f64,
    #[serde(default)]
    pub unit: String,
    #[serde(default)]
    pub paper: String,
    /// Every value as a share of this.
    pub per: Option<RawReference>,
    /// Figure only where this holds.
    #[serde(default)]
    pub only_if: Vec<RawCondition>,
    /// One value out of all.
    pub statistic: Option<Statistic>,
    #[serde(default)]
    pub target: RawTarget,
    #[serde(default, rename = "for")]
    pub over: Vec<String>,
}

fn subject_label() -> String {
    "{subject}".to_string()
}

/// What a value is divided by.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawReference {
    /// Of several, the one whose mean is highest; the figure's own if left out.
    #[serde(default)]
    pub contenders: Vec<String>,
    /// Of every contender, instead of these.
    #[serde(default)]
    pub all: bool,
    /// The figure's own if left out.
    pub setting: Option<String>,
    /// Seed by seed, and not by the mean.
    #[serde(default)]
    pub paired: bool,
    /// 1 + the difference in units of the reference's size, for values of either sign.
    #[serde(default)]
    pub difference: bool,
    /// 1 less the share: what was given away against the reference.
    #[serde(default)]
    pub regret: bool,
}

/// A bound on another mean.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawCondition {
    pub contender: String,
    pub measure: Measure,
    #[serde(flatten)]
    pub bound: RawTarget,
}

/// One value out of those of all runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// The value below which a tenth of them are.
    P10,
    /// Largest less smallest.
    Range,
    /// Standard deviation.
    Deviation,
}

/// What the mean should be; numbers, or text with columns of axes. Empty text is none.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawTarget {
    pub at_least: Option<Value>,
    pub at_most: Option<Value>,
}

/// What is drawn.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawPanel {
    pub kind: RawPanelKind,
    pub title: String,
    /// Quantity and unit of the axes.
    #[serde(default)]
    pub x: String,
    #[serde(default)]
    pub y: String,
    /// Of the horizontal axis: points and trails.
    pub x_measure: Option<Measure>,
    /// Of the vertical axis.
    pub measure: Option<Measure>,
    #[serde(default = "one")]
    pub scale: f64,
    /// The setting, with `{axis}` of `along`; points and bars: all settings if left out.
    pub setting: Option<String>,
    /// All if left out.
    #[serde(default)]
    pub contenders: Vec<String>,
    /// Lines: the axis along the horizontal one, or a column of it that is a number. Bars: the axis of categories.
    pub along: Option<String>,
    /// Bars: the name of a category; the setting's if left out.
    pub category: Option<String>,
    /// Bars: a series per measure, of the subject, and not per contender.
    #[serde(default)]
    pub bars: Vec<RawBar>,
    /// Lines: one of this label, instead of one per contender, whose contender has `{axis}` of `along`.
    pub label: Option<String>,
    /// Over time: names of flows; then a line per flow, and a panel per contender.
    #[serde(default)]
    pub flows: Vec<String>,
    /// A dashed line.
    pub reference: Option<RawReferenceLine>,
    #[serde(default, rename = "for")]
    pub over: Vec<String>,
}

/// The form of a panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RawPanelKind {
    /// A dot per run, a panel per setting.
    Points,
    /// Means along an axis.
    Lines,
    /// Means of all settings, in their order.
    Trail,
    /// A bar per category.
    Bars,
    /// Throughput over time of the first seed: a line per contender.
    OverTime,
    /// The same, a panel per contender and a line per flow.
    Flows,
    /// The cumulative distribution over runs.
    Distribution,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawBar {
    pub label: String,
    pub measure: Measure,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawReferenceLine {
    pub at: Value,
    pub label: String,
}

/// Combinations of axes, and cells, of one experiment.
const MAX_COMBINATIONS: usize = 10_000;

/// Values of axes, by the names that stand in braces.
pub type Names = BTreeMap<String, String>;

impl Raw {
    /// The combinations of the entries of some axes, the last one fastest.
    pub fn combinations(&self, axes: &[String], subject: &str) -> Result<Vec<Names>, String> {
        let mut all = vec![Names::from([("subject".to_string(), subject.to_string())])];
        for axis in axes {
            let known: Vec<&str> = self.axes.keys().map(String::as_str).collect();
            let entries = self
                .axes
                .get(axis)
                .ok_or_else(|| format!("for = [\"{axis}\"]: no such axis; there are {}", known.join(", ")))?;
            few(all.len() * entries.len(), "combinations of axes")?;
            let with = |names: &Names, entry: &Value| {
                let mut names = names.clone();
                names.extend(columns(axis, entry));
                names
            };
            all = all.iter().flat_map(|names| entries.iter().map(move |entry| with(names, entry))).collect();
        }
        Ok(all)
    }

    /// Why it does not run with real packets, if it does not.
    pub fn without_packets(&self) -> Option<&str> {
        (self.packets == RawPackets::Never).then_some(&self.packets_reason)
    }

    /// True where the peers always run: figures compare with them.
    pub fn with_peers(&self) -> bool {
        let compares = |figure: &RawFigure| {
            let others = |per: &RawReference| per.all || !per.contenders.is_empty();
            figure.per.as_ref().is_some_and(others) || !figure.only_if.is_empty()
        };
        self.packets == RawPackets::Everyone || self.figures.iter().any(compares)
    }

    /// Every contender in every setting that it runs in.
    pub fn cells(&self, tested: &Contender) -> Result<Vec<Cell>, String> {
        let settings = self.settings(&tested.label)?;
        let mut cells = Vec::new();
        let contenders = self.contenders(tested)?;
        for (contender, only) in &contenders {
            if let Some(none) = only.iter().find(|name| settings.iter().all(|setting| setting.name != **name))
            {
                let known: Vec<&str> = settings.iter().map(|setting| setting.name.as_str()).collect();
                return Err(format!(
                    "contender \"{}\": no setting \"{none}\"; there are {}",
                    contender.label,
                    known.join(", ")
                ));
            }
        }
        few(settings.len() * contenders.len(), "cells")?;
        for setting in &settings {
            for (contender, only) in &contenders {
                if only.is_empty() || only.contains(&setting.name) {
                    cells.push(Cell { setting: setting.clone(), contender: contender.clone() });
                }
            }
        }
        Ok(cells)
    }

    fn settings(&self, subject: &str) -> Result<Vec<Setting>, String> {
        let mut settings = Vec::new();
        for raw in &self.settings {
            for names in self.combinations(&raw.over, subject)? {
                let fill = |text: &String| fill(text, &names);
                let source = match (&raw.scenario, raw.suite) {
                    (Some(scenario), false) => Source::Scenario(fill(scenario)?),
                    (None, true) if raw.set.is_empty() && raw.quick.is_empty() => Source::Random,
                    (None, true) => {
                        return Err(format!(
                            "setting \"{}\": set and quick change a scenario, and the random suite has none",
                            raw.name
                        ));
                    }
                    _ => return Err(format!("setting \"{}\": give scenario or suite = true", raw.name)),
                };
                let all = |texts: &[String]| texts.iter().map(fill).collect::<Result<_, _>>();
                let (set, quick) = (all(&raw.set)?, all(&raw.quick)?);
                settings.push(Setting {
                    name: fill(&raw.name)?,
                    source,
                    set,
                    quick,
                    links: Links::default(),
                });
            }
        }
        Ok(settings)
    }

    /// Contenders, and the settings that they run in.
    fn contenders(&self, tested: &Contender) -> Result<Vec<(Contender, Vec<String>)>, String> {
        let mut all: Vec<(Contender, Vec<String>)> = Vec::new();
        for raw in &self.contenders {
            match raw {
                // A peer that is the subject, once.
                RawContender::Name(name) if name == "subject" || *name == tested.label => {
                    if all.iter().all(|(contender, _)| contender != tested) {
                        all.push((tested.clone(), Vec::new()));
                    }
                }
                RawContender::Name(name) => all.push((Contender::peer(name), Vec::new())),
                RawContender::Table(table) => {
                    for names in self.combinations(&table.over, &tested.label)? {
                        all.push((
                            table.contender(tested, &names, self.file.as_deref())?,
                            table.settings.clone(),
                        ));
                    }
                }
            }
        }
        Ok(all)
    }
}

impl RawContenderTable {
    /// `file` is what it stands in.
    fn contender(&self, tested: &Contender, names: &Names, file: Option<&Path>) -> Result<Contender, String> {
        let slot = |text: &Option<String>| text.as_ref().map(|text| fill(text, names)).transpose();
        let mut contender = match slot(&self.alg)? {
            Some(alg) => Contender::peer(&alg),
            None => tested.clone(),
        };
        contender.label = fill(&self.label, names)?;
        contender.choice.classic = slot(&self.classic)?.or(contender.choice.classic);
        let policy = slot(&self.policy)?.map(|policy| match file {
            Some(file) => beside(file, &policy),
            None => policy,
        });
        contender.choice.policy = policy.or(contender.choice.policy);
        for option in &self.set {
            contender.params.push(fill(option, names)?);
        }
        Ok(contender)
    }
}

/// Refuses more than an experiment should have.
fn few(count: usize, what: &str) -> Result<(), String> {
    match count <= MAX_COMBINATIONS {
        true => Ok(()),
        false => Err(format!("{count} {what}; at most {MAX_COMBINATIONS} are allowed")),
    }
}

/// What an axis' entry gives to the braces.
fn columns(axis: &str, entry: &Value) -> Vec<(String, String)> {
    match entry {
        Value::Table(table) => {
            table.iter().map(|(column, value)| (format!("{axis}.{column}"), plain(value))).collect()
        }
        value => vec![(axis.to_string(), plain(value))],
    }
}

/// A value as it stands in a sentence.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Float(number) => number.to_string(),
        other => other.to_string(),
    }
}

/// The text with what stands in braces replaced.
pub fn fill(text: &str, names: &Names) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(open) = rest.find('{') {
        let close = rest[open..].find('}').map(|at| open + at);
        let name = close.map(|close| &rest[open + 1..close]).unwrap_or_default();
        // Tables of TOML stand in braces too.
        let is_name =
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        match (is_name, close, names.get(name)) {
            (true, Some(close), Some(value)) => {
                out += &rest[..open];
                out += value;
                rest = &rest[close + 1..];
            }
            (true, ..) => {
                let known: Vec<&str> = names.keys().map(String::as_str).collect();
                return Err(format!(
                    "\"{text}\": {{{name}}} is not known here; known are {}",
                    known.join(", ")
                ));
            }
            (false, ..) => {
                out += &rest[..=open];
                rest = &rest[open + 1..];
            }
        }
    }
    Ok(out + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_are_filled_and_unknown_ones_are_told() {
        let names = Names::from([("loss".to_string(), "0.1".to_string())]);
        assert_eq!(fill("{loss} % loss", &names), Ok("0.1 % loss".to_string()));
        assert_eq!(fill("lte={ mean_mbps = {loss} }", &names), Ok("lte={ mean_mbps = 0.1 }".to_string()));
        assert_eq!(fill("plain", &names), Ok("plain".to_string()));
        let error = fill("{los}", &names).unwrap_err();
        assert!(error.contains("{los}") && error.contains("loss"), "{error}");
    }
}
