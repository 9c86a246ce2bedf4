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
use std::collections::BTreeSet;
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
        // A file's content counts, not its name alone, whoever names it.
        let of_flows = scenario.flows.iter().filter_map(|flow| flow.policy.as_ref());
        let policies: BTreeSet<&String> = choice.policy.iter().chain(of_flows).collect();
        for policy in policies.into_iter().filter_map(|policy| std::fs::read(policy).ok()) {
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

#[cfg(test)]
mod tests {
    use super::super::outcome::{Contender, Links, Setting, Source};
    use super::*;

    #[test]
    fn a_policy_file_that_a_scenario_names_counts_with_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("mine.safetensors");
        let set = [format!("flow.policy={}", policy.display())];
        let scenario = crate::options::load(Path::new("anole-normal"), &set).unwrap();
        let setting = Setting {
            name: "normal".to_string(),
            source: Source::Scenario("anole-normal".to_string()),
            set: set.to_vec(),
            quick: Vec::new(),
            links: Links::default(),
        };
        let cell = Cell { setting, contender: Contender::peer("anole") };
        let cells = Cells::below(folder.path()).unwrap();
        let name = |content: &str| {
            std::fs::write(&policy, content).unwrap();
            cells.name("mine", "sim", &cell, &scenario, 1)
        };
        let first = name("one");
        assert!(first != name("two") && first == name("one"), "{first}");
    }
}
