//! `anole-eval conformance`: what every algorithm has to bear, case by case (docs/conformance.md).

mod case;

use crate::carriers::{Carrier, check_agent};
use crate::emulate::{self, AgentArgs, DatapathKind};
use crate::options::{PolicyArgs, check_answers, check_backend, usage};
use crate::{output, pool};
use anole_algorithms::BuildError;
use anole_inference::Loader;
use anole_model::Dur;
use anole_policies::{Policies, Shipped};
use anole_sim::AgentScript;
use anole_sim::plan::{Choice, FlowPlanError, plan};
use anole_sim::result::RunResult;
use anole_sim::scenario::Scenario;
use anyhow::{Result, bail};
use case::{Case, Verdict, cases};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

/// The seed of every run: a case is held or not, and a second seed is a second case.
const SEED: u64 = 1;

/// Options of `anole-eval conformance`.
#[derive(clap::Args)]
pub struct Args {
    /// Algorithms; all that need no policy from outside if left out
    #[arg(long, value_name = "NAME[,…]", value_delimiter = ',')]
    alg: Vec<String>,
    /// Cases, by their names; all if left out
    #[arg(long, value_name = "NAME[,…]", value_delimiter = ',')]
    case: Vec<String>,
    /// Simulation, or what carries real packets; those take as long as the cases, 4 minutes for each algorithm
    #[arg(long, value_enum, default_value = "sim")]
    datapath: Carrier,
    /// The agent's program; otherwise $ANOLE_CCP, or anole-ccp beside this program
    #[arg(long, value_name = "FILE")]
    agent_binary: Option<PathBuf>,
    #[command(flatten)]
    policies: PolicyArgs,
    /// Print one JSON object per algorithm and case, one per line
    #[arg(long)]
    json: bool,
    /// Runs at the same time, in simulation; as many as there are processors if left out
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

/// Runs the subcommand; an error when a case is missed.
pub fn main(args: Args) -> Result<()> {
    let cases = chosen(&args.case)?;
    let loader = args.policies.loader()?;
    check_agent(args.agent_binary.as_deref(), "--datapath", &[args.datapath])?;
    if args.datapath != Carrier::Sim && args.jobs.is_some_and(|jobs| jobs.get() > 1) {
        return Err(usage("--jobs: runs in real time disturb each other; leave it out with real packets"));
    }
    let algs = algorithms(&args.alg, &cases[0], &loader)?;
    check_backend(&loader, "an algorithm that does with --alg")?;
    let verdicts = match args.datapath.datapath() {
        None => simulated(&cases, &algs, &loader, pool::workers(args.jobs))?,
        Some(datapath) => real(&cases, &algs, &loader, datapath, &args)?,
    };
    check_answers(&loader)?;
    if args.json {
        for verdict in &verdicts {
            output::print_line(&serde_json::to_string(verdict)?)?;
        }
    } else {
        output::print_line(&matrix(&cases, &algs, &verdicts))?;
    }
    let missed = verdicts.iter().filter(|verdict| !verdict.missed.is_empty()).count();
    match missed {
        0 => Ok(()),
        _ => bail!("{missed} of {} are missed", verdicts.len()),
    }
}

fn chosen(names: &[String]) -> Result<Vec<Case>> {
    let all = cases()?;
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|case| case.name == **name)) {
        let known: Vec<&str> = all.iter().map(|case| case.name.as_str()).collect();
        return Err(usage(format!("--case \"{unknown}\": no such case; there are {}", known.join(", "))));
    }
    Ok(all.into_iter().filter(|case| names.is_empty() || names.contains(&case.name)).collect())
}

/// The algorithms to run, each of which can. Of all, those whose policy is not shipped are left out, whatever the backend has.
fn algorithms(asked: &[String], case: &Case, loader: &Arc<Loader>) -> Result<Vec<String>> {
    let scenario = case.scenario()?;
    let algs = if asked.is_empty() { shipped(&scenario) } else { asked.to_vec() };
    let policies: Arc<dyn Policies> = loader.clone();
    for alg in &algs {
        plan(&scenario, &choice(alg), &policies, SEED).map_err(usage)?;
    }
    Ok(algs)
}

/// All that need no policy from outside; tells of the others.
fn shipped(scenario: &Scenario) -> Vec<String> {
    let policies: Arc<dyn Policies> = Arc::new(Shipped);
    let lacks_policy = |alg: &String| {
        let planned = plan(scenario, &choice(alg), &policies, SEED);
        matches!(planned, Err(FlowPlanError::Build { reason: BuildError::Policy(_), .. }))
    };
    // What is no congestion control bears nothing.
    let controls = anole_algorithms::all().iter().filter(|spec| spec.kind != "fixed");
    let (without, algs): (Vec<String>, _) =
        controls.map(|spec| spec.name.to_string()).partition(lacks_policy);
    if !without.is_empty() {
        eprintln!("anole-eval: left out, since no policy of theirs is shipped: {}", without.join(", "));
    }
    algs
}

fn choice(alg: &str) -> Choice {
    Choice { alg: Some(alg.to_string()), ..Choice::default() }
}

fn simulated(cases: &[Case], algs: &[String], loader: &Arc<Loader>, workers: usize) -> Result<Vec<Verdict>> {
    let policies: Arc<dyn Policies> = loader.clone();
    let job = |number: usize| {
        let (alg, case) = (&algs[number / cases.len()], &cases[number % cases.len()]);
        let scenario = case.scenario()?;
        let plans = plan(&scenario, &choice(alg), &policies, SEED).map_err(usage)?;
        let run = anole_sim::run(&scenario, plans, SEED, AgentScript::default(), &mut |_| ());
        Ok(case.judge(alg, &run))
    };
    let mut verdicts = Vec::new();
    pool::run(
        algs.len() * cases.len(),
        workers,
        job,
        || (),
        |_, verdict| {
            verdicts.push(verdict);
            Ok(())
        },
    )?;
    Ok(verdicts)
}

fn real(
    cases: &[Case],
    algs: &[String],
    loader: &Arc<Loader>,
    datapath: DatapathKind,
    args: &Args,
) -> Result<Vec<Verdict>> {
    let agent = AgentArgs::undisturbed(args.agent_binary.clone());
    // What an application has is the simulator's: its flows always have data.
    let cases: Vec<&Case> = cases.iter().filter(|case| !case.is_simulated_only()).collect();
    if cases.is_empty() {
        return Err(usage(
            "--case: what it names is simulated only; leave --datapath out, or name another case",
        ));
    }
    let scenarios = cases.iter().map(|case| case.scenario()).collect::<Result<Vec<_>>>()?;
    let total = scenarios.iter().fold(Dur::ZERO, |sum, scenario| sum + scenario.duration);
    let bar = emulate::progress_bar(total * algs.len() as u64);
    let mut verdicts = Vec::new();
    for alg in algs {
        for (case, scenario) in cases.iter().zip(&scenarios) {
            let run: (RunResult, _) =
                emulate::run_one(scenario, &choice(alg), datapath, loader, SEED, &agent, &bar)?;
            verdicts.push(case.judge(alg, &run.0));
        }
    }
    bar.finish_and_clear();
    Ok(verdicts)
}

/// A row for each algorithm, a column for each case: Mbps where it is measured, and ✗ where the case is missed.
fn matrix(cases: &[Case], algs: &[String], verdicts: &[Verdict]) -> String {
    let mut text = String::new();
    for case in cases {
        text += &format!("- **{}**: {}\n", case.name, case.what);
    }
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let names = cases.iter().map(|case| case.name.clone());
    text += "\n";
    text += &row(std::iter::once("algorithm".to_string()).chain(names).collect());
    text += &row(vec!["---".to_string(); cases.len() + 1]);
    for alg in algs {
        let cell = |case: &Case| {
            let its = verdicts.iter().find(|verdict| verdict.alg == *alg && verdict.case == case.name);
            its.map_or("–".to_string(), |its| {
                let mark = if its.missed.is_empty() { "" } else { " ✗" };
                format!("{:.1}{mark}", its.mbps)
            })
        };
        text += &row(std::iter::once(format!("`{alg}`")).chain(cases.iter().map(cell)).collect());
    }
    let missed = verdicts.iter().filter(|verdict| !verdict.missed.is_empty());
    for verdict in missed {
        text += &format!("\n- `{}`, {}: {}", verdict.alg, verdict.case, verdict.missed.join("; "));
    }
    text
}
