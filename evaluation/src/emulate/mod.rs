//! `anole-eval emulate`: a scenario with real packets, in real time.
//!
//! ```text
//!  QUIC clients ──► emulated links ──► QUIC server          one process, three threads
//!      ▲ window, pacing
//!  datapath host ◄── Unix datagrams ──► anole-ccp           one agent process per set of options
//!
//!  the same without the second line: the algorithm in the clients' process        --datapath in-process
//!
//!  user-space TCPs ──► emulated links ──► user-space TCP      one process, a thread for each: --datapath usertcp
//!
//!  TCP sockets ──► tun ──► emulated links ──► tun ──► TCP sockets     --datapath kernel: two namespaces,
//!      ▲ window, pacing                                                 as root
//!  BPF in the kernel ◄── ring buffer, maps ──► anole-ccp
//! ```

pub mod agent;
mod between;
pub mod bpf_fs;
mod figures;
mod flood;
pub mod govern;
pub mod host;
mod interrupt;
mod kernel;
mod outage;
mod quic;
mod server;
mod timeline;
mod usertcp;

pub use between::EmulatorKind;

use crate::options::{PolicyArgs, ScenarioArgs, check_backend, usage};
use crate::{output, table};
use anole_emulator::Through;
use anole_inference::Loader;
use anole_model::Dur;
use anole_sim::plan::Choice;
use anole_sim::result::RunResult;
use anole_sim::scenario::Scenario;
use anyhow::{Result, anyhow};
use host::Stolen;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Options of `anole-eval emulate`.
#[derive(clap::Args)]
#[command(mut_arg("file", |file| file.required(false).required_unless_present("self_test")))]
pub struct Args {
    #[command(flatten)]
    scenario: Option<ScenarioArgs>,
    #[command(flatten)]
    policies: PolicyArgs,
    /// What carries the flows
    #[arg(long, value_enum, default_value = "quic")]
    datapath: DatapathKind,
    /// What the flows go through
    #[arg(long, value_enum, default_value = "own")]
    emulator: EmulatorKind,
    #[command(flatten)]
    agent: AgentArgs,
    /// Measure how accurate the emulator is on this machine, and nothing else
    #[arg(long)]
    self_test: bool,
}

/// Where the agents come from and what happens to them.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct AgentArgs {
    /// The agent's program; otherwise $ANOLE_CCP, or anole-ccp beside this program
    #[arg(long, value_name = "FILE")]
    agent_binary: Option<PathBuf>,
    /// Keep the agents away from FROM to TO, in seconds: killed at FROM, started again at TO; from 0 on
    /// they come late. May be repeated, in order
    #[arg(long, value_name = "FROM:TO", value_parser = outage::parse)]
    agent_outage: Vec<outage::Outage>,
    /// Send so many malformed datagrams to the agents during each run
    #[arg(long, value_name = "DATAGRAMS", default_value_t = 0)]
    agent_flood: u64,
}

impl AgentArgs {
    /// Agents from this program, undisturbed.
    pub fn undisturbed(agent_binary: Option<PathBuf>) -> AgentArgs {
        AgentArgs { agent_binary, ..AgentArgs::default() }
    }

    /// The same, away from one second of the run to another.
    pub fn away(self, from_s: f64, to_s: f64) -> AgentArgs {
        AgentArgs { agent_outage: vec![outage::Outage::new(from_s, to_s)], ..self }
    }

    fn disturbs(&self) -> bool {
        !self.agent_outage.is_empty() || self.agent_flood > 0
    }
}

/// What carries the flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum DatapathKind {
    /// QUIC over loopback through the user-space link emulator
    Quic,
    /// The same without an agent: the algorithm in the clients' process
    InProcess,
    /// TCP in user space (smoltcp), through the same links
    #[value(name = "usertcp")]
    UserTcp,
    /// TCP of this machine's kernel, between two network namespaces; takes root
    Kernel,
}

impl DatapathKind {
    /// As in results.
    pub fn name(self) -> &'static str {
        match self {
            DatapathKind::Quic => "quic",
            DatapathKind::InProcess => "in-process",
            DatapathKind::UserTcp => "usertcp",
            DatapathKind::Kernel => "kernel",
        }
    }
}

/// What carries the flows, and what they go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carrier {
    /// What carries them.
    pub datapath: DatapathKind,
    /// What they go through.
    pub emulator: EmulatorKind,
}

impl Carrier {
    /// As in results.
    pub fn name(self) -> &'static str {
        match (self.emulator, self.datapath) {
            (EmulatorKind::Own, datapath) => datapath.name(),
            (EmulatorKind::Mahimahi, DatapathKind::Kernel) => "mahimahi-kernel",
            (EmulatorKind::Mahimahi, _) => "mahimahi-quic",
        }
    }
}

impl From<DatapathKind> for Carrier {
    fn from(datapath: DatapathKind) -> Carrier {
        Carrier { datapath, emulator: EmulatorKind::Own }
    }
}

/// Rates of the links that the self-test measures, Mbps: the scenarios' own.
const SELF_TEST_MBPS: [f64; 3] = [12.0, 48.0, 96.0];
/// Time that the self-test spends on each.
const SELF_TEST_TIME: Duration = Duration::from_secs(5);

/// Runs the subcommand.
pub fn main(args: Args) -> Result<()> {
    if args.self_test {
        return match args.scenario {
            None if args.emulator == EmulatorKind::Mahimahi => {
                Err(usage("--self-test measures this project's emulator; leave --emulator out"))
            }
            None => self_test(args.datapath),
            Some(_) => Err(usage("--self-test measures the emulator alone; leave the scenario out")),
        };
    }
    let options = args.scenario.ok_or_else(|| usage("name a scenario file, or give --self-test"))?;
    let scenario = options.scenario()?;
    let carrier = Carrier { datapath: args.datapath, emulator: args.emulator };
    let runs = options.runs(&scenario);
    let loader = args.policies.loader()?;
    let mut has_agent = false;
    for (choice, seed) in &runs {
        // Every mistake is told before the first run begins.
        has_agent |= check(&scenario, choice, carrier, &loader, *seed, &args.agent)?;
    }
    if args.agent.disturbs() && !has_agent {
        return Err(usage(
            "--agent-outage and --agent-flood need an agent, and no flow has one; name one of `anole-ccp algs` with --alg",
        ));
    }
    check_backend(&loader, "one with --policy")?;
    let bar = progress_bar(scenario.duration * runs.len() as u64);
    let mut results: Vec<RunResult> = Vec::new();
    for (choice, seed) in &runs {
        let (result, stolen) = run_one(&scenario, choice, carrier, &loader, *seed, &args.agent, &bar)?;
        warn(&result, stolen, &bar);
        let result = options.label(&scenario, choice, result);
        if let Some(folder) = &options.out {
            output::write_whole(folder, &output::file_name(&result), &(output::to_json(&result)? + "\n"))?;
        }
        if options.json {
            bar.suspend(|| output::print_line(&output::to_json(&result)?))?;
        } else {
            results.push(table::shown(result));
        }
    }
    bar.finish_and_clear();
    if options.json { Ok(()) } else { output::print_line(&table::render(&results)) }
}

/// Finds out before any run whether it can be done; true where an agent governs a flow of it.
pub fn check(
    scenario: &Scenario,
    choice: &Choice,
    carrier: impl Into<Carrier>,
    loader: &Arc<Loader>,
    seed: u64,
    agent: &AgentArgs,
) -> Result<bool> {
    let span = Duration::from_nanos(scenario.duration.as_nanos());
    outage::check(&agent.agent_outage, span).map_err(usage)?;
    let Carrier { datapath, emulator } = carrier.into();
    if emulator == EmulatorKind::Mahimahi {
        if datapath == DatapathKind::UserTcp {
            return Err(usage(
                "--emulator mahimahi carries --datapath quic, in-process and kernel; leave it out",
            ));
        }
        anole_emulator::mahimahi::check(scenario).map_err(usage)?;
    }
    let governed = govern::govern(scenario, choice, datapath, loader, seed)?;
    match datapath {
        DatapathKind::Kernel => kernel::check(scenario, &governed, agent)?,
        DatapathKind::UserTcp => usertcp::check(scenario, agent)?,
        DatapathKind::InProcess if agent.disturbs() => {
            return Err(usage(
                "--agent-outage and --agent-flood need an agent, and with --datapath in-process there is none",
            ));
        }
        DatapathKind::Quic | DatapathKind::InProcess => {}
    }
    Ok(!governed.agents.is_empty())
}

/// Runs a scenario once, and tells what the host took meanwhile; the agent's program is looked for only if a flow asks
/// for it.
pub fn run_one(
    scenario: &Scenario,
    choice: &Choice,
    carrier: impl Into<Carrier>,
    loader: &Arc<Loader>,
    seed: u64,
    agent: &AgentArgs,
    bar: &ProgressBar,
) -> Result<(RunResult, Stolen)> {
    let run = interrupt::Run::begin();
    let Carrier { datapath, emulator } = carrier.into();
    let governed = govern::govern(scenario, choice, datapath, loader, seed)?;
    let scenario = &*scenario.drawn(seed);
    let binary = match governed.agents.is_empty() {
        true => None,
        false => Some(agent::find(agent.agent_binary.as_deref())?),
    };
    let _awake = host::keep_awake();
    let begin = host::ProcessorTime::now();
    let binary = binary.as_deref();
    let result = match datapath {
        DatapathKind::Quic | DatapathKind::InProcess => {
            quic::run(scenario, &governed, seed, binary, agent, emulator, bar)
        }
        DatapathKind::UserTcp => usertcp::run(scenario, &governed, seed, binary, agent, bar),
        DatapathKind::Kernel => kernel::run(scenario, &governed, seed, binary, agent, emulator, bar),
    }?;
    run.end()?;
    Ok((result, host::stolen_since(begin).unwrap_or_default()))
}

/// Tells of a run that the host disturbed.
pub fn warn(result: &RunResult, stolen: Stolen, bar: &ProgressBar) {
    if stolen.disturbs() {
        let (who, seed) = (&result.alg, result.seed);
        bar.suspend(|| {
            eprintln!(
                "anole-eval: {who}, seed {seed}: {stolen} during the run; its figures tell of that, repeat it"
            );
        });
    }
}

/// Tells of packets that no link lost.
fn warn_of_lost(packets: u64, bar: &ProgressBar) {
    if packets > 0 {
        bar.suspend(|| eprintln!("{packets} packets were lost beside the links: this machine is too busy"));
    }
}

fn self_test(datapath: DatapathKind) -> Result<()> {
    let through = match datapath {
        DatapathKind::Kernel => Through::Tun,
        DatapathKind::Quic | DatapathKind::InProcess => Through::Udp,
        DatapathKind::UserTcp => {
            return Err(usage(
                "--self-test measures UDP (--datapath quic) and TUN devices (--datapath kernel)",
            ));
        }
    };
    output::print_line(
        "link Mbps  rate error %  delay error us  jitter p50/p99 us  CPU %  highest rate carried Mbps",
    )?;
    let _awake = host::keep_awake();
    let begin = host::ProcessorTime::now();
    for mbps in SELF_TEST_MBPS {
        let test =
            anole_emulator::self_test(through, mbps, SELF_TEST_TIME).map_err(|error| anyhow!("{error}"))?;
        output::print_line(&format!(
            "{:>9.0}  {:>12.3}  {:>14.0}  {:>8.0} / {:<6.0}  {:>5.1}  {:>25}",
            test.link_mbps,
            test.rate_error_percent,
            test.delay_error_us,
            test.jitter_p50_us,
            test.jitter_p99_us,
            test.cpu_share * 100.0,
            test.highest_mbps.map_or("none tried".to_string(), |mbps| format!("{mbps:.0}")),
        ))?;
    }
    match host::stolen_since(begin) {
        Some(stolen) => output::print_line(&format!("{stolen} meanwhile")),
        None => Ok(()),
    }
}

/// Counts milliseconds of running time. Hidden by itself where standard error is no terminal.
pub fn progress_bar(total: Dur) -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {percent:>3} % of the running time, {eta} left");
    ProgressBar::new(total.as_micros() / 1000)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
