//! A datapath's flows, and what the transport of each was told.

use crate::callbacks::Callbacks;
use crate::types::{AnoleConnectionInfo, AnoleGovernor, AnoleLogLevel, AnoleStatus};
use anole::InProcess;
use anole_datapath::wire::CreateMessage;
use anole_datapath::{AckSample, Control, Datapath, FlowId, FlowStats, Governor, ReceiveError};
use core::ffi::c_void;
use std::collections::BTreeMap;

/// What lies behind a handle.
pub(crate) struct Table {
    id: u32,
    callbacks: Callbacks,
    /// Flows that an agent decides over; none where `in_process` is there.
    datapath: Datapath,
    in_process: Option<InProcess>,
    connections: BTreeMap<FlowId, Connection>,
    /// The number of the latest flow in the process.
    latest: u32,
    /// Datagrams refused so far.
    refused: u64,
}

/// The transport's side of a flow.
struct Connection {
    implementation: *mut c_void,
    told: Control,
    governor: Governor,
    /// The flow, where no agent decides over it.
    own: Option<anole::Flow>,
}

/// What is asked of a flow, whoever decides.
struct State {
    control: Control,
    governor: Governor,
    stats: FlowStats,
}

impl Table {
    pub(crate) fn new(
        id: u32,
        callbacks: Callbacks,
        datapath: Datapath,
        in_process: Option<InProcess>,
    ) -> Table {
        let connections = BTreeMap::new();
        Table { id, callbacks, datapath, in_process, connections, latest: 0, refused: 0 }
    }

    /// Tells the agent that a datapath is there.
    pub(crate) fn ready(&mut self) -> Result<(), AnoleStatus> {
        self.needs_agent()?;
        let mut out = Delivery { callbacks: self.callbacks, failed: false };
        self.datapath.ready(self.id, &mut out);
        if out.failed { Err(AnoleStatus::Send) } else { Ok(()) }
    }

    pub(crate) fn start(
        &mut self,
        implementation: *mut c_void,
        create: CreateMessage,
    ) -> Result<FlowId, AnoleStatus> {
        let now = self.callbacks.now();
        let (id, own) = match &self.in_process {
            Some(in_process) => {
                let flow = in_process.start(now, create.mss, create.init_cwnd);
                (self.free_id(), Some(flow))
            }
            None => (self.datapath.open(now, create, &mut self.callbacks), None),
        };
        let governor = Governor::Fallback;
        // Nothing was told yet: a window of 0 is none.
        let told = Control::default();
        self.connections.insert(id, Connection { implementation, told, governor, own });
        self.tell(id)?;
        Ok(id)
    }

    pub(crate) fn invoke(&mut self, id: FlowId, sample: &AckSample) -> Result<(), AnoleStatus> {
        let now = self.callbacks.now();
        let connection = self.connections.get_mut(&id).ok_or(AnoleStatus::UnknownConnection)?;
        match &mut connection.own {
            Some(flow) => drop(flow.on_ack(now, sample)),
            None => drop(self.datapath.on_ack(now, id, sample, &mut self.callbacks)),
        }
        self.tell(id)
    }

    pub(crate) fn set_mss(&mut self, id: FlowId, mss: u32) -> Result<(), AnoleStatus> {
        let connection = self.connections.get_mut(&id).ok_or(AnoleStatus::UnknownConnection)?;
        match &mut connection.own {
            Some(flow) => flow.set_mss(mss),
            None => drop(self.datapath.set_mss(id, mss)),
        }
        self.tell(id)
    }

    pub(crate) fn read(&mut self, datagram: &[u8]) -> Result<(), AnoleStatus> {
        self.needs_agent()?;
        let now = self.callbacks.now();
        let outcome = self.datapath.receive(now, datagram);
        if self.datapath.wants_programs(now) {
            // Where this fails, the agent is gone, or it will name the program again.
            let _ = self.ready();
        }
        outcome.map_err(|error| self.refuse(&error))
    }

    pub(crate) fn info(&self, id: FlowId) -> Result<AnoleConnectionInfo, AnoleStatus> {
        let connection = self.connections.get(&id).ok_or(AnoleStatus::UnknownConnection)?;
        let State { control, governor, stats } = self.state(id, connection)?;
        Ok(AnoleConnectionInfo {
            cwnd: control.cwnd,
            rate: control.rate,
            governor: of(governor),
            invocations: stats.acks,
            reports: stats.reports,
            updates: stats.updates,
            aborts: stats.aborts,
            fallbacks: stats.fallbacks,
            send_failures: stats.send_failures,
        })
    }

    pub(crate) fn close(&mut self, id: FlowId) -> Result<(), AnoleStatus> {
        self.connections.remove(&id).ok_or(AnoleStatus::UnknownConnection)?;
        self.datapath.close(id, &mut self.callbacks);
        Ok(())
    }

    /// Ends every connection.
    pub(crate) fn close_all(&mut self) {
        while let Some((id, _)) = self.connections.pop_first() {
            self.datapath.close(id, &mut self.callbacks);
        }
    }

    pub(crate) fn log(&self, level: AnoleLogLevel, line: &str) {
        self.callbacks.log(level, line);
    }

    fn needs_agent(&self) -> Result<(), AnoleStatus> {
        if self.in_process.is_some() { Err(AnoleStatus::NoAgent) } else { Ok(()) }
    }

    /// A number for a flow in the process.
    fn free_id(&mut self) -> FlowId {
        loop {
            self.latest = self.latest.wrapping_add(1).max(1);
            if !self.connections.contains_key(&FlowId(self.latest)) {
                return FlowId(self.latest);
            }
        }
    }

    fn state(&self, id: FlowId, connection: &Connection) -> Result<State, AnoleStatus> {
        if let Some(flow) = &connection.own {
            return Ok(State { control: flow.control(), governor: flow.governor(), stats: flow.stats() });
        }
        let flow = self.datapath.flow(id).ok_or(AnoleStatus::UnknownConnection)?;
        Ok(State { control: flow.control(), governor: flow.governor(), stats: flow.stats() })
    }

    /// Tells the transport what has changed.
    fn tell(&mut self, id: FlowId) -> Result<(), AnoleStatus> {
        let connection = self.connections.get(&id).ok_or(AnoleStatus::UnknownConnection)?;
        let State { control, governor, .. } = self.state(id, connection)?;
        let (implementation, told, governed) =
            (connection.implementation, connection.told, connection.governor);
        if (control, governor) == (told, governed) {
            return Ok(());
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            (connection.told, connection.governor) = (control, governor);
        }
        if governor != governed {
            self.callbacks.governor(implementation, of(governor));
        }
        self.callbacks.obey(implementation, told, control);
        Ok(())
    }

    /// The first datagram refused is worth a warning; more of them could fill a log.
    fn refuse(&mut self, error: &ReceiveError) -> AnoleStatus {
        self.refused += 1;
        let level = if self.refused == 1 { AnoleLogLevel::Warn } else { AnoleLogLevel::Debug };
        self.log(level, &format!("a message of the agent was refused: {error}"));
        match error {
            ReceiveError::Wire(_) | ReceiveError::WrongDirection => AnoleStatus::Message,
            ReceiveError::Program(_) => AnoleStatus::Program,
            ReceiveError::UnknownFlow(_) => AnoleStatus::UnknownConnection,
            ReceiveError::UnknownProgram(_) => AnoleStatus::UnknownProgram,
            ReceiveError::TableFull => AnoleStatus::ProgramsFull,
        }
    }
}

fn of(governor: Governor) -> AnoleGovernor {
    match governor {
        Governor::Agent => AnoleGovernor::Agent,
        Governor::Fallback => AnoleGovernor::Fallback,
    }
}

/// An outbox that remembers whether a message was refused.
struct Delivery {
    callbacks: Callbacks,
    failed: bool,
}

impl anole_datapath::Outbox for Delivery {
    fn send(&mut self, message: &[u8]) -> Result<(), anole_datapath::SendError> {
        let outcome = self.callbacks.send(message);
        self.failed |= outcome.is_err();
        outcome
    }
}
