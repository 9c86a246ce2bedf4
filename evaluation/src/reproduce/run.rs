//! The runs of an experiment: simulated on several threads, whose number changes nothing, or with real packets.

use super::cells::Cells;
use super::experiment::{Cell, CellRuns, Contender, Experiment, Packets, Results, Source};
use super::packets::{self, Job};
use crate::emulate::DatapathKind;
use crate::options::{self, usage};
use crate::pool;
use anole_algorithms::learned::Policies;
use anole_inference::Loader;
use anole_model::Dur;
use anole_sim::AgentScript;
use anole_sim::plan::plan;
use anole_sim::result::RunResult;
use anole_sim::scenario::Scenario;
use anole_sim::suite::{Purpose, Ranges};
use anole_sim::truth;
use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::PathBuf;
use std::sync::Arc;

/// Seeds of each cell with real packets, unless told otherwise: a run takes as long as it says.
const REAL_SEEDS: u64 = 3;
/// Each ACK takes up to this much longer: the noise of real hosts, without which all seeds would be alike on a
/// link without loss.
const HOST_NOISE: Dur = Dur::from_micros(200);
/// Seed of the random suite; policies were trained on links that no seed draws here.
const SUITE_SEED: u64 = 5;
/// Length of a run in the random suite with `--quick`, s.
const QUICK_SUITE_S: f64 = 4.0;

/// What carries the flows.
#[derive(Clone, Debug)]
pub enum Carrier {
    /// The simulator, on so many threads.
    Simulator(usize),
    /// This transport, in real time, under agents from this program, if one is named.
    Packets {
        /// Which.
        datapath: DatapathKind,
        /// The agents' program.
        agent_binary: Option<PathBuf>,
    },
}

/// How the runs of all experiments go.
pub struct Runner {
    /// Fewer seeds and shorter runs.
    pub quick: bool,
    /// Seeds of each cell, instead of the experiment's own number.
    pub seeds: Option<u64>,
    /// Simulator or real packets.
    pub carrier: Carrier,
    /// Without the peers where figures can do without them.
    pub alone: bool,
    /// Where finished simulations are kept, and looked for.
    pub cells: Option<Cells>,
    /// Where policies are found.
    pub policies: Arc<Loader>,
}

impl Runner {
    /// Runs every cell with every seed; how often a run was repeated. Real time does not come again: with real packets
    /// `save` gets what there is after each run.
    pub fn run(
        &self,
        experiment: &Experiment,
        tested: &Contender,
        save: &mut dyn FnMut(&Results) -> Result<()>,
    ) -> Result<(Results, usize)> {
        let cells = self.cells(experiment, tested)?;
        let seeds = self.seeds(experiment) as usize;
        let results = |runs: &[RunResult]| {
            let outcome =
                |(cell, runs): (&Cell, &[RunResult])| CellRuns { cell: cell.clone(), runs: runs.to_vec() };
            Results(cells.iter().zip(runs.chunks(seeds)).map(outcome).collect())
        };
        let (runs, repeated) = match &self.carrier {
            Carrier::Simulator(threads) => (self.simulate(experiment, &cells, *threads)?, 0),
            Carrier::Packets { datapath, agent_binary, .. } => {
                let jobs = self.jobs(experiment, &cells)?;
                let attempts = if self.quick { 1 } else { packets::ATTEMPTS };
                let save = &mut |runs: &[RunResult]| save(&results(runs));
                packets::run(&jobs, *datapath, &self.policies, agent_binary.as_ref(), attempts, save)?
            }
        };
        Ok((results(&runs), repeated))
    }

    /// The names of the files of every cell's runs, where they are kept.
    pub fn files(&self, experiment: &Experiment, results: &Results) -> Result<Vec<Vec<String>>> {
        let Some(cells) = self.cells.as_ref().filter(|_| matches!(self.carrier, Carrier::Simulator(_)))
        else {
            return Ok(Vec::new());
        };
        let name = |cell: &Cell, seed: u64| {
            let (scenario, seed) = self.noisy(experiment, cell, seed)?;
            Ok(cells.name(&experiment.id, cell, &scenario, seed))
        };
        let of_cell = |outcome: &CellRuns| {
            let seeds = 1..=outcome.runs.len() as u64;
            seeds.map(|seed| name(&outcome.cell, seed)).collect()
        };
        results.0.iter().map(of_cell).collect()
    }

    /// What real time this takes; none for a simulation.
    pub fn real_time(&self, experiment: &Experiment, tested: &Contender) -> Result<Dur> {
        match &self.carrier {
            Carrier::Simulator(_) => Ok(Dur::ZERO),
            Carrier::Packets { .. } => {
                Ok(packets::span(&self.jobs(experiment, &self.cells(experiment, tested)?)?))
            }
        }
    }

    /// Why this can't run, if it can't.
    pub fn refuses(&self, experiment: &Experiment) -> Option<String> {
        match (&self.carrier, experiment.packets()) {
            (Carrier::Packets { .. }, Packets::Never(reason)) => Some(reason),
            _ => None,
        }
    }

    /// What runs, without the peers that are left out.
    fn cells(&self, experiment: &Experiment, tested: &Contender) -> Result<Vec<Cell>> {
        let mut cells =
            experiment.cells(tested).map_err(|error| usage(format!("{}: {error}", experiment.id)))?;
        if self.alone && experiment.packets() != Packets::Everyone {
            cells.retain(|cell| cell.contender.choice.alg == tested.choice.alg);
        }
        Ok(cells)
    }

    fn seeds(&self, experiment: &Experiment) -> u64 {
        let own = experiment.raw.seeds[usize::from(self.quick)];
        self.seeds.unwrap_or(match self.carrier {
            Carrier::Simulator(_) => own,
            Carrier::Packets { .. } => own.min(REAL_SEEDS),
        })
    }

    /// Every cell with every seed, for real packets.
    fn jobs<'a>(&self, experiment: &Experiment, cells: &'a [Cell]) -> Result<Vec<Job<'a>>> {
        let seeds = 1..=self.seeds(experiment);
        let runs = cells.iter().flat_map(|cell| seeds.clone().map(move |seed| (cell, seed)));
        let job = |(cell, seed): (&'a Cell, u64)| {
            let (scenario, seed) = self.scenario(experiment, cell, seed)?;
            let name = format!("{} on {}", cell.contender.label, cell.setting.name);
            Ok(Job { name, scenario, choice: &cell.contender.choice, seed })
        };
        runs.map(job).collect()
    }

    fn simulate(&self, experiment: &Experiment, cells: &[Cell], threads: usize) -> Result<Vec<RunResult>> {
        let seeds = self.seeds(experiment);
        let total = cells.len() * seeds as usize;
        let bar = progress_bar(&experiment.id, total);
        let job =
            |number: usize| self.one(experiment, &cells[number / seeds as usize], number as u64 % seeds + 1);
        let mut runs = Vec::with_capacity(total);
        let take = |_, run| {
            runs.push(run);
            Ok(())
        };
        pool::run(total, threads, job, || bar.inc(1), take)?;
        bar.finish_and_clear();
        Ok(runs)
    }

    fn one(&self, experiment: &Experiment, cell: &Cell, seed: u64) -> Result<RunResult> {
        let Cell { contender, setting } = cell;
        let (scenario, seed) = self.noisy(experiment, cell, seed)?;
        let policies: Arc<dyn Policies> = self.policies.clone();
        let plans = plan(&scenario, &contender.choice, &policies, seed)
            .map_err(|error| usage(format!("{} on {}: {error}", contender.label, setting.name)))?;
        let run = || {
            let run = anole_sim::run(&scenario, plans, seed, AgentScript::default(), &mut |_| ());
            match truth::broken(&scenario, &run) {
                None => Ok(run),
                Some(what) => bail!("{} on {}, seed {seed}: {what}", contender.label, setting.name),
            }
        };
        match &self.cells {
            None => run(),
            Some(cells) => {
                let name = cells.name(&experiment.id, cell, &scenario, seed);
                cells.get_or_run(&name, (&experiment.id, cell, seed), run)
            }
        }
    }

    /// The scenario of a simulation, whose ACKs have the noise of hosts.
    fn noisy(&self, experiment: &Experiment, cell: &Cell, seed: u64) -> Result<(Scenario, u64)> {
        let (mut scenario, seed) = self.scenario(experiment, cell, seed)?;
        for flow in scenario.flows.iter_mut().filter(|flow| flow.ack_jitter.is_zero()) {
            flow.ack_jitter = HOST_NOISE;
        }
        Ok((scenario, seed))
    }

    /// Links and flows of a run, and the seed of its randomness.
    fn scenario(&self, experiment: &Experiment, cell: &Cell, seed: u64) -> Result<(Scenario, u64)> {
        let Cell { contender, setting } = cell;
        Ok(match &setting.source {
            Source::Scenario(name) => {
                let quick = if self.quick { &setting.quick[..] } else { &[] };
                let set: Vec<String> =
                    setting.set.iter().chain(&contender.params).chain(quick).cloned().collect();
                // A file is beside the experiment's.
                let place = match &experiment.folder {
                    Some(folder) if name.ends_with(".toml") => folder.join(name),
                    _ => PathBuf::from(name),
                };
                (options::load(&place, &set)?, seed)
            }
            Source::Random => {
                let mut ranges = Ranges::default();
                if self.quick {
                    ranges.duration_s = QUICK_SUITE_S;
                }
                let mut drawn = ranges.draw("native", Purpose::Evaluation, SUITE_SEED, seed);
                for param in &contender.params {
                    let (name, value) =
                        param.trim_start_matches("param.").split_once('=').unwrap_or_default();
                    let value = value
                        .parse()
                        .map_err(|_| usage(format!("--param {name}: \"{value}\" is not a number")))?;
                    drawn.params.insert(name.to_string(), value);
                }
                let seed = drawn.seed;
                (drawn, seed)
            }
        })
    }
}

fn progress_bar(id: &str, runs: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos} of {len} runs, {eta} left");
    ProgressBar::new(runs as u64)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_message(id.to_string())
}
