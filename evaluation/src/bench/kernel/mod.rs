//! What the kernel's datapath costs beside the kernel's own congestion controls: per ACK, per Gbit, and how
//! late an answer takes effect. Everything is compared in turn, round by round, so that what else the machine
//! does falls on all alike; figures are medians, with their quartiles.

mod ack;
mod lab;
mod load;

use super::{agent_program, leave_out, print};
use crate::emulate::agent;
use anole_emulator::{EmulatorError, Namespace};
use anyhow::Result;
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, Instant};

/// For another agent to go, which may be about to.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);

/// Waits until no other agent has the name; false if one keeps it.
fn wait_for_name() -> bool {
    let since = Instant::now();
    let taken = || agent::available().any(|name| name == agent::CONGESTION_CONTROL);
    while taken() {
        if since.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(LOOK);
    }
    true
}

/// How long everything is measured.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    rounds: usize,
    /// Of a subject in a round.
    span: Duration,
}

impl Length {
    /// For figures, or to see that it works.
    pub fn new(quick: bool) -> Length {
        match quick {
            false => Length { rounds: 5, span: Duration::from_millis(500) },
            true => Length { rounds: 1, span: Duration::from_millis(150) },
        }
    }
}

/// The middle of some figures, and their quartiles.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    median: f64,
    low: f64,
    high: f64,
}

impl Spread {
    fn of(figures: impl Iterator<Item = f64>) -> Option<Spread> {
        let mut sorted: Vec<f64> = figures.collect();
        sorted.sort_by(f64::total_cmp);
        let at = |share| (super::percentile(&sorted, share) * 1000.0).round() / 1000.0;
        (!sorted.is_empty()).then(|| Spread { median: at(0.5), low: at(0.25), high: at(0.75) })
    }

    fn show(&self, digits: usize) -> String {
        format!("{:.digits$} ({:.digits$}…{:.digits$})", self.median, self.low, self.high)
    }
}

/// Measures what can be measured here, and says what cannot.
pub fn run(agent_binary: Option<&Path>, quick: bool, json: bool) -> Result<()> {
    const WHAT: &str = "the kernel's datapath";
    if let Err(EmulatorError::Privilege) = Namespace::new() {
        leave_out(WHAT, "it takes root");
        return Ok(());
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        leave_out(WHAT, "this kernel tells no BTF (CONFIG_DEBUG_INFO_BTF)");
        return Ok(());
    }
    if !wait_for_name() {
        leave_out(WHAT, "another agent governs this kernel's TCP (anole_ccp); stop it first");
        return Ok(());
    }
    let length = Length::new(quick);
    ack::run(length, json)?;
    match agent_program("the kernel's datapath under an agent", agent_binary)? {
        Some(binary) => load::run(&binary, length, json),
        None => Ok(()),
    }
}
