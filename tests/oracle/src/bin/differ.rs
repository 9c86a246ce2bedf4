//! `cargo run --release --bin differ -- [kernel|generated|interpreted] [CASES [SEED [CASE]]]`: compares the
//! runtime with libccp, with the kernel datapaths' machine, or with BPF in this host's kernel, on 1 000 000
//! cases, or as many as given, or on the one case that an earlier run named (not with BPF).

#![allow(clippy::disallowed_methods, reason = "a program reports how long it took")]

use anole_bpf::Mode;
use anole_oracle::bpf::Bpf;
use anole_oracle::differ;
use anole_oracle::oracle::Machine;
use anyhow::{Context, Result, ensure};
use std::time::Instant;

const DEFAULT_CASES: u64 = 1_000_000;
const DEFAULT_SEED: u64 = 1;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).peekable();
    let mode = match arguments.peek().map(String::as_str) {
        Some("generated") => Some(Mode::Generated),
        Some("interpreted") => Some(Mode::Interpreted),
        _ => None,
    };
    if mode.is_some() {
        arguments.next();
    }
    let machine = match arguments.next_if(|word| word == "kernel") {
        Some(_) => Machine::Kernel,
        None => Machine::Libccp,
    };
    let numbers: Vec<u64> = arguments
        .map(|text| text.parse().with_context(|| format!("{text}: CASES, SEED and CASE are numbers")))
        .collect::<Result<_>>()?;
    let cases = numbers.first().copied().unwrap_or(DEFAULT_CASES);
    let seed = numbers.get(1).copied().unwrap_or(DEFAULT_SEED);
    if let Some(case) = numbers.get(2) {
        ensure!(mode.is_none(), "one case alone is not run with BPF: leave CASE out");
        differ::compare_one(machine, seed, *case)?;
        println!("case {case}: equal");
        return Ok(());
    }
    let started = Instant::now();
    let coverage = match mode {
        Some(mode) => differ::compare_bpf(&mut Bpf::load(mode)?, seed, cases),
        None => differ::compare(machine, seed, cases),
    }
    .with_context(|| format!("seed {seed}"))?;
    println!(
        "seed {seed}: {} cases equal ({} ACKs, {} aborted, {} with a report) in {:.1} s",
        coverage.cases,
        coverage.acks,
        coverage.aborts,
        coverage.reports,
        started.elapsed().as_secs_f64()
    );
    Ok(())
}
