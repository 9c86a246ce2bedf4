//! `anole-eval carriers`: one test body over everything that carries the same programs and algorithms (docs/carriers.md).
//!
//! A case is a scenario, an algorithm and what the run has to show; it knows nothing of what carries it but the size of a
//! segment and the name of who governs. Faults are what would be wrong on any host: who governs, what is in force, what
//! arrived. Figures depend on the host where packets are real.

mod case;

use crate::emulate::{self, AgentArgs, DatapathKind};
use crate::options::usage;
use crate::output;
use anole_inference::{BackendSettings, Loader, Serving};
use anole_model::{Dur, Time};
use anole_policies::Policies;
use anole_sim::AgentScript;
use anole_sim::plan::{Choice, plan};
use anole_sim::result::RunResult;
use anole_sim::scenario::Scenario;
use anyhow::{Result, bail};
use case::{CASES, Case, Verdict};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The seed of every run.
const SEED: u64 = 1;

/// Options of `anole-eval carriers`.
#[derive(clap::Args)]
pub struct Args {
    /// Carriers; all of them if left out, and the kernel's takes root
    #[arg(long, value_name = "NAME[,…]", value_delimiter = ',', value_enum)]
    carrier: Vec<Carrier>,
    /// Cases, by their names; all if left out
    #[arg(long, value_name = "NAME[,…]", value_delimiter = ',')]
    case: Vec<String>,
    /// Short runs: what holds on any host shows in them, figures less so
    #[arg(long)]
    quick: bool,
    /// The agent's program; otherwise $ANOLE_CCP, or anole-ccp beside this program
    #[arg(long, value_name = "FILE")]
    agent_binary: Option<PathBuf>,
    /// Print one JSON object per carrier and case, one per line
    #[arg(long)]
    json: bool,
}

/// What carries flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Carrier {
    /// Simulation: virtual time
    Sim,
    /// QUIC under an agent
    Quic,
    /// QUIC without an agent: the algorithm in the application's process
    InProcess,
    /// TCP in user space under an agent
    #[value(name = "usertcp")]
    UserTcp,
    /// TCP of this machine's kernel under an agent, through BPF
    Kernel,
}

impl Carrier {
    const ALL: [Carrier; 5] =
        [Carrier::Sim, Carrier::Quic, Carrier::InProcess, Carrier::UserTcp, Carrier::Kernel];

    fn name(self) -> &'static str {
        self.datapath().map_or("sim", DatapathKind::name)
    }

    /// What takes real packets; none for the simulator.
    pub fn datapath(self) -> Option<DatapathKind> {
        match self {
            Carrier::Sim => None,
            Carrier::Quic => Some(DatapathKind::Quic),
            Carrier::InProcess => Some(DatapathKind::InProcess),
            Carrier::UserTcp => Some(DatapathKind::UserTcp),
            Carrier::Kernel => Some(DatapathKind::Kernel),
        }
    }

    /// Bytes of a full packet that are no part of a segment, which windows and rates count: IPv4 and UDP, IPv4 and TCP
    /// without or with a timestamp (RFC 7323).
    fn header_bytes(self) -> f64 {
        match self {
            Carrier::Quic | Carrier::InProcess => 28.0,
            Carrier::UserTcp => 40.0,
            Carrier::Sim | Carrier::Kernel => 52.0,
        }
    }

    /// The word for the algorithm's decisions in results.
    fn governor(self) -> &'static str {
        if self == Carrier::InProcess { "in-process" } else { "agent" }
    }

    /// Whether an agent's program runs.
    fn takes_agent(self) -> bool {
        matches!(self, Carrier::Quic | Carrier::UserTcp | Carrier::Kernel)
    }

    /// The kernel says nothing of single flows.
    fn tells_who_governs(self) -> bool {
        self != Carrier::Kernel
    }
}

/// Runs the subcommand; an error when something is wrong with a carrier.
pub fn main(args: Args) -> Result<()> {
    let cases = chosen(&args.case)?;
    let carriers = if args.carrier.is_empty() { Carrier::ALL.to_vec() } else { args.carrier.clone() };
    check_agent(args.agent_binary.as_deref(), "--carrier", &carriers)?;
    // No case runs a trained policy.
    let loader = Arc::new(Loader::new(BackendSettings::default(), Serving::Immediate).map_err(usage)?);
    let mut runs: Vec<(Carrier, &Case, Scenario)> = Vec::new();
    for &carrier in &carriers {
        for case in cases.iter().filter(|case| case.runs_on(carrier)) {
            let scenario = case.scenario(args.quick)?;
            if let Some(datapath) = carrier.datapath() {
                emulate::check(&scenario, &choice(case), datapath, &loader, SEED, &agent(&args, case))?;
            }
            runs.push((carrier, case, scenario));
        }
    }
    if runs.is_empty() {
        return Err(usage("no case of --case runs on a carrier of --carrier; leave one of them out"));
    }
    let real = runs.iter().filter(|(carrier, ..)| carrier.datapath().is_some());
    let bar = emulate::progress_bar(real.fold(Dur::ZERO, |sum, (_, _, scenario)| sum + scenario.duration));
    let mut verdicts = Vec::new();
    for (carrier, case, scenario) in &runs {
        let result = match carrier.datapath() {
            None => simulate(case, scenario, &loader)?,
            Some(datapath) => {
                let agent = agent(&args, case);
                emulate::run_one(scenario, &choice(case), datapath, &loader, SEED, &agent, &bar)?.0
            }
        };
        verdicts.push(case.judge(scenario, *carrier, &result));
    }
    bar.finish_and_clear();
    if args.json {
        for verdict in &verdicts {
            output::print_line(&serde_json::to_string(verdict)?)?;
        }
    } else {
        output::print_line(&matrix(&cases, &carriers, &verdicts))?;
    }
    match verdicts.iter().filter(|verdict| !verdict.faults.is_empty()).count() {
        0 => Ok(()),
        wrong => bail!("{wrong} of {} runs show something that is wrong on any host", verdicts.len()),
    }
}

/// Refuses an agent's program that none of these carriers, named with `flag`, starts.
pub fn check_agent(binary: Option<&Path>, flag: &str, carriers: &[Carrier]) -> Result<()> {
    match binary {
        Some(_) if !carriers.iter().any(|carrier| carrier.takes_agent()) => Err(usage(format!(
            "--agent-binary is for {flag} quic, usertcp and kernel; name one, or leave it out"
        ))),
        _ => Ok(()),
    }
}

fn chosen(names: &[String]) -> Result<Vec<&'static Case>> {
    if let Some(unknown) = names.iter().find(|name| !CASES.iter().any(|case| case.name == **name)) {
        let known: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        return Err(usage(format!("--case \"{unknown}\": no such case; there are {}", known.join(", "))));
    }
    let asked = |case: &&Case| names.is_empty() || names.iter().any(|name| name == case.name);
    Ok(CASES.iter().filter(asked).collect())
}

fn choice(case: &Case) -> Choice {
    Choice { alg: Some(case.alg.to_string()), ..Choice::default() }
}

fn agent(args: &Args, case: &Case) -> AgentArgs {
    let agent = AgentArgs::undisturbed(args.agent_binary.clone());
    match case.away {
        None => agent,
        Some((from_s, to_s)) => agent.away(from_s, to_s),
    }
}

fn simulate(case: &Case, scenario: &Scenario, loader: &Arc<Loader>) -> Result<RunResult> {
    let policies: Arc<dyn Policies> = loader.clone();
    let plans = plan(scenario, &choice(case), &policies, SEED).map_err(usage)?;
    let absent = case.away.map(|(from, to)| (Time::from_secs_f64(from), Time::from_secs_f64(to)));
    let script = AgentScript { absent: absent.into_iter().collect() };
    Ok(anole_sim::run(scenario, plans, SEED, script, &mut |_| ()))
}

/// A row for each case, a column for each carrier: the figure, ! where it is not as expected, ✗ where something is wrong.
fn matrix(cases: &[&Case], carriers: &[Carrier], verdicts: &[Verdict]) -> String {
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let names = carriers.iter().map(|carrier| format!("`{}`", carrier.name()));
    let head = ["case", "expected"].map(str::to_string).into_iter();
    let mut text = row(head.chain(names).collect());
    text += &row(vec!["---".to_string(); carriers.len() + 2]);
    for case in cases {
        let of = |carrier: Carrier| {
            verdicts.iter().find(|verdict| verdict.case == case.name && verdict.carrier == carrier.name())
        };
        let expected = verdicts.iter().find(|verdict| verdict.case == case.name);
        let expected =
            expected.map_or(String::new(), |verdict| format!("{} to {}", verdict.from, verdict.to));
        let cells = carriers.iter().map(|&carrier| of(carrier).map_or("–".to_string(), cell));
        text +=
            &row([format!("**{}**: {}", case.name, case.what), expected].into_iter().chain(cells).collect());
    }
    for verdict in verdicts {
        for fault in &verdict.faults {
            text += &format!("\n- `{}`, {}: {fault}", verdict.carrier, verdict.case);
        }
    }
    text
}

fn cell(verdict: &Verdict) -> String {
    let figure = verdict.figure.map_or("–".to_string(), |figure| format!("{figure:.2}"));
    match (verdict.faults.is_empty(), verdict.is_expected()) {
        (false, _) => format!("{figure} ✗"),
        (true, true) => figure,
        (true, false) => format!("{figure} !"),
    }
}
