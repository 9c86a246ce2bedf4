//! `anole-ccp`, the agent: portus, our own IPC below it, the pure algorithms above it.
//!
//! ```text
//!   datapaths ⇄ ipc::unix | ipc::netlink     datagrams
//!             ⇄ ipc::guard, ipc::peers       checked messages, bounded tables, answers
//!             ⇄ portus                       flows, fold programs
//!             ⇄ adapter                      reports in, commands out
//!             ⇄ anole_algorithms             pure
//! ```

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "a binary reads clocks, files and sockets")]

mod adapter;
mod cli;
mod flow_key;
mod ipc;
mod logging;
mod own_file;
mod plan;
mod run;
mod shared;
mod show;
mod stats;
#[cfg(test)]
mod tests;

use clap::Parser;
use cli::{Cli, Command, Options};
use nix::sys::signal::{Signal, raise};
use std::process::ExitCode;
use std::time::Duration;

/// Why the program ends early.
#[derive(Debug)]
pub enum Failure {
    /// What the user gave cannot be used: exit code 2.
    Usage(anyhow::Error),
    /// What was asked for went wrong: exit code 1.
    Run(anyhow::Error),
}

/// How long the agent may take to stop before it is ended.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// Waits for the end of standard input and then does as SIGTERM would, at once before the agent serves. (A signal
/// of the kernel's on the parent's death, PR_SET_PDEATHSIG, comes when the parent's thread ends.)
fn stop_with_stdin() {
    // An error is an end as well.
    let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
    let _ = raise(Signal::SIGTERM);
    std::thread::sleep(STOP_PATIENCE);
    let _ = raise(Signal::SIGTERM);
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if cli.until_stdin_ends {
        std::thread::spawn(stop_with_stdin);
    }
    let done = match cli.command {
        Some(Command::Algs { json }) => show::algorithms(json),
        Some(Command::Check { file }) => show::check(&file),
        None => {
            let file = cli.config.as_deref().map_or(Ok(Options::default()), run::read_config);
            file.and_then(|file| {
                run::run(cli.options.or(file)).map_err(|failure| match (failure, &cli.config) {
                    // The setting that is refused may be the file's.
                    (Failure::Usage(error), Some(file)) => {
                        Failure::Usage(error.context(format!("with --config {}", file.display())))
                    }
                    (failure, _) => failure,
                })
            })
        }
    };
    let (code, error) = match done {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Usage(error)) => (2, error),
        Err(Failure::Run(error)) => (1, error),
    };
    // Nobody may be left to read it, and then the code alone has to do.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("anole-ccp: {error:#}\n").as_bytes());
    ExitCode::from(code)
}
