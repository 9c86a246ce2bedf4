//! `anole-ccp`, the agent: portus, our own IPC below it, the pure algorithms above it.
//!
//! ```text
//!   datapaths ⇄ ipc::unix | ipc::netlink     datagrams
//!             ⇄ ipc::guard, ipc::peers       checked messages, bounded tables, answers
//!             ⇄ portus                       flows, fold programs
//!             ⇄ adapter                      reports in, commands out
//!             ⇄ anole_algorithms             pure
//!
//!   the kernel's own algorithms ⇄ switch     connections told of, and switched; no CCP
//! ```

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "a binary reads clocks, files and sockets")]

mod adapter;
mod cli;
mod control;
mod flow_key;
mod flow_table;
mod ipc;
mod lines;
mod logging;
mod own_file;
mod plan;
mod prior;
mod records;
mod relay;
mod run;
mod shared;
mod show;
mod stats;
mod switch;
#[cfg(test)]
mod tests;

use anole_cli::Failure;
use cli::{Cli, Command, Options};
use nix::sys::signal::{Signal, raise};
use std::process::ExitCode;
use std::time::Duration;

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
    anole_cli::run("anole-ccp", start)
}

fn start(cli: Cli) -> Result<(), Failure> {
    if cli.until_stdin_ends {
        std::thread::spawn(stop_with_stdin);
    }
    match cli.command {
        Some(Command::Algs { json }) => show::algorithms(json),
        Some(Command::Check { file }) => show::check(&file),
        Some(Command::Relay(options)) => relay::relay(&options),
        Some(Command::Status { switch: Some(cli::SwitchKind::Linux), json, .. }) => {
            show::status(&ipc::socket_path::host_control(switch::NAME), json)
        }
        Some(Command::Status { switch: None, ipc, socket, json }) => {
            show::status(&run::control_path(ipc, socket)?, json)
        }
        Some(Command::Prefer { flow, preference, datapath, ipc, socket }) => {
            control::prefer(&run::control_path(ipc, socket)?, flow, preference, datapath.as_deref())
        }
        None => {
            let file = cli.config.as_deref().map_or(Ok(Options::default()), run::read_config)?;
            run::run(cli.options.or(file)).map_err(|failure| match (failure, &cli.config) {
                // The setting that is refused may be the file's.
                (Failure::Usage(error), Some(file)) => {
                    Failure::Usage(error.context(format!("with --config {}", file.display())))
                }
                (failure, _) => failure,
            })
        }
    }
}
