//! What to simulate or emulate: links, their changes, flows.
//!
//! A scenario is a TOML file. [`Scenario::parse`] reads it, applies `--set` overrides and checks
//! everything that can be wrong with it; what it returns needs no further checks, apart from the names
//! of algorithms, which belong to whoever runs them. The files of traces come through a callback, so
//! that nothing here reads a file.

mod check;
mod draw;
mod error;
mod file;
mod shipped;
#[cfg(test)]
mod tests;

pub(crate) use check::MAX_LTE_MBIT;
pub use check::RATE_MBPS;
pub use error::{MAX_FILE_BYTES, ScenarioError};
pub use shipped::{UnknownScenario, names, shipped};

use crate::link::{Aggregation, Capacity, CrossTraffic, Impairments, Link, Lte, QueueKind};
use anole_algorithms::Preference;
use anole_model::{Dur, Rate, Time};
use anole_policies::beside;
use std::collections::BTreeMap;
use std::path::Path;

/// Bytes of headers on a full packet beside its payload: IPv4 20, TCP 20, timestamps 12.
pub const HEADER_BYTES: u32 = 52;
/// Initial window of a flow, segments (RFC 6928).
pub(crate) const INITIAL_WINDOW_PACKETS: u32 = 10;

/// [`Scenario::agent_delay`] if nothing is said: half of what a report and its answer take between a transport and the
/// agent over a Unix socket (docs/measurements).
pub const AGENT_DELAY: Dur = Dur::from_micros(100);
/// [`Scenario::inference`] if nothing is said: the median through the agent's inference thread with one flow, 309 µs
/// (docs/measurements). What counts is that it is not nothing: the answer waits for the next report.
pub const INFERENCE: Dur = Dur::from_micros(300);

/// A checked scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Name, as in results.
    pub name: String,
    /// Where its numbers come from.
    pub source: String,
    /// Length of a run.
    pub duration: Dur,
    /// Left out of every mean.
    pub warmup: Dur,
    /// Seed of the first run.
    pub seed: u64,
    /// Payload of a full packet, bytes.
    pub mss: u32,
    /// Time that a message takes to or from the simulated agent, each way.
    pub agent_delay: Dur,
    /// Time that a trained policy takes for an answer there.
    pub inference: Dur,
    /// Links.
    pub links: Vec<LinkSpec>,
    /// Changes of links, in order of time.
    pub changes: Vec<Change>,
    /// Random changes of links.
    pub random_changes: Vec<RandomChange>,
    /// Flows, in the order of the file; entries with a count are spread out.
    pub flows: Vec<FlowSpec>,
    /// Parameters of the algorithm under test that differ from its defaults.
    pub params: BTreeMap<String, f64>,
}

/// A link of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSpec {
    /// Name, as in paths, changes and results.
    pub name: String,
    /// What limits it.
    pub capacity: Capacity,
    /// The capacity varies around this mean instead, differently with each seed; `capacity` is the mean.
    pub lte: Option<Lte>,
    /// Propagation delay of data.
    pub one_way_delay: Dur,
    /// Propagation delay of ACKs; `None` follows the data's, through every change.
    pub reverse_delay: Option<Dur>,
    /// Bytes that may wait.
    pub buffer_bytes: u64,
    /// Probability that a sent packet is lost.
    pub random_loss: f64,
    /// How packets wait.
    pub queue: QueueKind,
    /// How packets wait for each other behind it.
    pub aggregation: Aggregation,
    /// What else befalls them there.
    pub impairments: Impairments,
    /// What else is sent across it; numbers of flows are given when it runs.
    pub cross: Vec<CrossTraffic>,
}

/// What changes on a link; `None` stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkChange {
    /// New fixed capacity.
    pub capacity: Option<Rate>,
    /// New propagation delay.
    pub one_way_delay: Option<Dur>,
    /// New probability of random loss.
    pub random_loss: Option<f64>,
    /// New buffer.
    pub buffer_bytes: Option<u64>,
    /// New most by which data are late.
    pub jitter: Option<Dur>,
}

impl LinkChange {
    /// Makes it at a moment. The capacity of a link that follows a trace stays, which a checked scenario does not ask for.
    pub fn apply<T>(&self, link: &mut Link<T>, at: Time) {
        if let Some(rate) = self.capacity {
            let _changed = link.set_rate(at, rate);
        }
        if let Some(delay) = self.one_way_delay {
            link.set_delay(at, delay);
        }
        if let Some(probability) = self.random_loss {
            link.set_random_loss(at, probability);
        }
        if let Some(bytes) = self.buffer_bytes {
            link.set_buffer_bytes(at, bytes);
        }
        if let Some(jitter) = self.jitter {
            link.set_jitter(at, jitter);
        }
    }
}

/// A change at a given time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// When.
    pub at: Time,
    /// Index of the link.
    pub link: usize,
    /// What.
    pub change: LinkChange,
}

/// Changes at regular times to values drawn uniformly (low, high).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomChange {
    /// Interval; the first change is after one.
    pub every: Dur,
    /// Index of the link.
    pub link: usize,
    /// Capacity, Mbps.
    pub capacity_mbps: Option<(f64, f64)>,
    /// Propagation delay, ms.
    pub one_way_delay_ms: Option<(f64, f64)>,
    /// Probability of random loss.
    pub random_loss: Option<(f64, f64)>,
}

/// One flow of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowSpec {
    /// The algorithm's name.
    pub alg: String,
    /// `--alg` and the other options about the algorithm apply to it.
    pub under_test: bool,
    /// When it starts to send.
    pub start: Time,
    /// When it stops.
    pub stop: Time,
    /// Indices of its links, in order.
    pub path: Vec<usize>,
    /// Propagation delay beside the links', each way.
    pub extra_delay: Dur,
    /// Payload to send; `None` until it stops.
    pub bytes: Option<u64>,
    /// Its start and size are drawn with each seed; those above are the earliest and the least.
    pub drawn: Option<Drawn>,
    /// How fast its application has something to send; `None` has everything at once.
    pub app: Option<App>,
    /// The receiver acknowledges every second packet (RFC 5681 §4.2) instead of every one.
    pub delayed_ack: bool,
    /// Each ACK takes up to this much longer, uniformly drawn, as by the scheduling and interrupts of
    /// real hosts; order is preserved.
    pub ack_jitter: Dur,
    /// Its packets are ECN-capable: active queue management marks them instead of dropping them (RFC 3168).
    pub ecn: bool,
    /// Rule slot of the algorithm.
    pub classic: Option<String>,
    /// Learned slot of the algorithm.
    pub policy: Option<String>,
    /// What its application prefers, from when on, in order of time.
    pub preferences: Vec<(Time, Preference)>,
    /// Where these names were given.
    pub places: Places,
}

impl FlowSpec {
    /// Whether it starts before it stops; a start that is drawn may be too late, and such a flow never runs.
    pub fn runs(&self) -> bool {
        self.start < self.stop
    }
}

/// How starts and sizes of one entry's flows are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drawn {
    /// Number of the entry's first flow.
    pub first: usize,
    /// Flows that start per second, a Poisson process; `None` leaves starts as they are.
    pub arrivals_per_s: Option<f64>,
    /// Sizes are log-uniform from the flow's `bytes` to this.
    pub bytes_up_to: Option<u64>,
}

/// An application that has its data bit by bit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct App {
    /// Payload at this rate,
    pub rate: Rate,
    /// until here; what the flow sends beyond that is there at once.
    pub until: Time,
    /// It comes in frames, one at the flow's start and then so often; zero: byte by byte.
    pub frame: Dur,
}

/// Where a flow's names stand: `FILE:LINE`, or that they came from `--set`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The algorithm's.
    pub alg: String,
    /// The rule slot's.
    pub classic: String,
    /// The learned slot's.
    pub policy: String,
    /// Whether `--set` fills the rule slot and the learned slot, of whatever algorithm runs.
    pub slots_set: [bool; 2],
}

impl Scenario {
    /// Reads a scenario. `file` is how errors name it, `set` are `KEY=VALUE` overrides, and `load_trace`
    /// gives the text of a trace named in the file (as written there) or says why it cannot. A policy's file that is
    /// named there, not in `set`, is relative to `file`.
    pub fn parse(
        text: &str,
        file: &str,
        set: &[String],
        load_trace: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<Scenario, ScenarioError> {
        let origin = error::Origin { text, file };
        let mut raw: file::RawScenario = toml::from_str(text).map_err(|e| origin.syntax(&e))?;
        for policy in raw.flow.iter_mut().filter_map(|flow| flow.get_mut().policy.as_mut()) {
            *policy.get_mut() = beside(Path::new(file), policy.get_ref());
        }
        let mut params = BTreeMap::new();
        for option in set {
            file::apply(&mut raw, &mut params, option)?;
        }
        check::Check { origin, load_trace, shortened: false }.scenario(raw, params)
    }

    /// Bytes of a full packet on the wire.
    pub fn full_packet(&self) -> u32 {
        self.mss + HEADER_BYTES
    }

    /// One-way delay of a lone full packet of a flow: propagation, and transmission at each link's mean capacity. Both are
    /// means over the time that counts of a flow that is over at `stop`, with these changes of the run ([`crate::changes`]).
    pub fn ideal_owd(&self, flow: usize, changes: &[Change], stop: Time) -> Dur {
        let (spec, span) = (&self.flows[flow], self.counted(flow, stop));
        spec.path.iter().fold(spec.extra_delay, |sum, &link| {
            let rate = self.links[link].capacity.mean_rate().bytes_per_s();
            let rate = mean(link, rate, changes, span, |change| change.capacity.map(Rate::bytes_per_s));
            let transmission = Dur::from_secs_f64(f64::from(self.full_packet()) / rate);
            sum + self.mean_delay(link, changes, span) + transmission
        })
    }

    /// Round-trip time of such a packet; ACKs take no time on a link but the propagation delay.
    pub fn ideal_rtt(&self, flow: usize, changes: &[Change], stop: Time) -> Dur {
        let (spec, span) = (&self.flows[flow], self.counted(flow, stop));
        let back = spec.path.iter().fold(spec.extra_delay, |sum, &link| {
            sum + self.links[link].reverse_delay.unwrap_or_else(|| self.mean_delay(link, changes, span))
        });
        self.ideal_owd(flow, changes, stop) + back
    }

    /// Mean propagation delay of data.
    fn mean_delay(&self, link: usize, changes: &[Change], span: [Time; 2]) -> Dur {
        let delay = self.links[link].one_way_delay.as_secs_f64();
        Dur::from_secs_f64(mean(link, delay, changes, span, |change| {
            change.one_way_delay.map(Dur::as_secs_f64)
        }))
    }

    /// The time that counts of a flow that is over at `stop`: from its start or the end of the warm-up.
    fn counted(&self, flow: usize, stop: Time) -> [Time; 2] {
        let from = self.flows[flow].start.max(Time::ZERO + self.warmup);
        [from, stop.min(self.end()).max(from)]
    }

    /// When every flow that runs has started, and figures count.
    pub fn all_started(&self) -> Time {
        let starts = self.flows.iter().filter(|flow| flow.runs()).map(|flow| flow.start);
        starts.fold(Time::ZERO + self.warmup, Time::max)
    }

    /// When the run ends.
    pub fn end(&self) -> Time {
        Time::ZERO + self.duration
    }
}

/// Mean over a span of what a link has at first and `of` changes; what it has then, of a span of no length.
fn mean(
    link: usize,
    first: f64,
    changes: &[Change],
    [from, to]: [Time; 2],
    of: impl Fn(&LinkChange) -> Option<f64>,
) -> f64 {
    let whole = to.since(from).as_secs_f64();
    let (mut mean, mut before) = (first, first);
    for Change { at, change, .. } in changes.iter().filter(|change| change.link == link) {
        let Some(value) = of(change) else { continue };
        match whole > 0.0 {
            true => mean += (value - before) * to.since((*at).max(from)).as_secs_f64() / whole,
            false if *at <= from => mean = value,
            false => {}
        }
        before = value;
    }
    mean
}
