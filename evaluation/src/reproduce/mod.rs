//! `anole-eval reproduce`: the figures of five papers, and what lies beyond them, for any algorithm.
//!
//! An [`Experiment`] is a file: the cells that run, the figures that are read off the runs, the panels that are drawn.
//! Those of `evaluation/experiments/` come with the program ([`catalogue`]); a researcher writes others.

mod catalogue;
mod cells;
mod cluster;
mod experiment;
mod figures;
mod file;
mod measure;
mod outcome;
mod packets;
mod panels;
mod picture;
mod png;
mod report;
mod run;
mod series;
mod site;
mod table;
mod testbed;

use crate::emulate::host::ProcessorTime;
use crate::emulate::{self, DatapathKind, EmulatorKind};
use crate::options::{check_answers, usage};
use crate::output;
use crate::pool;
use anole_inference::{BackendSettings, Loader, Serving};
use anole_model::Dur;
use anole_model::names::{did_you_mean, nearest};
use anole_policies::is_file;
use anole_sim::plan::Choice;
use anyhow::{Context, Result};
use cells::Cells;
use experiment::Experiment;
use outcome::{Contender, Figure, Results};
use run::{Carrier, Pick, Runner};
use site::Site;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use table::Table;

/// Options of `anole-eval reproduce`.
#[derive(clap::Args)]
pub struct Args {
    /// Experiments, a family (anole, libra, spine, antelope, study), all (but the sweeps), sweeps, or a FILE.toml of your own
    #[arg(value_name = "ID|FILE", required_unless_present = "list")]
    ids: Vec<String>,
    /// List the experiments and what they show
    #[arg(long)]
    list: bool,
    /// Fewer seeds and shorter runs: a check that everything works, not a result
    #[arg(long)]
    quick: bool,
    /// What carries the flows
    #[arg(long, value_enum, default_value = "sim")]
    datapath: Datapath,
    /// The algorithm that the experiments are about; each one's own if left out
    #[arg(long, value_name = "NAME")]
    subject: Option<String>,
    /// What real packets go through
    #[arg(long, value_enum, default_value = "own")]
    emulator: EmulatorKind,
    /// Run the peers with real packets as well, where figures can do without
    #[arg(long)]
    peers: bool,
    /// Leave the peers out of simulations as well, where figures can do without
    #[arg(long, conflicts_with = "peers")]
    alone: bool,
    /// The agent's program, for real packets; otherwise $ANOLE_CCP, or anole-ccp beside this program
    #[arg(long, value_name = "FILE")]
    agent_binary: Option<PathBuf>,
    /// Seeds of every experiment; each one's own number, at least five, if left out (three with real packets)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(experiment::SEEDS))]
    seeds: Option<u64>,
    /// Simulations at the same time; as many as there are processors if left out
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Run the simulations on the Ray cluster at this address (auto: the one of this machine; local: begun for it); takes Python with ray
    #[arg(long, value_name = "ADDRESS", requires = "out", conflicts_with = "only")]
    ray: Option<String>,
    /// Directory for tables, plots, report.md and finished runs; what is there already is not run again
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Simulate single runs of one experiment alone and print each as a line of JSON: cells (from 1, as on its page) and seeds
    #[arg(long, value_name = "CELL.SEED[,…]", value_delimiter = ',', conflicts_with = "json")]
    only: Vec<Pick>,
    /// Also write the study's runs here, in the folder layout of its public testbed, for its own plotting scripts
    #[arg(long, value_name = "DIR", conflicts_with_all = ["only", "quick"])]
    testbed: Option<PathBuf>,
    /// Print one JSON object per figure, one per line
    #[arg(long)]
    json: bool,
    /// Learned candidate of the subject, a name or a policy file; of Anole libra if left out
    #[arg(long, value_name = "NAME|FILE")]
    policy: Option<String>,
    /// Rule-based candidate of the subject; of Anole cubic if left out
    #[arg(long, value_name = "NAME")]
    classic: Option<String>,
    /// Change a parameter of the subject
    #[arg(long, value_name = "NAME=VALUE")]
    param: Vec<String>,
}

/// What carries the flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Datapath {
    /// The simulator, in virtual time
    Sim,
    /// QUIC through the emulator, in real time
    Quic,
    /// TCP of this machine's kernel, between two network namespaces, in real time; takes root
    Kernel,
}

impl Datapath {
    /// What carries real packets.
    fn real(self) -> Option<DatapathKind> {
        match self {
            Datapath::Sim => None,
            Datapath::Quic => Some(DatapathKind::Quic),
            Datapath::Kernel => Some(DatapathKind::Kernel),
        }
    }
}

/// Runs the subcommand.
pub fn main(mut args: Args) -> Result<()> {
    if args.list {
        return list();
    }
    if let Some(file) = args.policy.as_mut().filter(|policy| is_file(policy)) {
        *file = std::path::absolute(&file)?.display().to_string();
    }
    args.param.iter().try_for_each(|param| check_param(param))?;
    let own = own(&args.ids)?;
    let experiments = chosen(&args.ids, &own)?;
    args.out.as_deref().map_or(Ok(()), output::check_folder)?;
    args.testbed.as_deref().map_or(Ok(()), output::check_folder)?;
    let loader = Arc::new(Loader::new(BackendSettings::default(), Serving::Immediate).map_err(usage)?);
    let runner = Runner {
        quick: args.quick,
        seeds: args.seeds,
        carrier: carrier(&args)?,
        alone: alone(&args),
        cells: args.out.as_deref().map(Cells::below).transpose()?,
        bar: run::progress_bar(0),
        kept: AtomicU64::new(0),
        policies: loader.clone(),
    };
    let jobs = experiments.iter().map(|experiment| (*experiment, subject(&args, experiment)));
    let jobs = possible(&runner, &args.ids, jobs.collect())?;
    if !args.only.is_empty() {
        return only(&args, &runner, &jobs);
    }
    let simulations = jobs.iter().map(|(experiment, tested)| runner.simulations(experiment, tested));
    runner.bar.set_length(simulations.sum::<Result<u64>>()?);
    if let (Some(address), Some(out)) = (&args.ray, &args.out) {
        cluster(&args, &runner, &jobs, (address, out))?;
    }
    tell_time(&runner, &jobs)?;
    let mut page = report::head(&what_ran(&args), jobs.len());
    let folder = args.out.as_deref();
    if folder.is_some() && !png::is_possible() {
        eprintln!(
            "anole-eval: no PNG is drawn: this system has no font for its text; install one (fonts-dejavu-core)"
        );
    }
    let mode = runner.carrier.name();
    let mut site = Site::new(what_ran(&args), flags(&args), args.quick, mode);
    for (experiment, tested) in jobs {
        let begin = ProcessorTime::now();
        let partial = format!("{}-partial.csv", experiment.id);
        let mut save = |so_far: &Results| write(folder, &partial, &Table::of_flows(so_far, args.quick).csv());
        let (results, repeated) = runner.run(experiment, &tested, &mut save)?;
        check_answers(&loader)?;
        if let Some(testbed) = &args.testbed {
            runner.write_testbed(testbed, experiment, &results)?;
        }
        let mut figures = experiment.figures(&tested.label, &results).map_err(usage)?;
        if runner.alone {
            // Those of peers that did not run.
            figures.retain(|figure| !figure.cells.is_empty());
        }
        if let Some(folder) = folder {
            let (plot, png) = write_all(folder, experiment, &tested, (&results, args.quick))?;
            let files = &runner.files(experiment, &results)?;
            let outcome =
                site::Outcome { experiment, figures: &figures, plot: &plot, png, results: &results, files };
            output::write_whole(folder, &format!("{}.html", experiment.id), site.add(&outcome))?;
            output::write_whole(folder, "index.html", site.index(false))?;
        }
        page += &report::section(experiment, &figures);
        if args.datapath != Datapath::Sim {
            let load = packets::load(begin, repeated);
            eprintln!("anole-eval: {}: {load}", experiment.id);
            page += &format!("\n{load}.\n");
        }
        write(folder, "report.md", &page)?;
        folder.map_or(Ok(()), |folder| output::remove(folder, &partial))?;
        print(&args, (experiment, mode), &figures)?;
    }
    if let Some(folder) = folder {
        for (name, page) in site.pages() {
            output::write_whole(folder, &name, page)?;
        }
        output::write_whole(folder, "index.html", site.index(true))?;
    }
    runner.tell_speed();
    Ok(())
}

/// What is not kept yet, on a cluster.
fn cluster(
    args: &Args,
    runner: &Runner,
    jobs: &[(&Experiment, Contender)],
    (address, out): (&str, &Path),
) -> Result<()> {
    if args.datapath != Datapath::Sim {
        return Err(usage("--ray is for simulations; leave --datapath out"));
    }
    let wanted = |(experiment, tested): &(&Experiment, Contender)| {
        let name = match &experiment.raw.file {
            Some(file) => file.display().to_string(),
            None => experiment.id.clone(),
        };
        Ok((name, runner.unfinished(experiment, tested)?))
    };
    let wanted: Vec<cluster::Wanted> = jobs.iter().map(wanted).collect::<Result<_>>()?;
    cluster::run(address, &wanted, &options_of(args), out)
}

/// Single runs of one experiment, kept and printed.
fn only(args: &Args, runner: &Runner, jobs: &[(&Experiment, Contender)]) -> Result<()> {
    let [(experiment, tested)] = jobs else {
        return Err(usage("--only takes cells of one experiment; name one"));
    };
    for run in runner.only(experiment, tested, &args.only)? {
        output::print_line(&output::to_json(&run)?)?;
    }
    Ok(())
}

fn list() -> Result<()> {
    let line = |experiment: &&Experiment| {
        output::print_line(&format!("{:<24} {}", experiment.id, experiment.raw.title))
    };
    let (sweeps, all): (Vec<_>, Vec<_>) =
        catalogue::all().iter().partition(|experiment| experiment.raw.sweep);
    all.iter().try_for_each(line)?;
    output::print_line(&format!("\n{SWEEPS}: parameters over their ranges; long, and not part of {ALL}"))?;
    sweeps.iter().try_for_each(line)
}

/// What stands for every experiment but the sweeps, and for every sweep.
const ALL: &str = "all";
const SWEEPS: &str = "sweeps";

/// The user's own experiments among these. Files are named from the root, here and with `--policy`: names of kept runs depend
/// on them, and a node of a cluster has the same files in the same places, but another working folder.
fn own(ids: &[String]) -> Result<Vec<Experiment>> {
    let files = ids.iter().filter(|id| id.ends_with(".toml"));
    let read = |file: &String| {
        catalogue::read(&std::path::absolute(file)?)
            .map_err(|error| usage(format!("the experiment {file}: {error}")))
    };
    files.map(read).collect()
}

/// The experiments with these names, each once, in the order of the catalogue; then the user's own. What each leaves lies
/// under its name, so that no two may have one.
fn chosen<'a>(ids: &[String], own: &'a [Experiment]) -> Result<Vec<&'a Experiment>> {
    let all = catalogue::all();
    let mut known: Vec<&str> = vec![ALL, SWEEPS];
    for family in all.iter().map(|experiment| experiment.raw.family.as_str()) {
        if !known.contains(&family) {
            known.push(family);
        }
    }
    known.extend(all.iter().map(|experiment| experiment.id.as_str()));
    if let Some(unknown) = ids.iter().find(|id| !id.ends_with(".toml") && !known.contains(&id.as_str())) {
        return Err(usage(format!(
            "no experiment \"{unknown}\"{}; known are {}",
            did_you_mean(nearest(unknown, known.iter().copied()).as_deref()),
            known.join(", ")
        )));
    }
    let wanted = |experiment: &&Experiment| {
        let group = if experiment.raw.sweep { SWEEPS } else { ALL };
        let in_family = |id: &String| *id == experiment.raw.family && !experiment.raw.sweep;
        ids.iter().any(|id| id == group || *id == experiment.id || in_family(id))
    };
    let chosen: Vec<&Experiment> = all.iter().filter(wanted).chain(own).collect();
    let twice = (1..chosen.len()).find(|&n| chosen[..n].iter().any(|before| before.id == chosen[n].id));
    if let Some(twice) = twice.map(|n| chosen[n]) {
        return Err(usage(format!(
            "two experiments are named {}, and the results of one would lie in the place of the other's; rename {}",
            twice.id,
            twice.argument().display()
        )));
    }
    Ok(chosen)
}

fn carrier(args: &Args) -> Result<Carrier> {
    let real = args.peers || args.agent_binary.is_some() || args.emulator != EmulatorKind::Own;
    match args.datapath.real() {
        None if real => {
            Err(usage("--peers, --agent-binary and --emulator are for --datapath quic and kernel; name one"))
        }
        None => Ok(Carrier::Simulator(pool::workers(args.jobs))),
        Some(_) if args.jobs.is_some_and(|jobs| jobs.get() > 1) => {
            Err(usage("--jobs: runs in real time disturb each other; leave it out with real packets"))
        }
        Some(datapath) => Ok(Carrier::Packets {
            carrier: emulate::Carrier { datapath, emulator: args.emulator },
            agent_binary: args.agent_binary.clone(),
        }),
    }
}

/// Whether the subject runs without its peers where figures can do without them.
fn alone(args: &Args) -> bool {
    match args.datapath {
        Datapath::Sim => args.alone,
        Datapath::Quic | Datapath::Kernel => !args.peers,
    }
}

/// Those that can run. One that can't is an error where it was named, and a note where all were asked for.
fn possible<'a>(
    runner: &Runner,
    ids: &[String],
    jobs: Vec<(&'a Experiment, Contender)>,
) -> Result<Vec<(&'a Experiment, Contender)>> {
    let mut possible = Vec::with_capacity(jobs.len());
    for (experiment, tested) in jobs {
        let Some(reason) = runner.refuses(experiment, &tested)? else {
            possible.push((experiment, tested));
            continue;
        };
        let id = &experiment.id;
        if ids.contains(id) || experiment.raw.file.is_some() {
            return Err(usage(match runner.simulates() {
                true => reason,
                false => format!("{id} can't run with these packets: {reason}; leave --datapath out"),
            }));
        }
        eprintln!("anole-eval: {id} is left out: {reason}");
    }
    if possible.is_empty() {
        return Err(usage(
            "nothing is left to run; leave --datapath, --subject and --param out, or name one experiment",
        ));
    }
    Ok(possible)
}

/// Real time is told before it passes.
fn tell_time(runner: &Runner, jobs: &[(&Experiment, Contender)]) -> Result<()> {
    let mut total = Dur::ZERO;
    for (experiment, tested) in jobs {
        total += runner.real_time(experiment, tested)?;
    }
    if !total.is_zero() {
        eprintln!("anole-eval: in real time, about {}", packets::for_people(total));
    }
    Ok(())
}

/// Refuses a `--param` that is not NAME=VALUE.
fn check_param(param: &str) -> Result<()> {
    let (name, value) = param.split_once('=').unwrap_or_default();
    match value.trim().parse::<f64>() {
        Ok(_) if !name.contains('.') => Ok(()),
        Err(_) if param.contains('=') => Err(usage(format!("--param {param}: \"{value}\" is not a number"))),
        _ => Err(usage(format!("--param {param}: expected NAME=VALUE, such as mu=0.2"))),
    }
}

/// The algorithm that is tested by default with these slots: a trained policy, whatever the agent's default is.
const ANOLE: &str = "anole";
const ANOLES_CLASSIC: &str = "cubic";
const ANOLES_POLICY: &str = "libra";

/// The algorithm that an experiment is about, with what the options put into its slots.
fn subject(args: &Args, experiment: &Experiment) -> Contender {
    let alg = args.subject.as_ref().unwrap_or(&experiment.raw.subject);
    let own = |slot: &str| (alg == ANOLE).then(|| slot.to_string());
    let choice = Choice {
        alg: Some(alg.clone()),
        classic: args.classic.clone().or_else(|| own(ANOLES_CLASSIC)),
        policy: args.policy.clone().or_else(|| own(ANOLES_POLICY)),
    };
    let params = args.param.iter().map(|param| format!("param.{param}")).collect();
    Contender { label: alg.clone(), choice, params }
}

fn what_ran(args: &Args) -> String {
    let params = if args.param.is_empty() { String::new() } else { format!(", {}", args.param.join(", ")) };
    let quick = if args.quick { ", a quick check and no result" } else { "" };
    let seeds = args.seeds.map_or(String::new(), |seeds| format!(", seeds 1 to {seeds}"));
    let carrier = match args.datapath {
        Datapath::Sim => "in simulation",
        Datapath::Quic => "over QUIC, in real time",
        Datapath::Kernel => "over Linux TCP, in real time",
    };
    let through = match args.emulator {
        EmulatorKind::Own => "",
        EmulatorKind::Mahimahi => ", through Mahimahi",
    };
    let subject = args.subject.as_deref().unwrap_or("each experiment's own subject");
    let slot =
        |name: &str, slot: &Option<String>| slot.as_ref().map_or(String::new(), |x| format!(", {name} {x}"));
    let slots = slot("classic", &args.classic) + &slot("policy", &args.policy);
    format!("{subject}{slots}, {carrier}{through}{params}{seeds}{quick}")
}

/// The options, but for what is written where.
fn options_of(args: &Args) -> Vec<String> {
    let mut words = Vec::new();
    let mut add = |flag: &str, value: String| words.extend([flag.to_string(), value]);
    let named = [("--subject", &args.subject), ("--classic", &args.classic), ("--policy", &args.policy)];
    for (flag, value) in named.into_iter().filter_map(|(flag, value)| Some((flag, value.clone()?))) {
        add(flag, value);
    }
    args.param.iter().for_each(|param| add("--param", param.clone()));
    args.seeds.iter().for_each(|seeds| add("--seeds", seeds.to_string()));
    if let Some(datapath) = args.datapath.real() {
        add("--datapath", datapath.name().to_string());
    }
    if args.emulator == EmulatorKind::Mahimahi {
        add("--emulator", "mahimahi".to_string());
    }
    let switches = [(args.quick, "--quick"), (args.alone, "--alone"), (args.peers, "--peers")];
    words.extend(switches.iter().filter(|(on, _)| *on).map(|(_, flag)| flag.to_string()));
    words
}

/// The same, as they stand in a command.
fn flags(args: &Args) -> String {
    options_of(args).iter().map(|word| format!(" {}", site::quoted(word))).collect()
}

/// What one experiment leaves; its plot, and whether there is a PNG of it.
fn write_all(
    folder: &Path,
    experiment: &Experiment,
    tested: &Contender,
    (results, quick): (&Results, bool),
) -> Result<(String, bool)> {
    let panels = experiment.panels(&tested.label, results).map_err(usage)?;
    let id = &experiment.id;
    let plot = picture::draw(&panels);
    output::write_whole(folder, &format!("{id}.svg"), &plot)?;
    // A file need not have panels.
    let png = if panels.is_empty() { None } else { png::draw(&plot)? };
    if let Some(png) = &png {
        output::write_whole(folder, &format!("{id}.png"), png)?;
    }
    output::write_whole(folder, &format!("{id}-plot.csv"), picture::csv(&panels))?;
    let flows = Table::of_flows(results, quick);
    output::write_whole(folder, &format!("{id}.csv"), flows.csv())?;
    output::write_whole(folder, &format!("{id}.parquet"), flows.parquet()?)?;
    Ok((plot, png.is_some()))
}

fn write(folder: Option<&Path>, name: &str, content: &str) -> Result<()> {
    folder.map_or(Ok(()), |folder| output::write_whole(folder, name, content))
}

fn print(args: &Args, (experiment, mode): (&Experiment, &str), figures: &[Figure]) -> Result<()> {
    if !args.json {
        return output::print_line(&report::lines(&experiment.id, figures));
    }
    figures.iter().try_for_each(|figure| {
        let json = serde_json::to_string(&report::json(&experiment.id, mode, figure));
        output::print_line(&json.context("cannot express a figure as JSON")?)
    })
}
