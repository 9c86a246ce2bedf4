//! What an experiment is: cells to run, figures with their targets, and a plot, all from a file.
//!
//! ```text
//!  Experiment ── cells ──▶ runs (a cell with every seed) ──▶ Results ──▶ figures: paper, ours, target
//!                                                                   └──▶ panels of a plot
//! ```

use super::figures::figures;
use super::file::Raw;
use super::outcome::{Cell, CellRuns, Contender, Figure, Results};
use super::panels::panels;
use super::picture::Panel;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// Seeds that a cell may have, as for `--seeds`.
pub const SEEDS: RangeInclusive<u64> = 1..=10_000;

/// An experiment: a file, and its name.
pub struct Experiment {
    /// The file's name without its ending, fit for the names of files.
    pub id: String,
    /// What its file says.
    pub raw: Raw,
}

impl Experiment {
    /// Reads an experiment's file, and makes sure that its names fit together.
    pub fn parse(id: &str, text: &str, file: Option<&Path>) -> Result<Experiment, String> {
        let mut raw: Raw = toml::from_str(text).map_err(|error| error.to_string().trim().to_string())?;
        raw.file = file.map(Path::to_path_buf);
        if !raw.seeds.iter().all(|seeds| SEEDS.contains(seeds)) {
            let [least, most] = [SEEDS.start(), SEEDS.end()];
            return Err(format!("seeds = {:?}: give two numbers from {least} to {most}", raw.seeds));
        }
        let experiment = Experiment { id: id.to_string(), raw };
        let subject = Contender::peer(&experiment.raw.subject);
        let cells = experiment.cells(&subject)?;
        // A figure names its cells by these, and would be read off the first one.
        let mut known = BTreeSet::new();
        let mut names = cells.iter().map(|cell| (&cell.setting.name, &cell.contender.label));
        if let Some((setting, label)) = names.find(|&names| !known.insert(names)) {
            return Err(format!(
                "contender \"{label}\" is in setting \"{setting}\" twice; give contenders and settings names that differ, \
                 with {{AXIS}} in those that are for axes"
            ));
        }
        let outcome = |cell| CellRuns { cell, runs: Vec::new() };
        let results = Results(cells.into_iter().map(outcome).collect());
        for figure in experiment.figures(&subject.label, &results)? {
            // Not where figures are read off: without peers there are those of peers that did not run.
            if figure.cells.is_empty() {
                let all = results.contenders().join(", ");
                return Err(format!("figure \"{}\": no such contender there; there are {all}", figure.what));
            }
        }
        experiment.panels(&subject.label, &results)?;
        Ok(experiment)
    }

    /// What runs.
    pub fn cells(&self, tested: &Contender) -> Result<Vec<Cell>, String> {
        self.raw.cells(tested)
    }

    /// What is read off.
    pub fn figures(&self, subject: &str, results: &Results) -> Result<Vec<Figure>, String> {
        figures(&self.raw, subject, results)
    }

    /// What is drawn.
    pub fn panels(&self, subject: &str, results: &Results) -> Result<Vec<Panel>, String> {
        panels(&self.raw, subject, results)
    }

    /// Where a scenario is that a setting names: a file is beside the experiment's.
    pub fn place(&self, scenario: &str) -> PathBuf {
        match &self.raw.file {
            Some(file) if scenario.ends_with(".toml") => file.with_file_name(scenario),
            _ => PathBuf::from(scenario),
        }
    }

    /// What `anole-eval reproduce` takes for it.
    pub fn argument(&self) -> PathBuf {
        self.raw.file.clone().unwrap_or_else(|| PathBuf::from(&self.id))
    }
}
