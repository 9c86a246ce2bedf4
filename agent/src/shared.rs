//! What the endpoint below portus and the adapter above it tell each other.
//!
//! Both run in portus's one thread; portus asks for `Send` of the endpoint, hence the lock.

use crate::flow_key::FlowKey;
use anole_datapath::wire::{AlgorithmName, Message};
use anole_model::Time;
use anole_programs::{Commands, Installed, Program};
use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The agent's clock: time since its start.
#[derive(Clone, Copy, Debug)]
pub struct AgentClock(Instant);

impl AgentClock {
    /// A clock that starts now.
    pub fn start() -> AgentClock {
        AgentClock(Instant::now())
    }
    /// Time since the start.
    pub fn now(self) -> Time {
        Time::from_nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// A message from the agent to a flow.
pub type Outgoing = (FlowKey, Message<'static>);

/// State of endpoint and adapter together.
#[derive(Clone, Debug, Default)]
pub struct Shared(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// The flow of the CREATE that portus handles next, and the algorithm it asks for: portus tells an
    /// algorithm neither.
    asked: Option<(FlowKey, AlgorithmName)>,
    /// Flow, program and registers of the MEASURE that portus handles next: portus tells the registers one by
    /// one, each by a search for its name.
    reported: Option<(FlowKey, u32, Vec<u64>)>,
    /// Messages to flows: portus would search for every register's name, and copy all of the program's names at
    /// each change of programs.
    answers: VecDeque<Outgoing>,
    /// The programs, under the ids that portus gave them.
    installed: Installed,
    /// Flows whose algorithm panicked or could not be built; they belong to their datapath's fallback.
    failed: HashSet<FlowKey>,
    /// Why the agent has to end.
    refusal: Option<String>,
}

impl Shared {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics while it holds the lock; a poisoned one is as good.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// portus is about to see this flow's CREATE.
    pub fn asked(&self, flow: FlowKey, name: AlgorithmName) {
        self.inner().asked = Some((flow, name));
    }
    /// The flow that portus creates now and the algorithm that it asks for.
    pub fn take_asked(&self) -> Option<(FlowKey, AlgorithmName)> {
        self.inner().asked.take()
    }
    /// portus is about to see this flow's MEASURE.
    pub fn reported(&self, flow: FlowKey, uid: u32, values: Vec<u64>) {
        self.inner().reported = Some((flow, uid, values));
    }
    /// The registers that this flow reports now, in wire order, and their program; `None` if it is not installed.
    pub fn take_report(&self, flow: FlowKey, uid: u32) -> Option<(&'static Program, Vec<u64>)> {
        let mut inner = self.inner();
        let (_, _, values) = inner.reported.take().filter(|(of, by, _)| (*of, *by) == (flow, uid))?;
        Some((inner.installed.program(uid)?, values))
    }
    /// Commands for a flow, for the endpoint to send. An error names the program that is not installed.
    pub fn answer(&self, flow: FlowKey, commands: &Commands) -> Result<(), String> {
        let mut inner = self.inner();
        let missing = || commands.program().map_or("", |program| program.name);
        let message = inner.installed.message(flow.1, commands);
        let message = message.ok_or_else(|| format!("program {} is not installed", missing()))?;
        inner.answers.push_back((flow, message));
        Ok(())
    }
    /// The next message to send.
    pub fn take_answer(&self) -> Option<Outgoing> {
        self.inner().answers.pop_front()
    }
    /// portus has compiled `program` and installs it under this id.
    pub fn install(&self, uid: u32, program: &'static Program) {
        self.inner().installed.insert(uid, program);
    }
    /// This flow has no algorithm any more.
    pub fn fail(&self, flow: FlowKey) {
        self.inner().failed.insert(flow);
    }
    /// Whether this flow has lost its algorithm.
    pub fn has_failed(&self, flow: FlowKey) -> bool {
        self.inner().failed.contains(&flow)
    }
    /// This flow is over.
    pub fn forget(&self, flow: FlowKey) {
        self.inner().failed.remove(&flow);
    }
    /// The agent has to end, and this is why.
    pub fn refuse(&self, why: String) {
        self.inner().refusal = Some(why);
    }
    /// Why the agent had to end.
    pub fn refusal(&self) -> Option<String> {
        self.inner().refusal.clone()
    }
}
