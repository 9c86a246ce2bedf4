//! The runs of an experiment: simulated on several threads, whose number changes nothing, or with real packets.

use super::catalogue;
use super::cells::Cells;
use super::experiment::Experiment;
use super::outcome::{Cell, CellRuns, Contender, Results, Source};
use super::packets::{self, Job};
use super::testbed;
use crate::emulate::{self, AgentArgs};
use crate::options::{self, usage};
use crate::pool;
use anole_inference::Loader;
use anole_model::Dur;
use anole_sim::AgentScript;
use anole_sim::plan::FlowPlan;
use anole_sim::result::{RunResult, Word};
use anole_sim::scenario::Scenario;
use anole_sim::suite::{Purpose, Ranges};
use anole_sim::truth;
use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Seeds of each cell with real packets, unless told otherwise: a run takes as long as it says.
const REAL_SEEDS: u64 = 3;
/// Each ACK takes up to this much longer: the noise of real hosts, without which all seeds would be alike on a
/// link without loss.
pub const HOST_NOISE: Dur = Dur::from_micros(200);
/// Seeds of the random suite: of experiments, and of sweeps, with which parameters were chosen. Policies were trained on
/// links that no seed draws here.
const SUITE_SEED: u64 = 11;
const SWEPT_SUITE_SEED: u64 = 5;
/// Length of a run in the random suite with `--quick`, s.
const QUICK_SUITE_S: f64 = 4.0;

/// What carries the flows.
#[derive(Clone, Debug)]
pub enum Carrier {
    /// The simulator, on so many threads.
    Simulator(usize),
    /// A transport, in real time, under agents from this program, if one is named.
    Packets {
        /// Which, and what it goes through.
        carrier: emulate::Carrier,
        /// The agents' program.
        agent_binary: Option<PathBuf>,
    },
}

impl Carrier {
    /// As in results.
    pub fn name(&self) -> &'static str {
        match self {
            Carrier::Simulator(_) => "sim",
            Carrier::Packets { carrier, .. } => carrier.name(),
        }
    }
}

/// All that a simulation takes.
struct Prepared {
    scenario: Scenario,
    plans: Vec<FlowPlan>,
    /// What runs trained policies, if a flow has one.
    backend: Option<Word>,
    seed: u64,
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
    /// Where finished runs are kept, and simulations looked for.
    pub cells: Option<Cells>,
    /// Over all simulations.
    pub bar: ProgressBar,
    /// Those that were kept from before.
    pub kept: AtomicU64,
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
            Carrier::Packets { carrier, agent_binary } => {
                let jobs = self.jobs(experiment, &cells)?;
                let attempts = if self.quick { 1 } else { packets::ATTEMPTS };
                let save = &mut |runs: &[RunResult]| save(&results(runs));
                packets::run(&jobs, *carrier, &self.policies, agent_binary.as_ref(), attempts, save)?
            }
        };
        Ok((results(&runs), repeated))
    }

    /// The names of the files of every cell's runs, where they are kept. Those with real packets are written now: another
    /// one would be another result, so that none is looked for.
    pub fn files(&self, experiment: &Experiment, results: &Results) -> Result<Vec<Vec<String>>> {
        let Some(cells) = &self.cells else { return Ok(Vec::new()) };
        let real = matches!(self.carrier, Carrier::Packets { .. });
        let of_run = |cell: &Cell, (seed, run): (u64, &RunResult)| {
            let name = self.name(cells, experiment, cell, seed)?;
            if real {
                cells.keep(&name, (&experiment.id, cell, seed), run)?;
            }
            Ok(name)
        };
        let of_cell = |outcome: &CellRuns| {
            let runs = (1..).zip(&outcome.runs);
            runs.map(|run| of_run(&outcome.cell, run)).collect()
        };
        results.0.iter().map(of_cell).collect()
    }

    /// The name of a run's file.
    fn name(&self, cells: &Cells, experiment: &Experiment, cell: &Cell, seed: u64) -> Result<String> {
        let (carrier, (scenario, seed)) = match &self.carrier {
            Carrier::Simulator(_) => (self.carrier.name(), self.noisy(experiment, cell, seed)?),
            Carrier::Packets { .. } => (self.carrier.name(), self.scenario(experiment, cell, seed)?),
        };
        Ok(cells.name(&experiment.id, carrier, cell, &scenario, seed))
    }

    /// Writes the runs of an experiment of the study in the layout of its testbed.
    pub fn write_testbed(&self, out: &Path, experiment: &Experiment, results: &Results) -> Result<()> {
        for outcome in &results.0 {
            for (seed, run) in (1..).zip(&outcome.runs) {
                let (scenario, _) = self.scenario(experiment, &outcome.cell, seed)?;
                if !testbed::write(out, &experiment.id, &outcome.cell, &scenario, run)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// How many simulations there are.
    pub fn simulations(&self, experiment: &Experiment, tested: &Contender) -> Result<u64> {
        match &self.carrier {
            Carrier::Simulator(_) => {
                Ok(self.cells(experiment, tested)?.len() as u64 * self.seeds(experiment))
            }
            Carrier::Packets { .. } => Ok(0),
        }
    }

    /// The simulations whose results are not kept yet.
    pub fn unfinished(&self, experiment: &Experiment, tested: &Contender) -> Result<Vec<Pick>> {
        let mut picks = Vec::new();
        for (number, cell) in (1..).zip(&self.cells(experiment, tested)?) {
            for seed in 1..=self.seeds(experiment) {
                let kept = match &self.cells {
                    Some(cells) => cells.has(&self.name(cells, experiment, cell, seed)?),
                    None => false,
                };
                if !kept {
                    picks.push(Pick { cell: number, seed });
                }
            }
        }
        Ok(picks)
    }

    /// How fast the simulations went.
    pub fn tell_speed(&self) {
        let (runs, kept) = (self.bar.position(), self.kept.load(Ordering::Relaxed));
        let seconds = self.bar.elapsed().as_secs_f64();
        self.bar.finish_and_clear();
        if runs > kept {
            let made = runs - kept;
            eprintln!(
                "anole-eval: {made} simulations in {}, {:.0} an hour{}",
                packets::for_people(Dur::from_secs_f64(seconds)),
                made as f64 * 3600.0 / seconds.max(1e-3),
                if kept > 0 { format!("; {kept} more were kept from before") } else { String::new() }
            );
        }
    }

    /// Simulates single runs.
    pub fn only(
        &self,
        experiment: &Experiment,
        tested: &Contender,
        picks: &[Pick],
    ) -> Result<Vec<RunResult>> {
        let Carrier::Simulator(threads) = self.carrier else {
            return Err(usage("--only is for simulations; leave --datapath out"));
        };
        let cells = self.cells(experiment, tested)?;
        if let Some(none) = picks.iter().find(|pick| !(1..=cells.len()).contains(&pick.cell)) {
            let id = &experiment.id;
            return Err(usage(format!("--only {none}: {id} has cells 1 to {}", cells.len())));
        }
        let seeds = self.seeds(experiment);
        if let Some(none) = picks.iter().find(|pick| !(1..=seeds).contains(&pick.seed)) {
            let id = &experiment.id;
            return Err(usage(format!(
                "--only {none}: {id} has seeds 1 to {seeds}; for more, give --seeds N"
            )));
        }
        let job = |number: usize| {
            let pick: &Pick = &picks[number];
            self.one(experiment, &cells[pick.cell - 1], pick.seed)
        };
        let mut runs = Vec::with_capacity(picks.len());
        let take = |_, run| {
            runs.push(run);
            Ok(())
        };
        pool::run(picks.len(), threads, job, || self.bar.inc(1), take)?;
        Ok(runs)
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

    /// Whether the runs are simulations.
    pub fn simulates(&self) -> bool {
        matches!(self.carrier, Carrier::Simulator(_))
    }

    /// Why this can't run, if it can't.
    pub fn refuses(&self, experiment: &Experiment, tested: &Contender) -> Result<Option<String>> {
        let Carrier::Packets { carrier, .. } = &self.carrier else {
            let cells = self.cells(experiment, tested)?;
            return Ok(cells
                .iter()
                .find_map(|cell| self.prepared(experiment, cell, 1).err())
                .map(|error| format!("{error:#}")));
        };
        if let Some(reason) = experiment.raw.without_packets() {
            return Ok(Some(reason.to_string()));
        }
        let agent = AgentArgs::undisturbed(None);
        for job in self.jobs(experiment, &self.cells(experiment, tested)?)? {
            let Job { name, scenario, choice, seed, .. } = job;
            if let Err(error) = emulate::check(&scenario, choice, *carrier, &self.policies, seed, &agent) {
                return Ok(Some(format!("{name}: {error:#}")));
            }
        }
        Ok(None)
    }

    /// What runs, without the peers that are left out.
    fn cells(&self, experiment: &Experiment, tested: &Contender) -> Result<Vec<Cell>> {
        let mut cells =
            experiment.cells(tested).map_err(|error| usage(format!("{}: {error}", experiment.id)))?;
        if self.alone && !experiment.raw.with_peers() {
            cells.retain(|cell| cell.contender.choice.alg == tested.choice.alg);
        }
        for cell in &mut cells {
            cell.setting.links = catalogue::links(experiment, &cell.setting);
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
            Ok(Job { name, scenario, choice: &cell.contender.choice, set: self.set(cell), seed })
        };
        runs.map(job).collect()
    }

    fn simulate(&self, experiment: &Experiment, cells: &[Cell], threads: usize) -> Result<Vec<RunResult>> {
        let seeds = self.seeds(experiment);
        let total = cells.len() * seeds as usize;
        self.bar.set_message(experiment.id.clone());
        let job =
            |number: usize| self.one(experiment, &cells[number / seeds as usize], number as u64 % seeds + 1);
        let mut runs = Vec::with_capacity(total);
        let take = |_, run| {
            runs.push(run);
            Ok(())
        };
        pool::run(total, threads, job, || self.bar.inc(1), take)?;
        Ok(runs)
    }

    fn one(&self, experiment: &Experiment, cell: &Cell, seed: u64) -> Result<RunResult> {
        let Cell { contender, setting } = cell;
        let Prepared { scenario, plans, backend, seed } = self.prepared(experiment, cell, seed)?;
        let label =
            |run| RunResult { backend, ..options::label(&scenario, &contender.choice, &self.set(cell), run) };
        let run = || {
            let run = anole_sim::run(&scenario, plans, seed, AgentScript::default(), &mut |_| ());
            match truth::broken(&scenario, &run) {
                None => Ok(label(run)),
                Some(what) => bail!("{} on {}, seed {seed}: {what}", contender.label, setting.name),
            }
        };
        match &self.cells {
            None => run(),
            Some(cells) => {
                let name = cells.name(&experiment.id, self.carrier.name(), cell, &scenario, seed);
                if let Some(run) = cells.read(&name) {
                    self.kept.fetch_add(1, Ordering::Relaxed);
                    // The program is part of the name.
                    return Ok(label(run));
                }
                let run = run()?;
                cells.keep(&name, (&experiment.id, cell, seed), &run)?;
                Ok(run)
            }
        }
    }

    /// All that a simulation takes.
    fn prepared(&self, experiment: &Experiment, cell: &Cell, seed: u64) -> Result<Prepared> {
        let Cell { contender, setting } = cell;
        let (scenario, seed) = self.noisy(experiment, cell, seed)?;
        let (plans, backend) = options::planned(&scenario, &contender.choice, &self.policies, seed)
            .map_err(|error| usage(format!("{} on {}: {error}", contender.label, setting.name)))?;
        Ok(Prepared { scenario, plans, backend, seed })
    }

    /// The scenario of a simulation, whose ACKs have the noise of hosts.
    fn noisy(&self, experiment: &Experiment, cell: &Cell, seed: u64) -> Result<(Scenario, u64)> {
        let (mut scenario, seed) = self.scenario(experiment, cell, seed)?;
        for flow in scenario.flows.iter_mut().filter(|flow| flow.ack_jitter.is_zero()) {
            flow.ack_jitter = HOST_NOISE;
        }
        Ok((scenario, seed))
    }

    /// Changes of a cell's scenario.
    fn set(&self, Cell { setting, contender }: &Cell) -> Vec<String> {
        let quick = if self.quick { &setting.quick[..] } else { &[] };
        [&setting.set[..], &contender.params[..], quick].concat()
    }

    /// Links and flows of a run, and the seed of its randomness.
    fn scenario(&self, experiment: &Experiment, cell: &Cell, seed: u64) -> Result<(Scenario, u64)> {
        let Cell { contender, setting } = cell;
        Ok(match &setting.source {
            Source::Scenario(name) => (options::load(&experiment.place(name), &self.set(cell))?, seed),
            Source::Random => {
                let mut ranges = Ranges::default();
                if self.quick {
                    ranges.duration_s = QUICK_SUITE_S;
                }
                let suite = if experiment.raw.sweep { SWEPT_SUITE_SEED } else { SUITE_SEED };
                let mut drawn = ranges.draw("native", Purpose::Evaluation, suite, seed);
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

/// Over so many simulations; hidden where standard error is no terminal.
pub fn progress_bar(runs: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos} of {len} runs, {eta} left");
    ProgressBar::new(runs).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// One run of an experiment: a cell, from 1 as on its page, and a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// Which cell.
    pub cell: usize,
    /// Its seed, from 1; the random suite draws a link and another seed by it.
    pub seed: u64,
}

impl FromStr for Pick {
    type Err = String;

    fn from_str(text: &str) -> Result<Pick, String> {
        let parts =
            text.split_once('.').and_then(|(cell, seed)| Some((cell.parse().ok()?, seed.parse().ok()?)));
        let (cell, seed) = parts.ok_or_else(|| "not CELL.SEED, such as 3.1".to_string())?;
        Ok(Pick { cell, seed })
    }
}

impl std::fmt::Display for Pick {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.cell, self.seed)
    }
}
