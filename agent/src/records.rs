//! What the agent writes down: a line per flow, Antelope's data units, and which of its laws served whom.

use crate::lines::Lines;
use crate::prior::Priors;
use crate::stats::FlowLine;
use anole_algorithms::{ARMS, Judgement};
use serde::Serialize;
use std::net::Ipv4Addr;

/// The files, or nothing.
#[derive(Default)]
pub struct Records {
    /// `--stats`.
    pub flows: Lines,
    /// `--antelope-log`.
    pub units: Lines,
    /// `--antelope-prior`.
    pub priors: Priors,
}

/// Data units of a flow under each law of Antelope.
#[derive(Clone, Debug, Default)]
pub struct Served([u64; ARMS.len()]);

impl Served {
    /// One more. A unit after which nothing was recommended says no more than where the flow began.
    pub fn note(&mut self, unit: &Judgement) {
        if let Some(arm) = ARMS.iter().position(|arm| unit.judged && *arm == unit.arm) {
            self.0[arm] += 1;
        }
    }

    /// The law that governed the flow longest.
    pub fn longest(&self) -> Option<usize> {
        let longest = self.0.iter().enumerate().max_by_key(|(_, units)| **units);
        longest.filter(|(_, units)| **units > 0).map(|(arm, _)| arm)
    }
}

/// A line of the log.
#[derive(Serialize)]
struct Unit<'a> {
    /// Number of the flow since the agent's start.
    flow: u64,
    #[serde(flatten)]
    unit: &'a Judgement,
}

impl Records {
    /// Empties the files that are replaced; nothing was told yet.
    pub fn begin(&mut self) -> anyhow::Result<()> {
        self.flows.begin()?;
        self.units.begin()
    }

    /// A flow is over.
    pub fn flow(&mut self, line: &FlowLine) {
        self.flows.write(line);
    }

    /// A data unit of the agent's `flow`th flow is over.
    pub fn unit(&mut self, flow: u64, unit: &Judgement) {
        self.units.write(&Unit { flow, unit });
    }

    /// An Antelope flow to this address is over.
    pub fn served(&self, peer: Ipv4Addr, arm: usize) {
        self.priors.note(peer, arm);
    }

    /// What went wrong, if anything did.
    pub fn error(&self) -> Option<&str> {
        self.flows.error().or(self.units.error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anole_algorithms::DataUnit;

    #[test]
    fn a_law_that_nobody_chose_serves_nobody() {
        let unit = |arm, judged| Judgement {
            at_s: 0.0,
            arm: ARMS[arm],
            judged,
            unit: DataUnit::default(),
            reward: 0.0,
            srtt_ms: 50.0,
        };
        let mut served = Served::default();
        (0..9).for_each(|_| served.note(&unit(2, false)));
        assert_eq!(served.longest(), None);
        served.note(&unit(0, true));
        assert_eq!(served.longest(), Some(0));
    }
}
