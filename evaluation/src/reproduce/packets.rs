//! The runs of an experiment with real packets, in real time, one after the other.

use crate::emulate::host::{self, ProcessorTime, Stolen};
use crate::emulate::{self, AgentArgs};
use crate::options;
use anole_inference::Loader;
use anole_model::Dur;
use anole_sim::plan::Choice;
use anole_sim::result::RunResult;
use anole_sim::scenario::Scenario;
use anyhow::{Context, Result};
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;

/// Time to bring up and take down agent, server and clients.
const AROUND_A_RUN: Dur = Dur::from_millis(1_000);

/// Runs of a job before one counts in which the host was not quiet: that is what the kernel counts, not what came out.
pub const ATTEMPTS: u32 = 3;

/// One run.
pub struct Job<'a> {
    /// Who, and where, for errors.
    pub name: String,
    /// Links and flows.
    pub scenario: Scenario,
    /// What the flows under test run.
    pub choice: &'a Choice,
    /// Changes of the scenario.
    pub set: Vec<String>,
    /// Seed of links and policies.
    pub seed: u64,
}

/// How long these runs take.
pub fn span(jobs: &[Job<'_>]) -> Dur {
    jobs.iter().fold(Dur::ZERO, |sum, job| sum + job.scenario.duration + AROUND_A_RUN)
}

/// Runs them all, and counts those that it repeated. Where the host was not quiet, a run is repeated, up to so many attempts. After each one `save` gets all that there are so far.
pub fn run(
    jobs: &[Job<'_>],
    carrier: emulate::Carrier,
    loader: &Arc<Loader>,
    agent_binary: Option<&PathBuf>,
    attempts: u32,
    save: &mut dyn FnMut(&[RunResult]) -> Result<()>,
) -> Result<(Vec<RunResult>, usize)> {
    let agent = AgentArgs::undisturbed(agent_binary.cloned());
    let bar = emulate::progress_bar(jobs.iter().fold(Dur::ZERO, |sum, job| sum + job.scenario.duration));
    let repeated = Cell::new(0);
    let one = |job: &Job<'_>| {
        let attempt = || emulate::run_one(&job.scenario, job.choice, carrier, loader, job.seed, &agent, &bar);
        let again = |stolen| {
            repeated.set(repeated.get() + 1);
            bar.suspend(|| eprintln!("anole-eval: {}: {stolen} during the run; once more", job.name))
        };
        let (mut run, stolen) =
            least_disturbed(attempts, attempt, again).with_context(|| job.name.clone())?;
        run = options::label(&job.scenario, job.choice, &job.set, run);
        run.disturbed = (!stolen.is_quiet()).then(|| stolen.to_string());
        Ok::<RunResult, anyhow::Error>(run)
    };
    let mut results = Vec::with_capacity(jobs.len());
    let all = jobs.iter().try_for_each(|job| {
        results.push(one(job)?);
        save(&results)
    });
    bar.finish_and_clear();
    all.map(|()| (results, repeated.get()))
}

/// The first run with a quiet host, or of so many the one from which it took least; what it took.
fn least_disturbed<T>(
    attempts: u32,
    mut attempt: impl FnMut() -> Result<(T, Stolen)>,
    again: impl Fn(Stolen),
) -> Result<(T, Stolen)> {
    let (mut best, mut least) = attempt()?;
    for _ in 1..attempts {
        if least.is_quiet() {
            break;
        }
        again(least);
        let (result, stolen) = attempt()?;
        if stolen < least {
            (best, least) = (result, stolen);
        }
    }
    Ok((best, least))
}

/// What the machine did since `begin`, and what came of it: delays in real time are as good as it was idle.
pub fn load(begin: Option<ProcessorTime>, repeated: usize) -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let average = text.split_whitespace().next().unwrap_or("unknown");
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let stolen = host::stolen_since(begin).map_or(String::new(), |stolen| format!("; {stolen}"));
    let again = match repeated {
        0 => String::new(),
        1 => "; one run was repeated".to_string(),
        n => format!("; runs were repeated {n} times"),
    };
    format!("load average of the last minute: {average} on {processors} processors{stolen}{again}")
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
    fn a_run_is_repeated_until_the_host_is_quiet() {
        let shares = |shares: &[f64]| {
            let (runs, told) = (Cell::new(0), Cell::new(0));
            let attempt = || {
                let n = runs.replace(runs.get() + 1);
                Ok((n, Stolen::share(shares[n])))
            };
            let (kept, stolen) = least_disturbed(ATTEMPTS, attempt, |_| told.set(told.get() + 1)).unwrap();
            (kept, runs.get(), told.get(), stolen.is_quiet())
        };
        assert_eq!(shares(&[0.005]), (0, 1, 0, true));
        assert_eq!(shares(&[0.2, 0.005]), (1, 2, 1, true));
        assert_eq!(shares(&[0.2, 0.1, 0.3]), (1, 3, 2, false));
    }

    #[test]
    fn times_for_people() {
        let told = |s: u64| for_people(Dur::from_millis(1_000 * s));
        assert_eq!([told(93), told(150), told(9000)], ["93 s", "2 minutes", "2.5 hours"]);
    }
}
