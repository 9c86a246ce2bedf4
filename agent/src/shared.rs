//! What the endpoint below portus and the adapter above it tell each other.
//!
//! Both run in portus's one thread; portus asks for `Send` of the endpoint, hence the lock.

use crate::flow_key::{DatapathId, FlowKey};
use crate::flow_table::{FlowStatus, FlowTable, Status};
use anole_algorithms::Preference;
use anole_datapath::wire::{CreateMessage, Message};
use anole_model::Time;
use anole_programs::{Commands, Installed, Program};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Instant;

/// Flows served at once; at a few KiB each they stay within some hundred MB.
pub const MAX_FLOWS: usize = 65_536;
/// The program in the end of a flow that fell silent, of which its datapath may know more. portus installs none under
/// this id.
pub const FELL_SILENT: u32 = u32::MAX;

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
    asked: Option<(FlowKey, CreateMessage)>,
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
    /// What each flow does.
    flows: FlowTable,
    /// What datapaths are called in a status, without their folder.
    names: HashMap<DatapathId, String>,
    /// What applications prefer, where that was told since their flows' beginning; also of flows that fell silent.
    preferences: HashMap<FlowKey, Preference>,
    /// The flow whose end portus handles next, where its datapath told of it.
    ended: Option<FlowKey>,
    /// Who waits for a status.
    askers: Vec<mpsc::Sender<Status>>,
    /// Why the agent has to end.
    refusal: Option<String>,
}

/// A datapath's name without its folder, which is the agent's own.
pub fn short_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or_default()
}

impl Shared {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics while it holds the lock; a poisoned one is as good.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// portus is about to see this flow's CREATE; its datapath is the one at `at`.
    pub fn asked(&self, flow: FlowKey, create: CreateMessage, at: &str) {
        let mut inner = self.inner();
        inner.names.insert(flow.0, short_name(at).to_string());
        inner.asked = Some((flow, create));
    }
    /// The flow that portus creates now, and its CREATE.
    pub fn take_asked(&self) -> Option<(FlowKey, CreateMessage)> {
        self.inner().asked.take()
    }
    /// This flow is run by `algorithm` from now on.
    /// True when it had been announced before and not ended.
    pub fn begin(&self, now: Time, flow: FlowKey, algorithm: &'static str, create: CreateMessage) -> bool {
        self.inner().flows.begin(now, flow, algorithm, create)
    }
    /// A preference means nothing to this flow's algorithm.
    pub fn prefers_nothing(&self, flow: FlowKey) {
        self.inner().flows.prefers_nothing(flow);
    }
    /// The application of the flow with this id, of the datapath with this name, prefers this from its next report on. An
    /// error says that which flow is meant is not clear, and why, or that it means nothing there.
    pub fn prefer(&self, flow: u32, datapath: Option<&str>, preference: Preference) -> Result<(), String> {
        let mut inner = self.inner();
        let named = |peer: &DatapathId| inner.names.get(peer).map_or("", String::as_str);
        let is_meant = |peer: &DatapathId| datapath.is_none_or(|name| named(peer) == short_name(name));
        let keys: Vec<FlowKey> =
            inner.flows.keys().filter(|(peer, id)| *id == flow && is_meant(peer)).collect();
        match keys[..] {
            [key] => {
                if let Some(algorithm) = inner.flows.preferring_nothing(key) {
                    return Err(format!(
                        "flow {flow} is run by {algorithm}, to which a preference means nothing"
                    ));
                }
                if inner.preferences.len() >= MAX_FLOWS {
                    let Inner { flows, preferences, .. } = &mut *inner;
                    preferences.retain(|&key, _| flows.has(key));
                }
                inner.preferences.insert(key, preference);
                Ok(())
            }
            [] => {
                let of = datapath.map_or(String::new(), |name| format!(" of datapath {name}"));
                Err(format!("no flow{of} has the id {flow}; `anole-ccp status` lists them"))
            }
            _ => {
                let mut names: Vec<&str> = keys.iter().map(|(peer, _)| named(peer)).collect();
                names.sort_unstable();
                Err(format!(
                    "flows of several datapaths have the id {flow}; add the one that is meant: {}",
                    names.join(", ")
                ))
            }
        }
    }
    /// What the application of this flow prefers, where that was told since the flow's beginning.
    pub fn preference(&self, flow: FlowKey) -> Option<Preference> {
        self.inner().preferences.get(&flow).copied()
    }
    /// Somebody wants to know what the agent does.
    pub fn ask_status(&self, asker: mpsc::Sender<Status>) {
        self.inner().askers.push(asker);
    }
    /// Tells everybody who has asked; `name` is how a datapath is shown.
    pub fn answer_askers(&self, now: Time, ipc: &str, name: impl Fn(DatapathId) -> String) {
        let inner = &mut *self.inner();
        if inner.askers.is_empty() {
            return;
        }
        let flows = inner.flows.rows(now).into_iter();
        let flows = flows.map(|((peer, _), flow)| FlowStatus { datapath: name(peer), ..flow }).collect();
        let status = Status {
            version: anole_cli::VERSION.to_string(),
            pid: std::process::id(),
            ipc: ipc.to_string(),
            uptime_s: now.as_secs_f64(),
            flows,
        };
        for asker in inner.askers.drain(..) {
            // Whoever has given up waiting is told nothing.
            let _ = asker.send(status.clone());
        }
    }
    /// portus is about to see this flow's MEASURE; one without values is the flow's end.
    pub fn reported(&self, flow: FlowKey, uid: u32, values: Vec<u64>) {
        let mut inner = self.inner();
        inner.ended = Some(flow).filter(|_| values.is_empty() && uid != FELL_SILENT);
        if inner.ended.is_some() {
            inner.preferences.remove(&flow);
        }
        inner.reported = Some((flow, uid, values));
    }
    /// The registers that this flow reports now, in wire order, and their program; `None` if it is not installed.
    pub fn take_report(&self, now: Time, flow: FlowKey, uid: u32) -> Option<(&'static Program, Vec<u64>)> {
        let mut inner = self.inner();
        let (_, _, values) = inner.reported.take().filter(|(of, by, _)| (*of, *by) == (flow, uid))?;
        let program = inner.installed.program(uid)?;
        inner.flows.note(now, flow, program, &values);
        Some((program, values))
    }
    /// What happened to this flow under `algorithm`, one of the kernel's.
    pub fn told(
        &self,
        now: Time,
        flow: FlowKey,
        algorithm: &'static str,
        (acked, lost, rtt_us): (u64, u64, u64),
    ) {
        self.inner().flows.told(now, flow, algorithm, acked, lost, rtt_us);
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
        let mut inner = self.inner();
        inner.failed.insert(flow);
        inner.flows.fail(flow);
    }
    /// Whether this flow has lost its algorithm.
    pub fn has_failed(&self, flow: FlowKey) -> bool {
        self.inner().failed.contains(&flow)
    }
    /// A datapath begins: its flows are others than before.
    pub fn begin_datapath(&self, datapath: DatapathId) {
        self.inner().preferences.retain(|(of, _), _| *of != datapath);
    }
    /// This flow is over for the agent. True where its datapath told so: one that fell silent may go on.
    pub fn forget(&self, flow: FlowKey) -> bool {
        let mut inner = self.inner();
        inner.failed.remove(&flow);
        inner.flows.end(flow);
        inner.ended.take() == Some(flow)
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

#[cfg(test)]
mod tests {
    use super::*;
    use anole_datapath::wire::AlgorithmName;

    #[test]
    fn a_preference_holds_until_its_flow_s_datapath_tells_of_the_end() {
        let (shared, key) = (Shared::default(), (DatapathId(1), 7));
        let create = CreateMessage::without_addresses(10_000, 1000, AlgorithmName::NONE);
        let announced = || shared.begin(Time::ZERO, key, "anole", create.clone());
        announced();
        shared.prefer(7, None, Preference::La1).unwrap();
        shared.reported(key, FELL_SILENT, Vec::new());
        assert!(!shared.forget(key));
        announced();
        assert_eq!(shared.preference(key), Some(Preference::La1));
        shared.reported(key, 0, Vec::new());
        assert!(shared.forget(key));
        announced();
        assert_eq!(shared.preference(key), None);
        shared.prefer(7, None, Preference::La1).unwrap();
        shared.begin_datapath(DatapathId(1));
        assert_eq!(shared.preference(key), None);
    }
}
