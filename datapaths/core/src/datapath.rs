//! A table of flows and programs with one owner.

use crate::wire::{self, CreateMessage, Message, WireError};
use crate::{AckSample, Control, Flow, FlowConfig, FlowMessage, Outbox, ProgramError, ValidProgram};
use anole_model::{Bounds, Dur, Time};
use std::sync::Arc;

/// The programs that the agent installed.
///
/// As in libccp, a program with id 1 is the first of a new agent and clears the table. Unlike there, a
/// program whose id is taken replaces the older one, which there would go on to be used; and a program
/// that is refused takes no place.
#[derive(Debug, Default)]
pub struct ProgramTable {
    programs: Vec<Arc<ValidProgram>>,
}

impl ProgramTable {
    /// Programs that a table holds.
    pub const CAPACITY: usize = 256;

    /// The id that a new agent gives its first program.
    const FIRST_UID: u32 = 1;

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
        if let Some(place) = self.programs.iter_mut().find(|known| known.uid() == program.uid()) {
            *place = program;
        } else if self.programs.len() < Self::CAPACITY {
            self.programs.push(program);
        } else {
            return Err(ReceiveError::TableFull);
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

    fn take(
        &mut self,
        message: &[u8],
        deliver: &mut impl FnMut(u32, FlowMessage) -> bool,
    ) -> Result<(), ReceiveError> {
        let (sid, message) = match wire::decode(message)?.0 {
            Message::Install(install) => return self.install(ValidProgram::install(&install)?),
            Message::Update(sid, updates) => (sid, FlowMessage::Update(updates)),
            Message::ChangeProgram { sid, uid, updates } => {
                let program = self.get(uid).ok_or(ReceiveError::UnknownProgram(uid))?;
                (sid, FlowMessage::ChangeProgram(Arc::clone(program), updates))
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

impl FlowId {
    /// libccp's flow ids are 16-bit numbers from 1.
    const MAX: usize = u16::MAX as usize;

    fn index(self) -> usize {
        (self.0 as usize).wrapping_sub(1)
    }
}

/// Why no flow could be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Every id is in use.
    #[error("every flow id is in use")]
    Full,
}

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
    flows: Vec<Option<Flow>>,
    bounds: Bounds,
    agent_timeout: Dur,
}

impl Datapath {
    /// A datapath without flows.
    pub fn new(bounds: Bounds, agent_timeout: Dur) -> Datapath {
        Datapath { programs: ProgramTable::default(), flows: Vec::new(), bounds, agent_timeout }
    }

    /// Announces the datapath to the agent (READY). An agent that is not there yet needs none: it learns
    /// of each flow by its CREATE.
    pub fn ready(&mut self, id: u32, out: &mut impl Outbox) {
        let mut message = Vec::new();
        if wire::encode(&Message::Ready(id), &mut message).is_ok() {
            let _ = out.send(&message);
        }
    }

    /// Opens a flow and announces it to the agent.
    pub fn open(
        &mut self,
        now: Time,
        create: CreateMessage,
        out: &mut impl Outbox,
    ) -> Result<FlowId, OpenError> {
        let index = self.flows.iter().position(Option::is_none).unwrap_or(self.flows.len());
        if index >= FlowId::MAX {
            return Err(OpenError::Full);
        }
        let sid = index as u32 + 1;
        let config = FlowConfig { sid, create, bounds: self.bounds, agent_timeout: self.agent_timeout };
        let flow = Some(Flow::start(config, now, out));
        match self.flows.get_mut(index) {
            Some(place) => *place = flow,
            None => self.flows.push(flow),
        }
        Ok(FlowId(sid))
    }

    /// The flow with this id.
    pub fn flow(&self, id: FlowId) -> Option<&Flow> {
        self.flows.get(id.index())?.as_ref()
    }

    /// Takes what one ACK, loss detection or timeout of a flow tells. `None`: no such flow.
    pub fn on_ack(
        &mut self,
        now: Time,
        id: FlowId,
        sample: &AckSample,
        out: &mut impl Outbox,
    ) -> Option<Control> {
        let flow = self.flows.get_mut(id.index())?.as_mut()?;
        Some(flow.on_ack(now, sample, out))
    }

    /// Takes one datagram of the agent, which may hold several messages; see [`ProgramTable::receive`].
    pub fn receive(&mut self, now: Time, datagram: &[u8]) -> Result<(), ReceiveError> {
        let flows = &mut self.flows;
        self.programs.receive(datagram, |sid, message| {
            match flows.get_mut(FlowId(sid).index()).and_then(Option::as_mut) {
                Some(flow) => {
                    flow.deliver(now, message);
                    true
                }
                None => false,
            }
        })
    }

    /// Closes a flow and tells the agent.
    pub fn close(&mut self, id: FlowId, out: &mut impl Outbox) {
        if let Some(mut flow) = self.flows.get_mut(id.index()).and_then(Option::take) {
            flow.close(out);
        }
    }
}

#[cfg(test)]
mod tests;
