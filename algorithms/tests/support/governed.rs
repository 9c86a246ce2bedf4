//! One flow of the real datapath runtime, governed by a session at no distance: a report is answered before the
//! next ACK.

use anole_algorithms::session::Reply;
use anole_algorithms::{Algorithm, FlowInfo, Session};
use anole_datapath::wire::{AlgorithmName, CreateMessage, Message, decode, encode};
use anole_datapath::{AckSample, Datapath, Flow, FlowId, InForce};
use anole_model::{Bounds, Dur, Time};
use anole_programs::Installed;

pub struct Governed {
    datapath: Datapath,
    flow: FlowId,
    outbox: Vec<Vec<u8>>,
    installed: Installed,
    pub session: Session,
}

impl Governed {
    /// A flow that begins under `algorithm`; `patience` is the time for which the datapath bears silence.
    pub fn new(algorithm: Box<dyn Algorithm>, flow: FlowInfo, patience: Dur) -> Governed {
        let (mut datapath, mut outbox) = (Datapath::new(Bounds::DEFAULT, patience), Vec::new());
        let create = CreateMessage::without_addresses(flow.init_cwnd, flow.mss, AlgorithmName::NONE);
        let flow = datapath.open(Time::ZERO, create, &mut outbox);
        outbox.clear();
        let (installed, session) = (Installed::all(), Session::new(algorithm));
        installed.installs().for_each(|install| deliver(&mut datapath, Time::ZERO, &install));
        let mut governed = Governed { datapath, flow, outbox, installed, session };
        governed.answer(Time::ZERO, |session, _| session.start(Time::ZERO));
        governed
    }

    /// What is in force after this ACK, loss or timeout.
    pub fn on_ack(&mut self, now: Time, sample: &AckSample) -> InForce {
        let control = self.datapath.on_ack(now, self.flow, sample, &mut self.outbox).unwrap();
        for bytes in std::mem::take(&mut self.outbox) {
            if let Ok((Message::Measure { uid, values, .. }, _)) = decode(&bytes) {
                self.answer(now, |session, installed| {
                    session.on_report(now, installed.program(uid).unwrap(), &values)
                });
            }
        }
        assert_eq!(self.flow().last_abort(), None, "a fold program was aborted");
        control
    }

    fn flow(&self) -> &Flow {
        self.datapath.flow(self.flow).unwrap()
    }

    /// Lets the session act and delivers its answer.
    fn answer(&mut self, now: Time, act: impl for<'a> FnOnce(&'a mut Session, &Installed) -> Reply<'a>) {
        let answer = act(&mut self.session, &self.installed).unwrap();
        if let Some(message) = answer.and_then(|commands| self.installed.message(self.flow.0, commands)) {
            deliver(&mut self.datapath, now, &message);
        }
    }
}

fn deliver(datapath: &mut Datapath, now: Time, message: &Message<'_>) {
    let mut bytes = Vec::new();
    encode(message, &mut bytes).unwrap();
    datapath.receive(now, &bytes).unwrap();
}
