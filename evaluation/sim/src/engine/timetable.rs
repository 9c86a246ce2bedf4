//! What happens at given times: changes of links, the end of the warm-up, starts of flows, the start of fairness.

use super::setup::changes;
use crate::scenario::{LinkChange, Scenario};
use anole_model::Time;
use std::collections::VecDeque;

/// An entry of the timetable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Entry {
    Change(usize, LinkChange),
    /// From here on figures count.
    WarmUpOver,
    /// A flow starts, later than that.
    FlowStarted(usize),
    /// All flows have started, and figures count.
    AllStarted,
}

/// Every entry of a run, in order of time.
pub(super) fn timetable(scenario: &Scenario, seed: u64) -> VecDeque<(Time, Entry)> {
    let warmup = Time::ZERO + scenario.warmup;
    let mut entries = vec![(warmup, Entry::WarmUpOver), (scenario.all_started(), Entry::AllStarted)];
    let late = scenario.flows.iter().enumerate().filter(|(_, flow)| flow.runs() && flow.start > warmup);
    entries.extend(late.map(|(index, flow)| (flow.start, Entry::FlowStarted(index))));
    entries.extend(changes(scenario, seed).into_iter().map(|c| (c.at, Entry::Change(c.link, c.change))));
    // Stable: entries of the same time stay in the order above.
    entries.sort_by_key(|&(at, _)| at);
    entries.into()
}
