//! `cargo run --release --bin differ -- [CASES [SEED [CASE]]]`: compares the runtime with libccp on
//! 1 000 000 cases, or as many as given, or on the one case that an earlier run named.

#![allow(clippy::disallowed_methods, reason = "a program reports how long it took")]

use anole_oracle::differ;
use anyhow::{Context, Result};
use std::time::Instant;

const DEFAULT_CASES: u64 = 1_000_000;
const DEFAULT_SEED: u64 = 1;

fn main() -> Result<()> {
    let arguments = std::env::args().skip(1);
    let numbers: Vec<u64> = arguments
        .map(|text| text.parse().with_context(|| format!("{text}: CASES, SEED and CASE are numbers")))
        .collect::<Result<_>>()?;
    let cases = numbers.first().copied().unwrap_or(DEFAULT_CASES);
    let seed = numbers.get(1).copied().unwrap_or(DEFAULT_SEED);
    if let Some(case) = numbers.get(2) {
        differ::compare_one(seed, *case)?;
        println!("case {case}: equal");
        return Ok(());
    }
    let started = Instant::now();
    let coverage = differ::compare(seed, cases).with_context(|| format!("seed {seed}"))?;
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
