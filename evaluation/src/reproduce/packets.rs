//! The runs of an experiment with real packets, in real time, one after the other.

use crate::emulate::govern::govern;
use crate::emulate::host::{self, Host};
use crate::emulate::{self, AgentArgs, DatapathKind};
use anole_inference::Loader;
use anole_model::Dur;
use anole_sim::plan::Choice;
use anole_sim::result::RunResult;
use anole_sim::scenario::Scenario;
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::sync::Arc;

/// Time to bring up and take down agent, server and clients.
const AROUND_A_RUN: Dur = Dur::from_millis(1_000);

/// One run.
pub struct Job<'a> {
    /// Who, and where, for errors.
    pub name: String,
    /// Links and flows.
    pub scenario: Scenario,
    /// What the flows under test run.
    pub choice: &'a Choice,
    /// Seed of links and policies.
    pub seed: u64,
}

/// How long these runs take.
pub fn span(jobs: &[Job<'_>]) -> Dur {
    jobs.iter().fold(Dur::ZERO, |sum, job| sum + job.scenario.duration + AROUND_A_RUN)
}

/// Runs them all; every mistake is told before the first one begins.
pub fn run(
    jobs: &[Job<'_>],
    datapath: DatapathKind,
    loader: &Arc<Loader>,
    agent_binary: Option<&PathBuf>,
) -> Result<Vec<RunResult>> {
    for job in jobs {
        govern(&job.scenario, job.choice, datapath, loader, job.seed).with_context(|| job.name.clone())?;
    }
    let agent = AgentArgs::undisturbed(agent_binary.cloned());
    let bar = emulate::progress_bar(jobs.iter().fold(Dur::ZERO, |sum, job| sum + job.scenario.duration));
    let one = |job: &Job<'_>| {
        emulate::run_one(&job.scenario, job.choice, datapath, loader, job.seed, &agent, &bar)
            .with_context(|| job.name.clone())
    };
    let results = jobs.iter().map(one).collect();
    bar.finish_and_clear();
    results
}

/// What the machine did since `begin`: delays in real time are as good as it was idle.
pub fn load(begin: Option<Host>) -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let average = text.split_whitespace().next().unwrap_or("unknown");
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let stolen = host::stolen_since(begin).map_or(String::new(), |stolen| format!("; {stolen}"));
    format!("load average of the last minute: {average} on {processors} processors{stolen}")
}

/// A time for people: seconds, or minutes, or hours.
pub fn for_people(span: Dur) -> String {
    let minutes = span.as_secs_f64() / 60.0;
    match minutes {
        m if m < 2.0 => format!("{:.0} s", span.as_secs_f64()),
        m if m < 120.0 => format!("{m:.0} minutes"),
        m => format!("{:.1} hours", m / 60.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_for_people() {
        let told = |s: u64| for_people(Dur::from_millis(1_000 * s));
        assert_eq!([told(93), told(150), told(9000)], ["93 s", "2 minutes", "2.5 hours"]);
    }
}
