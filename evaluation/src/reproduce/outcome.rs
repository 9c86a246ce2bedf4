//! What an experiment runs, what comes out, and what a figure should be.

use anole_sim::plan::Choice;
use anole_sim::result::RunResult;
use anole_sim::suite::interval;

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

impl Contender {
    /// A peer with its defaults.
    pub fn peer(alg: &str) -> Contender {
        let choice = Choice { alg: Some(alg.to_string()), ..Choice::default() };
        Contender { label: alg.to_string(), choice, params: Vec::new() }
    }
}

/// Where a cell's links come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A scenario that comes with the program, or a file (`.toml`) beside the experiment's.
    Scenario(String),
    /// The random suite: each seed is another link.
    Random,
}

/// What is known of a setting's links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// Nothing: they are a source's.
    #[default]
    Unlabelled,
    /// A sweep has them: a parameter of Anole was chosen with them in view.
    TunedOn,
    /// Drawn at random, with a seed that no sweep and no training has.
    NeverSeen,
}

impl Links {
    /// As in results; empty without a label.
    pub fn name(self) -> &'static str {
        match self {
            Links::Unlabelled => "",
            Links::TunedOn => "tuned-on",
            Links::NeverSeen => "never-seen",
        }
    }
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
    /// What is known of its links.
    pub links: Links,
}

/// One contender in one setting; a run is a cell with a seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Where.
    pub setting: Setting,
    /// Who.
    pub contender: Contender,
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
        self.number(setting, label).map_or(&[], |number| &self.0[number].runs)
    }

    /// The number of a contender's cell in a setting, from 0.
    pub fn number(&self, setting: &str, label: &str) -> Option<usize> {
        self.0.iter().position(|o| o.cell.setting.name == setting && o.cell.contender.label == label)
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
    /// The contender whose figure it is, of a figure that each has.
    pub contender: Option<String>,
    /// The source's figure, in its own words; empty if it has none.
    pub paper: String,
    /// One value per run.
    pub values: Vec<f64>,
    /// Their unit.
    pub unit: String,
    /// What their mean should be.
    pub target: Target,
    /// The numbers of the cells that it was read off, those of its reference last.
    pub cells: Vec<usize>,
    /// Runs among them during which the host was too busy for real packets.
    pub disturbed: usize,
}

impl Figure {
    /// Mean; NaN if a run had nothing to measure.
    pub fn mean(&self) -> f64 {
        mean(&self.values)
    }

    /// Sample standard deviation; `None` of fewer than two runs, which have none, or where one had nothing to measure.
    pub fn deviation(&self) -> Option<f64> {
        let (mean, count) = (self.mean(), self.values.len() as f64);
        let squares: f64 = self.values.iter().map(|x| (x - mean) * (x - mean)).sum();
        (count > 1.0 && mean.is_finite()).then(|| (squares / (count - 1.0)).sqrt())
    }

    /// Bounds of the mean's 95 % interval (bootstrap over runs); `None` of fewer than two runs, or where one had nothing
    /// to measure.
    pub fn interval(&self) -> Option<[f64; 2]> {
        interval(&self.values).filter(|_| self.values.iter().all(|value| value.is_finite()))
    }

    /// How far the mean is from where it should be; 0 when it is there, `None` without a target or where a run cannot be held
    /// against one.
    pub fn missed_by(&self) -> Option<f64> {
        if self.disturbed > 0 {
            return None;
        }
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
        let figure = |target| Figure {
            what: "x".into(),
            contender: None,
            paper: String::new(),
            values: vec![1.0, 2.0, 3.0],
            unit: "Mbps".into(),
            target,
            cells: Vec::new(),
            disturbed: 0,
        };
        assert_eq!((figure(Target::None).mean(), figure(Target::None).deviation()), (2.0, Some(1.0)));
        assert_eq!(figure(Target::None).missed_by(), None);
        assert_eq!(figure(Target::AtLeast(2.0)).missed_by(), Some(0.0));
        assert_eq!(figure(Target::AtLeast(2.5)).missed_by(), Some(0.5));
        assert_eq!(figure(Target::AtMost(0.5)).missed_by(), Some(1.5));
        assert_eq!(figure(Target::Within(3.0, 4.0)).missed_by(), Some(1.0));
        for nothing in [vec![], vec![1.0, f64::NAN]] {
            let figure = Figure { values: nothing, ..figure(Target::AtMost(1.0)) };
            assert_eq!(figure.missed_by(), Some(f64::INFINITY));
            assert_eq!(Figure { disturbed: 1, ..figure }.missed_by(), None);
        }
    }
}
