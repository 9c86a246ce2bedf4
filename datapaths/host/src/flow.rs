//! One flow of a real transport.

use crate::host::Shared;
use anole_datapath::wire::{self, AlgorithmName, CreateMessage, Message};
use anole_datapath::{AckSample, Control, Flow, FlowConfig, FlowMessage, FlowStats, Governor, Outbox};
use anole_model::Time;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Messages that may wait in one flow's mailbox. An agent answers a flow's reports one by one and a
/// flow drains at every ACK, so more than this means that no ACK comes; the oldest are then the ones
/// that no longer matter.
const MAILBOX_CAPACITY: usize = 64;

/// What a flow is opened with.
#[derive(Clone, Copy, Debug)]
pub struct FlowSpec {
    /// The algorithm asked of the agent.
    pub algorithm: AlgorithmName,
    /// Maximum segment size, bytes.
    pub mss: u32,
    /// Initial window, bytes.
    pub init_cwnd: u32,
    /// The flow's own address, if known.
    pub local: Option<SocketAddr>,
    /// The peer's address, if known.
    pub remote: Option<SocketAddr>,
}

/// A flow's place in the host: its id and the messages that wait for it.
///
/// Its clones of a flow hold it; when the last one lets go, the agent hears that the flow has ended.
#[derive(Debug)]
pub(crate) struct Port {
    sid: u32,
    shared: Arc<Shared>,
    waiting: AtomicBool,
    mailbox: Mutex<Vec<(Time, FlowMessage)>>,
}

impl Port {
    pub(crate) fn new(sid: u32, shared: Arc<Shared>) -> Port {
        Port { sid, shared, waiting: AtomicBool::new(false), mailbox: Mutex::default() }
    }

    /// Leaves a message for the flow, with the time at which it came.
    pub(crate) fn put(&self, now: Time, message: FlowMessage) {
        let mut mailbox = self.lock();
        if mailbox.len() == MAILBOX_CAPACITY {
            mailbox.remove(0);
        }
        mailbox.push((now, message));
        self.waiting.store(true, Ordering::Release);
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

/// A flow of a transport: tell it of every ACK, loss and timeout, obey the [`Control`] it returns.
///
/// A clone is the same flow for the agent (a transport that probes a new path copies its controller
/// and drops one of the two later); the agent hears of the end when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct HostFlow {
    flow: Flow,
    port: Arc<Port>,
}

impl HostFlow {
    pub(crate) fn open(shared: Arc<Shared>, now: Instant, spec: &FlowSpec) -> HostFlow {
        let port = Shared::register(&shared);
        let (src_ip, src_port) = wire_address(spec.local);
        let (dst_ip, dst_port) = wire_address(spec.remote);
        let config = FlowConfig {
            sid: port.sid,
            create: CreateMessage {
                init_cwnd: spec.init_cwnd,
                mss: spec.mss,
                src_ip,
                src_port,
                dst_ip,
                dst_port,
                algorithm: spec.algorithm,
            },
            bounds: shared.options.bounds,
            agent_timeout: shared.options.agent_timeout,
        };
        let flow = Flow::start(config, shared.clock.time(now), &mut &*shared);
        HostFlow { flow, port }
    }

    /// Takes what one ACK, loss detection or timeout tells; returns what to obey from now on.
    pub fn on_ack(&mut self, now: Instant, sample: &AckSample) -> Control {
        let shared = &*self.port.shared;
        let now = shared.clock.time(now);
        if self.port.waiting.load(Ordering::Acquire) {
            let mut mailbox = self.port.lock();
            // Cleared under the lock, so that a message that comes later sets it again.
            self.port.waiting.store(false, Ordering::Release);
            for (arrived, message) in mailbox.drain(..) {
                self.flow.deliver(arrived, message);
            }
        }
        self.flow.on_ack(now, sample, &mut { shared })
    }

    /// What the transport has to obey now.
    pub fn control(&self) -> Control {
        self.flow.control()
    }

    /// Who governs the flow now.
    pub fn governor(&self) -> Governor {
        self.flow.governor()
    }

    /// The flow's counters.
    pub fn stats(&self) -> FlowStats {
        self.flow.stats()
    }

    /// The flow's id in messages.
    pub fn sid(&self) -> u32 {
        self.port.sid
    }
}

/// An address as CREATE carries it: IPv4 only, else zero, which means "unknown".
fn wire_address(address: Option<SocketAddr>) -> (u32, u32) {
    match address {
        Some(address) => match address.ip() {
            IpAddr::V4(ip) => (u32::from(ip), u32::from(address.port())),
            IpAddr::V6(_) => (0, u32::from(address.port())),
        },
        None => (0, 0),
    }
}
