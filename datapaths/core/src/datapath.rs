//! A table of flows and programs with one owner.

use crate::wire::{self, CreateMessage, Message, WireError};
use crate::{AckSample, Flow, FlowConfig, FlowMessage, InForce, Outbox, ProgramError, ValidProgram};
use anole_model::{Bounds, Dur, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The programs that the agent installed.
///
/// As in libccp, a program with id 1 is the first of a new agent and clears the table. Unlike there, a
/// program whose id is taken replaces the older one, which there would go on to be used; and a program
/// that is refused takes no place.
///
/// An INSTALL may be lost; the agent then names a program that is not here, and would do so for ever. READY has it send
/// its programs again: [`ProgramTable::wants_programs`] says when.
#[derive(Debug)]
pub struct ProgramTable {
    programs: Vec<Arc<ValidProgram>>,
    /// The program that the agent named last and that was not here.
    missing: Option<u32>,
    /// The agent has named one since it was last asked.
    named: bool,
    ask_at: Time,
    /// Between the last time that the agent was asked and the next.
    ask_wait: Dur,
}

impl Default for ProgramTable {
    fn default() -> ProgramTable {
        ProgramTable {
            programs: Vec::new(),
            missing: None,
            named: false,
            ask_at: Time::ZERO,
            ask_wait: ProgramTable::FIRST_ASK_WAIT,
        }
    }
}

impl ProgramTable {
    /// Programs that a table holds.
    pub const CAPACITY: usize = 256;

    /// The id that a new agent gives its first program.
    const FIRST_UID: u32 = 1;
    /// Between two requests for programs. READY makes the agent forget all flows of the datapath, so that one whose
    /// program is refused rather than lost must not be asked for it at every turn: the wait doubles …
    const FIRST_ASK_WAIT: Dur = Dur::from_millis(250);
    /// … up to this.
    const LONGEST_ASK_WAIT: Dur = Dur::from_millis(16_000);

    /// The program with this id.
    pub fn get(&self, uid: u32) -> Option<&Arc<ValidProgram>> {
        self.programs.iter().find(|program| program.uid() == uid)
    }

    /// Adds a program.
    pub fn install(&mut self, program: ValidProgram) -> Result<(), ReceiveError> {
        if program.uid() == Self::FIRST_UID {
            self.programs.clear();
        }
        let program = Arc::new(program);
        let uid = program.uid();
        if let Some(place) = self.programs.iter_mut().find(|known| known.uid() == uid) {
            *place = program;
        } else if self.programs.len() < Self::CAPACITY {
            self.programs.push(program);
        } else {
            return Err(ReceiveError::TableFull);
        }
        if self.missing == Some(uid) {
            (self.missing, self.named, self.ask_wait) = (None, false, Self::FIRST_ASK_WAIT);
        }
        Ok(())
    }

    /// Takes one datagram of the agent, which may hold several messages: installs its programs and hands
    /// the messages for flows to `deliver`, which returns whether it knows the flow.
    ///
    /// A message that is refused does not keep the ones behind it from being taken, as long as its
    /// header tells where it ends. The first error is returned.
    pub fn receive(
        &mut self,
        datagram: &[u8],
        mut deliver: impl FnMut(u32, FlowMessage) -> bool,
    ) -> Result<(), ReceiveError> {
        let mut outcome = Ok(());
        let mut rest = datagram;
        loop {
            let (message, behind) = match wire::split(rest) {
                Ok(parts) => parts,
                Err(error) => return outcome.and(Err(error.into())),
            };
            outcome = outcome.and(self.take(message, &mut deliver));
            rest = behind;
            if rest.is_empty() {
                return outcome;
            }
        }
    }

    /// True when the agent is to be told READY: it named a program that is not here, and was not asked for it just now.
    /// To be called after [`ProgramTable::receive`]; every flow has to be announced again afterwards.
    pub fn wants_programs(&mut self, now: Time) -> bool {
        let wants = self.named && now >= self.ask_at;
        if wants {
            self.named = false;
            self.ask_at = now + self.ask_wait;
            self.ask_wait = (self.ask_wait * 2).min(Self::LONGEST_ASK_WAIT);
        }
        wants
    }

    fn take(
        &mut self,
        message: &[u8],
        deliver: &mut impl FnMut(u32, FlowMessage) -> bool,
    ) -> Result<(), ReceiveError> {
        let (sid, message) = match wire::decode(message)?.0 {
            Message::Install(install) => return self.install(ValidProgram::install(&install)?),
            Message::Update(sid, updates) => (sid, FlowMessage::Update(updates)),
            Message::ChangeProgram { sid, uid, updates } => {
                let Some(program) = self.get(uid).cloned() else {
                    (self.missing, self.named) = (Some(uid), true);
                    return Err(ReceiveError::UnknownProgram(uid));
                };
                (sid, FlowMessage::ChangeProgram(program, updates))
            }
            Message::Create(..) | Message::Measure { .. } | Message::Ready(_) => {
                return Err(ReceiveError::WrongDirection);
            }
        };
        if deliver(sid, message) { Ok(()) } else { Err(ReceiveError::UnknownFlow(sid)) }
    }
}

/// A flow of a [`Datapath`]; also its id on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

/// Why a message from the agent was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiveError {
    /// Not a message.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// Not a program.
    #[error("program refused: {0}")]
    Program(#[from] ProgramError),
    /// No flow has this id.
    #[error("no flow has the id {0}")]
    UnknownFlow(u32),
    /// No program has this id.
    #[error("no program has the id {0}")]
    UnknownProgram(u32),
    /// CREATE, MEASURE and READY go to an agent.
    #[error("a message that only a datapath sends")]
    WrongDirection,
    /// No place for another program.
    #[error("the program table is full")]
    TableFull,
}

/// Flows and programs with one owner: for the simulator, tests and one-threaded hosts.
#[derive(Debug)]
pub struct Datapath {
    programs: ProgramTable,
    flows: BTreeMap<FlowId, Flow>,
    /// Ids are not used again: a late message for a flow that has ended finds nobody.
    next_id: u32,
    bounds: Bounds,
    agent_timeout: Dur,
}

impl Datapath {
    /// A datapath without flows.
    pub fn new(bounds: Bounds, agent_timeout: Dur) -> Datapath {
        Datapath {
            programs: ProgramTable::default(),
            flows: BTreeMap::new(),
            next_id: 1,
            bounds,
            agent_timeout,
        }
    }

    /// Announces the datapath to the agent (READY), and each of its flows with the flow's next ACK: at READY an agent
    /// sends its programs and forgets what flows there were. An agent that is not there yet needs none: it learns of each
    /// flow by its CREATE.
    pub fn ready(&mut self, id: u32, out: &mut impl Outbox) {
        let mut message = Vec::new();
        if wire::encode(&Message::Ready(id), &mut message).is_ok() && out.send(&message).is_ok() {
            self.flows.values_mut().for_each(Flow::announce_next);
        }
    }

    /// True when [`Datapath::ready`] is to be called; see [`ProgramTable::wants_programs`].
    pub fn wants_programs(&mut self, now: Time) -> bool {
        self.programs.wants_programs(now)
    }

    /// Opens a flow and announces it to the agent.
    pub fn open(&mut self, now: Time, create: CreateMessage, out: &mut impl Outbox) -> FlowId {
        let id = self.free_id();
        let config = FlowConfig { sid: id.0, create, bounds: self.bounds, agent_timeout: self.agent_timeout };
        self.flows.insert(id, Flow::start(config, now, out));
        id
    }

    /// The next id that no flow has: after 2^32 flows they come round.
    fn free_id(&mut self) -> FlowId {
        loop {
            let id = FlowId(self.next_id);
            // 0 stands for "no flow" on the wire.
            self.next_id = self.next_id.checked_add(1).unwrap_or(1);
            if !self.flows.contains_key(&id) {
                return id;
            }
        }
    }

    /// The flow with this id.
    pub fn flow(&self, id: FlowId) -> Option<&Flow> {
        self.flows.get(&id)
    }

    /// Takes what one ACK, loss detection or timeout of a flow tells. `None`: no such flow.
    pub fn on_ack(
        &mut self,
        now: Time,
        id: FlowId,
        sample: &AckSample,
        out: &mut impl Outbox,
    ) -> Option<InForce> {
        Some(self.flows.get_mut(&id)?.on_ack(now, sample, out))
    }

    /// Takes one datagram of the agent, which may hold several messages; see [`ProgramTable::receive`].
    pub fn receive(&mut self, now: Time, datagram: &[u8]) -> Result<(), ReceiveError> {
        let flows = &mut self.flows;
        self.programs.receive(datagram, |sid, message| match flows.get_mut(&FlowId(sid)) {
            Some(flow) => {
                flow.deliver(now, message);
                true
            }
            None => false,
        })
    }

    /// Closes a flow and tells the agent.
    pub fn close(&mut self, id: FlowId, out: &mut impl Outbox) {
        if let Some(mut flow) = self.flows.remove(&id) {
            let _ = flow.close(out);
        }
    }
}

#[cfg(test)]
mod tests;
