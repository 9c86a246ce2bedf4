//! The host: what a process opens flows with.

use crate::flow::{FlowOptions, HostFlow};
use crate::receive::{self, Known};
use crate::shared::{HostOptions, Shared};
use crate::socket::{AgentSocket, HostError};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Instant;

/// Counters of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostStats {
    /// Flows open now.
    pub flows: usize,
    /// Datagrams taken from the agent.
    pub datagrams: u64,
    /// Datagrams refused, in part or as a whole: from somebody else, or not what an agent may say.
    pub refused: u64,
    /// READY messages sent: one per agent that came, and one each time that it had to be asked for its programs.
    pub announcements: u64,
}

/// A process's connection to the agent. Flows keep it alive as far as they need it; dropping the host
/// stops the receive thread and removes the socket, after which flows live on their fallback. An agent whose queue is full
/// is waited for, as long as `agent_timeout` at most, to tell it which flows have ended.
#[derive(Debug)]
pub struct Host {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    /// Binds a socket beside the agent's and starts the receive thread. The agent need not be there:
    /// it is announced to when it comes.
    pub fn connect(agent: &Path, options: HostOptions) -> Result<Host, HostError> {
        let shared = Arc::new(Shared::new(Some(AgentSocket::bind(agent)?), options));
        // At once, so that the first flow's announcement finds the way open.
        let mut known = Known::default();
        receive::greet(&shared, &mut known);
        let thread = std::thread::Builder::new()
            .name("anole-datapath".to_string())
            .spawn({
                let shared = shared.clone();
                move || receive::run(&shared, known)
            })
            .map_err(HostError::Thread)?;
        Ok(Host { shared, thread: Some(thread) })
    }

    /// A host without an agent: every flow is governed by its fallback.
    pub fn detached(options: HostOptions) -> Host {
        Host { shared: Arc::new(Shared::new(None, options)), thread: None }
    }

    /// Opens a flow and announces it to the agent.
    pub fn open(&self, now: Instant, spec: &FlowOptions) -> HostFlow {
        HostFlow::open(self.shared.clone(), now, spec)
    }

    /// The host's counters.
    pub fn stats(&self) -> HostStats {
        let counters = &self.shared.counters;
        HostStats {
            flows: self.shared.flows(),
            datagrams: counters.datagrams.load(Relaxed),
            refused: counters.refused.load(Relaxed),
            announcements: counters.announcements.load(Relaxed),
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        receive::last_ends(&self.shared);
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
