//! `anole-quic`: bulk transfers over QUIC, under the agent or under the stack's own controllers.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "a binary reads clocks, files and sockets")]

mod cli;
mod send;
mod serve;

use clap::Parser;
use cli::{Cli, Command};
use std::process::ExitCode;

/// Exit code for a wrong flag or an argument that cannot be used, as clap's own.
const USAGE: u8 = 2;
/// Exit code for a run that failed.
const RUN: u8 = 1;

/// How a command failed.
enum Failure {
    Usage(anyhow::Error),
    Run(anyhow::Error),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(tracing_subscriber::EnvFilter::new(&cli.log_level))
        .init();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return report(&Failure::Run(error.into())),
    };
    let outcome = runtime.block_on(async {
        match cli.command {
            Command::Serve(options) => serve::run(options).await,
            Command::Send(options) => send::run(options).await,
        }
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure),
    }
}

fn report(failure: &Failure) -> ExitCode {
    let (code, error) = match failure {
        Failure::Usage(error) => (USAGE, error),
        Failure::Run(error) => (RUN, error),
    };
    eprintln!("error: {error:#}");
    ExitCode::from(code)
}
