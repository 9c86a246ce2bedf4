//! What the agent said to a flow and is not in force yet.
//!
//! However many messages come before the flow looks, what they amount to is one program and one value per register:
//! a later message has the last word, and a change of program starts anew. Nothing is dropped, and the space is that of
//! the registers that an agent may set.

use crate::program::ValidProgram;
use crate::register::{RegisterKind, Slot};
use crate::wire::FieldUpdate;
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
    /// The agent does not know the flow.
    unknown: bool,
    /// A message without commands has come since.
    empty: bool,
}

impl Mail {
    /// Adds a message. Registers that no agent may set are skipped.
    pub fn put(&mut self, message: FlowMessage) {
        self.messages += 1;
        let fields = match message {
            FlowMessage::Update(fields) => {
                self.empty |= fields.is_empty();
                fields
            }
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
        // What came before is another agent's.
        (self.unknown, self.empty) = (true, false);
    }

    /// Moves what came later behind what waits here.
    pub fn append(&mut self, later: &mut Mail) {
        self.messages += std::mem::take(&mut later.messages);
        if std::mem::take(&mut later.unknown) {
            self.announce();
        }
        self.empty |= std::mem::take(&mut later.empty);
        if let Some(program) = later.program.take() {
            self.change(program);
        }
        for (slot, value) in later.fields.drain(..) {
            self.set(slot, value);
        }
    }

    /// How many messages have come since the last call.
    pub(crate) fn take_arrived(&mut self) -> u64 {
        std::mem::take(&mut self.messages)
    }

    /// Whether a message without commands has come since the last call, from the agent that is there now.
    pub(crate) fn take_empty(&mut self) -> bool {
        std::mem::take(&mut self.empty)
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
