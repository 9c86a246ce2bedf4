//! One flow: its registers, its program, the agent's liveness and the fallback.

use crate::wire::{CreateMessage, FieldUpdate};
use crate::{AckSample, Control, Outbox, Program};
use anole_model::{Bounds, Dur, Time};
use std::sync::Arc;

/// What a flow is created with.
#[derive(Clone, Debug)]
pub struct FlowConfig {
    /// The flow's id in messages, unique in the datapath, from 1.
    pub sid: u32,
    /// What CREATE tells the agent: initial window, MSS, addresses, algorithm.
    pub create: CreateMessage,
    /// What no program and no agent may exceed.
    pub bounds: Bounds,
    /// The agent is lost when a message has waited for an answer for this long (or 4 RTT, the larger).
    pub agent_timeout: Dur,
}

/// Who governs the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Governor {
    /// The installed program and the agent behind it.
    Agent,
    /// The native controller, because no agent has answered (yet, or for too long).
    Fallback,
}

/// Counters of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowStats {
    /// Calls of [`Flow::on_ack`].
    pub acks: u64,
    /// Reports sent.
    pub reports: u64,
    /// UPDATE and CHANGE_PROG messages taken.
    pub updates: u64,
    /// ACKs on which the program was aborted (overflow, underflow, division by zero).
    pub aborts: u64,
    /// Times that the fallback took over.
    pub fallbacks: u64,
    /// Messages that the outbox refused.
    pub send_failures: u64,
}

/// A message of the agent for one flow, its program already looked up.
#[derive(Clone, Debug)]
pub enum FlowMessage {
    /// Set registers.
    Update(Vec<FieldUpdate>),
    /// Change to a program, then set registers.
    ChangeProgram(Arc<Program>, Vec<FieldUpdate>),
}

/// One flow of a datapath.
#[derive(Clone, Debug)]
pub struct Flow {
    config: FlowConfig,
}

impl Flow {
    /// Starts a flow and announces it to the agent (CREATE). The fallback governs it until the agent
    /// answers.
    pub fn start(config: FlowConfig, now: Time, out: &mut impl Outbox) -> Flow {
        let _ = (now, out);
        Flow { config }
    }

    /// Takes what one ACK, loss detection or timeout tells; returns what to obey from now on.
    pub fn on_ack(&mut self, now: Time, sample: &AckSample, out: &mut impl Outbox) -> Control {
        let _ = (now, sample, out);
        self.control()
    }

    /// Takes a message of the agent; it takes effect at the next ACK.
    pub fn deliver(&mut self, now: Time, message: FlowMessage) {
        let _ = (now, message);
    }

    /// What the transport has to obey now.
    pub fn control(&self) -> Control {
        Control { cwnd: self.config.create.init_cwnd, rate: 0 }
    }

    /// Who governs the flow now.
    pub fn governor(&self) -> Governor {
        Governor::Fallback
    }

    /// The flow's counters.
    pub fn stats(&self) -> FlowStats {
        FlowStats::default()
    }

    /// Tells the agent that the flow has ended (MEASURE without fields).
    pub fn close(&mut self, out: &mut impl Outbox) {
        let _ = out;
    }
}
