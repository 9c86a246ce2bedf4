//! `anole-eval suite`: algorithms and policies over random links, each of them over all links.

mod summary;

use crate::options::{check_answers, planned, usage};
use crate::output::{self, VERSION};
use crate::pool;
use anole_algorithms::Slots;
use anole_inference::{BackendSettings, Loader, Serving};
use anole_sim::AgentScript;
use anole_sim::plan::Choice;
use anole_sim::result::RunResult;
use anole_sim::scenario::Scenario;
use anole_sim::suite::{LinkOutcome, Purpose, Ranges, figures};
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Options of `anole-eval suite`.
#[derive(clap::Args)]
pub struct Args {
    /// Random links
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    links: u32,
    /// Seed of the links; no seed gives links that a training with any seed has seen
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Algorithms; NAME+POLICY is one with a policy of its own. The first is compared with each other
    #[arg(long, value_name = "NAME[+POLICY][,…]", value_delimiter = ',', default_value = "anole,cubic,bbr")]
    alg: Vec<String>,
    /// Learned candidates or policies, names or files, each with every algorithm that takes one
    #[arg(long, value_name = "NAME|FILE[,…]", value_delimiter = ',')]
    policy: Vec<String>,
    /// Rule-based candidate of algorithms that have one
    #[arg(long, value_name = "NAME")]
    classic: Option<String>,
    /// What links are drawn from: random, inside, capacity-2x, capacity-5x, rtt-2x, loss, traces, or a
    /// JSON file with a `.json` at its end
    #[arg(long, value_name = "NAME|FILE", default_value = "random")]
    ranges: String,
    /// Length of each run, s; that of the ranges (30) if left out
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    duration: Option<f64>,
    /// Runs at the same time; as many as there are processors if left out
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Print one JSON object per run, one per line
    #[arg(long)]
    json: bool,
    /// Print one JSON object per algorithm and policy instead, with the figures of the table
    #[arg(long, conflicts_with = "json")]
    summary: bool,
    /// Also write each run's JSON to a file in this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// An algorithm with its policy.
#[derive(Clone, Debug, PartialEq)]
struct Contestant {
    label: String,
    choice: Choice,
}

/// One run: which contestant, and what came of it on its link.
struct Done {
    contestant: usize,
    outcome: LinkOutcome,
    result: RunResult,
}

/// The links of a suite, each drawn when it is run.
struct Links<'a> {
    args: &'a Args,
    ranges: &'a Ranges,
    name: String,
}

impl Links<'_> {
    fn draw(&self, number: u64) -> Scenario {
        Scenario {
            name: format!("suite-{}-{number}", self.name),
            ..self.ranges.draw("native", Purpose::Evaluation, self.args.seed, number)
        }
    }
}

/// Runs the subcommand.
pub fn main(args: Args) -> Result<()> {
    let ranges = ranges(&args)?;
    let contestants = contestants(&args)?;
    args.out.as_deref().map_or(Ok(()), output::check_folder)?;
    let loader = Arc::new(Loader::new(BackendSettings::default(), Serving::Immediate).map_err(usage)?);
    let links = Links { args: &args, ranges: &ranges, name: name_of(&args.ranges) };
    check_cross_traffic(&args, &ranges, &loader)?;
    let first = links.draw(0);
    for contestant in &contestants {
        planned(&first, &contestant.choice, &loader, 1)
            .map_err(|error| usage(format!("{}: {error}", contestant.label)))?;
    }
    let set = differences(&ranges, &links.name)?;
    let mut outcomes: Vec<Vec<LinkOutcome>> = vec![Vec::new(); contestants.len()];
    run_all(&links, &contestants, &loader, |done| {
        outcomes[done.contestant].push(done.outcome);
        let Choice { classic, policy, .. } = contestants[done.contestant].choice.clone();
        let result = RunResult { version: VERSION, classic, policy, set: set.clone(), ..done.result };
        if let Some(folder) = &args.out {
            output::write_whole(folder, &output::file_name(&result), &(output::to_json(&result)? + "\n"))?;
        }
        if args.json { output::print_line(&output::to_json(&result)?) } else { Ok(()) }
    })?;
    check_answers(&loader)?;
    let labels = contestants.into_iter().map(|contestant| contestant.label);
    let all: Vec<(String, Vec<LinkOutcome>)> = labels.zip(outcomes).collect();
    if args.summary {
        for (label, outcomes) in &all {
            let figures = figures(label, outcomes, &all[0].1);
            output::print_line(&serde_json::to_string(&figures).context("cannot express figures as JSON")?)?;
        }
    } else if !args.json {
        let head = format!(
            "{} links of \"{}\", seed {}, {} s each",
            args.links, args.ranges, args.seed, ranges.duration_s
        );
        output::print_line(&summary::render(&head, &all))?;
    }
    Ok(())
}

fn ranges(args: &Args) -> Result<Ranges> {
    let mut ranges: Ranges = match args.ranges.ends_with(".json") {
        false => Ranges::named(&args.ranges).map_err(usage)?,
        true => {
            let text = std::fs::read_to_string(&args.ranges)
                .map_err(|error| usage(format!("cannot read the ranges {}: {error}", args.ranges)))?;
            serde_json::from_str(&text).map_err(|error| usage(format!("{}: {error}", args.ranges)))?
        }
    };
    if let Some(seconds) = args.duration {
        let refused = |wanted| usage(format!("--duration {seconds:?}: {wanted}"));
        ranges.duration_s = Ranges::duration(seconds).map_err(refused)?;
    }
    ranges.check().map_err(usage)?;
    Ok(ranges)
}

/// Refuses algorithms of cross traffic that do not run, on whatever link they would come.
fn check_cross_traffic(args: &Args, ranges: &Ranges, loader: &Arc<Loader>) -> Result<()> {
    let alone = Ranges { cross_flows: [0, 0], ..ranges.clone() };
    for alg in ranges.cross_algs.iter().filter(|_| ranges.cross_flows[1] > 0) {
        let link = alone.draw(alg, Purpose::Evaluation, args.seed, 0);
        planned(&link, &Choice::default(), loader, link.seed)
            .map_err(|error| usage(format!("{}: cross_algs: {error}", args.ranges)))?;
    }
    Ok(())
}

/// The ranges' name in results: a file's without its folder and ending.
fn name_of(ranges: &str) -> String {
    let path = std::path::Path::new(ranges);
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// What of the ranges is not as in those that come with the program under this name, or in the random suite, as
/// KEY=VALUE: runs over other links are told apart, whatever their file is called.
fn differences(ranges: &Ranges, name: &str) -> Result<Vec<String>> {
    let fields = |ranges: &Ranges| -> Result<serde_json::Value> {
        serde_json::to_value(ranges).context("cannot express ranges as JSON")
    };
    let (ours, usual) = (fields(ranges)?, fields(&Ranges::named(name).unwrap_or_default())?);
    let all = ours.as_object().into_iter().flatten();
    let differ = all.filter(|(key, value)| usual[key.as_str()] != **value);
    Ok(differ.map(|(key, value)| format!("{key}={value}")).collect())
}

/// Every algorithm with every policy that it takes.
fn contestants(args: &Args) -> Result<Vec<Contestant>> {
    let named = |name: &String| match name.split_once('+') {
        Some((alg, own)) => (alg.to_string(), Some(own.to_string())),
        None => (name.clone(), None),
    };
    let algs: Vec<(String, Option<String>)> = args.alg.iter().map(named).collect();
    let classic = Slots { classic: args.classic.clone(), policy: None };
    let classics = classic.of_each(algs.iter().map(|(alg, _)| alg.as_str()));
    let without_own = algs.iter().filter(|(_, own)| own.is_none()).map(|(alg, _)| alg.as_str());
    let mut policies = policies_of(&args.policy, &without_own.collect::<Vec<_>>()).into_iter();
    let mut all: Vec<Contestant> = Vec::new();
    for ((alg, own), Slots { classic, .. }) in algs.iter().zip(classics) {
        let its = match own {
            Some(_) => vec![own.clone()],
            None => policies.next().unwrap_or_default(),
        };
        for policy in its {
            let label = policy.as_ref().map_or(alg.clone(), |policy| format!("{alg}+{policy}"));
            let choice = Choice { alg: Some(alg.clone()), classic: classic.clone(), policy };
            all.push(Contestant { label, choice });
        }
    }
    let mut labels: Vec<&str> = all.iter().map(|contestant| contestant.label.as_str()).collect();
    labels.sort_unstable();
    match labels.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(usage(format!("--alg and --policy name {} twice", pair[0]))),
        None => Ok(all),
    }
}

/// The policies of each algorithm: all that were asked for, or its default where it takes none. What none takes goes
/// to all, so that it is refused.
fn policies_of(asked: &[String], algs: &[&str]) -> Vec<Vec<Option<String>>> {
    let slots = |policy: &String| Slots { classic: None, policy: Some(policy.clone()) };
    let each: Vec<Vec<Slots>> =
        asked.iter().map(|policy| slots(policy).of_each(algs.iter().copied())).collect();
    let its = |alg: usize| {
        let mut its: Vec<_> = each.iter().map(|slots| slots[alg].policy.clone()).collect();
        its.dedup();
        if its.is_empty() { vec![None] } else { its }
    };
    (0..algs.len()).map(its).collect()
}

/// Runs every contestant on every link on several threads; results come link by link, in order.
fn run_all(
    links: &Links<'_>,
    contestants: &[Contestant],
    loader: &Arc<Loader>,
    mut take: impl FnMut(Done) -> Result<()>,
) -> Result<()> {
    let total = links.args.links as usize * contestants.len();
    let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} runs, {eta} left");
    let bar =
        ProgressBar::new(total as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let job = |number: usize| {
        let contestant = number % contestants.len();
        let link = links.draw((number / contestants.len()) as u64);
        let result = run_one(&link, &contestants[contestant], loader)?;
        Ok(Done { contestant, outcome: LinkOutcome::of(&result, &link), result })
    };
    pool::run(
        total,
        pool::workers(links.args.jobs),
        job,
        || bar.inc(1),
        |_, done| bar.suspend(|| take(done)),
    )?;
    bar.finish_and_clear();
    Ok(())
}

fn run_one(link: &Scenario, contestant: &Contestant, loader: &Arc<Loader>) -> Result<RunResult> {
    let started = Instant::now();
    let (plans, backend) = planned(link, &contestant.choice, loader, link.seed)?;
    let result = anole_sim::run(link, plans, link.seed, AgentScript::default(), &mut |_| ());
    Ok(RunResult { backend, wall_s: started.elapsed().as_secs_f64(), ..result })
}
