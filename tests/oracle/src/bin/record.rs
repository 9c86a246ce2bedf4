//! `cargo run --bin record -- AGENT_SOCKET [ALGORITHM] > transcript`: what an agent and the runtime say
//! to each other, as a golden test of the runtime (`datapaths/core/tests/transcripts/`).
//!
//! The agent is a process that listens on AGENT_SOCKET. The flow runs over a drop-tail link of 12 Mbps
//! and 20 ms with a queue of one bandwidth-delay product, in virtual time; the agent is given real time
//! for every answer. One line per event; the words are those of `tests/conformance.rs`.

#![allow(clippy::disallowed_methods, reason = "a recorder talks to a live agent")]

use anole_datapath::wire::{AlgorithmName, CreateMessage};
use anole_datapath::{AckSample, Datapath, Governor, InForce};
use anole_model::{Bounds, Dur, Time};
use anyhow::{Context, Result};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

const MSS: u32 = 1448;
const INIT_CWND: u32 = 10 * MSS;
/// A packet of 1500 bytes at 12 Mbps.
const SERVICE_US: u64 = 1000;
const PROPAGATION_US: u64 = 20_000;
const QUEUE_PACKETS: u64 = 20;
const ACKS: usize = 500;
/// ACKs that carry a retransmission timeout, and one that has no round-trip sample.
const TIMEOUT_AT: usize = 400;
const NO_SAMPLE_AT: usize = 50;
/// How long the agent may think about a message.
const PATIENCE: Duration = Duration::from_millis(60);

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let agent = arguments.next().context("usage: record AGENT_SOCKET [ALGORITHM]")?;
    let algorithm = arguments.next().unwrap_or_default();
    let algorithm = AlgorithmName::new(&algorithm).context("ALGORITHM has at most 63 bytes")?;
    Recorder::new(Path::new(&agent))?.run(algorithm)
}

struct Recorder {
    socket: UnixDatagram,
    /// Where the agent sends its answers.
    own: PathBuf,
    datapath: Datapath,
    now_us: u64,
}

impl Recorder {
    fn new(agent: &Path) -> Result<Recorder> {
        let own = agent.with_file_name(format!("recorder-{}", std::process::id()));
        let socket = UnixDatagram::bind(&own).with_context(|| format!("binding {}", own.display()))?;
        socket.connect(agent).with_context(|| format!("no agent listens on {}", agent.display()))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let datapath = Datapath::new(Bounds::DEFAULT, Dur::from_millis(500));
        Ok(Recorder { socket, own, datapath, now_us: 1_000_000 })
    }

    fn run(&mut self, algorithm: AlgorithmName) -> Result<()> {
        let mut out: Vec<Vec<u8>> = Vec::new();
        println!("ready 7");
        self.datapath.ready(7, &mut out);
        self.exchange(&mut out)?;
        let create = CreateMessage {
            init_cwnd: INIT_CWND,
            mss: MSS,
            src_ip: 0x7f00_0001,
            src_port: 4242,
            dst_ip: 0x7f00_0001,
            dst_port: 4433,
            algorithm,
        };
        println!("open {} {INIT_CWND} {MSS} {}", self.now_us, algorithm.as_str());
        let flow = self.datapath.open(Time::from_micros(self.now_us), create, &mut out);
        self.exchange(&mut out)?;
        let mut link = Link::default();
        let mut control = InForce { cwnd: INIT_CWND, rate: 0 };
        for n in 0..ACKS {
            link.send(self.now_us, control.cwnd);
            let mut sample = link.next_ack(&mut self.now_us);
            if n == TIMEOUT_AT {
                sample.was_timeout = true;
            }
            if n == NO_SAMPLE_AT {
                sample.rtt_us = 0;
            }
            let now = Time::from_micros(self.now_us);
            control = self.datapath.on_ack(now, flow, &sample, &mut out).context("the flow is open")?;
            let asked = self.datapath.flow(flow).context("the flow is open")?.asked();
            println!("ack {} {} = {} {}", self.now_us, words(&sample), asked.cwnd, asked.rate);
            self.exchange(&mut out)?;
        }
        let state = self.datapath.flow(flow).context("the flow is open")?;
        eprintln!("{:?}, governed by {:?}", state.stats(), state.governor());
        anyhow::ensure!(state.governor() == Governor::Agent, "the agent lost the flow");
        println!("close");
        self.datapath.close(flow, &mut out);
        self.exchange(&mut out)
    }

    /// Hands over what the runtime sent and takes the answers.
    fn exchange(&mut self, out: &mut Vec<Vec<u8>>) -> Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        for message in out.drain(..) {
            println!("> {}", hex(&message));
            self.socket.send(&message).context("the agent has gone")?;
        }
        let mut buffer = [0; 65_536];
        loop {
            match self.socket.recv(&mut buffer) {
                Ok(n) => {
                    println!("< {}", hex(&buffer[..n]));
                    self.datapath.receive(Time::from_micros(self.now_us), &buffer[..n])?;
                }
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return Ok(()),
                Err(e) => return Err(e).context("reading the agent's answer"),
            }
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        std::fs::remove_file(&self.own).ok();
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn words(s: &AckSample) -> String {
    format!(
        "{} {} {} {} {} {} {} {} {}",
        s.bytes_acked,
        s.packets_acked,
        s.lost_packets,
        u32::from(s.was_timeout),
        s.rtt_us,
        s.rate_outgoing,
        s.rate_incoming,
        s.bytes_in_flight.unwrap_or(0),
        s.packets_in_flight
    )
}

/// A drop-tail link whose sender sends at ACKs.
#[derive(Default)]
struct Link {
    /// (sent, acknowledged), µs.
    in_flight: VecDeque<(u64, u64)>,
    free_at_us: u64,
    lost: u32,
}

impl Link {
    fn send(&mut self, now_us: u64, cwnd: u32) {
        while self.in_flight.is_empty() || (self.in_flight.len() as u32 + 1) * MSS <= cwnd {
            let start = self.free_at_us.max(now_us);
            if start - now_us >= QUEUE_PACKETS * SERVICE_US {
                self.lost += 1;
                break;
            }
            self.free_at_us = start + SERVICE_US;
            self.in_flight.push_back((now_us, self.free_at_us + PROPAGATION_US));
        }
    }

    fn next_ack(&mut self, now_us: &mut u64) -> AckSample {
        let (sent, acknowledged) = self.in_flight.pop_front().unwrap_or((*now_us, *now_us + PROPAGATION_US));
        *now_us = acknowledged;
        let rtt_us = acknowledged - sent;
        let packets = self.in_flight.len() as u32;
        let rate = u64::from(packets + 1) * u64::from(MSS) * 1_000_000 / rtt_us;
        AckSample {
            bytes_acked: MSS,
            packets_acked: 1,
            lost_packets: std::mem::take(&mut self.lost),
            rtt_us,
            rate_outgoing: rate,
            rate_incoming: rate,
            bytes_in_flight: Some(packets * MSS),
            packets_in_flight: packets,
            ..AckSample::default()
        }
    }
}
