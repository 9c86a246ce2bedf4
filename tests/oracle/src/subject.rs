//! The runtime under test, driven by the same steps as libccp, with answers in the same bytes.

use crate::oracle::{Step, digest};
use anole_datapath::wire::{AlgorithmName, CreateMessage};
use anole_datapath::{Abort, Datapath, Flow, FlowId, RegisterKind};
use anole_model::{Bounds, Dur, Time};

/// Every register, in the order in which both sides list them: (kind, count).
pub const REGISTERS: [(RegisterKind, u32); 5] = [
    (RegisterKind::Report, anole_datapath::MAX_REPORT_REGISTERS),
    (RegisterKind::Control, anole_datapath::MAX_CONTROL_REGISTERS),
    (RegisterKind::Tmp, anole_datapath::MAX_TMP_REGISTERS),
    (RegisterKind::Local, anole_datapath::MAX_LOCAL_REGISTERS),
    (RegisterKind::Implicit, anole_datapath::IMPLICIT_REGISTERS),
];

/// A datapath with at most one flow.
pub struct Subject {
    datapath: Datapath,
    flow: FlowId,
}

impl Default for Subject {
    fn default() -> Subject {
        // No timeout: libccp has none as long as its messages can be sent.
        Subject { datapath: Datapath::new(Bounds::DEFAULT, Dur::MAX), flow: FlowId(1) }
    }
}

impl Subject {
    /// Runs a step and appends the answer.
    pub fn run(&mut self, step: &Step, answer: &mut Vec<u8>) {
        match step {
            Step::Start { now_us, init_cwnd, mss } => self.start(*now_us, *init_cwnd, *mss, answer),
            Step::Message(bytes) => {
                let result = self.datapath.receive(Time::ZERO, bytes);
                answer.extend_from_slice(&i32::from(result.is_err()).wrapping_neg().to_le_bytes());
            }
            Step::Ack { now_us, sample } => {
                let mut sent = Vec::new();
                self.datapath.on_ack(Time::from_micros(*now_us), self.flow, sample, &mut sent);
                // What the program asks for: libccp leaves it to the transport what a timeout makes of that.
                let control = self.datapath.flow(self.flow).map(Flow::asked).unwrap_or_default();
                answer.extend_from_slice(&self.result().to_le_bytes());
                answer.extend_from_slice(&control.cwnd.to_le_bytes());
                answer.extend_from_slice(&u64::from(control.rate).to_le_bytes());
                answer.extend_from_slice(&digest(self.registers()).to_le_bytes());
                put_messages(&sent, answer);
            }
            Step::Dump => self.registers().for_each(|value| answer.extend_from_slice(&value.to_le_bytes())),
        }
    }

    fn start(&mut self, now_us: u64, init_cwnd: u32, mss: u32, answer: &mut Vec<u8>) {
        *self = Subject::default();
        let create = CreateMessage::without_addresses(init_cwnd, mss, AlgorithmName::NONE);
        let mut sent = Vec::new();
        self.flow = self.datapath.open(Time::from_micros(now_us), create, &mut sent);
        put_messages(&sent, answer);
    }

    /// The outcome of the latest ACK, as libccp numbers it (`ccp_error.h`).
    fn result(&self) -> i32 {
        match self.datapath.flow(self.flow).and_then(|flow| flow.last_abort()) {
            None => 0,
            Some(Abort::AddOverflow) => -91,
            Some(Abort::DivisionByZero) => -92,
            Some(Abort::MulOverflow) => -93,
            Some(Abort::SubUnderflow) => -94,
        }
    }

    fn registers(&self) -> impl Iterator<Item = u64> + '_ {
        let flow = self.datapath.flow(self.flow);
        REGISTERS.into_iter().flat_map(move |(kind, count)| {
            (0..count).map(move |index| flow.and_then(|flow| flow.register(kind, index)).unwrap_or(0))
        })
    }
}

fn put_messages(sent: &[Vec<u8>], answer: &mut Vec<u8>) {
    let bytes: usize = sent.iter().map(Vec::len).sum();
    answer.extend_from_slice(&(bytes as u32).to_le_bytes());
    for message in sent {
        answer.extend_from_slice(message);
    }
}
