//! One flow: the runtime's, and the session that decides over it.

use crate::InProcess;
use anole_algorithms::session::{Reply, Session};
use anole_algorithms::{FlowInfo, Metrics};
use anole_datapath::wire::{self, AlgorithmName, CreateMessage, Message};
use anole_datapath::{
    AckSample, FlowConfig, FlowMessage, FlowStats, Governor, InForce, Outbox, ProgramTable, SendError,
    ValidProgram,
};
use anole_model::{Dur, Time};
use anole_programs::Installed;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{LazyLock, Mutex, PoisonError};

/// As of the runtime's other hosts. A session answers at once, so that only one that fails is given up.
const PATIENCE: Dur = Dur::from_millis(500);
/// The flow's id in messages, which never leave the process.
const SID: u32 = 1;

/// Every fold program, validated once for all flows.
static PROGRAMS: LazyLock<(Installed, ProgramTable)> = LazyLock::new(|| {
    let (installed, mut table) = (Installed::all(), ProgramTable::default());
    for message in installed.installs() {
        if let Message::Install(install) = message {
            let program = ValidProgram::install(&install).expect("programs are checked when they are built");
            table.install(program).expect("the table is larger than the number of programs");
        }
    }
    (installed, table)
});

/// A flow of a transport: tell it of every ACK, loss and timeout, obey the [`InForce`] it returns.
pub struct InProcessFlow {
    flow: anole_datapath::Flow,
    inbox: Inbox,
    /// Locked by nobody: it makes a flow `Sync`, as some transports ask.
    session: Mutex<Option<Session>>,
    governed_by: InProcess,
    mss: u32,
    now: Time,
}

impl InProcess {
    /// Starts a flow; `mss` and `init_cwnd` are in bytes.
    pub fn start(&self, now: Time, mss: u32, init_cwnd: u32) -> InProcessFlow {
        InProcessFlow::start(self.clone(), now, mss, init_cwnd)
    }
}

impl InProcessFlow {
    pub(crate) fn start(governed_by: InProcess, now: Time, mss: u32, init_cwnd: u32) -> InProcessFlow {
        let create = CreateMessage::without_addresses(init_cwnd, mss, AlgorithmName::NONE);
        let bounds = governed_by.bounds();
        let config = FlowConfig { sid: SID, create, bounds, agent_timeout: PATIENCE };
        let mut inbox = Inbox::default();
        let flow = anole_datapath::Flow::start(config, now, &mut inbox);
        let mut flow = InProcessFlow { flow, inbox, session: Mutex::new(None), governed_by, mss, now };
        flow.decide(now);
        flow
    }

    /// Takes what one ACK, loss detection or timeout tells; returns what to obey from now on. Time never goes back.
    pub fn on_ack(&mut self, now: Time, sample: &AckSample) -> InForce {
        self.now = self.now.max(now);
        let control = self.flow.on_ack(self.now, sample, &mut self.inbox);
        if self.inbox.waits() {
            self.decide(self.now);
        }
        control
    }

    /// The segment size has changed (path-MTU discovery).
    pub fn set_mss(&mut self, mss: u32) {
        self.mss = mss;
        self.flow.set_mss(mss);
    }

    /// A new flow of the same algorithm that begins with this one's window: for another path of the same connection.
    pub fn successor(&self) -> InProcessFlow {
        InProcessFlow::start(self.governed_by.clone(), self.now, self.mss, self.control().cwnd)
    }

    /// What the transport has to obey now.
    pub fn control(&self) -> InForce {
        self.flow.control()
    }

    /// The algorithm ([`Governor::Agent`]), or CUBIC.
    pub fn governor(&self) -> Governor {
        self.flow.governor()
    }

    /// The runtime's counters.
    pub fn stats(&self) -> FlowStats {
        self.flow.stats()
    }

    /// What the algorithm did since it began.
    pub fn metrics(&self) -> Metrics {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        session.as_ref().map_or_else(Metrics::default, |session| *session.metrics())
    }

    /// Lets the session answer what waits. One that fails is over; the runtime announces the flow again when it has
    /// missed the answer.
    fn decide(&mut self, now: Time) {
        let session = self.session.get_mut().unwrap_or_else(PoisonError::into_inner);
        let (announced, reported) = (self.inbox.announced.take(), std::mem::take(&mut self.inbox.reported));
        if let Some(init_cwnd) = announced {
            let algorithm = self.governed_by.build(FlowInfo { mss: self.mss, init_cwnd });
            *session = algorithm.map(Session::new);
            answer(session, &mut self.flow, now, |session| session.start(now));
            if session.is_some() {
                // Says that every report is answered, so that a missing answer tells of a failure.
                self.flow.deliver(now, FlowMessage::Update(Vec::new()));
            }
        }
        if let Some(uid) = reported
            && let Some(program) = PROGRAMS.0.program(uid)
        {
            let values = &self.inbox.values;
            answer(session, &mut self.flow, now, |session| session.on_report(now, program, values));
        }
    }
}

/// Delivers what a session answers; an empty message where it has nothing to say, since it is there.
fn answer(
    session: &mut Option<Session>,
    flow: &mut anole_datapath::Flow,
    now: Time,
    act: impl for<'a> FnOnce(&'a mut Session) -> Reply<'a>,
) {
    let Some(running) = session else { return };
    let acted = catch_unwind(AssertUnwindSafe(|| {
        act(running).map(|commands| commands.map_or(Some(Message::Update(SID, Vec::new())), to_message))
    }));
    match acted {
        Ok(Ok(Some(Message::Update(_, updates)))) => flow.deliver(now, FlowMessage::Update(updates)),
        Ok(Ok(Some(Message::ChangeProgram { uid, updates, .. }))) => {
            if let Some(program) = PROGRAMS.1.get(uid) {
                flow.deliver(now, FlowMessage::ChangeProgram(program.clone(), updates));
            }
        }
        _ => *session = None,
    }
}

fn to_message(commands: &anole_programs::Commands) -> Option<Message<'static>> {
    PROGRAMS.0.message(SID, commands)
}

/// What the runtime has told the session and is not answered yet.
#[derive(Debug, Default)]
struct Inbox {
    /// The flow is announced, with this window, bytes.
    announced: Option<u32>,
    /// The program with this id has reported `values`.
    reported: Option<u32>,
    values: Vec<u64>,
}

impl Inbox {
    fn waits(&self) -> bool {
        self.announced.is_some() || self.reported.is_some()
    }
}

impl Outbox for Inbox {
    fn send(&mut self, message: &[u8]) -> Result<(), SendError> {
        match wire::decode(message) {
            Ok((Message::Create(_, create), _)) => self.announced = Some(create.init_cwnd),
            Ok((Message::Measure { uid, values, .. }, _)) => {
                (self.reported, self.values) = (Some(uid), values);
            }
            _ => return Err(SendError),
        }
        Ok(())
    }
}

impl fmt::Debug for InProcessFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcessFlow")
            .field("algorithm", &self.governed_by.algorithm())
            .field("governor", &self.governor())
            .field("control", &self.control())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
