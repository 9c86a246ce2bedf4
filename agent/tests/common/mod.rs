//! A small datapath host: the real runtime over a real Unix socket, with ACKs made up at a steady pace.

use anole_datapath::wire::{AlgorithmName, CreateMessage};
use anole_datapath::{AckSample, Datapath, FlowId, Governor, Outbox, SendError};
use anole_model::{Bounds, Dur, Time};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time between two made-up ACKs.
const ACK_EVERY: Duration = Duration::from_millis(2);
/// Segment size, bytes.
const MSS: u32 = 1448;

/// A datapath with some flows.
pub struct MiniHost {
    pub datapath: Datapath,
    pub flows: Vec<FlowId>,
    /// Datagrams of the agent that the runtime refused.
    pub refused: u64,
    /// Packets that the next ACK tells the loss of.
    pub lost_packets: u32,
    socket: UnixDatagram,
    agent: PathBuf,
    start: Instant,
}

struct ToAgent<'a>(&'a UnixDatagram, &'a Path);

impl Outbox for ToAgent<'_> {
    fn send(&mut self, message: &[u8]) -> Result<(), SendError> {
        self.0.send_to(message, self.1).map(|_| ()).map_err(|_| SendError)
    }
}

impl MiniHost {
    /// Host `number` of the agent at `agent`, with a socket beside it.
    pub fn new(agent: &Path, number: u32) -> MiniHost {
        let socket = UnixDatagram::bind(format!("{}.dp.{number}", agent.display())).unwrap();
        socket.set_nonblocking(true).unwrap();
        MiniHost {
            datapath: Datapath::new(Bounds::DEFAULT, Dur::from_millis(500)),
            flows: Vec::new(),
            refused: 0,
            lost_packets: 0,
            socket,
            agent: agent.to_path_buf(),
            start: Instant::now(),
        }
    }

    /// The host's clock.
    pub fn now(&self) -> Time {
        Time::from_nanos(self.start.elapsed().as_nanos() as u64)
    }

    /// Opens a flow that asks for `algorithm`.
    pub fn open(&mut self, algorithm: &str) -> FlowId {
        let create = CreateMessage {
            init_cwnd: 10 * MSS,
            mss: MSS,
            src_ip: 0,
            src_port: 1,
            // 192.0.2.2
            dst_ip: 0xc000_0202,
            dst_port: 2,
            algorithm: AlgorithmName::new(algorithm).unwrap(),
        };
        let now = self.now();
        let flow = self.datapath.open(now, create, &mut ToAgent(&self.socket, &self.agent));
        self.flows.push(flow);
        flow
    }

    /// Ends a flow.
    pub fn close(&mut self, flow: FlowId) {
        self.flows.retain(|known| *known != flow);
        self.datapath.close(flow, &mut ToAgent(&self.socket, &self.agent));
    }

    /// Sends bytes of any kind as this host.
    pub fn send_raw(&self, bytes: &[u8]) -> bool {
        self.socket.send_to(bytes, &self.agent).is_ok()
    }

    /// Takes what the agent sent.
    pub fn receive(&mut self) {
        let mut buffer = [0; 65_536];
        while let Ok(length) = self.socket.recv(&mut buffer) {
            let now = self.now();
            self.refused += u64::from(self.datapath.receive(now, &buffer[..length]).is_err());
        }
    }

    /// One ACK for every flow.
    pub fn ack(&mut self) {
        let sample = AckSample {
            bytes_acked: MSS,
            lost_packets: std::mem::take(&mut self.lost_packets),
            packets_acked: 1,
            rtt_us: 20_000,
            rate_outgoing: 1_000_000,
            rate_incoming: 1_000_000,
            bytes_in_flight: Some(20_000),
            packets_in_flight: 14,
            ..AckSample::default()
        };
        for &flow in &self.flows {
            let now = self.now();
            self.datapath.on_ack(now, flow, &sample, &mut ToAgent(&self.socket, &self.agent));
        }
    }

    /// Lets ACKs come for a while, or until `done`; returns whether it was done.
    pub fn drive(&mut self, span: Duration, mut done: impl FnMut(&MiniHost) -> bool) -> bool {
        let end = Instant::now() + span;
        while Instant::now() < end {
            self.receive();
            self.ack();
            if done(self) {
                return true;
            }
            std::thread::sleep(ACK_EVERY);
        }
        done(self)
    }

    /// Whether the agent governs a flow.
    pub fn governed(&self, flow: FlowId) -> bool {
        self.datapath.flow(flow).is_some_and(|flow| flow.governor() == Governor::Agent)
    }
}
