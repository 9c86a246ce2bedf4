// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! How long the agent lets flows wait: a histogram that the datapath keeps, one entry per message answered.

use crate::layout::{AGENT_BYTES, AgentState, WAIT_STEPS};
use crate::map::Mapping;
use crate::{Error, object};
use std::fmt;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

/// Times from a message of a flow (CREATE, MEASURE) to the ACK at which its answer was in force, as counts: exact
/// up to 15 µs, then in steps of an eighth to a sixteenth of the value.
#[derive(Clone, PartialEq, Eq)]
pub struct Waits([u64; WAIT_STEPS]);

impl fmt::Debug for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Waits({})", self.count())
    }
}

impl Default for Waits {
    fn default() -> Waits {
        Waits([0; WAIT_STEPS])
    }
}

impl Waits {
    /// Messages answered.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Those that came after `earlier`.
    pub fn since(&self, earlier: &Waits) -> Waits {
        Waits(std::array::from_fn(|n| self.0[n].saturating_sub(earlier.0[n])))
    }

    /// With those of others.
    pub fn and(&self, others: &Waits) -> Waits {
        Waits(std::array::from_fn(|n| self.0[n].saturating_add(others.0[n])))
    }

    /// The time, µs, that this share (0 to 1) of the messages waited at most: the middle of its step.
    pub fn quantile_us(&self, share: f64) -> Option<f64> {
        let wanted = (self.count() as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let reached = |count: &u64| {
            seen += count;
            seen >= wanted
        };
        let step = self.0.iter().position(reached)?;
        Some((lowest_us(step) + lowest_us(step + 1) - 1) as f64 / 2.0)
    }
}

/// The shortest time, µs, of a step (`wait_step()` of `bpf/govern.bpf.h`).
fn lowest_us(step: usize) -> u64 {
    let doublings = (step / 8).saturating_sub(1);
    ((step - 8 * doublings) as u64) << doublings
}

/// The waits of the datapath that is registered in `directory`, whoever runs it.
pub fn waits(directory: &Path) -> Result<Waits, Error> {
    let map = object::pinned(directory, "agent")?;
    let agent = Mapping::new(map.as_fd(), 0, AGENT_BYTES, false)?;
    // SAFETY: the map has one value, all words of which are atomic on both sides.
    let agent = unsafe { agent.get::<AgentState>(0).expect("mapped whole").as_ref() };
    Ok(Waits(std::array::from_fn(|n| agent.waits[n].load(Relaxed))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_follow_each_other() {
        assert_eq!([0, 1, 15, 16, 17, 24].map(lowest_us), [0, 1, 15, 16, 18, 32]);
        assert!((1..WAIT_STEPS - 16).all(|step| lowest_us(step) > lowest_us(step - 1)));
    }

    #[test]
    fn shares_of_messages() {
        let mut waits = Waits::default();
        assert_eq!(waits.quantile_us(0.5), None);
        waits.0[3] = 98;
        waits.0[24] = 2;
        assert_eq!((waits.quantile_us(0.5), waits.quantile_us(0.99)), (Some(3.0), Some(33.5)));
        assert_eq!(waits.since(&waits).count(), 0);
    }
}
