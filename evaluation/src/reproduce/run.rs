//! The runs of an experiment, on several threads; what comes out does not depend on their number.

use super::experiment::{Cell, Contender, Experiment, Outcome, Results, Source};
use crate::options::usage;
use anole_algorithms::policy::Policies;
use anole_model::Dur;
use anole_sim::AgentScript;
use anole_sim::plan::plan;
use anole_sim::result::RunResult;
use anole_sim::scenario::Scenario;
use anole_sim::suite::{Purpose, Ranges};
use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Each ACK takes up to this much longer: the noise of real hosts, without which all seeds would be alike on a
/// link without loss.
const HOST_NOISE: Dur = Dur::from_micros(200);
/// Seed of the random suite; policies were trained on links that no seed draws here.
const SUITE_SEED: u64 = 5;
/// Length of a run in the random suite with `--quick`, s.
const QUICK_SUITE_S: f64 = 4.0;

/// How the runs of all experiments go.
pub struct Runner {
    /// Fewer seeds and shorter runs.
    pub quick: bool,
    /// Seeds of each cell, instead of the experiment's own number.
    pub seeds: Option<u64>,
    /// Threads.
    pub jobs: usize,
    /// The algorithm that the experiments are about.
    pub tested: Contender,
    /// Where policies are found.
    pub policies: Arc<dyn Policies>,
}

impl Runner {
    /// Runs every cell with every seed.
    pub fn run(&self, experiment: &Experiment) -> Result<Results> {
        let cells = (experiment.cells)(&self.tested);
        let seeds = self.seeds.unwrap_or(experiment.seeds[usize::from(self.quick)]);
        let total = cells.len() * seeds as usize;
        let bar = progress_bar(experiment.id, total);
        let next = AtomicUsize::new(0);
        let done: Vec<Mutex<Option<Result<RunResult>>>> = (0..total).map(|_| Mutex::new(None)).collect();
        thread::scope(|scope| {
            for _ in 0..self.jobs.min(total) {
                scope.spawn(|| {
                    while let Some((job, slot)) = numbered(&done, next.fetch_add(1, Ordering::Relaxed)) {
                        let (cell, seed) = (job / seeds as usize, job as u64 % seeds + 1);
                        let result = self.one(&cells[cell], seed);
                        if result.is_err() {
                            // One failure fails the experiment: the rest need not run.
                            next.store(total, Ordering::Relaxed);
                        }
                        if let Ok(mut slot) = slot.lock() {
                            *slot = Some(result);
                        }
                        bar.inc(1);
                    }
                });
            }
        });
        bar.finish_and_clear();
        let mut runs = Vec::with_capacity(total);
        for slot in done {
            let result = slot.into_inner().ok().flatten();
            runs.extend(result.transpose()?);
        }
        let mut runs = runs.into_iter();
        let outcome = |cell| Outcome { cell, runs: runs.by_ref().take(seeds as usize).collect() };
        Ok(Results(cells.into_iter().map(outcome).collect()))
    }

    fn one(&self, cell: &Cell, seed: u64) -> Result<RunResult> {
        let Cell { contender, setting } = cell;
        let scenario = self.scenario(cell, seed)?;
        let seed = if setting.source == Source::Random { scenario.seed } else { seed };
        let plans = plan(&scenario, &contender.choice, &self.policies, seed)
            .map_err(|error| usage(format!("{} on {}: {error}", contender.label, setting.name)))?;
        Ok(anole_sim::run(&scenario, plans, seed, AgentScript::default(), &mut |_| ()))
    }

    fn scenario(&self, cell: &Cell, seed: u64) -> Result<Scenario> {
        let Cell { contender, setting } = cell;
        let mut scenario = match setting.source {
            Source::Scenario(text) => {
                let quick = if self.quick { &setting.quick[..] } else { &[] };
                let set: Vec<String> =
                    setting.set.iter().chain(&contender.params).chain(quick).cloned().collect();
                let mut no_traces = |_: &str| Err("experiments bring no files along".to_string());
                Scenario::parse(text, &setting.name, &set, &mut no_traces).map_err(usage)?
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
                drawn
            }
        };
        for flow in &mut scenario.flows {
            flow.ack_jitter = HOST_NOISE;
        }
        Ok(scenario)
    }
}

fn numbered<T>(all: &[T], index: usize) -> Option<(usize, &T)> {
    all.get(index).map(|one| (index, one))
}

fn progress_bar(id: &'static str, runs: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos} of {len} runs, {eta} left");
    ProgressBar::new(runs as u64)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_message(id)
}
