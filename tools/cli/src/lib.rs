//! What the programs share on the command line.
//!
//! Exit codes are 0, [`USAGE`] when what was given cannot be used, and [`RUN`] when something went wrong later. Every
//! error is one message on standard error that begins with the program's name. `PROGRAM --version` names the commit.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "reads the command line, writes manual pages")]

mod pages;

use clap::Parser;
use clap::error::ErrorKind;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Version, and the commit that the programs were built from where that is known.
pub const VERSION: &str = env!("ANOLE_VERSION");
/// What was given cannot be used: clap's own code.
pub const USAGE: u8 = 2;
/// Something went wrong later.
pub const RUN: u8 = 1;

/// The first argument by which a program writes its manual pages and completions into the folder that follows. It is
/// for `make install` and in no help.
pub const WRITE_PAGES: &str = "write-pages";

/// Why a program ends early.
#[derive(Debug)]
pub enum Failure {
    /// What the user gave cannot be used: exit code 2.
    Usage(anyhow::Error),
    /// What was asked for went wrong: exit code 1.
    Run(anyhow::Error),
}

impl Failure {
    /// The error, whichever it is.
    pub fn error(&self) -> &anyhow::Error {
        match self {
            Failure::Usage(error) | Failure::Run(error) => error,
        }
    }
}

/// Reads the command line of `program` and runs it.
pub fn run<C: Parser>(program: &str, run: impl FnOnce(C) -> Result<(), Failure>) -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    if let [_, word, folder] = &arguments[..]
        && *word == WRITE_PAGES
    {
        return exit(program, pages::write(program, command::<C>(), Path::new(folder)).map_err(Failure::Run));
    }
    match command::<C>().try_get_matches().and_then(|mut matches| C::from_arg_matches_mut(&mut matches)) {
        Ok(cli) => exit(program, run(cli)),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            error.exit()
        }
        Err(error) => {
            let text = error.render().to_string();
            complain(program, text.strip_prefix("error: ").unwrap_or(&text).trim_end());
            ExitCode::from(USAGE)
        }
    }
}

fn command<C: Parser>() -> clap::Command {
    C::command().version(VERSION).long_version(VERSION)
}

/// Says what went wrong, and the code for it.
fn exit(program: &str, done: Result<(), Failure>) -> ExitCode {
    let Err(failure) = done else { return ExitCode::SUCCESS };
    complain(program, &format!("{:#}", failure.error()));
    ExitCode::from(match failure {
        Failure::Usage(_) => USAGE,
        Failure::Run(_) => RUN,
    })
}

/// Writes a message to standard error, beginning with the program's name.
pub fn complain(program: &str, message: &str) {
    // Nobody may be left to read it, and then the code alone has to do.
    let _ = std::io::stderr().write_all(format!("{program}: {message}\n").as_bytes());
}
