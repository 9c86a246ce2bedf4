//! `anole-eval`: runs scenarios and reports what came out.
//!
//! One file per subcommand. Results go to standard output, everything else to standard error; the exit
//! code is 0, 1 when a run failed, or 2 when what was asked for makes no sense.
#![allow(clippy::disallowed_methods, reason = "a binary reads clocks, files and sockets")]
#![forbid(unsafe_code)]

mod adversary;
mod bench;
mod carriers;
mod conformance;
mod demo;
mod emulate;
mod explain;
mod options;
mod output;
mod pool;
mod reproduce;
mod sim;
mod suite;
mod table;
mod trace;

use anole_cli::Failure;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Runs congestion control scenarios and reports throughput, delay, loss and fairness.
#[derive(Parser)]
#[command(name = "anole-eval")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Simulate a scenario, packet by packet, in virtual time
    Sim(sim::Args),
    /// Simulate algorithms and policies over many random links, and compare them
    Suite(suite::Args),
    /// Search bounded families of links for those on which an algorithm does badly
    Adversary(adversary::Args),
    /// Run what every algorithm has to bear: losses, outages, reordering and the like
    Conformance(conformance::Args),
    /// Run one test body over everything that carries flows: simulation, QUIC, TCP in user space and in the kernel
    Carriers(carriers::Args),
    /// Reproduce the figures of five papers, and what lies beyond them, about any algorithm
    Reproduce(reproduce::Args),
    /// Run a scenario with real packets, in real time
    Emulate(emulate::Args),
    /// Mahimahi traces: what one is like, others like it, and both in a picture
    Trace(trace::Args),
    /// Three algorithms and flows that share, with real packets, as a page for a newcomer
    Demo(demo::Args),
    /// Measure what a simulated packet, an inference and a question to a policy server cost
    Bench(bench::Args),
}

fn main() -> ExitCode {
    anole_cli::run("anole-eval", |cli: Cli| match run(cli.command) {
        Err(error) if output::is_closed_pipe(&error) => Ok(()),
        done => done.map_err(|error| match error.is::<options::UsageError>() {
            true => Failure::Usage(error),
            false => Failure::Run(error),
        }),
    })
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Sim(args) => sim::main(args),
        Command::Suite(args) => suite::main(args),
        Command::Adversary(args) => adversary::main(args),
        Command::Conformance(args) => conformance::main(args),
        Command::Carriers(args) => carriers::main(args),
        Command::Reproduce(args) => reproduce::main(args),
        Command::Emulate(args) => emulate::main(args),
        Command::Trace(args) => trace::main(args),
        Command::Demo(args) => demo::main(args),
        Command::Bench(args) => bench::main(args),
    }
}
