//! Options that every subcommand with a scenario shares, and the errors of who uses them.

use crate::output::{self, VERSION};
use anole_algorithms::Slots;
use anole_algorithms::learned::Policies;
use anole_inference::{Backend, BackendSettings, Loader, Serving};
use anole_policies::{Boosters, Policy, PolicyError};
use anole_sim::plan::{Choice, FlowPlan, plan, resolve};
use anole_sim::result::{RunResult, Word};
use anole_sim::scenario::{self, MAX_FILE_BYTES, Scenario};
use anyhow::{Result, bail};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What was asked for makes no sense: exit code 2.
#[derive(Debug)]
pub struct UsageError(String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for UsageError {}

/// Makes any message a [`UsageError`].
pub fn usage(message: impl ToString) -> anyhow::Error {
    UsageError(message.to_string()).into()
}

/// What runs trained policies.
#[derive(clap::Args, Clone, Debug)]
pub struct PolicyArgs {
    /// What runs trained policies [default: embedded]
    #[arg(long, value_enum)]
    pub backend: Option<Backend>,
    /// libanole_policy_torch.so for --backend torch; otherwise $ANOLE_TORCH_LIBRARY, the folder of this
    /// program, policy-server/build in its tree, or a system folder
    #[arg(long, value_name = "FILE")]
    pub torch_library: Option<PathBuf>,
    /// Socket of anole-policy-server, for --backend server
    #[arg(long, value_name = "PATH")]
    pub policy_server: Option<PathBuf>,
}

impl PolicyArgs {
    /// Finds policies for simulations, and for checking what an agent will be asked for.
    pub fn loader(&self) -> Result<Arc<Loader>> {
        let settings = BackendSettings {
            backend: self.backend,
            torch_library: self.torch_library.clone(),
            policy_server: self.policy_server.clone(),
        };
        Ok(Arc::new(Loader::new(settings, Serving::Immediate).map_err(usage)?))
    }
}

/// Refuses a --backend that nothing is run by; `name` says what would be. After the algorithms are chosen and their policies
/// found.
pub fn check_backend(loader: &Loader, name: &str) -> Result<()> {
    let Some(backend) = loader.settings().backend.filter(|backend| *backend != Backend::Embedded) else {
        return Ok(());
    };
    match loader.in_use() {
        Some(_) => Ok(()),
        None => Err(usage(format!(
            "--backend {}: no flow here runs a trained policy; name {name}, or leave --backend out",
            backend.name()
        ))),
    }
}

/// Refuses results of simulations in which a policy that was asked did not answer: to an algorithm that is an absent answer.
pub fn check_answers(loader: &Loader) -> Result<()> {
    loader.failure().map_or(Ok(()), |failure| bail!("a policy could not be run: {failure}"))
}

/// A scenario, what to run in it, and where the results go.
#[derive(clap::Args, Clone, Debug)]
pub struct ScenarioArgs {
    /// The scenario: a TOML file, or the name of one that comes with the program (anole-normal, …)
    #[arg(value_name = "FILE|NAME")]
    pub file: PathBuf,
    /// Algorithms for the flows under test, each in runs of its own
    #[arg(long, value_name = "NAME[,NAME…]", value_delimiter = ',')]
    pub alg: Vec<String>,
    /// Rule-based candidate of the algorithm under test
    #[arg(long, value_name = "NAME")]
    pub classic: Option<String>,
    /// Policy of the algorithm under test: a NAME, a policy file (its name contains a / or ends in
    /// .safetensors; .json for the models of antelope), none, or fault:KIND (agent/README.md)
    #[arg(long, value_name = "NAME|FILE")]
    pub policy: Option<String>,
    /// Seed of the first run; the scenario's if left out
    #[arg(long)]
    pub seed: Option<u64>,
    /// Runs with consecutive seeds
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub runs: u32,
    /// Change the scenario: LINK.KEY, flow.KEY, flow.NUMBER.KEY, param.NAME or a top-level key
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Print one JSON object per run, one per line
    #[arg(long)]
    pub json: bool,
    /// Also write each run's JSON to a file in this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

impl ScenarioArgs {
    /// Reads the scenario with its overrides, and makes sure that the results have a place.
    pub fn scenario(&self) -> Result<Scenario> {
        let scenario = load(&self.file, &self.set)?;
        let twice = (1..self.alg.len()).find(|&n| self.alg[..n].contains(&self.alg[n]));
        if let Some(alg) = twice.map(|n| &self.alg[n]) {
            return Err(usage(format!("--alg names {alg} twice; for more runs of each, give --runs N")));
        }
        self.out.as_deref().map_or(Ok(()), output::check_folder)?;
        Ok(scenario)
    }

    /// Completes the result of a run with the version and what was asked for.
    pub fn label(&self, scenario: &Scenario, choice: &Choice, result: RunResult) -> RunResult {
        label(scenario, choice, &self.set, result)
    }

    /// What each run of `scenario` is: every algorithm with every seed, and with the flags that it takes.
    pub fn runs(&self, scenario: &Scenario) -> Vec<(Choice, u64)> {
        let flags = Slots { classic: self.classic.clone(), policy: self.policy.clone() };
        let choice = |alg, Slots { classic, policy }| Choice { alg, classic, policy };
        let choices: Vec<Choice> = match self.alg.is_empty() {
            true => vec![choice(None, flags)],
            false => {
                let each = flags.of_each(self.alg.iter().map(String::as_str));
                self.alg.iter().zip(each).map(|(alg, slots)| choice(Some(alg.clone()), slots)).collect()
            }
        };
        let first = self.seed.unwrap_or(scenario.seed);
        let runs = |choice: Choice| {
            (0..self.runs).map(move |run| (choice.clone(), first.wrapping_add(u64::from(run))))
        };
        choices.into_iter().flat_map(runs).collect()
    }
}

/// Completes the result of a run with the version and what was asked for: what stands in the slots of the first flow under
/// test, and the changes of the scenario.
pub fn label(scenario: &Scenario, choice: &Choice, set: &[String], result: RunResult) -> RunResult {
    // The run was planned before, so that there is no refusal.
    let flows = scenario.flows.iter().zip(resolve(scenario, choice).unwrap_or_default());
    let mut tested = flows.filter(|(flow, _)| flow.under_test).map(|(_, runs)| runs);
    let Choice { classic, policy, .. } = tested.next().unwrap_or_default();
    RunResult { version: VERSION, classic, policy, set: set.to_vec(), ..result }
}

/// The plans of a run's flows, and what runs their trained policies; none where they have none.
pub fn planned(
    scenario: &Scenario,
    choice: &Choice,
    loader: &Arc<Loader>,
    seed: u64,
) -> Result<(Vec<FlowPlan>, Option<Word>)> {
    let noted = Arc::new(Noted { loader: Arc::clone(loader), found: AtomicBool::new(false) });
    let policies: Arc<dyn Policies> = noted.clone();
    let plans = plan(scenario, choice, &policies, seed).map_err(usage)?;
    let backend = loader.in_use().filter(|_| noted.found.load(Ordering::Relaxed));
    Ok((plans, backend.map(Backend::name)))
}

/// A loader, and whether one run found a policy there.
#[derive(Debug)]
struct Noted {
    loader: Arc<Loader>,
    found: AtomicBool,
}

impl Policies for Noted {
    fn names(&self) -> Vec<String> {
        self.loader.names()
    }

    fn find(&self, name: &str) -> Result<Arc<dyn Policy>, PolicyError> {
        let found = self.loader.find(name);
        self.found.fetch_or(found.is_ok(), Ordering::Relaxed);
        found
    }

    fn boosters(&self, name: Option<&str>, width: usize) -> Result<Arc<Boosters>, PolicyError> {
        self.loader.boosters(name, width)
    }
}

/// What is taken for the name of a scenario: no file, and nothing that looks like one.
fn shipped_name(file: &Path) -> Option<&str> {
    let name = file.to_str()?;
    (!name.contains('/') && !name.ends_with(".toml") && (!file.exists() || file.is_dir())).then_some(name)
}

/// Longest trace, bytes: at ten bytes a line, some twenty-six million packets.
pub const MAX_TRACE_BYTES: u64 = 256 << 20;

/// Reads a text file, unless it is longer.
pub fn read_at_most(file: &Path, bytes: u64) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(file)?.take(bytes + 1).read_to_string(&mut text)?;
    if text.len() as u64 > bytes {
        let message = format!("it has more than {} MiB; is it the right file?", bytes >> 20);
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, message));
    }
    Ok(text)
}

/// Reads a scenario: a file, relative to which traces are found, or one that comes with the program.
pub fn load(file: &Path, set: &[String]) -> Result<Scenario> {
    let text = match shipped_name(file) {
        Some(name) => scenario::shipped(name).map_err(usage)?.to_string(),
        None => read_at_most(file, MAX_FILE_BYTES)
            .map_err(|e| usage(format!("cannot read the scenario {}: {e}", file.display())))?,
    };
    let folder = file.parent().unwrap_or(Path::new("."));
    let mut traces =
        |path: &str| read_at_most(&folder.join(path), MAX_TRACE_BYTES).map_err(|e| e.to_string());
    Scenario::parse(&text, &file.display().to_string(), set, &mut traces).map_err(usage)
}
