//! `anole-eval sim`: scenarios in virtual time, several runs at once, results in order.

use crate::options::{PolicyArgs, ScenarioArgs, check_backend, planned, usage};
use crate::{explain, output, pool, table};
use anole_model::Time;
use anole_sim::AgentScript;
use anole_sim::plan::{Choice, FlowPlan};
use anole_sim::result::{RunResult, Word};
use anole_sim::scenario::Scenario;
use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use std::num::NonZeroUsize;
use std::path::Path;
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
    /// Also draw throughput, round-trip time, window, queue and losses over time: an SVG into the directory of --out, or
    /// the current one. The algorithms in one picture where the scenario has one flow, else a picture for each
    #[arg(long)]
    plot: bool,
    /// Runs at the same time; as many as there are processors if left out
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

/// One run that was checked and can start.
struct Job {
    choice: Choice,
    plans: Vec<FlowPlan>,
    backend: Option<Word>,
    seed: u64,
}

/// Runs the subcommand.
pub fn main(args: Args) -> Result<()> {
    let scenario = args.scenario.scenario()?;
    let lasts_s = scenario.duration.as_secs_f64();
    if let Some((from, to)) = args.explain_span.filter(|(from, _)| *from >= lasts_s) {
        let late =
            format!("--explain-span {from}:{to} begins after the run of {lasts_s} s; give an earlier one");
        return Err(usage(late));
    }
    let loader = args.policies.loader()?;
    let jobs: Vec<Job> = args
        .scenario
        .runs(&scenario)
        .into_iter()
        .map(|(choice, seed)| {
            let (plans, backend) = planned(&scenario, &choice, &loader, seed)?;
            Ok(Job { choice, plans, backend, seed })
        })
        .collect::<Result<_>>()?;
    check_backend(&loader, "one with --policy")?;
    let mut results = Vec::new();
    let mut drawn = Drawn::default();
    let mut alike = Alike::default();
    let bar = progress_bar(&scenario, jobs.len());
    let mut take = |number: usize, result| {
        if let Some(failure) = loader.failure() {
            bail!("{failure}; the run is of no use");
        }
        let result = args.scenario.label(&scenario, &jobs[number].choice, result);
        if let Some(folder) = &args.scenario.out {
            output::write_whole(folder, &output::file_name(&result), &(output::to_json(&result)? + "\n"))?;
            if args.explain && explain::write(folder, &result, args.explain_span)? == 0 {
                eprintln!("anole-eval: {} explains nothing; anole does", result.alg);
            }
        }
        alike.note(&result);
        if args.plot {
            drawn.note(&result);
        }
        match args.scenario.json {
            true => output::print_line(&output::to_json(&result)?)?,
            false => results.push(table::shown(result)),
        }
        Ok(())
    };
    let job = |number: usize| Ok(run_one(&scenario, &jobs[number], &bar));
    let workers = pool::workers(args.jobs);
    pool::run(jobs.len(), workers, job, || (), |number, result| bar.suspend(|| take(number, result)))?;
    bar.finish_and_clear();
    if args.plot {
        drawn.write(args.scenario.out.as_deref().unwrap_or(Path::new(".")))?;
    }
    alike.warn();
    match args.scenario.json {
        true => Ok(()),
        false => output::print_line(&table::render(&results)),
    }
}

/// What is drawn: the first run of each algorithm.
#[derive(Default)]
struct Drawn(Vec<RunResult>);

impl Drawn {
    fn note(&mut self, result: &RunResult) {
        if self.0.last().is_none_or(|last| last.alg != result.alg) {
            self.0.push(result.clone());
        }
    }

    /// One picture where every run has one flow, else one for each; says where they are.
    fn write(&self, folder: &Path) -> Result<()> {
        let together = self.0.iter().all(|run| run.flows.len() == 1);
        let parts: Vec<&[RunResult]> = if together { vec![&self.0] } else { self.0.chunks(1).collect() };
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let algs: Vec<&str> = part.iter().map(|run| run.alg.as_str()).collect();
            let named = RunResult { alg: algs.join("-"), ..part[0].clone() };
            let name = output::file_name(&named).replace(".json", ".svg");
            output::write_whole(folder, &name, anole_plot::of_runs(part).svg())?;
            eprintln!("anole-eval: {}", folder.join(name).display());
        }
        Ok(())
    }
}

/// Which algorithms' runs are alike, seeds aside.
#[derive(Default)]
struct Alike {
    /// The present algorithm's first run.
    first: Option<RunResult>,
    /// Every algorithm, and whether its runs after the first are like it; `None` while there was one alone.
    algs: Vec<(String, Option<bool>)>,
}

impl Alike {
    fn note(&mut self, result: &RunResult) {
        match (&self.first, self.algs.last_mut()) {
            (Some(first), Some((alg, alike))) if *alg == result.alg => {
                *alike = Some(alike.unwrap_or(true) && first.flows == result.flows);
            }
            _ => {
                self.first = Some(result.clone());
                self.algs.push((result.alg.clone(), None));
            }
        }
    }

    /// Says whose runs are alike, and what to do about it.
    fn warn(&self) {
        let alike = self.algs.iter().filter(|(_, alike)| *alike == Some(true));
        let names: Vec<&str> = alike.map(|(alg, _)| alg.as_str()).collect();
        if !names.is_empty() {
            eprintln!(
                "anole-eval: all runs of {} are alike: nothing in this scenario is random for them; give a link random_loss \
                 or jitter_ms, a flow ack_jitter_us (--set bottleneck.random_loss=0.001), or leave --runs out",
                names.join(", ")
            );
        }
    }
}

fn run_one(scenario: &Scenario, job: &Job, bar: &ProgressBar) -> RunResult {
    let started = Instant::now();
    let mut told_ms = 0;
    let mut progress = |at: Time| {
        let ms = at.as_micros() / 1000;
        bar.inc(ms - told_ms);
        told_ms = ms;
    };
    let result = anole_sim::run(scenario, job.plans.clone(), job.seed, AgentScript::default(), &mut progress);
    RunResult { backend: job.backend, wall_s: started.elapsed().as_secs_f64(), ..result }
}

/// Counts simulated milliseconds. Hidden by itself where standard error is no terminal.
fn progress_bar(scenario: &Scenario, runs: usize) -> ProgressBar {
    let total = scenario.duration.as_micros() / 1000 * runs as u64;
    let style = ProgressStyle::with_template("{wide_bar} {percent:>3} % of the simulated time, {eta} left");
    ProgressBar::new(total).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
