//! A datapath's flows, and what the transport of each was told.

use crate::callbacks::Callbacks;
use crate::types::{AnoleConnectionInfo, AnoleGovernor, AnoleLogLevel, AnoleStatus};
use anole_datapath::wire::CreateMessage;
use anole_datapath::{AckSample, Control, Datapath, Flow, FlowId, Governor, ReceiveError};
use anole_model::{Bounds, Dur};
use core::ffi::c_void;
use std::collections::BTreeMap;

/// What lies behind a handle.
pub(crate) struct Table {
    id: u32,
    callbacks: Callbacks,
    datapath: Datapath,
    connections: BTreeMap<FlowId, Connection>,
    /// Datagrams refused so far.
    refused: u64,
}

/// The transport's side of a flow.
struct Connection {
    implementation: *mut c_void,
    told: Control,
    governor: Governor,
}

impl Table {
    pub(crate) fn new(id: u32, callbacks: Callbacks, bounds: Bounds, agent_timeout: Dur) -> Table {
        Table {
            id,
            callbacks,
            datapath: Datapath::new(bounds, agent_timeout),
            connections: BTreeMap::new(),
            refused: 0,
        }
    }

    /// Tells the agent that a datapath is there.
    pub(crate) fn ready(&mut self) -> Result<(), AnoleStatus> {
        let mut out = Delivery { callbacks: self.callbacks, failed: false };
        self.datapath.ready(self.id, &mut out);
        if out.failed { Err(AnoleStatus::Send) } else { Ok(()) }
    }

    pub(crate) fn start(
        &mut self,
        implementation: *mut c_void,
        create: CreateMessage,
    ) -> Result<FlowId, AnoleStatus> {
        let id = self.datapath.open(self.callbacks.now(), create, &mut self.callbacks);
        let told = self.flow(id)?.control();
        // Nothing was told yet: a window of 0 is none.
        self.callbacks.obey(implementation, Control::default(), told);
        self.connections.insert(id, Connection { implementation, told, governor: Governor::Fallback });
        Ok(id)
    }

    pub(crate) fn invoke(&mut self, id: FlowId, sample: &AckSample) -> Result<(), AnoleStatus> {
        let now = self.callbacks.now();
        self.datapath.on_ack(now, id, sample, &mut self.callbacks).ok_or(AnoleStatus::UnknownConnection)?;
        self.tell(id)
    }

    pub(crate) fn set_mss(&mut self, id: FlowId, mss: u32) -> Result<(), AnoleStatus> {
        self.datapath.set_mss(id, mss).ok_or(AnoleStatus::UnknownConnection)?;
        self.tell(id)
    }

    pub(crate) fn read(&mut self, datagram: &[u8]) -> Result<(), AnoleStatus> {
        let now = self.callbacks.now();
        let outcome = self.datapath.receive(now, datagram);
        if self.datapath.wants_programs(now) {
            // Where this fails, the agent is gone, or it will name the program again.
            let _ = self.ready();
        }
        outcome.map_err(|error| self.refuse(&error))
    }

    pub(crate) fn info(&self, id: FlowId) -> Result<AnoleConnectionInfo, AnoleStatus> {
        let flow = self.flow(id)?;
        let (control, stats) = (flow.control(), flow.stats());
        Ok(AnoleConnectionInfo {
            cwnd: control.cwnd,
            rate: control.rate,
            governor: of(flow.governor()),
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

    fn flow(&self, id: FlowId) -> Result<&Flow, AnoleStatus> {
        self.datapath.flow(id).ok_or(AnoleStatus::UnknownConnection)
    }

    /// Tells the transport what has changed.
    fn tell(&mut self, id: FlowId) -> Result<(), AnoleStatus> {
        let flow = self.datapath.flow(id).ok_or(AnoleStatus::UnknownConnection)?;
        let connection = self.connections.get_mut(&id).ok_or(AnoleStatus::UnknownConnection)?;
        let (control, governor) = (flow.control(), flow.governor());
        let (told, governed) = (connection.told, connection.governor);
        (connection.told, connection.governor) = (control, governor);
        if governor != governed {
            self.callbacks.governor(connection.implementation, of(governor));
        }
        if control != told {
            self.callbacks.obey(connection.implementation, told, control);
        }
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
