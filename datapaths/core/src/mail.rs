//! What the agent said to a flow and is not in force yet.
//!
//! However many messages come before the flow looks, what they amount to is one program and one value per register:
//! a later message has the last word, and a change of program starts anew. Nothing is dropped, and the space is that of
//! the registers that an agent may set.

use crate::program::ValidProgram;
use crate::register::{RegisterKind, Slot};
use crate::wire::FieldUpdate;
use anole_model::Time;
use std::sync::Arc;

/// A message of the agent for one flow, its program already looked up.
#[derive(Clone, Debug)]
pub enum FlowMessage {
    /// Set registers.
    Update(Vec<FieldUpdate>),
    /// Change to a program, then set registers.
    ChangeProgram(Arc<ValidProgram>, Vec<FieldUpdate>),
}

/// A flow's mail.
#[derive(Clone, Debug, Default)]
pub struct Mail {
    /// The program to change to.
    pub(crate) program: Option<Arc<ValidProgram>>,
    /// At most one entry for each register that an agent may set.
    pub(crate) fields: Vec<(Slot, u64)>,
    /// Messages that the flow has not counted yet.
    messages: u64,
    /// When the first of them came.
    first_at: Time,
    /// The agent does not know the flow.
    unknown: bool,
}

impl Mail {
    /// Adds a message that came at `now`. Registers that no agent may set are skipped.
    pub fn put(&mut self, now: Time, message: FlowMessage) {
        if self.messages == 0 {
            self.first_at = now;
        }
        self.messages += 1;
        let fields = match message {
            FlowMessage::Update(fields) => fields,
            FlowMessage::ChangeProgram(program, fields) => {
                self.change(program);
                fields
            }
        };
        for field in &fields {
            if let Some(slot) = settable(field) {
                self.set(slot, field.value);
            }
        }
    }

    /// Has the flow announced with its next ACK (CREATE): the agent is new, or has forgotten its flows at a READY.
    pub fn announce(&mut self) {
        self.unknown = true;
    }

    /// Moves what came later behind what waits here.
    pub fn append(&mut self, later: &mut Mail) {
        if self.messages == 0 {
            self.first_at = later.first_at;
        }
        self.messages += std::mem::take(&mut later.messages);
        self.unknown |= std::mem::take(&mut later.unknown);
        if let Some(program) = later.program.take() {
            self.change(program);
        }
        for (slot, value) in later.fields.drain(..) {
            self.set(slot, value);
        }
    }

    /// How many messages have come since the last call, and when the first did.
    pub(crate) fn take_arrived(&mut self) -> Option<(u64, Time)> {
        (self.messages > 0).then(|| (std::mem::take(&mut self.messages), self.first_at))
    }

    /// Whether the flow has to be announced; true once.
    pub(crate) fn take_unknown(&mut self) -> bool {
        std::mem::take(&mut self.unknown)
    }

    /// True when a window or a rate is set.
    pub(crate) fn commands(&self) -> bool {
        self.fields.iter().any(|&(slot, value)| (slot == Slot::CWND || slot == Slot::RATE) && value != 0)
    }

    /// Messages that the flow has not counted yet.
    pub(crate) fn messages(&self) -> u64 {
        self.messages
    }

    fn change(&mut self, program: Arc<ValidProgram>) {
        self.fields.clear();
        self.program = Some(program);
    }

    fn set(&mut self, slot: Slot, value: u64) {
        match self.fields.iter_mut().find(|(known, _)| *known == slot) {
            Some((_, old)) => *old = value,
            None => self.fields.push((slot, value)),
        }
    }
}

/// Where a register lives that an agent may set: a control register, the window or the rate.
fn settable(field: &FieldUpdate) -> Option<Slot> {
    let kind = RegisterKind::from_wire(field.kind)?;
    let slot = Slot::of(kind, field.index)?;
    let allowed = match kind {
        RegisterKind::Control | RegisterKind::VolatileControl => true,
        RegisterKind::Implicit => slot == Slot::CWND || slot == Slot::RATE,
        _ => false,
    };
    allowed.then_some(slot)
}
