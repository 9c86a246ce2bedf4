//! Simulations on a Ray cluster: what is not kept yet runs there, and its cells come back as files. What follows finds them
//! finished, so that figures come about as they do without a cluster.

use super::run::Pick;
use crate::options::usage;
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Talks to Ray, which has no interface in Rust.
const SCRIPT: &str = include_str!("ray.py");
/// Names the Python to run it.
const PYTHON: &str = "ANOLE_PYTHON";
/// A task begins a process and reads the program: less than its runs cost.
const RUNS_PER_TASK: usize = 16;

/// Runs that are wanted: the experiment as on the command line, and which.
pub type Wanted = (String, Vec<Pick>);

/// Runs them on the cluster at `address`, with these options; cells come to be below `out`.
pub fn run(address: &str, wanted: &[Wanted], options: &[String], out: &Path) -> Result<()> {
    let tasks: Vec<Vec<String>> = wanted.iter().flat_map(|wanted| tasks(wanted, options)).collect();
    if tasks.is_empty() {
        return Ok(());
    }
    let program = std::env::current_exe().context("cannot find this program")?;
    let plan = json!({ "address": address, "program": program, "out": out, "tasks": tasks });
    let python = std::env::var(PYTHON).unwrap_or("python3".to_string());
    let mut command = Command::new(&python);
    // -P: a folder here that is called ray is not Ray.
    command.args(["-P", "-c", SCRIPT]).stdin(Stdio::piped());
    let mut child = command
        .spawn()
        .map_err(|error| usage(format!("--ray: cannot run {python}: {error}; name a Python in ${PYTHON}")))?;
    let mut input = child.stdin.take().context("cannot reach Python")?;
    // A script that ended early says why itself.
    let _ = input.write_all(plan.to_string().as_bytes());
    drop(input);
    let status = child.wait().context("cannot wait for Python")?;
    if !status.success() {
        bail!("--ray {address}: not all runs were made; those that were are kept in {}", out.display());
    }
    Ok(())
}

fn tasks((experiment, picks): &Wanted, options: &[String]) -> Vec<Vec<String>> {
    let task = |picks: &[Pick]| {
        let picks: Vec<String> = picks.iter().map(Pick::to_string).collect();
        let mut words = vec!["reproduce".to_string(), experiment.clone()];
        words.extend_from_slice(options);
        words.extend(["--only".to_string(), picks.join(",")]);
        words
    };
    picks.chunks(RUNS_PER_TASK).map(task).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_a_command() {
        let picks = (1..=20).map(|seed| Pick { cell: 3, seed }).collect();
        let tasks = tasks(&("anole-fig5".to_string(), picks), &["--quick".to_string()]);
        assert_eq!(
            (tasks.len(), &tasks[0][..4]),
            (2, &["reproduce", "anole-fig5", "--quick", "--only"].map(str::to_string)[..])
        );
        assert_eq!(tasks[1][4], "3.17,3.18,3.19,3.20");
    }
}
