//! What an experiment is: cells to run, figures with their targets, and a plot.
//!
//! ```text
//!  Experiment ── cells ──▶ runs (a cell with every seed) ──▶ Results ──▶ figures: paper, ours, target
//!                                                                   └──▶ panels of a plot
//! ```

use super::picture::Panel;
use anole_sim::plan::Choice;
use anole_sim::result::RunResult;

/// An experiment, as data.
pub struct Experiment {
    /// As on the command line.
    pub id: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// What the source says, and where ours is something else.
    pub about: &'static str,
    /// Seeds of each cell, in full and with `--quick`.
    pub seeds: [u64; 2],
    /// How it runs with real packets.
    pub packets: Packets,
    /// What runs.
    pub cells: fn(&Contender) -> Vec<Cell>,
    /// What is read off.
    pub figures: fn(&Results) -> Vec<Figure>,
    /// What is drawn.
    pub plot: fn(&Results) -> Vec<Panel>,
}

/// How an experiment runs with real packets, in real time, one run after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packets {
    /// The tested algorithm alone, unless its peers are asked for; in a simulation if it is asked for.
    Tested,
    /// With its peers: its figures compare.
    Everyone,
    /// Not at all, for this reason.
    Never(&'static str),
}

/// An algorithm with what stands in its slots.
#[derive(Clone, Debug, PartialEq)]
pub struct Contender {
    /// As in tables and plots.
    pub label: String,
    /// What its flows run.
    pub choice: Choice,
    /// Parameters that differ from their defaults, as `param.NAME=VALUE`.
    pub params: Vec<String>,
}

/// The algorithm that the experiments are about.
pub const TESTED: &str = "anole";

impl Contender {
    /// A peer with its defaults.
    pub fn peer(alg: &str) -> Contender {
        let choice = Choice { alg: Some(alg.to_string()), ..Choice::default() };
        Contender { label: alg.to_string(), choice, params: Vec::new() }
    }

    /// The same with other slots and another label.
    pub fn with(&self, label: String, classic: Option<&str>, policy: Option<&str>) -> Contender {
        let slot = |new: Option<&str>, old: &Option<String>| new.map(str::to_string).or(old.clone());
        let choice = Choice {
            alg: self.choice.alg.clone(),
            classic: slot(classic, &self.choice.classic),
            policy: slot(policy, &self.choice.policy),
        };
        Contender { label, choice, params: self.params.clone() }
    }
}

/// Where a cell's links come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A scenario's text.
    Scenario(&'static str),
    /// The random suite: each seed is another link.
    Random,
}

/// Links and flows, without saying what the flows under test run.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Name.
    pub name: String,
    /// Where.
    pub source: Source,
    /// Changes of the scenario, as for `--set`.
    pub set: Vec<String>,
    /// More changes with `--quick`.
    pub quick: Vec<String>,
}

impl Setting {
    /// A scenario as it stands.
    pub fn new(name: impl Into<String>, scenario: &'static str) -> Setting {
        let source = Source::Scenario(scenario);
        Setting { name: name.into(), source, set: Vec::new(), quick: Vec::new() }
    }

    /// With one more change.
    pub fn set(mut self, option: impl Into<String>) -> Setting {
        self.set.push(option.into());
        self
    }

    /// With one more change for `--quick`.
    pub fn quick(mut self, option: impl Into<String>) -> Setting {
        self.quick.push(option.into());
        self
    }
}

/// One contender in one setting; a run is a cell with a seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Where.
    pub setting: Setting,
    /// Who.
    pub contender: Contender,
}

/// Every contender in every setting.
pub fn cells(settings: &[Setting], contenders: &[Contender]) -> Vec<Cell> {
    let cell = |setting: &Setting, who: &Contender| Cell { setting: setting.clone(), contender: who.clone() };
    settings.iter().flat_map(|setting| contenders.iter().map(move |who| cell(setting, who))).collect()
}

/// The peers of the paper's figures that this project has, after the tested one.
pub fn with_peers(tested: &Contender) -> Vec<Contender> {
    let peers = ["cubic", "vegas", "bbr", "orca", "sage", "libra-rl"].map(Contender::peer);
    [tested.clone()].into_iter().chain(peers).collect()
}

/// What came out of a cell, in the order of the seeds.
#[derive(Clone, Debug)]
pub struct CellRuns {
    /// What ran.
    pub cell: Cell,
    /// Its runs.
    pub runs: Vec<RunResult>,
}

/// What came out of all cells.
#[derive(Clone, Debug)]
pub struct Results(pub Vec<CellRuns>);

impl Results {
    /// The runs of a contender in a setting; none if there was no such cell.
    pub fn runs(&self, setting: &str, label: &str) -> &[RunResult] {
        let wanted = |o: &&CellRuns| o.cell.setting.name == setting && o.cell.contender.label == label;
        self.0.iter().find(wanted).map_or(&[], |outcome| &outcome.runs)
    }

    /// A measure of each of these runs, NaN where there was nothing to measure.
    pub fn each(&self, setting: &str, label: &str, measure: impl Fn(&RunResult) -> Option<f64>) -> Vec<f64> {
        self.runs(setting, label).iter().map(|run| measure(run).unwrap_or(f64::NAN)).collect()
    }

    /// Settings, in order.
    pub fn settings(&self) -> Vec<&str> {
        distinct(self.0.iter().map(|outcome| outcome.cell.setting.name.as_str()))
    }

    /// Labels of contenders, in order.
    pub fn contenders(&self) -> Vec<&str> {
        distinct(self.0.iter().map(|outcome| outcome.cell.contender.label.as_str()))
    }
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    names.fold(Vec::new(), |mut known, name| {
        if !known.contains(&name) {
            known.push(name);
        }
        known
    })
}

/// What a figure should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// Between these two.
    Within(f64, f64),
    /// Shown for comparison.
    None,
}

/// One figure: what a source says, what came out, what it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What was measured, and in which setting.
    pub what: String,
    /// The source's figure, in its own words; empty if it has none.
    pub paper: &'static str,
    /// One value per run.
    pub values: Vec<f64>,
    /// Their unit.
    pub unit: &'static str,
    /// What their mean should be.
    pub target: Target,
}

impl Figure {
    /// A figure of the runs' values.
    pub fn new(
        what: impl Into<String>,
        paper: &'static str,
        values: Vec<f64>,
        unit: &'static str,
        target: Target,
    ) -> Figure {
        Figure { what: what.into(), paper, values, unit, target }
    }

    /// Mean; NaN if a run had nothing to measure.
    pub fn mean(&self) -> f64 {
        mean(&self.values)
    }

    /// Sample standard deviation.
    pub fn deviation(&self) -> f64 {
        let (mean, count) = (self.mean(), self.values.len() as f64);
        let squares: f64 = self.values.iter().map(|x| (x - mean) * (x - mean)).sum();
        if count > 1.0 { (squares / (count - 1.0)).sqrt() } else { 0.0 }
    }

    /// How far the mean is from where it should be; 0 when it is there, `None` without a target.
    pub fn missed_by(&self) -> Option<f64> {
        let mean = self.mean();
        let missed = match self.target {
            Target::None => return None,
            Target::AtLeast(bound) => bound - mean,
            Target::AtMost(bound) => mean - bound,
            Target::Within(low, high) => (low - mean).max(mean - high),
        };
        // Nothing measured is a miss.
        Some(if missed.is_nan() { f64::INFINITY } else { missed.max(0.0) })
    }
}

/// Mean; NaN of nothing.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_knows_how_far_it_is_from_its_target() {
        let figure = |target| Figure::new("x", "", vec![1.0, 2.0, 3.0], "Mbps", target);
        assert_eq!((figure(Target::None).mean(), figure(Target::None).deviation()), (2.0, 1.0));
        assert_eq!(figure(Target::None).missed_by(), None);
        assert_eq!(figure(Target::AtLeast(2.0)).missed_by(), Some(0.0));
        assert_eq!(figure(Target::AtLeast(2.5)).missed_by(), Some(0.5));
        assert_eq!(figure(Target::AtMost(0.5)).missed_by(), Some(1.5));
        assert_eq!(figure(Target::Within(3.0, 4.0)).missed_by(), Some(1.0));
        for nothing in [vec![], vec![1.0, f64::NAN]] {
            let figure = Figure::new("x", "", nothing, "", Target::AtMost(1.0));
            assert_eq!(figure.missed_by(), Some(f64::INFINITY));
        }
    }
}
