//! `anole-eval sim`: scenarios in virtual time, several runs at once, results in order.

use crate::options::{PolicyArgs, ScenarioArgs, usage};
use crate::{explain, output, table};
use anole_model::Time;
use anole_policies::Policies;
use anole_sim::AgentScript;
use anole_sim::plan::{FlowPlan, plan};
use anole_sim::result::RunResult;
use anole_sim::scenario::Scenario;
use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

/// Options of `anole-eval sim`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    scenario: ScenarioArgs,
    #[command(flatten)]
    policies: PolicyArgs,
    /// Also write why each flow went as it did, of algorithms that explain themselves: a table (CSV) and a
    /// picture (SVG) per flow, into the directory of --out
    #[arg(long, requires = "out")]
    explain: bool,
    /// Draw this part alone, in seconds, larger and by the flow's stages
    #[arg(long, value_name = "FROM:TO", requires = "explain", value_parser = explain::parse_span)]
    explain_span: Option<explain::Span>,
    /// Runs at the same time; as many as there are processors if left out
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

/// One run that was checked and can start.
struct Job {
    plans: Vec<FlowPlan>,
    seed: u64,
}

/// Runs the subcommand.
pub fn main(args: Args) -> Result<()> {
    let scenario = args.scenario.scenario()?;
    let loader = args.policies.loader()?;
    let policies: Arc<dyn Policies> = loader.clone();
    let jobs: Vec<Job> = args
        .scenario
        .runs(&scenario)
        .into_iter()
        .map(|(choice, seed)| {
            Ok(Job { plans: plan(&scenario, &choice, &policies, seed).map_err(usage)?, seed })
        })
        .collect::<Result<_>>()?;
    let workers = args.jobs.or(thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    let mut results = Vec::new();
    run_all(&scenario, jobs, workers, |result| {
        if let Some(failure) = loader.failure() {
            bail!("{failure}; the run is of no use");
        }
        let result = args.scenario.label(&scenario, &loader, result);
        if let Some(folder) = &args.scenario.out {
            output::write_whole(folder, &output::file_name(&result), &(output::to_json(&result)? + "\n"))?;
            if args.explain && explain::write(folder, &result, args.explain_span)? == 0 {
                eprintln!("anole-eval: {} explains nothing; anole does", result.alg);
            }
        }
        match args.scenario.json {
            true => output::print_line(&output::to_json(&result)?)?,
            false => results.push(result),
        }
        Ok(())
    })?;
    match args.scenario.json {
        true => Ok(()),
        false => output::print_line(&table::render(&results)),
    }
}

/// Runs all jobs on `workers` threads and hands over the results in order, each as soon as it and all
/// before it are there.
fn run_all(
    scenario: &Scenario,
    jobs: Vec<Job>,
    workers: usize,
    mut take: impl FnMut(RunResult) -> Result<()>,
) -> Result<()> {
    let bar = progress_bar(scenario, jobs.len());
    let workers = workers.min(jobs.len());
    let next = AtomicUsize::new(0);
    let jobs: Vec<Mutex<Option<Job>>> = jobs.into_iter().map(|job| Mutex::new(Some(job))).collect();
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..workers {
            let (sender, next, jobs, bar) = (sender.clone(), &next, &jobs, &bar);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(index).and_then(|slot| slot.lock().ok()?.take()) else { break };
                    // The receiver is gone only when a result could not be written; then nothing matters.
                    if sender.send((index, run_one(scenario, job, bar))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut waiting = std::collections::BTreeMap::new();
        let mut due = 0;
        for (index, result) in receiver {
            waiting.insert(index, result);
            while let Some(result) = waiting.remove(&due) {
                bar.suspend(|| take(result))?;
                due += 1;
            }
        }
        bar.finish_and_clear();
        Ok(())
    })
}

fn run_one(scenario: &Scenario, job: Job, bar: &ProgressBar) -> RunResult {
    let started = Instant::now();
    let mut told_ms = 0;
    let mut progress = |at: Time| {
        let ms = at.as_micros() / 1000;
        bar.inc(ms - told_ms);
        told_ms = ms;
    };
    let result = anole_sim::run(scenario, job.plans, job.seed, AgentScript::default(), &mut progress);
    RunResult { wall_s: started.elapsed().as_secs_f64(), ..result }
}

/// Counts simulated milliseconds. Hidden by itself where standard error is no terminal.
fn progress_bar(scenario: &Scenario, runs: usize) -> ProgressBar {
    let total = scenario.duration.as_micros() / 1000 * runs as u64;
    let style = ProgressStyle::with_template("{wide_bar} {percent:>3} % of the simulated time, {eta} left");
    ProgressBar::new(total).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
