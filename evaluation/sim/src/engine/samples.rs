//! The state of flows and links over time: read at the end of each point of a series.
//!
//! Reading changes nothing in the simulation. What arrives in a point is counted by [`super::measure`].

use super::measure::SERIES_STEP;
use crate::result::{Governed, LinkSeries, Series, governed_by};
use anole_datapath::Governor;
use anole_model::{Dur, Rate, Time};

/// A flow at one time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FlowState {
    /// The window, bytes; `None` while the flow does not run.
    pub cwnd: Option<u32>,
    /// The pacing rate; zero is none.
    pub pacing: Rate,
    /// Payload on its way, bytes.
    pub in_flight: u64,
    /// Packets lost so far.
    pub lost: u64,
    /// Who decides; `None` while the flow does not run.
    pub governor: Option<Governor>,
}

/// A link at one time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinkState {
    /// Bytes that wait.
    pub queue: u64,
    /// Packets lost so far.
    pub lost: u64,
    /// Bytes that it could have sent so far.
    pub offered: f64,
}

/// What was read so far.
#[derive(Clone, Debug)]
pub(super) struct Samples {
    points: usize,
    flows: Vec<Vec<FlowState>>,
    links: Vec<Vec<LinkState>>,
}

impl Samples {
    /// For a run of this length.
    pub fn new(duration: Dur, flows: usize, links: usize) -> Samples {
        let points = duration.as_nanos().div_ceil(SERIES_STEP.as_nanos()) as usize;
        Samples { points, flows: vec![Vec::new(); flows], links: vec![Vec::new(); links] }
    }

    /// When to read next; `None` when all points are read.
    pub fn due(&self) -> Option<Time> {
        let read = self.flows.first().map_or(self.points, Vec::len);
        (read < self.points).then(|| Time::ZERO + SERIES_STEP * (read as u64 + 1))
    }

    /// Notes one flow at the time that is due.
    pub fn flow(&mut self, flow: usize, state: FlowState) {
        self.flows[flow].push(state);
    }

    /// Notes one link at the time that is due.
    pub fn link(&mut self, link: usize, state: LinkState) {
        self.links[link].push(state);
    }

    /// Completes a flow's series.
    pub fn complete(&self, flow: usize, series: Series) -> Series {
        let states = &self.flows[flow];
        let mbps = |rate: Rate| (rate > Rate::ZERO).then(|| rate.mbps());
        Series {
            cwnd_bytes: Some(states.iter().map(|state| state.cwnd).collect()),
            pacing_mbps: Some(states.iter().map(|state| mbps(state.pacing)).collect()),
            in_flight_bytes: Some(states.iter().map(|state| state.in_flight).collect()),
            lost_packets: Some(each(states.iter().map(|state| state.lost))),
            ..series
        }
    }

    /// Who governed a flow when.
    pub fn governed(&self, flow: usize) -> Vec<Governed> {
        let name = |governor| match governor {
            Governor::Agent => "agent",
            Governor::Fallback => "fallback",
        };
        governed_by(self.flows[flow].iter().map(|state| state.governor.map(name)), SERIES_STEP)
    }

    /// A link's series.
    pub fn of_link(&self, link: usize) -> LinkSeries {
        let states = &self.links[link];
        let dt_s = SERIES_STEP.as_secs_f64();
        let before = std::iter::once(0.0).chain(states.iter().map(|state| state.offered));
        let offered = states.iter().zip(before).map(|(state, before)| state.offered - before);
        LinkSeries {
            dt_s,
            capacity_mbps: offered.map(|bytes| Rate::from_bytes_per_s(bytes / dt_s).mbps()).collect(),
            queue_bytes: states.iter().map(|state| state.queue).collect(),
            lost_packets: each(states.iter().map(|state| state.lost)),
        }
    }
}

/// A count so far to what was counted in each point.
fn each(counts: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut before = 0;
    counts.map(|count| count - std::mem::replace(&mut before, count)).collect()
}
