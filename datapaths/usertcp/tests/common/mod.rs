//! A transfer in virtual time between two user-space stacks, with the emulator's network model between them.
#![allow(dead_code, reason = "every test file is a crate of its own and uses a part of this")]

use anole_datapath::wire::AlgorithmName;
use anole_datapath_host::{Host, HostOptions};
use anole_emulator::{EmulatedNetwork, NetworkLink, Route};
use anole_model::{Dur, Rate, Time};
use anole_sim::link::{Aggregation, Capacity, Impairments, LinkConfig, QueueKind};
use anole_transfer::{Amount, TransferReport};
use anole_usertcp::{
    Governance, HostAddress, PairEnd, Progress, Receiver, ReceiverOptions, Sender, SenderOptions,
    UserTcpError, pair,
};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

const MTU: usize = 1500;
pub const PORT: u16 = 5001;

/// A drop-tail link with a buffer of one bandwidth-delay product.
pub fn link(mbps: f64, delay_ms: u64) -> NetworkLink {
    let config = LinkConfig {
        capacity: Capacity::Fixed(Rate::from_mbps(mbps)),
        delay: Dur::from_millis(delay_ms),
        buffer_bytes: (mbps * 1e6 / 8.0 * 2.0 * delay_ms as f64 / 1e3) as u64,
        random_loss: 0.0,
        queue: QueueKind::DropTail,
        aggregation: Aggregation::default(),
        impairments: Impairments::default(),
        cross: Vec::new(),
        full_packet: 1500,
        seed: 1,
    };
    NetworkLink { config, reverse_delay: None }
}

/// The fallback, without an agent.
pub fn fallback_only() -> Governance {
    governed_by(Host::detached(HostOptions::default()))
}

pub fn governed_by(host: Host) -> Governance {
    Governance { host: Arc::new(host), algorithm: AlgorithmName::NONE }
}

/// A host of the network for documentation.
pub fn host(last: u8, seed: u64) -> HostAddress {
    HostAddress { address: IpAddr::from([192, 0, 2, last]), prefix: 24, gateway: None, ethernet: None, seed }
}

pub fn to(last: u8, amount: Amount) -> SenderOptions {
    SenderOptions {
        host: host(1, 7),
        port: 50_000,
        remote: (IpAddr::from([192, 0, 2, last]), PORT).into(),
        preamble: Vec::new(),
        amount,
        idle_timeout: Duration::from_secs(30),
    }
}

/// A sender, a network and a receiver.
pub struct VirtualTransfer {
    pub sender: Sender<PairEnd>,
    pub receiver: Receiver<PairEnd>,
    pub network: EmulatedNetwork<Vec<u8>>,
    pub now: Instant,
    pub received: u64,
    /// The one of the sender's full packets, counted from 0, that never gets into the network.
    pub lose: Option<u64>,
    full_packets: u64,
    start: Instant,
    outside: [PairEnd; 2],
}

impl VirtualTransfer {
    pub fn start(link: NetworkLink, governance: Governance, amount: Amount) -> VirtualTransfer {
        let now = Instant::now();
        let route = Route { path: vec![0], extra_delay: Dur::ZERO };
        let ((inner, sender_side), (far, receiver_side)) = (pair(MTU), pair(MTU));
        let mut sender = Sender::connect(inner, governance, to(2, amount), now).unwrap();
        sender.set_time(now);
        let options = ReceiverOptions { host: host(2, 8), port: PORT, idle_timeout: Duration::from_secs(30) };
        VirtualTransfer {
            sender,
            receiver: Receiver::listen(far, options, now),
            network: EmulatedNetwork::new(vec![link], vec![route], Vec::new()),
            now,
            received: 0,
            lose: None,
            full_packets: 0,
            start: now,
            outside: [sender_side, receiver_side],
        }
    }

    fn time(&self) -> Time {
        Time::from_nanos((self.now - self.start).as_nanos() as u64)
    }

    /// Goes on until the transfer is over or `span` has passed; `watch` sees the sender after each turn.
    pub fn run(
        &mut self,
        span: Duration,
        mut watch: impl FnMut(Instant, &Sender<PairEnd>),
    ) -> Option<Result<TransferReport, UserTcpError>> {
        let end = self.now + span;
        while self.now < end {
            self.deliver();
            self.sender.set_time(self.now);
            let over = self.sender.poll(self.now);
            let (ended, receiver_next) = self.receiver.poll(self.now);
            self.received += ended.iter().map(|ended| ended.bytes).sum::<u64>();
            self.carry();
            watch(self.now, &self.sender);
            let sender_next = match over {
                Progress::Over(over) => return Some(over),
                Progress::Running(next) => next,
            };
            let network =
                self.network.next_event().map(|at| self.start + Duration::from_nanos(at.as_nanos()));
            // The stack counts in whole microseconds.
            let next = [sender_next, receiver_next, network].into_iter().flatten().min().unwrap_or(end);
            self.now = next.max(self.now + Duration::from_micros(1));
        }
        None
    }

    fn carry(&mut self) {
        let now = self.time();
        while let Some(packet) = self.outside[0].take() {
            let is_full = packet.len() == MTU;
            if !(is_full && self.lose == Some(self.full_packets)) {
                self.network.offer(now, 0, packet.len() as u32, packet);
            }
            self.full_packets += u64::from(is_full);
        }
        while let Some(packet) = self.outside[1].take() {
            self.network.offer_reverse(now, 0, packet.len() as u32, packet);
        }
    }

    fn deliver(&mut self) {
        let now = self.time();
        while let Some(due) = self.network.pop(now) {
            self.outside[usize::from(due.entered.is_some())].give(due.data);
        }
    }
}
