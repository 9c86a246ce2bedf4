//! `anole-usertcp`: bulk transfers over a user-space TCP, under the agent or the fallback.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "a binary reads clocks, files and devices")]

mod cli;
mod iperf3;
mod send;
mod serve;

use anole_cli::Failure;
use anole_usertcp::UserTcpError;
use cli::{Cli, Command};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn main() -> ExitCode {
    anole_cli::run("anole-usertcp", run)
}

/// Says nothing of panics of smoltcp's devices, which `drive` makes an error.
fn quiet_devices() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let file = panic.location().map_or("", std::panic::Location::file);
        if !(file.contains("smoltcp") && file.contains("/phy/")) {
            tell(panic);
        }
    }));
}

fn run(cli: Cli) -> Result<(), Failure> {
    quiet_devices();
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(tracing_subscriber::EnvFilter::new(&cli.log_level))
        .init();
    match cli.command {
        Command::Serve(options) => serve::run(options),
        Command::Send(options) => send::run(options),
    }
}

/// True once somebody wants the program to stop.
fn interrupted() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, stop.clone()).map_err(|error| Failure::Run(error.into()))?;
    }
    Ok(stop)
}

fn failed(error: UserTcpError) -> Failure {
    match error {
        UserTcpError::Open { .. } => Failure::Usage(error.into()),
        other => Failure::Run(other.into()),
    }
}
