//! What the flows and the receive thread of a host share: socket, counters, and a mailbox per flow.

use crate::Clock;
use crate::socket::AgentSocket;
use anole_datapath::wire::{self, Message};
use anole_datapath::{FlowMessage, Outbox, SendError};
use anole_model::{Bounds, Dur, Time};
use std::collections::HashMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Messages that may wait in one flow's mailbox. An agent answers a flow's reports one by one and a
/// flow drains at every ACK, so more than this means that no ACK comes. The oldest UPDATE is then the one that matters
/// least: its registers are mostly set again, and a program that is not changed to is not made good by anything later.
const MAILBOX_CAPACITY: usize = 64;

/// What a host is set up with.
#[derive(Clone, Copy, Debug)]
pub struct HostOptions {
    /// What no program and no agent may exceed.
    pub bounds: Bounds,
    /// The agent is lost when a message has waited for an answer for this long (or 4 RTT, the larger).
    pub agent_timeout: Dur,
}

impl Default for HostOptions {
    fn default() -> Self {
        // 500 ms: five heartbeats of the agent (at most 100 ms apart), and short against the seconds
        // that a transfer would spend on a window nobody adjusts.
        HostOptions { bounds: Bounds::DEFAULT, agent_timeout: Dur::from_millis(500) }
    }
}

/// What the flows and the receive thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) options: HostOptions,
    pub(crate) socket: Option<AgentSocket>,
    pub(crate) stop: AtomicBool,
    pub(crate) counters: Counters,
    ports: Mutex<HashMap<u32, Weak<Port>>>,
    next_sid: AtomicU32,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) datagrams: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) announcements: AtomicU64,
}

impl Shared {
    pub(crate) fn new(socket: Option<AgentSocket>, options: HostOptions) -> Shared {
        Shared {
            clock: Clock::start(),
            options,
            socket,
            stop: AtomicBool::new(false),
            counters: Counters::default(),
            ports: Mutex::default(),
            next_sid: AtomicU32::new(1),
        }
    }

    /// Puts a flow into the table under an id that no other flow has.
    pub(crate) fn register(this: &Arc<Shared>) -> Arc<Port> {
        let mut ports = this.ports();
        loop {
            let sid = this.next_sid.fetch_add(1, Relaxed);
            // 0 stands for "no flow" on the wire. After 2^32 flows ids are used again, unless still held.
            if sid != 0 && !ports.contains_key(&sid) {
                let port = Arc::new(Port::new(sid, this.clone()));
                ports.insert(sid, Arc::downgrade(&port));
                return port;
            }
        }
    }

    fn unregister(&self, sid: u32) {
        self.ports().remove(&sid);
    }

    pub(crate) fn port(&self, sid: u32) -> Option<Arc<Port>> {
        self.ports().get(&sid)?.upgrade()
    }

    /// Tells the agent that a datapath is there.
    pub(crate) fn announce(&self) -> Result<(), SendError> {
        let mut message = Vec::new();
        wire::encode(&Message::Ready(std::process::id()), &mut message).map_err(|_| SendError)?;
        (&*self).send(&message)?;
        self.counters.announcements.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Flows open now.
    pub(crate) fn flows(&self) -> usize {
        self.ports().len()
    }

    fn ports(&self) -> MutexGuard<'_, HashMap<u32, Weak<Port>>> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outbox for &Shared {
    fn send(&mut self, message: &[u8]) -> Result<(), SendError> {
        let socket = self.socket.as_ref().ok_or(SendError)?;
        socket.send(message).map_err(|_| SendError)
    }
}

/// A flow's place in the host: its id and the messages that wait for it.
///
/// Its clones of a flow hold it; when the last one lets go, the agent hears that the flow has ended.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) sid: u32,
    pub(crate) shared: Arc<Shared>,
    waiting: AtomicBool,
    mailbox: Mutex<Vec<(Time, FlowMessage)>>,
}

impl Port {
    fn new(sid: u32, shared: Arc<Shared>) -> Port {
        Port { sid, shared, waiting: AtomicBool::new(false), mailbox: Mutex::default() }
    }

    /// Leaves a message for the flow, with the time at which it came.
    pub(crate) fn put(&self, now: Time, message: FlowMessage) {
        let mut mailbox = self.lock();
        if mailbox.len() == MAILBOX_CAPACITY {
            let update = mailbox.iter().position(|(_, message)| matches!(message, FlowMessage::Update(_)));
            mailbox.remove(update.unwrap_or(0));
        }
        mailbox.push((now, message));
        self.waiting.store(true, Release);
    }

    /// Hands over every message that waits; one atomic load when none does.
    pub(crate) fn drain(&self, mut take: impl FnMut(Time, FlowMessage)) {
        if self.waiting.load(Acquire) {
            let mut mailbox = self.lock();
            // Cleared under the lock, so that a message that comes later sets it again.
            self.waiting.store(false, Release);
            mailbox.drain(..).for_each(|(arrived, message)| take(arrived, message));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Time, FlowMessage)>> {
        self.mailbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.shared.unregister(self.sid);
        let mut message = Vec::new();
        // A report without values closes the flow; which program it names does not matter then.
        let close = Message::Measure { sid: self.sid, uid: 0, values: Vec::new() };
        if wire::encode(&close, &mut message).is_ok() {
            // Without an agent there is nobody to tell.
            let _ = (&*self.shared).send(&message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anole_datapath::ProgramTable;
    use anole_programs::{Installed, rate_hold};

    fn change_program() -> FlowMessage {
        let (installed, mut table, mut datagram) = (Installed::all(), ProgramTable::default(), Vec::new());
        installed.installs().for_each(|install| wire::encode(&install, &mut datagram).unwrap());
        table.receive(&datagram, |_, _| false).unwrap();
        let uid = installed.uid(&rate_hold::PROGRAM).unwrap();
        FlowMessage::ChangeProgram(Arc::clone(table.get(uid).unwrap()), Vec::new())
    }

    #[test]
    fn a_full_mailbox_loses_updates_before_it_loses_a_program() {
        let shared = Arc::new(Shared::new(None, HostOptions::default()));
        let port = Shared::register(&shared);
        let at = |n: u64| Time::from_nanos(n);
        port.put(at(0), FlowMessage::Update(Vec::new()));
        port.put(at(1), change_program());
        for n in 2..2 * MAILBOX_CAPACITY as u64 {
            port.put(at(n), FlowMessage::Update(Vec::new()));
        }
        let mut taken = Vec::new();
        port.drain(|arrived, message| {
            taken.push((arrived, matches!(message, FlowMessage::ChangeProgram(..))))
        });
        assert_eq!(taken.len(), MAILBOX_CAPACITY);
        assert_eq!(taken[0], (at(1), true));
        assert_eq!(taken[1], (at(MAILBOX_CAPACITY as u64 + 1), false), "the latest updates are kept");
    }
}
