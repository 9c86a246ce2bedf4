//! The agent inside the simulation: the real algorithms, reached by the real messages.
//!
//! READY is answered with every fold program (INSTALL), CREATE with the start of a session and MEASURE with what
//! the session makes of it (CHANGE_PROG or UPDATE).
//!
//! Messages take a constant time each way. The agent can be absent for parts of a run, as if it had been
//! started late, killed or restarted: meanwhile messages to it are refused, and when it returns it
//! knows nothing.

use crate::plan::FlowPlan;
use anole_algorithms::session::{Reply, Session};
use anole_algorithms::{Explanation, FlowInfo, Judgement, Metrics};
use anole_datapath::wire::{self, CreateMessage, Message};
use anole_datapath::{Outbox, SendError};
use anole_model::{Dur, Time, earliest};
use anole_programs::Installed;
use std::collections::{BTreeMap, VecDeque};

/// When there is an agent; by default always.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentScript {
    /// Spans (from, to) in which there is none, in order and apart.
    pub absent: Vec<(Time, Time)>,
}

impl AgentScript {
    /// There never is an agent.
    pub fn never() -> AgentScript {
        AgentScript { absent: vec![(Time::ZERO, Time::MAX)] }
    }

    fn is_absent(&self, now: Time) -> bool {
        self.absent.iter().any(|&(from, to)| from <= now && now < to)
    }
}

/// A message on its way.
type Letter = (Time, Vec<u8>);

/// The agent and the messages on their way from and to it.
pub(super) struct Agent {
    script: AgentScript,
    /// Time that a message takes, each way.
    delay: Dur,
    /// Absences that are not over yet begin here.
    absences_over: usize,
    plans: Vec<FlowPlan>,
    installed: Installed,
    /// Sessions, with the flow that each belongs to, by the datapath's id.
    sessions: BTreeMap<u32, (usize, Session)>,
    /// What the sessions that are over did, by flow.
    past: Vec<Metrics>,
    /// Why each flow went as it did.
    explained: Vec<Vec<Explanation>>,
    judged: Vec<Vec<Judgement>>,
    to_agent: VecDeque<Letter>,
    to_datapath: VecDeque<Letter>,
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
        self.agent.to_agent.push_back((self.now + self.agent.delay, message.to_vec()));
        Ok(())
    }
}

impl Agent {
    pub fn new(script: AgentScript, delay: Dur, plans: Vec<FlowPlan>) -> Agent {
        Agent {
            script,
            delay,
            absences_over: 0,
            installed: plans.iter().flat_map(FlowPlan::programs).fold(Installed::all(), Installed::with),
            past: vec![Metrics::default(); plans.len()],
            explained: vec![Vec::new(); plans.len()],
            judged: vec![Vec::new(); plans.len()],
            plans,
            sessions: BTreeMap::new(),
            to_agent: VecDeque::new(),
            to_datapath: VecDeque::new(),
        }
    }

    /// When something happens here next.
    pub fn next_event(&self) -> Option<Time> {
        let returns = self.script.absent.get(self.absences_over).map(|&(_, to)| to);
        let first = |letters: &VecDeque<Letter>| letters.front().map(|&(at, _)| at);
        earliest([returns, first(&self.to_agent), first(&self.to_datapath)])
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

    /// What a flow's sessions did, all together.
    pub fn metrics(&self, flow: usize) -> Metrics {
        let mut sum = self.past[flow];
        self.sessions
            .values()
            .filter(|(of, _)| *of == flow)
            .for_each(|(_, session)| sum += *session.metrics());
        sum
    }

    /// Why a flow went as it did, in order; taken once.
    pub fn explained(&mut self, flow: usize) -> Vec<Explanation> {
        std::mem::take(&mut self.explained[flow])
    }

    /// The data units of a flow whose algorithm logs them.
    pub fn judged(&mut self, flow: usize) -> Vec<Judgement> {
        std::mem::take(&mut self.judged[flow])
    }

    fn die(&mut self) {
        for (flow, session) in std::mem::take(&mut self.sessions).into_values() {
            self.past[flow] += *session.metrics();
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
        for message in self.installed.installs().collect::<Vec<_>>() {
            self.send(now, &message);
        }
    }

    fn create(&mut self, now: Time, sid: u32, create: &CreateMessage) {
        // The simulation's flows are numbered in the source port.
        let flow = create.src_port as usize;
        let info = FlowInfo { mss: create.mss, init_cwnd: create.init_cwnd };
        self.close(sid);
        let Some(algorithm) = self.plans.get(flow).and_then(|plan| plan.algorithm(info)) else { return };
        self.sessions.insert(sid, (flow, Session::new(algorithm)));
        self.answer(now, sid, |session| session.start(now));
    }

    fn measure(&mut self, now: Time, sid: u32, uid: u32, values: &[u64]) {
        let Some(program) = self.installed.program(uid) else { return };
        self.answer(now, sid, |session| session.on_report(now, program, values));
    }

    /// Lets a session act and sends its answer; one that errs is over, as it is with the agent process.
    fn answer(&mut self, now: Time, sid: u32, act: impl for<'a> FnOnce(&'a mut Session) -> Reply<'a>) {
        let Some((flow, session)) = self.sessions.get_mut(&sid) else { return };
        if let Some(preference) = self.plans[*flow].preference(now) {
            session.prefer(preference);
        }
        let message = act(session).map(|commands| self.installed.message(sid, commands?));
        self.explained[*flow].extend(session.explain());
        self.judged[*flow].extend(session.judgement());
        match message {
            Ok(Some(message)) => self.send(now, &message),
            Ok(None) => {}
            Err(_) => self.close(sid),
        }
    }

    fn close(&mut self, sid: u32) {
        if let Some((flow, session)) = self.sessions.remove(&sid) {
            self.past[flow] += *session.metrics();
        }
    }

    fn send(&mut self, now: Time, message: &Message<'_>) {
        let mut bytes = Vec::new();
        // Every message here fits: programs were compiled within the limits, and a program has fewer
        // registers than a message may set.
        if wire::encode(message, &mut bytes).is_ok() {
            self.to_datapath.push_back((now + self.delay, bytes));
        }
    }
}

fn take_due(letters: &mut VecDeque<Letter>, now: Time) -> Option<Letter> {
    letters.front().is_some_and(|&(at, _)| at <= now).then(|| letters.pop_front())?
}
