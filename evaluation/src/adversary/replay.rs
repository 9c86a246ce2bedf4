//! Finds again: what an algorithm does now on the files that were found once.

use super::bench::{Bench, Contestant};
use super::families;
use super::family::Family;
use super::find::SEEDS;
use crate::options::{load, usage};
use crate::table;
use anyhow::Result;
use serde::Serialize;
use std::path::Path;

/// One algorithm on one file.
#[derive(Clone, Debug, Serialize)]
pub struct Replay {
    pub kind: &'static str,
    pub file: String,
    pub family: &'static str,
    pub alg: String,
    pub floor: f64,
    /// Median over the seeds.
    pub score: f64,
    /// From the file's seed on.
    pub scores: Vec<f64>,
}

/// Runs one file with every algorithm.
pub fn replay(bench: &Bench, file: &Path, tested: &[Contestant]) -> Result<Vec<Replay>> {
    let scenario = load(file, &[])?;
    let family = family(&scenario.source).ok_or_else(|| {
        usage(format!("{}: its source names no family; give files of --out", file.display()))
    })?;
    let mut scores: Vec<Vec<f64>> = vec![Vec::new(); tested.len()];
    for seed in (0..SEEDS).map(|next| scenario.seed.wrapping_add(next)) {
        let case = bench.run(scenario.clone(), seed, tested)?;
        for (one, scores) in tested.iter().zip(&mut scores) {
            scores.push(bench.score(family, &case, one));
        }
    }
    let replay = |(one, scores): (&Contestant, Vec<f64>)| Replay {
        kind: "replay",
        file: file.display().to_string(),
        family: family.name,
        alg: one.label.clone(),
        floor: family.floor,
        score: super::find::median(scores.clone()),
        scores,
    };
    Ok(tested.iter().zip(scores).map(replay).collect())
}

/// The family that a find's source names: `…, family NAME, …`.
fn family(source: &str) -> Option<&'static Family> {
    let (_, after) = source.split_once("family ")?;
    let name = after.split(',').next()?;
    families::ALL.into_iter().find(|family| family.name == name)
}

/// The table.
pub fn render(replays: &[Replay]) -> String {
    let mut rows = vec![["file", "algorithm", "score", "floor", ""].map(str::to_string).to_vec()];
    for replay in replays {
        let verdict = if replay.score < replay.floor { "missed" } else { "met" };
        rows.push(vec![
            replay.file.clone(),
            replay.alg.clone(),
            format!("{:.3}", replay.score),
            replay.floor.to_string(),
            verdict.to_string(),
        ]);
    }
    table::aligned(&rows).trim_end().to_string()
}
