//! Finished cells, kept in a folder: a run that is there is not made again, and one half-written is not there.
//!
//! A cell's name is the hash of all that its run depends on: the program, links and flows, the choice of algorithm, the
//! seed, and the content of a policy file.

use super::outcome::Cell;
use crate::output;
use anole_sim::result::RunResult;
use anole_sim::scenario::Scenario;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// The folder of cells below `--out`.
pub const FOLDER: &str = "cells";

/// A run, as it is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    experiment: String,
    setting: String,
    contender: String,
    seed: u64,
    /// Round-trip times of a lone packet of each flow, which a run's JSON leaves out.
    ideal_rtt_ms: Vec<f64>,
    run: RunResult,
}

/// Where cells are kept.
pub struct Cells {
    folder: PathBuf,
    /// Hash of the program's file: another build may come to other results.
    program: Vec<u8>,
}

impl Cells {
    /// Those below `out`.
    pub fn below(out: &Path) -> Result<Cells> {
        let program = std::env::current_exe().and_then(std::fs::read).context("cannot read this program")?;
        Ok(Cells { folder: out.join(FOLDER), program: Sha256::digest(program).to_vec() })
    }

    /// The name of the file of a cell's run; `carrier` is `sim`, `quic` or `kernel`.
    pub fn name(
        &self,
        experiment: &str,
        carrier: &str,
        cell: &Cell,
        scenario: &Scenario,
        seed: u64,
    ) -> String {
        let choice = &cell.contender.choice;
        let mut hash = Sha256::new_with_prefix(&self.program);
        hash.update(format!("{carrier}\n{scenario:?}\n{choice:?}\n{seed}"));
        // A file's content counts, not its name alone.
        if let Some(policy) = choice.policy.as_ref().and_then(|policy| std::fs::read(policy).ok()) {
            hash.update(policy);
        }
        let digits: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!("{experiment}-{digits}-{seed}.json")
    }

    /// Whether there is a file of this name.
    pub fn has(&self, name: &str) -> bool {
        self.folder.join(name).exists()
    }

    /// Writes a run.
    pub fn keep(
        &self,
        name: &str,
        (experiment, cell, seed): (&str, &Cell, u64),
        run: &RunResult,
    ) -> Result<()> {
        let kept = Kept {
            experiment: experiment.to_string(),
            setting: cell.setting.name.clone(),
            contender: cell.contender.label.clone(),
            seed,
            ideal_rtt_ms: run.flows.iter().map(|flow| flow.ideal_rtt_ms).collect(),
            run: run.clone(),
        };
        let text = serde_json::to_string(&kept).context("cannot express a run as JSON")?;
        output::write_whole(&self.folder, name, text.as_bytes())
    }

    /// A finished run; a file that cannot be read as one counts as none.
    pub fn read(&self, name: &str) -> Option<RunResult> {
        let text = std::fs::read(self.folder.join(name)).ok()?;
        let Kept { ideal_rtt_ms, mut run, .. } = serde_json::from_slice(&text).ok()?;
        for (flow, ms) in run.flows.iter_mut().zip(ideal_rtt_ms) {
            flow.ideal_rtt_ms = ms;
        }
        Some(run)
    }
}
