//! `anole-eval bench`: what a packet costs in the simulator, an inference with each backend, a question to a
//! policy server, and the kernel's datapath beside the kernel's own congestion controls; one table in one run.

mod agent;
mod inference;
mod kernel;
mod round_trip;
mod simulator;

use crate::emulate::agent::find;
use crate::options::{UsageError, usage};
use crate::output;
use anole_inference::{Backend, BackendSettings, Loader, Serving};
use anole_policies::file::{Origin, Tensor};
use anole_policies::{Policies, PolicyFile, Schema, Shipped, schema};
use anyhow::{Context, Result};
use nix::time::{ClockId, clock_gettime};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Options of `anole-eval bench`.
#[derive(clap::Args)]
pub struct Args {
    /// Parts to measure
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "simulator,agent,inference,server,kernel"
    )]
    part: Vec<Part>,
    /// Algorithms to simulate, and whose agents to measure
    #[arg(long, value_name = "NAME[,NAME…]", value_delimiter = ',', default_value = "native,cubic,anole")]
    alg: Vec<String>,
    /// libanole_policy_torch.so; otherwise $ANOLE_TORCH_LIBRARY, the folder of this program,
    /// policy-server/build in its tree, or a system folder
    #[arg(long, value_name = "FILE")]
    torch_library: Option<PathBuf>,
    /// anole-policy-server; otherwise the one beside this program or in policy-server/build of its tree
    #[arg(long, value_name = "FILE")]
    policy_server_binary: Option<PathBuf>,
    /// The agent's program; otherwise $ANOLE_CCP, or anole-ccp beside this program
    #[arg(long, value_name = "FILE")]
    agent_binary: Option<PathBuf>,
    /// Measure the kernel's datapath for some seconds only: whether it works, no figures to go by
    #[arg(long)]
    quick: bool,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Packets per second of processor time.
    Simulator,
    /// Time from report to answer in force, through the agent's process.
    Agent,
    /// Time per inference.
    Inference,
    /// Time from question to answer, through the agent's inference thread and a policy server.
    Server,
    /// Processor time per ACK and per Gbit, and time from report to answer, of the kernel's datapath; as root.
    Kernel,
}

/// Prints a figure as JSON or as text.
fn print(json: bool, figure: &impl Serialize, text: impl FnOnce() -> String) -> Result<()> {
    output::print_line(&if json { serde_json::to_string(figure)? } else { text() })
}

/// Says on standard error what is left out, and why.
fn leave_out(what: &str, why: impl std::fmt::Display) {
    eprintln!("anole-eval: {what} is left out: {why}");
}

/// The agent's program. Without it `what` is left out, unless it was named.
fn agent_program(what: &str, named: Option<&Path>) -> Result<Option<PathBuf>> {
    match find(named) {
        Err(error) if named.is_none() && error.is::<UsageError>() => {
            leave_out(what, error);
            Ok(None)
        }
        found => found.map(Some),
    }
}

/// Runs the subcommand.
pub fn main(args: Args) -> Result<()> {
    if args.part.contains(&Part::Simulator) {
        simulator::run(&args.alg, args.json)?;
    }
    let folder = tempfile::Builder::new().prefix("anole-bench-").tempdir().context("cannot make a folder")?;
    if args.part.contains(&Part::Agent) {
        agent::run(&args.alg, args.agent_binary.as_deref(), folder.path(), args.json)?;
    }
    let policies = policies(folder.path())?;
    if args.part.contains(&Part::Inference) {
        inference::run(&policies, args.torch_library.as_deref(), args.json)?;
    }
    if args.part.contains(&Part::Server) {
        round_trip::run(&policies[0], args.policy_server_binary.as_deref(), args.json)?;
    }
    if args.part.contains(&Part::Kernel) {
        kernel::run(args.agent_binary.as_deref(), args.quick, args.json)?;
    }
    Ok(())
}

/// A policy to measure.
struct Policy {
    /// Its name in the table.
    name: String,
    /// Its file.
    file: PathBuf,
}

/// The shipped policies and, first, one of Libra's shape with random weights: two layers of 512, for
/// which there are targets whether or not a policy of that size is shipped.
fn policies(folder: &Path) -> Result<Vec<Policy>> {
    let libra = schema::builtin("libra").context("there is no schema libra")?;
    let mut bytes = vec![("mlp-2x512".to_string(), random_weights(libra))];
    let shipped = Shipped.names().into_iter();
    bytes.extend(shipped.filter_map(|name| Some((name.clone(), Shipped::bytes(&name)?.to_vec()))));
    let write = |(name, bytes): (String, Vec<u8>)| {
        let file = folder.join(format!("{name}.safetensors"));
        std::fs::write(&file, bytes).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(Policy { name, file })
    };
    bytes.into_iter().map(write).collect()
}

/// Weights as PyTorch starts with: even within ± 1/√(inputs).
fn random_weights(schema: &Schema) -> Vec<u8> {
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let tensors = schema.tensors().into_iter().map(|(name, shape)| {
        let bound = 1.0 / (*shape.last().unwrap_or(&1) as f32).sqrt();
        let values = (0..shape.iter().product()).map(|_| random.random_range(-bound..bound)).collect();
        (name, Tensor { shape, values })
    });
    let tensors = tensors.collect();
    PolicyFile::write(schema, Origin::default(), &tensors)
}

/// A loader of this backend.
fn loader(backend: Backend, serving: Serving, settings: BackendSettings) -> Result<Loader> {
    Loader::new(BackendSettings { backend: Some(backend), ..settings }, serving).map_err(usage)
}

/// Processor time of this thread.
fn processor_time() -> Result<Duration> {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).context("cannot read the processor time")?;
    Ok(time.into())
}

/// The value below which a share of the sorted values lies.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or(f64::NAN)
}
