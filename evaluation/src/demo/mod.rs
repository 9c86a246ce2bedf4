//! `anole-eval demo`: three algorithms on real QUIC packets, then three flows that share, as a page for a
//! newcomer.

mod page;

use crate::options::usage;
use crate::{emulate, output, table};
use anole_inference::{BackendSettings, Loader, Serving};
use anole_sim::plan::Choice;
use anole_sim::result::RunResult;
use anole_sim::scenario::Scenario;
use anole_sim::suite::Ranges;
use anyhow::Result;
use std::path::PathBuf;
use std::sync::Arc;

/// The link of Anole's Fig. 5a, shipped inside the program so that the demo runs from anywhere.
const SCENARIO: &str = include_str!("../../scenarios/anole-normal.toml");
const SCENARIO_NAME: &str = "anole-normal.toml";

/// One flow each, controlled by the agent.
const ALGORITHMS: [&str; 3] = ["anole", "cubic", "bbr"];

const DATAPATH: emulate::DatapathKind = emulate::DatapathKind::Quic;

/// Flows of the second part, which start this far apart.
const SHARING_FLOWS: u32 = 3;
const SHARING_SPACING_S: f64 = 4.0;

/// Options of `anole-eval demo`.
#[derive(clap::Args)]
pub struct Args {
    /// Where the results, the plots and the page go
    #[arg(long, value_name = "DIR", default_value = "out/demo")]
    out: PathBuf,
    /// Length of each transfer, seconds
    #[arg(long, value_name = "S", default_value_t = 20.0, allow_negative_numbers = true)]
    duration_s: f64,
    /// Seed of the link and the policies
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    agent: emulate::AgentArgs,
}

/// Runs the subcommand.
pub fn main(args: Args) -> Result<()> {
    let duration_s = Ranges::duration(args.duration_s)
        .map_err(|wanted| usage(format!("--duration-s {:?}: {wanted}", args.duration_s)))?;
    let single = scenario(&[format!("duration_s={duration_s}")])?;
    let shared = scenario(&[
        format!("duration_s={}", duration_s + SHARING_SPACING_S * f64::from(SHARING_FLOWS - 1)),
        format!("flow.count={SHARING_FLOWS}"),
        format!("flow.start_spacing_s={SHARING_SPACING_S}"),
    ])?;
    output::check_folder(&args.out)?;
    let loader = Arc::new(Loader::new(BackendSettings::default(), Serving::Immediate)?);
    let choice = |alg: &str| Choice { alg: Some(alg.to_string()), classic: None, policy: None };
    for alg in ALGORITHMS {
        emulate::check(&single, &choice(alg), DATAPATH, &loader, args.seed, &args.agent)?;
    }
    eprintln!(
        "Four transfers of about {duration_s:.0} s each, real QUIC packets over an emulated link (seed {}).",
        args.seed
    );
    let run = |scenario: &Scenario, alg: &str| -> Result<RunResult> {
        let bar = emulate::progress_bar(scenario.duration);
        let (result, stolen) =
            emulate::run_one(scenario, &choice(alg), DATAPATH, &loader, args.seed, &args.agent, &bar)?;
        emulate::warn(&result, stolen, &bar);
        bar.finish_and_clear();
        Ok(result)
    };
    let mut singles = Vec::new();
    for alg in ALGORITHMS {
        eprintln!("  {alg} …");
        singles.push(run(&single, alg)?);
    }
    eprintln!("  {SHARING_FLOWS} flows of anole, one every {SHARING_SPACING_S} s …");
    let sharing = run(&shared, ALGORITHMS[0])?;

    for result in singles.iter().chain([&sharing]) {
        let flows = result.flows.len();
        let name = format!("{}-{flows}-flow{}.json", result.alg, if flows == 1 { "" } else { "s" });
        output::write_whole(&args.out, &name, &(output::to_json(result)? + "\n"))?;
    }
    let pictures = page::Pictures::draw(&singles, &sharing);
    for (name, svg) in pictures.files() {
        output::write_whole(&args.out, name, svg)?;
    }
    output::write_whole(&args.out, "index.html", page::render(&single, &singles, &sharing, &pictures))?;
    output::print_line(&table::render(&singles))?;
    output::print_line("")?;
    output::print_line(&table::render(std::slice::from_ref(&sharing)))?;
    output::print_line(&format!("\nThe page: {}", args.out.join("index.html").display()))
}

fn scenario(set: &[String]) -> Result<Scenario> {
    let mut no_traces = |path: &str| Err(format!("the demo's scenario has no trace ({path})"));
    Scenario::parse(SCENARIO, SCENARIO_NAME, set, &mut no_traces).map_err(usage)
}
