//! The agent inside the simulation: the real algorithms, reached by the real messages.
//!
//! READY is answered with every fold program (INSTALL), CREATE with the algorithm's start (CHANGE_PROG),
//! MEASURE with its decision (UPDATE or CHANGE_PROG). A decision without commands is answered by an
//! empty UPDATE at most every 100 ms, as the agent process does, so that the datapath knows that
//! somebody is there.
//!
//! Messages take a constant time each way. The agent can be absent for parts of a run, as if it had been
//! started late, killed or restarted: meanwhile messages to it are refused, and when it returns it
//! knows nothing.

use crate::plan::FlowPlan;
use anole_algorithms::{Algorithm, Commands, Explanation, FlowInfo, Report, Telemetry};
use anole_datapath::wire::{self, CreateMessage, FieldUpdate, Install, Message};
use anole_datapath::{Outbox, SendError};
use anole_model::{Dur, Time};
use anole_programs::Program;
use std::collections::{BTreeMap, VecDeque};

/// Time between two empty answers to one flow; well below the datapath's default patience of 500 ms.
const HEARTBEAT: Dur = Dur::from_millis(100);
/// libccp and portus give the first program of an agent the id 1, which clears the table of programs.
const FIRST_PROGRAM: u32 = 1;

/// How the agent behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentScript {
    /// Time that a message takes, each way. The default of 50 µs is the mean that was measured between
    /// a kernel datapath and a process (27 to 54 µs) and the worst 1 % over a Unix socket (46 µs).
    pub latency: Dur,
    /// Spans (from, to) in which there is no agent, in order and apart.
    pub absent: Vec<(Time, Time)>,
}

impl Default for AgentScript {
    fn default() -> Self {
        AgentScript { latency: Dur::from_micros(50), absent: Vec::new() }
    }
}

impl AgentScript {
    /// There never is an agent.
    pub fn never() -> AgentScript {
        AgentScript { absent: vec![(Time::ZERO, Time::MAX)], ..AgentScript::default() }
    }

    fn is_absent(&self, now: Time) -> bool {
        self.absent.iter().any(|&(from, to)| from <= now && now < to)
    }
}

/// A message on its way.
type Letter = (Time, Vec<u8>);

struct Session {
    algorithm: Box<dyn Algorithm>,
    flow: usize,
    answered_at: Time,
}

/// The agent and the messages on their way from and to it.
pub(super) struct Agent {
    script: AgentScript,
    /// Absences that are not over yet begin here.
    absences_over: usize,
    plans: Vec<FlowPlan>,
    sessions: BTreeMap<u32, Session>,
    /// What the sessions that are over did, by flow.
    past: Vec<Telemetry>,
    /// Why each flow went as it did.
    explained: Vec<Vec<Explanation>>,
    to_agent: VecDeque<Letter>,
    to_datapath: VecDeque<Letter>,
    commands: Commands,
}

/// What the agent needs from the simulation.
pub(super) enum Event {
    /// The datapath has to announce itself: an agent has come.
    Arrived,
    /// A datagram for the datapath.
    Datagram(Vec<u8>),
}

/// Sends messages to the agent as of `now`.
pub(super) struct ToAgent<'a> {
    pub agent: &'a mut Agent,
    pub now: Time,
}

impl Outbox for ToAgent<'_> {
    fn send(&mut self, message: &[u8]) -> Result<(), SendError> {
        if self.agent.script.is_absent(self.now) {
            return Err(SendError);
        }
        self.agent.to_agent.push_back((self.now + self.agent.script.latency, message.to_vec()));
        Ok(())
    }
}

impl Agent {
    pub fn new(script: AgentScript, plans: Vec<FlowPlan>) -> Agent {
        Agent {
            script,
            absences_over: 0,
            past: vec![Telemetry::default(); plans.len()],
            explained: vec![Vec::new(); plans.len()],
            plans,
            sessions: BTreeMap::new(),
            to_agent: VecDeque::new(),
            to_datapath: VecDeque::new(),
            commands: Commands::default(),
        }
    }

    /// When something happens here next.
    pub fn next_event(&self) -> Option<Time> {
        let returns = self.script.absent.get(self.absences_over).map(|&(_, to)| to);
        let letters = [self.to_agent.front(), self.to_datapath.front()];
        letters.into_iter().flatten().map(|&(at, _)| at).chain(returns).min()
    }

    /// Does what is due. Call until `None`.
    pub fn poll(&mut self, now: Time) -> Option<Event> {
        if self.script.absent.get(self.absences_over).is_some_and(|&(_, to)| to <= now) {
            self.absences_over += 1;
            self.die();
            return Some(Event::Arrived);
        }
        while let Some((at, message)) = take_due(&mut self.to_agent, now) {
            if !self.script.is_absent(at) {
                self.receive(at, &message);
            }
        }
        take_due(&mut self.to_datapath, now).map(|(_, datagram)| Event::Datagram(datagram))
    }

    /// What a flow runs.
    pub fn plan(&self, flow: usize) -> &FlowPlan {
        &self.plans[flow]
    }

    /// What the algorithms of a flow did, all sessions together.
    pub fn telemetry(&self, flow: usize) -> Telemetry {
        let current = self.sessions.values().filter(|s| s.flow == flow).map(|s| s.algorithm.telemetry());
        current.fold(self.past[flow], add)
    }

    /// Why a flow went as it did, in order; taken once.
    pub fn explained(&mut self, flow: usize) -> Vec<Explanation> {
        std::mem::take(&mut self.explained[flow])
    }

    fn die(&mut self) {
        for session in std::mem::take(&mut self.sessions).into_values() {
            self.past[session.flow] = add(self.past[session.flow], session.algorithm.telemetry());
        }
    }

    fn receive(&mut self, now: Time, mut datagram: &[u8]) {
        while let Ok((message, taken)) = wire::decode(datagram) {
            match message {
                Message::Ready(_) => self.install(now),
                Message::Create(sid, create) => self.create(now, sid, &create),
                Message::Measure { sid, values, .. } if values.is_empty() => self.close(sid),
                Message::Measure { sid, uid, values } => self.measure(now, sid, uid, &values),
                // Messages of agents, which no datapath sends.
                Message::Install(_) | Message::Update(..) | Message::ChangeProgram { .. } => {}
            }
            datagram = &datagram[taken..];
        }
    }

    fn install(&mut self, now: Time) {
        for (program, uid) in anole_programs::ALL.iter().zip(FIRST_PROGRAM..) {
            let (expressions, instructions) = program.code.split_at(16 * program.expressions as usize);
            self.send(now, &Message::Install(Install { uid, expressions, instructions }));
        }
    }

    fn create(&mut self, now: Time, sid: u32, create: &CreateMessage) {
        // The simulation's flows are numbered in the source port.
        let flow = create.src_port as usize;
        let info = FlowInfo { mss: create.mss, init_cwnd: create.init_cwnd };
        self.close(sid);
        let Some(algorithm) = self.plans.get(flow).and_then(|plan| plan.algorithm(info)) else { return };
        self.sessions.insert(sid, Session { algorithm, flow, answered_at: now });
        self.decide(now, sid, |algorithm, commands| algorithm.start(now, commands));
    }

    fn measure(&mut self, now: Time, sid: u32, uid: u32, values: &[u64]) {
        let index = uid.wrapping_sub(FIRST_PROGRAM) as usize;
        let Some(program) = anole_programs::ALL.get(index) else { return };
        self.decide(now, sid, |algorithm, commands| {
            algorithm.on_report(now, &Report { program, values }, commands);
        });
    }

    /// Lets an algorithm decide and sends its commands.
    fn decide(&mut self, now: Time, sid: u32, decision: impl FnOnce(&mut dyn Algorithm, &mut Commands)) {
        let Some(session) = self.sessions.get_mut(&sid) else { return };
        let mut commands = std::mem::take(&mut self.commands);
        decision(session.algorithm.as_mut(), &mut commands);
        self.explained[session.flow].extend(session.algorithm.explain());
        if !commands.is_empty() || now.since(session.answered_at) >= HEARTBEAT {
            session.answered_at = now;
            let updates = commands
                .fields()
                .iter()
                .map(|(r, value)| FieldUpdate { kind: r.kind, index: r.index, value: u64::from(*value) })
                .collect();
            match commands.program().and_then(uid_of) {
                Some(uid) => self.send(now, &Message::ChangeProgram { sid, uid, updates }),
                None => self.send(now, &Message::Update(sid, updates)),
            }
        }
        commands.clear();
        self.commands = commands;
    }

    fn close(&mut self, sid: u32) {
        if let Some(session) = self.sessions.remove(&sid) {
            self.past[session.flow] = add(self.past[session.flow], session.algorithm.telemetry());
        }
    }

    fn send(&mut self, now: Time, message: &Message<'_>) {
        let mut bytes = Vec::new();
        // Every message here fits: programs were compiled within the limits, and a program has fewer
        // registers than a message may set.
        if wire::encode(message, &mut bytes).is_ok() {
            self.to_datapath.push_back((now + self.script.latency, bytes));
        }
    }
}

fn take_due(letters: &mut VecDeque<Letter>, now: Time) -> Option<Letter> {
    letters.front().is_some_and(|&(at, _)| at <= now).then(|| letters.pop_front())?
}

fn uid_of(program: &'static Program) -> Option<u32> {
    let index = anole_programs::ALL.iter().position(|known| known.name == program.name)?;
    Some(FIRST_PROGRAM + index as u32)
}

fn add(mut sum: Telemetry, other: Telemetry) -> Telemetry {
    sum.applied.rule += other.applied.rule;
    sum.applied.learned += other.applied.learned;
    sum.applied.inferred += other.applied.inferred;
    sum.applied.previous += other.applied.previous;
    sum.decisions += other.decisions;
    sum.inferences += other.inferences;
    sum
}
