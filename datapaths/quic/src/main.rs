//! `anole-quic`: bulk transfers over QUIC, under the agent or under the stack's own controllers.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "a binary reads clocks, files and sockets")]

mod cli;
mod send;
mod serve;

use anole_cli::Failure;
use cli::{Cli, Command};
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

fn main() -> ExitCode {
    anole_cli::run("anole-quic", run)
}

fn run(cli: Cli) -> Result<(), Failure> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(tracing_subscriber::EnvFilter::new(&cli.log_level))
        .init();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Run(error.into()))?;
    runtime.block_on(async {
        match cli.command {
            Command::Serve(options) => serve::run(options).await,
            Command::Send(options) => send::run(options).await,
        }
    })
}

/// Waits until somebody wants the program to stop.
async fn interrupted() -> std::io::Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        told = tokio::signal::ctrl_c() => told,
        _ = terminated.recv() => Ok(()),
    }
}
