//! One flow of a real transport.

use crate::shared::{Mailbox, Port, Shared};
use anole_datapath::wire::{AlgorithmName, CreateMessage};
use anole_datapath::{AckSample, Flow, FlowConfig, FlowStats, Governor, InForce};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

/// What a flow is opened with.
#[derive(Clone, Copy, Debug)]
pub struct FlowOptions {
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

/// A flow of a transport: tell it of every ACK, loss and timeout, obey the [`InForce`] it returns.
///
/// A clone is the same flow for the agent (a transport that probes a new path copies its controller
/// and drops one of the two later): both get every message, and the agent hears of the end when the last
/// one is dropped.
#[derive(Debug)]
pub struct HostFlow {
    flow: Flow,
    mailbox: Arc<Mailbox>,
    port: Arc<Port>,
}

impl Clone for HostFlow {
    fn clone(&self) -> HostFlow {
        let mailbox = self.port.mailbox(Some(&self.mailbox));
        HostFlow { flow: self.flow.clone(), mailbox, port: self.port.clone() }
    }
}

impl HostFlow {
    pub(crate) fn open(shared: Arc<Shared>, now: Instant, spec: &FlowOptions) -> HostFlow {
        let port = Shared::register(&shared);
        let mailbox = port.mailbox(None);
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
        HostFlow { flow, mailbox, port }
    }

    /// Takes what one ACK, loss detection or timeout tells; returns what to obey from now on.
    pub fn on_ack(&mut self, now: Instant, sample: &AckSample) -> InForce {
        let shared = &*self.port.shared;
        let now = shared.clock.time(now);
        let flow = &mut self.flow;
        self.mailbox.drain(|mail| flow.collect(mail));
        self.flow.on_ack(now, sample, &mut { shared })
    }

    /// The segment size has changed (path-MTU discovery).
    pub fn set_mss(&mut self, mss: u32) {
        self.flow.set_mss(mss);
    }

    /// What the transport has to obey now.
    pub fn control(&self) -> InForce {
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
