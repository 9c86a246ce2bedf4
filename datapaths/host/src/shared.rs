//! What the flows and the receive thread of a host share: socket, counters, and a mailbox per flow.

use crate::Clock;
use crate::socket::AgentSocket;
use anole_datapath::wire::{self, Message};
use anole_datapath::{FlowMessage, Mail, Outbox, SendError};
use anole_model::{Bounds, Dur};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Ends that wait for room in the agent's queue at the same time, as many as the agent knows flows; further ones are left
/// to the time after which it forgets a silent flow.
const MAX_ENDS: usize = 65_536;

/// What a host is set up with.
#[derive(Clone, Copy, Debug)]
pub struct HostOptions {
    /// What no program and no agent may exceed.
    pub bounds: Bounds,
    /// An agent that answers every report is lost when a message has waited for an answer for this long (or 4 RTT, the
    /// larger); any is when nothing could be handed to it for that long, or after 32 times as long.
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
    /// Flows whose end the agent did not take.
    ends: Mutex<Vec<u32>>,
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
            ends: Mutex::default(),
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

    /// There was a flow with this id, which nobody has now: what its agent said may come later than its end.
    pub(crate) fn has_ended(&self, sid: u32) -> bool {
        (1..self.next_sid.load(Relaxed)).contains(&sid)
    }

    pub(crate) fn port(&self, sid: u32) -> Option<Arc<Port>> {
        self.ports().get(&sid)?.upgrade()
    }

    /// Tells the agent that a datapath is there (READY), and has each flow announced with its next ACK: the agent sends
    /// its programs and knows no flow of this host any more.
    pub(crate) fn announce(&self) -> Result<(), SendError> {
        let mut message = Vec::new();
        wire::encode(&Message::Ready(std::process::id()), &mut message).map_err(|_| SendError)?;
        {
            // Under the lock: an end that is refused after READY may be that of a flow announced after it.
            let mut ends = lock(&self.ends);
            (&*self).send(&message)?;
            ends.clear();
        }
        self.counters.announcements.fetch_add(1, Relaxed);
        let ports: Vec<_> = self.ports().values().filter_map(Weak::upgrade).collect();
        ports.iter().for_each(|port| port.announce());
        Ok(())
    }

    /// Tells the agent that a flow has ended, now or when its queue has room again.
    fn end(&self, sid: u32) {
        let mut ends = lock(&self.ends);
        if self.send_end(sid).is_err() && ends.len() < MAX_ENDS {
            ends.push(sid);
        }
    }

    /// Tells the agent of the ends that it did not take before; returns whether some wait for room in its queue.
    pub(crate) fn tell_ends(&self) -> bool {
        let mut ends = lock(&self.ends);
        while let Some(&sid) = ends.last() {
            if let Err(error) = self.send_end(sid) {
                return error.kind() == io::ErrorKind::WouldBlock;
            }
            ends.pop();
        }
        false
    }

    /// Without a socket there is nobody to tell.
    fn send_end(&self, sid: u32) -> io::Result<()> {
        self.socket.as_ref().map_or(Ok(()), |socket| socket.send(&wire::end(sid)))
    }

    /// Flows open now.
    pub(crate) fn flows(&self) -> usize {
        self.ports().len()
    }

    fn ports(&self) -> MutexGuard<'_, HashMap<u32, Weak<Port>>> {
        lock(&self.ports)
    }
}

impl Outbox for &Shared {
    fn send(&mut self, message: &[u8]) -> Result<(), SendError> {
        let socket = self.socket.as_ref().ok_or(SendError)?;
        socket.send(message).map_err(|_| SendError)
    }
}

/// A flow's place in the host: its id, and a mailbox for each of its copies.
///
/// Its copies hold it; when the last one lets go, the agent hears that the flow has ended.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) sid: u32,
    pub(crate) shared: Arc<Shared>,
    mailboxes: Mutex<Vec<Weak<Mailbox>>>,
}

impl Port {
    fn new(sid: u32, shared: Arc<Shared>) -> Port {
        Port { sid, shared, mailboxes: Mutex::default() }
    }

    /// A mailbox for the flow, or for a copy of the flow that has the mailbox `of`: what waits there is meant for both.
    pub(crate) fn mailbox(&self, of: Option<&Mailbox>) -> Arc<Mailbox> {
        let mut mailboxes = lock(&self.mailboxes);
        mailboxes.retain(|mailbox| mailbox.strong_count() > 0);
        let mail = of.map(|mailbox| lock(&mailbox.mail).clone()).unwrap_or_default();
        let mailbox = Arc::new(Mailbox { waiting: AtomicBool::new(of.is_some()), mail: Mutex::new(mail) });
        mailboxes.push(Arc::downgrade(&mailbox));
        mailbox
    }

    /// Leaves a message for every copy of the flow.
    pub(crate) fn put(&self, message: &FlowMessage) {
        self.each(|mail| mail.put(message.clone()));
    }

    fn announce(&self) {
        self.each(Mail::announce);
    }

    fn each(&self, mut leave: impl FnMut(&mut Mail)) {
        for mailbox in lock(&self.mailboxes).iter().filter_map(Weak::upgrade) {
            let mut mail = lock(&mailbox.mail);
            leave(&mut mail);
            mailbox.waiting.store(true, Release);
        }
    }
}

/// What waits for one copy of a flow.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    waiting: AtomicBool,
    mail: Mutex<Mail>,
}

impl Mailbox {
    /// Hands over the mail if there is any; one atomic load when there is none.
    pub(crate) fn drain(&self, take: impl FnOnce(&mut Mail)) {
        if self.waiting.load(Acquire) {
            let mut mail = lock(&self.mail);
            // Cleared under the lock, so that a message that comes later sets it again.
            self.waiting.store(false, Release);
            take(&mut mail);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Port {
    fn drop(&mut self) {
        self.shared.unregister(self.sid);
        self.shared.end(self.sid);
    }
}
