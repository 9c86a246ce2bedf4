//! A datapath's flows, and what the transport of each was told.

use crate::callbacks::Callbacks;
use crate::types::{AnoleConnectionInfo, AnoleGovernor, AnoleLogLevel, AnoleStatus};
use anole::InProcess;
use anole_datapath::wire::{self, CreateMessage, Message};
use anole_datapath::{
    AckSample, FlowConfig, FlowStats, Governor, InForce, Outbox, ProgramTable, ReceiveError,
};
use anole_model::{Bounds, Dur, Time};
use core::ffi::c_void;
use std::collections::BTreeMap;

/// Ends that wait for the agent at the same time, as many as it knows flows.
const MAX_ENDS: usize = 65_536;

/// After a refusal they are not tried again with each ACK: there may be no agent for long.
const ENDS_AGAIN: Dur = Dur::from_millis(10);

/// What lies behind a handle.
pub(crate) struct Table {
    callbacks: Callbacks,
    options: Options,
    programs: ProgramTable,
    connections: BTreeMap<u32, Box<Connection>>,
    /// The number of the latest connection. Numbers are not used again: a late message of the agent finds nobody.
    latest: u32,
    /// Connections that are closed and whose end the agent did not take.
    ends: Vec<u32>,
    /// When they are told again.
    ends_due: Time,
    /// Datagrams refused so far.
    refused: u64,
}

/// What a datapath is set up with.
pub(crate) struct Options {
    /// Its name in READY.
    pub(crate) id: u32,
    pub(crate) bounds: Bounds,
    pub(crate) agent_timeout: Dur,
    /// Who decides, where no agent does.
    pub(crate) in_process: Option<InProcess>,
}

/// Aligned to a cache line: where the allocator puts it otherwise, an ACK can take 80 ns more.
#[repr(align(64))]
struct Connection {
    flow: Flow,
    implementation: *mut c_void,
    /// What the transport was told.
    told: InForce,
    governor: Governor,
}

enum Flow {
    Agent(anole_datapath::Flow),
    InProcess(anole::InProcessFlow),
}

impl Flow {
    fn state(&self) -> (InForce, Governor) {
        match self {
            Flow::Agent(flow) => (flow.control(), flow.governor()),
            Flow::InProcess(flow) => (flow.control(), flow.governor()),
        }
    }

    fn stats(&self) -> FlowStats {
        match self {
            Flow::Agent(flow) => flow.stats(),
            Flow::InProcess(flow) => flow.stats(),
        }
    }
}

impl Table {
    pub(crate) fn new(callbacks: Callbacks, options: Options) -> Table {
        let (programs, connections) = (ProgramTable::default(), BTreeMap::new());
        Table {
            callbacks,
            options,
            programs,
            connections,
            latest: 0,
            ends: Vec::new(),
            ends_due: Time::ZERO,
            refused: 0,
        }
    }

    /// Tells the agent that a datapath is there (READY), and has each flow announced with its next ACK: the agent sends
    /// its programs and knows no flow of this datapath any more.
    pub(crate) fn ready(&mut self) -> Result<(), AnoleStatus> {
        self.needs_agent()?;
        let mut message = Vec::new();
        wire::encode(&Message::Ready(self.options.id), &mut message).map_err(|_| AnoleStatus::Internal)?;
        self.callbacks.send(&message).map_err(|_| AnoleStatus::Send)?;
        self.ends.clear();
        for connection in self.connections.values_mut() {
            if let Flow::Agent(flow) = &mut connection.flow {
                flow.announce_next();
            }
        }
        Ok(())
    }

    pub(crate) fn start(
        &mut self,
        implementation: *mut c_void,
        create: CreateMessage,
    ) -> Result<u32, AnoleStatus> {
        let (now, sid) = (self.callbacks.now(), self.free_id());
        self.tell_ends(now);
        let flow = match &self.options.in_process {
            Some(in_process) => Flow::InProcess(in_process.start(now, create.mss, create.init_cwnd)),
            None => {
                let Options { bounds, agent_timeout, .. } = self.options;
                let config = FlowConfig { sid, create, bounds, agent_timeout };
                Flow::Agent(anole_datapath::Flow::start(config, now, &mut self.callbacks))
            }
        };
        // Nothing was told yet: a window of 0 is none.
        let (told, governor) = (InForce::default(), Governor::Fallback);
        let mut connection = Box::new(Connection { flow, implementation, told, governor });
        connection.tell(&self.callbacks);
        self.connections.insert(sid, connection);
        Ok(sid)
    }

    pub(crate) fn invoke(&mut self, sid: u32, sample: &AckSample) -> Result<(), AnoleStatus> {
        let now = self.callbacks.now();
        self.tell_ends(now);
        let connection = self.connections.get_mut(&sid).ok_or(AnoleStatus::UnknownConnection)?;
        match &mut connection.flow {
            Flow::Agent(flow) => flow.on_ack(now, sample, &mut self.callbacks),
            Flow::InProcess(flow) => flow.on_ack(now, sample),
        };
        connection.tell(&self.callbacks);
        Ok(())
    }

    pub(crate) fn set_mss(&mut self, sid: u32, mss: u32) -> Result<(), AnoleStatus> {
        let connection = self.connections.get_mut(&sid).ok_or(AnoleStatus::UnknownConnection)?;
        match &mut connection.flow {
            Flow::Agent(flow) => flow.set_mss(mss),
            Flow::InProcess(flow) => flow.set_mss(mss),
        }
        connection.tell(&self.callbacks);
        Ok(())
    }

    pub(crate) fn read(&mut self, datagram: &[u8]) -> Result<(), AnoleStatus> {
        self.needs_agent()?;
        let now = self.callbacks.now();
        self.tell_ends(now);
        let connections = &mut self.connections;
        let outcome = self.programs.receive(datagram, |sid, message| {
            let Some(connection) = connections.get_mut(&sid) else { return false };
            if let Flow::Agent(flow) = &mut connection.flow {
                flow.deliver(now, message);
            }
            true
        });
        if self.programs.wants_programs(now) {
            // Where this fails, the agent is gone, or it will name the program again.
            let _ = self.ready();
        }
        outcome.map_err(|error| self.refuse(&error))
    }

    pub(crate) fn info(&self, sid: u32) -> Result<AnoleConnectionInfo, AnoleStatus> {
        let connection = self.connections.get(&sid).ok_or(AnoleStatus::UnknownConnection)?;
        let ((control, governor), stats) = (connection.flow.state(), connection.flow.stats());
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

    pub(crate) fn close(&mut self, sid: u32) -> Result<(), AnoleStatus> {
        let connection = self.connections.remove(&sid).ok_or(AnoleStatus::UnknownConnection)?;
        if let Flow::Agent(mut flow) = connection.flow
            && flow.close(&mut self.callbacks).is_err()
            && self.ends.len() < MAX_ENDS
        {
            self.ends.push(sid);
        }
        Ok(())
    }

    /// Tells the agent of the ends that it did not take before.
    fn tell_ends(&mut self, now: Time) {
        while now >= self.ends_due
            && let Some(&sid) = self.ends.last()
        {
            match self.callbacks.send(&wire::end(sid)) {
                Ok(()) => _ = self.ends.pop(),
                Err(_) => self.ends_due = now + ENDS_AGAIN,
            }
        }
    }

    /// Ends every connection.
    pub(crate) fn close_all(&mut self) {
        while let Some((&sid, _)) = self.connections.first_key_value() {
            let _ = self.close(sid);
        }
        self.ends_due = Time::ZERO;
        self.tell_ends(self.callbacks.now());
    }

    pub(crate) fn log(&self, level: AnoleLogLevel, line: &str) {
        self.callbacks.log(level, line);
    }

    fn needs_agent(&self) -> Result<(), AnoleStatus> {
        if self.options.in_process.is_some() { Err(AnoleStatus::NoAgent) } else { Ok(()) }
    }

    /// The next number that no connection has; 0 stands for "no flow" on the wire.
    fn free_id(&mut self) -> u32 {
        loop {
            self.latest = self.latest.wrapping_add(1).max(1);
            if !self.connections.contains_key(&self.latest) {
                return self.latest;
            }
        }
    }

    /// The first datagram refused is worth a warning; more of them could fill a log. One for a connection that has ended
    /// meanwhile is none.
    fn refuse(&mut self, error: &ReceiveError) -> AnoleStatus {
        let is_late = matches!(error, ReceiveError::UnknownFlow(sid) if (1..=self.latest).contains(sid));
        self.refused += u64::from(!is_late);
        let level = if self.refused == 1 && !is_late { AnoleLogLevel::Warn } else { AnoleLogLevel::Debug };
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

impl Connection {
    /// Tells the transport what has changed.
    fn tell(&mut self, callbacks: &Callbacks) {
        let (control, governor) = self.flow.state();
        let told = std::mem::replace(&mut self.told, control);
        if std::mem::replace(&mut self.governor, governor) != governor {
            callbacks.governor(self.implementation, of(governor));
        }
        if control != told {
            callbacks.obey(self.implementation, told, control);
        }
    }
}
