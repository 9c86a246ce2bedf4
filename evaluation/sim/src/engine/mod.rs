//! The simulation: flows over links, with the agent beside them, in virtual time.
//!
//! ```text
//!  sender ──▶ link ──▶ … ──▶ link ──▶ own delay ──▶ receiver
//!    ▲ │                                               │
//!    │ └── datapath runtime ◀──messages──▶ agent       │
//!    └───────────────── reverse delays ◀───────────────┘
//! ```
//!
//! The sender obeys window and pacing rate of the real datapath runtime, which runs the real fold
//! programs on every ACK; the agent runs the real algorithms. Deliberately
//! a machine with few event sources: each link, each flow, the agent and the timetable has one next
//! event, and one heap orders them. One seed gives one result; there is no clock here.

mod agent;
mod flow;
mod heap;
mod measure;
mod outcome;
mod receiver;
mod reverse;
mod samples;
mod segments;
mod sender;
mod setup;
mod tap;
#[cfg(test)]
mod tests;
mod timetable;

pub use agent::AgentScript;
pub use measure::{SERIES_STEP, point_s};
pub use setup::{changes, jain_index, link_configs};

use crate::link::{Link, Packet};
use crate::pilot::{Cockpit, Reading};
use crate::plan::FlowPlan;
use crate::result::RunResult;
use crate::scenario::{LinkChange, Scenario};
use crate::streams::Stream;
use agent::{Agent, Event, ToAgent};
use anole_datapath::Datapath;
use anole_model::{Bounds, Dur, Time};
use anole_policies::Schema;
use flow::{Around, FlowConfig, SimFlow};
use heap::Heap;
use receiver::Data;
use samples::{LinkState, Samples};
use setup::AGENT_TIMEOUT;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use timetable::Entry;

/// READY's id; libccp's datapaths use small numbers of their own kind.
const DATAPATH_ID: u32 = 1;
/// How often progress is told, in virtual time.
const PROGRESS_STEP: Dur = Dur::from_millis(100);

/// Simulates a scenario. `progress` is told the virtual time now and then.
pub fn run(
    scenario: &Scenario,
    plans: Vec<FlowPlan>,
    seed: u64,
    script: AgentScript,
    progress: &mut dyn FnMut(Time),
) -> RunResult {
    let mut simulation = Simulation::new(scenario, plans, seed, script);
    simulation.run(&mut |at| {
        progress(at);
        ControlFlow::Continue(())
    });
    simulation.result(seed)
}

/// As [`run`], but `progress` may end the run, of which there is no result then.
pub fn run_while(
    scenario: &Scenario,
    plans: Vec<FlowPlan>,
    seed: u64,
    progress: &mut dyn FnMut(Time) -> ControlFlow<()>,
) -> Option<RunResult> {
    let mut simulation = Simulation::new(scenario, plans, seed, AgentScript::default());
    simulation.run(progress);
    (!simulation.stopped).then(|| simulation.result(seed))
}

/// Counters at the end of the warm-up.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    sent: u64,
    retransmitted: u64,
    lost: u64,
}

/// Bytes that each link of a flow's path could have sent since the end of the warm-up: by the flow's start, 0 of one that
/// starts before, and by its end.
#[derive(Clone, Debug)]
struct Offered {
    from: Vec<f64>,
    to: Option<Vec<f64>>,
}

pub(crate) struct Simulation<'a> {
    scenario: Cow<'a, Scenario>,
    now: Time,
    heap: Heap,
    links: Vec<Link<Data>>,
    flows: Vec<SimFlow>,
    datapath: Datapath,
    agent: Agent,
    timetable: VecDeque<(Time, Entry)>,
    /// Delay of ACKs over each link, when it does not follow the data's.
    reverse: Vec<Option<Dur>>,
    /// Packets sent in the present step, before they enter their first link.
    outgoing: Vec<Packet<Data>>,
    before: Vec<Before>,
    lost_at_end: Vec<Option<u64>>,
    offered: Vec<Offered>,
    /// Goodput counters when all flows had started, and when the first was over.
    all_active: Option<Vec<u64>>,
    one_over: Option<Vec<u64>>,
    /// Flows that are controlled from outside.
    cockpit: Option<Cockpit>,
    samples: Samples,
    /// When to read them next.
    sample_at: Time,
    /// The pilot, or who is told of the progress, has ended the run.
    stopped: bool,
}

impl<'a> Simulation<'a> {
    pub(crate) fn new(
        scenario: &'a Scenario,
        plans: Vec<FlowPlan>,
        seed: u64,
        script: AgentScript,
    ) -> Simulation<'a> {
        let scenario = scenario.drawn(seed);
        let links: Vec<Link<Data>> =
            setup::link_configs(&scenario, seed).into_iter().map(Link::new).collect();
        let flows: Vec<SimFlow> = scenario
            .flows
            .iter()
            .zip(&plans)
            .zip(0..)
            .map(|((spec, plan), number)| {
                SimFlow::new(FlowConfig {
                    number,
                    mss: scenario.mss,
                    alg: plan.alg.clone(),
                    start: spec.start,
                    stop: spec.stop,
                    runs: spec.runs(),
                    bytes: spec.bytes,
                    app: spec.app,
                    delayed_ack: spec.delayed_ack,
                    ack_jitter: spec.ack_jitter,
                    ecn: spec.ecn,
                    seed: Stream::Jitter(number as usize).seed(seed),
                    duration: scenario.duration,
                })
            })
            .collect();
        let mut simulation = Simulation {
            now: Time::ZERO,
            heap: Heap::new(links.len() + flows.len() + 2),
            reverse: scenario.links.iter().map(|link| link.reverse_delay).collect(),
            outgoing: Vec::new(),
            before: vec![Before::default(); flows.len()],
            lost_at_end: vec![None; flows.len()],
            offered: scenario
                .flows
                .iter()
                .map(|flow| Offered { from: vec![0.0; flow.path.len()], to: None })
                .collect(),
            all_active: None,
            one_over: None,
            cockpit: None,
            samples: Samples::new(scenario.duration, flows.len(), links.len()),
            sample_at: Time::ZERO,
            stopped: false,
            links,
            flows,
            datapath: Datapath::new(Bounds::DEFAULT, AGENT_TIMEOUT),
            agent: Agent::new(script, scenario.agent_delay, plans),
            timetable: timetable::timetable(&scenario, seed),
            scenario,
        };
        let Simulation { datapath, agent, .. } = &mut simulation;
        datapath.ready(DATAPATH_ID, &mut ToAgent { agent, now: Time::ZERO });
        for (index, link) in simulation.links.iter().enumerate() {
            simulation.heap.set(index, link.next_event());
        }
        for index in 0..simulation.flows.len() {
            simulation.reschedule_flow(index);
        }
        simulation.reschedule_rest();
        simulation
    }

    /// Lets the cockpit's flows be controlled by its pilot, who may stop the run.
    pub(crate) fn controlled_by(&mut self, cockpit: Cockpit) {
        self.cockpit = Some(cockpit);
    }

    /// Lets a flow be seen as a policy with this schema would see it.
    pub(crate) fn watch(&mut self, flow: usize, schema: &Arc<Schema>) {
        self.flows[flow].watched_by = Some(Arc::clone(schema));
    }

    /// Sources are numbered: links, flows, agent, timetable. The timetable goes before whatever else happens at its time, so
    /// that what a flow sends at the end of the warm-up counts, and finds the links as they are from then on.
    pub(crate) fn run(&mut self, progress: &mut dyn FnMut(Time) -> ControlFlow<()>) {
        let (links, flows) = (self.links.len(), self.flows.len());
        let mut tell_at = Time::ZERO;
        loop {
            if self.stopped {
                return;
            }
            let (at, source) = self.heap.first();
            if at > self.scenario.end() {
                break;
            }
            if at >= self.sample_at {
                self.sample_up_to(at);
            }
            self.now = at;
            if at >= tell_at {
                self.stopped |= progress(at).is_break();
                tell_at = at + PROGRESS_STEP;
            }
            if self.timetable.front().is_some_and(|&(due, _)| due <= at) {
                self.poll_timetable();
            } else if source < links {
                self.poll_link(source);
            } else if source < links + flows {
                self.poll_flow(source - links);
            } else {
                self.poll_agent();
            }
        }
        self.now = self.scenario.end();
        self.sample_up_to(Time::MAX);
        self.stopped |= progress(self.now).is_break();
    }

    /// Notes how flows and links are at the ends of series' points that are over before `now`.
    fn sample_up_to(&mut self, now: Time) {
        if self.cockpit.is_some() {
            self.sample_at = Time::MAX;
            return; // nobody asks for its series
        }
        while let Some(at) = self.samples.due().filter(|&at| at <= now) {
            for (index, flow) in self.flows.iter().enumerate() {
                let lost = self.links.iter().map(|link| link.lost_of(index as u32)).sum();
                self.samples.flow(index, flow.state(&self.datapath, lost));
            }
            for (index, link) in self.links.iter().enumerate() {
                let (queue, lost) = (link.queue_bytes(), link.lost());
                self.samples.link(index, LinkState { queue, lost, offered: link.offered_by(at) });
            }
        }
        self.sample_at = self.samples.due().unwrap_or(Time::MAX);
    }

    fn poll_link(&mut self, index: usize) {
        while let Some((_, mut packet)) = self.links[index].pop(self.now) {
            packet.data.hop += 1;
            let flow = packet.flow as usize;
            match self.scenario.flows[flow].path.get(packet.data.hop as usize) {
                Some(&next) => {
                    self.links[next].offer(self.now, packet);
                    self.heap.set(next, self.links[next].next_event());
                }
                None => self.leave_links(flow, packet),
            }
        }
        self.heap.set(index, self.links[index].next_event());
    }

    /// A packet is through the last link of its flow.
    fn leave_links(&mut self, flow: usize, packet: Packet<Data>) {
        let Simulation { flows, links, datapath, agent, now, reverse, scenario, .. } = self;
        let spec = &scenario.flows[flow];
        let back = || reverse::way(spec, links, reverse, *now);
        if spec.extra_delay.is_zero() {
            flows[flow].arrive(&mut Around { now: *now, datapath, agent }, back, &packet);
        } else {
            flows[flow].own_way.push_back((*now + spec.extra_delay, packet));
        }
        if self.flows[flow].ended.is_some() {
            self.note_end(flow);
        }
        self.reschedule_flow(flow);
    }

    fn poll_flow(&mut self, index: usize) {
        let Simulation { flows, links, datapath, agent, now, outgoing, reverse, scenario, .. } = self;
        let back = || reverse::way(&scenario.flows[index], links, reverse, *now);
        flows[index].poll(Around { now: *now, datapath, agent }, back, |packet| outgoing.push(packet));
        if !self.outgoing.is_empty() {
            let first = self.scenario.flows[index].path[0];
            for packet in self.outgoing.drain(..) {
                self.links[first].offer(self.now, packet);
            }
            self.heap.set(first, self.links[first].next_event());
        }
        if let Some(input) = self.flows[index].take_watched() {
            self.note_readings();
            if let Some(cockpit) = &self.cockpit {
                cockpit.ask(index, self.now, &input, &mut []);
                self.stopped |= cockpit.stopped();
            }
        }
        if self.flows[index].ended.is_some() {
            self.note_end(index);
        }
        self.reschedule_flow(index);
    }

    fn poll_agent(&mut self) {
        self.note_readings();
        while let Some(event) = self.agent.poll(self.now) {
            match event {
                Event::Arrived => {
                    let Simulation { datapath, agent, now, .. } = self;
                    datapath.ready(DATAPATH_ID, &mut ToAgent { agent, now: *now });
                }
                // A refused message changes nothing, as with a real agent that sends nonsense.
                Event::Datagram(datagram) => drop(self.datapath.receive(self.now, &datagram)),
            }
        }
        self.stopped |= self.cockpit.as_ref().is_some_and(Cockpit::stopped);
        self.reschedule_rest();
    }

    /// Tells the controlled flows' pilot how far they are.
    pub(crate) fn note_readings(&mut self) {
        let Some(cockpit) = self.cockpit.take() else { return };
        for &flow in &cockpit.flows {
            if self.flows[flow].start <= self.now {
                cockpit.note(flow, self.reading(flow));
            }
        }
        self.cockpit = Some(cockpit);
    }

    fn reading(&self, index: usize) -> Reading {
        let (spec, now) = (&self.scenario.flows[index], self.now);
        let path = || spec.path.iter().copied();
        let propagation = path().fold(spec.extra_delay, |sum, link| sum + self.links[link].delay());
        let kept = path().fold(1.0, |kept, link| kept * (1.0 - self.links[link].random_loss()));
        let rivals = self
            .flows
            .iter()
            .enumerate()
            .filter(|&(other, flow)| other != index && flow.ended.is_none() && flow.start <= now);
        let flows = 1 + rivals.count() as u64;
        let base_rtt = propagation + reverse::propagation(spec, &self.links, &self.reverse);
        let (flow, lost) = (&self.flows[index], self.lost(index));
        let measure = &flow.measure;
        Reading {
            now,
            arrived_bytes: measure.wire_bytes,
            arrived: measure.one_way_delay.len(),
            sent: flow.sent().0,
            lost,
            owd: (measure.one_way_delay.sum_nanos(), measure.one_way_delay.len()),
            rtt: (measure.rtt.sum_nanos(), measure.rtt.len()),
            offered_bytes: self.offered_on_path(index),
            base_rtt,
            propagation,
            random_loss: 1.0 - kept,
            flows,
            full_packet: self.scenario.full_packet(),
            cwnd: flow.cwnd(),
        }
    }

    fn poll_timetable(&mut self) {
        while let Some(&(at, entry)) = self.timetable.front()
            && at <= self.now
        {
            self.timetable.pop_front();
            match entry {
                Entry::Change(link, change) => self.change(link, &change),
                Entry::WarmUpOver => self.warm_up_over(),
                Entry::FlowStarted(flow) => self.offered[flow].from = self.offered_on_path(flow),
                // Flows that are over before are never active together with the last one.
                Entry::AllStarted if self.one_over.is_some() => {}
                Entry::AllStarted => self.all_active = Some(self.payload_bytes()),
            }
        }
        self.reschedule_rest();
    }

    fn change(&mut self, index: usize, change: &LinkChange) {
        let (now, link) = (self.now, &mut self.links[index]);
        change.apply(link, now);
        self.heap.set(index, link.next_event());
    }

    fn warm_up_over(&mut self) {
        if self.cockpit.is_some() {
            return; // its figures are differences, and count from the start
        }
        for link in &mut self.links {
            link.reset_stats(self.now);
        }
        for index in 0..self.flows.len() {
            // What is lost of a flow that is over counts no more.
            let lost = self.lost_at_end[index].unwrap_or_else(|| self.lost(index));
            self.flows[index].measure.reset();
            let (sent, retransmitted) = self.flows[index].sent();
            self.before[index] = Before { sent, retransmitted, lost };
        }
    }

    fn note_end(&mut self, index: usize) {
        if self.lost_at_end[index].is_none() {
            self.lost_at_end[index] = Some(self.lost(index));
            self.offered[index].to = Some(self.offered_on_path(index));
            if self.one_over.is_none() {
                self.one_over = Some(self.payload_bytes());
            }
        }
    }

    /// Changes when the agent or the timetable are due; flows talk to the agent, so it is asked after
    /// every step of theirs.
    fn reschedule_rest(&mut self) {
        let first = self.links.len() + self.flows.len();
        self.heap.set(first, self.agent.next_event());
        self.heap.set(first + 1, self.timetable.front().map(|&(at, _)| at));
    }

    fn reschedule_flow(&mut self, index: usize) {
        self.heap.set(self.links.len() + index, self.flows[index].next_event());
        self.heap.set(self.links.len() + self.flows.len(), self.agent.next_event());
    }

    fn lost(&self, flow: usize) -> u64 {
        self.links.iter().map(|link| link.lost_of(flow as u32)).sum()
    }

    /// Bytes that each link of a flow's path could have sent since counting began.
    fn offered_on_path(&self, flow: usize) -> Vec<f64> {
        let path = self.scenario.flows[flow].path.iter();
        path.map(|&link| self.links[link].offered_bytes(self.now)).collect()
    }

    fn payload_bytes(&self) -> Vec<u64> {
        self.flows.iter().map(|flow| flow.measure.payload_bytes).collect()
    }
}
