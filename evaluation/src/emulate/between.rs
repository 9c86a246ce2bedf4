//! What lies between the two ends of a run: the emulator of this project, or Mahimahi.

use anole_emulator::mahimahi::Shells;
use anole_emulator::{Counts, EmulatedNetwork, Emulator, EmulatorOptions, Hosts, Record, Wire};
use anole_sim::scenario::Scenario;
use anyhow::{Context, Result};
use std::sync::Arc;
use std::time::Instant;
use tempfile::TempDir;

/// Which of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum EmulatorKind {
    /// This project's, in user space
    #[default]
    Own,
    /// Mahimahi's shells mm-delay, mm-loss and mm-link, where they are installed; takes root
    Mahimahi,
}

/// One that waits for its run to begin.
pub enum Ready<W: Wire> {
    /// With its links, which take a while to make where capacities are drawn.
    Own(W, EmulatedNetwork<Vec<u8>>),
    Mahimahi(Mahimahi),
}

/// Its shells between two hosts.
pub struct Mahimahi {
    pub hosts: Arc<Hosts>,
    shells: Shells,
    /// Of its log; removed at the end, whatever it is.
    _folder: TempDir,
}

impl Mahimahi {
    pub fn start(scenario: &Scenario) -> Result<Mahimahi> {
        let folder = tempfile::Builder::new().prefix("anole-").tempdir().context("cannot make a folder")?;
        let (hosts, shells) = Shells::start(scenario, folder.path())?;
        Ok(Mahimahi { hosts: Arc::new(hosts), shells, _folder: folder })
    }
}

impl<W: Wire> Ready<W> {
    /// Begins at `epoch`.
    pub fn start(self, scenario: &Scenario, epoch: Instant) -> Result<Between<W>> {
        match self {
            Ready::Own(wire, network) => {
                let options = EmulatorOptions { epoch, warmup: scenario.warmup };
                Ok(Between::Own(Emulator::start(network, wire, options)?))
            }
            Ready::Mahimahi(mahimahi) => Ok(Between::Mahimahi(mahimahi, epoch)),
        }
    }
}

/// One at work.
pub enum Between<W: Wire> {
    Own(Emulator<W>),
    /// Since then.
    Mahimahi(Mahimahi, Instant),
}

impl<W: Wire> Between<W> {
    /// Counters of a flow's packets; Mahimahi does not tell flows apart.
    pub fn counts(&self, flow: usize) -> Option<Arc<Counts>> {
        match self {
            Between::Own(emulator) => Some(emulator.counts(flow)),
            Between::Mahimahi(..) => None,
        }
    }

    /// Bytes on the wire that were handed to a flow's receiver; where they are not counted, its payload in full packets.
    pub fn delivered_bytes(&self, flow: usize, payload: u64, scenario: &Scenario) -> u64 {
        match self.counts(flow) {
            Some(counts) => counts.delivered_bytes(),
            None => payload * u64::from(scenario.full_packet()) / u64::from(scenario.mss),
        }
    }

    /// Ends it; what was measured, and the emulator's wire.
    pub fn finish(self, scenario: &Scenario) -> Result<(Record, Option<W>)> {
        match self {
            Between::Own(emulator) => Ok(emulator.finish().map(|(record, wire)| (record, Some(wire)))?),
            Between::Mahimahi(Mahimahi { hosts, shells, _folder }, epoch) => {
                Ok((shells.finish(&hosts, epoch, scenario.warmup, scenario.duration)?, None))
            }
        }
    }
}
