//! The host: socket, program table, flows and the receive thread.

use crate::Clock;
use crate::flow::{FlowSpec, HostFlow, Port};
use crate::receive;
use crate::socket::{AgentSocket, HostError};
use anole_datapath::wire::{self, Message};
use anole_datapath::{Outbox, SendError};
use anole_model::{Bounds, Dur};
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Instant;

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

/// Counters of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostStats {
    /// Flows open now.
    pub flows: usize,
    /// Datagrams taken from the agent.
    pub datagrams: u64,
    /// Datagrams refused, in part or as a whole: from somebody else, or not what an agent may say.
    pub refused: u64,
    /// READY messages sent, one per agent that came.
    pub announcements: u64,
}

/// A process's connection to the agent. Flows keep it alive as far as they need it; dropping the host
/// stops the receive thread and removes the socket, after which flows live on their fallback.
#[derive(Debug)]
pub struct Host {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
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

impl Host {
    /// Binds a socket beside the agent's and starts the receive thread. The agent need not be there:
    /// it is announced to when it comes.
    pub fn connect(agent: &Path, options: HostOptions) -> Result<Host, HostError> {
        let shared = Arc::new(Shared::new(Some(AgentSocket::bind(agent)?), options));
        // At once, so that the first flow's announcement finds the way open.
        let greeted = receive::greet(&shared, None);
        let thread = std::thread::Builder::new()
            .name("anole-datapath".to_string())
            .spawn({
                let shared = shared.clone();
                move || receive::run(&shared, greeted)
            })
            .map_err(HostError::Thread)?;
        Ok(Host { shared, thread: Some(thread) })
    }

    /// A host without an agent: every flow is governed by its fallback.
    pub fn detached(options: HostOptions) -> Host {
        Host { shared: Arc::new(Shared::new(None, options)), thread: None }
    }

    /// Opens a flow and announces it to the agent.
    pub fn open(&self, now: Instant, spec: &FlowSpec) -> HostFlow {
        HostFlow::open(self.shared.clone(), now, spec)
    }

    /// The host's counters.
    pub fn stats(&self) -> HostStats {
        let counters = &self.shared.counters;
        HostStats {
            flows: self.shared.ports().len(),
            datagrams: counters.datagrams.load(Relaxed),
            refused: counters.refused.load(Relaxed),
            announcements: counters.announcements.load(Relaxed),
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        if let Some(socket) = &self.shared.socket {
            // Wakes the receive thread; sends of flows that outlive the host fail from here on.
            let _ = socket.inner().shutdown(std::net::Shutdown::Both);
            let _ = std::fs::remove_file(socket.path());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn new(socket: Option<AgentSocket>, options: HostOptions) -> Shared {
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

    pub(crate) fn unregister(&self, sid: u32) {
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
