//! One run over the TCP of this machine's kernel: two hosts in network namespaces, the emulator between
//! them, bulk transfers through sockets.
//!
//! Payload and completion are the receiver's figures, the rest is the emulator's: it sees every packet
//! enter and leave, which data is sent again, and when an ACK goes back (RTT). Mahimahi in its place tells of the link
//! alone: bytes on the wire are the payload in full packets then, and retransmissions and RTTs are not known.

use super::agent::{CONGESTION_CONTROL, ReportedFlow, available};
use super::between::{Between, EmulatorKind, Mahimahi, Ready};
use super::figures::{self, FlowExchange, Raw};
use super::govern::{FlowGovernor, GovernedFlows};
use super::interrupt::interrupted;
use super::outage::Agents;
use super::timeline::{FlowEnd, Snapshot, Timeline};
use super::{AgentArgs, warn_of_lost};
use crate::options::usage;
use anole_emulator::{EmulatedNetwork, EmulatorError, Hosts, Namespace, TunPair, tcp_window};
use anole_sim::result::RunResult;
use anole_sim::scenario::{FlowSpec, Scenario};
use anyhow::{Context, Result, anyhow};
use indicatif::ProgressBar;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, setsockopt, socket, sockopt::TcpCongestion,
};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::{sleep, sleep_until};

/// Full packets that TCP and a TUN device agree to: from what every IPv4 host takes (RFC 791) on.
const PACKET_BYTES: RangeInclusive<u32> = 576..=65_500;

/// How much longer than its scenario a run may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes handed to a socket, and taken from one, at a time.
const CHUNK_BYTES: usize = 1 << 16;

/// Finds out before any run whether it can be done.
pub fn check(scenario: &Scenario, governed: &GovernedFlows, asked: &AgentArgs) -> Result<()> {
    if !PACKET_BYTES.contains(&scenario.full_packet()) {
        let overhead = scenario.full_packet() - scenario.mss;
        return Err(usage(format!(
            "mss_bytes = {} does not suit the kernel's TCP; emulate --datapath kernel needs mss_bytes from {} to {}",
            scenario.mss,
            PACKET_BYTES.start() - overhead,
            PACKET_BYTES.end() - overhead,
        )));
    }
    if governed.agents.len() > 1 {
        return Err(usage(
            "the kernel has one agent, but flows of this run ask for different ones; give them the same options, or linux: algorithms",
        ));
    }
    if asked.agent_flood > 0 {
        return Err(usage("--agent-flood goes with --datapath quic: no socket leads to the kernel's agent"));
    }
    if !governed.agents.is_empty() && asked.agent_outage.first().is_some_and(|outage| outage.is_at_start()) {
        return Err(usage(
            "--agent-outage: the agent brings the kernel's datapath along, so that no run can begin without it",
        ));
    }
    // Nothing can be asked of a host that cannot be made.
    let host = Namespace::new().map_err(|error| match error {
        EmulatorError::Privilege => usage(format!("--datapath kernel: {error}")),
        other => other.into(),
    })?;
    for governor in &governed.governors {
        if let FlowGovernor::Linux(name) = governor {
            host.run(|| Ok(tcp_socket(name)))??;
        }
    }
    Ok(())
}

/// Runs a scenario once.
pub fn run(
    scenario: &Scenario,
    governed: &GovernedFlows,
    seed: u64,
    binary: Option<&Path>,
    asked: &AgentArgs,
    emulator: EmulatorKind,
    bar: &ProgressBar,
) -> Result<RunResult> {
    let started = Instant::now();
    // Statistics and log of the agent; removed at the end, whatever it is.
    let folder = tempfile::Builder::new().prefix("anole-").tempdir().context("cannot make a folder")?;
    let agents = Agents::start(binary, folder.path(), &governed.agents, seed, &asked.agent_outage)?;
    let (hosts, ready) = match emulator {
        EmulatorKind::Own => {
            let (hosts, wire) = Hosts::new(scenario.flows.len(), scenario.full_packet())?;
            (Arc::new(hosts), Ready::Own(wire, EmulatedNetwork::of(scenario, seed)))
        }
        EmulatorKind::Mahimahi => {
            let mahimahi = Mahimahi::start(scenario)?;
            (mahimahi.hosts.clone(), Ready::Mahimahi(mahimahi))
        }
    };
    let sockets = hosts.sender.run(|| Ok(client_sockets(&governed.governors)))??;
    let listener = hosts.receiver.run(|| {
        let listener = TcpListener::bind(Hosts::destination());
        let ready = listener.and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
        ready.map_err(EmulatorError::Socket)
    })?;
    let epoch = Instant::now();
    let stage = Arc::new(Stage {
        timeline: Timeline::new(scenario, epoch),
        receivers: scenario.flows.iter().map(|_| Receiver::default()).collect(),
        sockets: scenario.flows.iter().map(|_| Mutex::default()).collect(),
        between: ready.start(scenario, epoch)?,
    });
    let agents = agents.play(epoch)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let driven = runtime.block_on(async {
        tokio::select! {
            driven = drive(&stage, sockets, bar) => driven,
            served = serve(&stage, listener) => Err(served.context("the receiver failed")),
            () = interrupted() => Err(anyhow!("interrupted")),
            () = sleep(Duration::from_nanos(scenario.duration.as_nanos()) + PATIENCE) => {
                Err(anyhow!("the run did not end in time; this machine is too busy"))
            }
        }
    });
    // Closes every socket; their last packets may still leave.
    drop(runtime);
    let ends = driven?;
    let stage = Arc::into_inner(stage).ok_or_else(|| anyhow!("a task outlived its run"))?;
    let (record, wire) = stage.between.finish(scenario)?;
    warn_of_lost(hosts.overflows()? + record.timer.send_failures, bar);
    let lines = agents.finish()?;
    let flows = 0..scenario.flows.len();
    let round_trips = |flow| wire.as_ref().map_or_else(Vec::new, |wire| wire.round_trips(flow).to_vec());
    let raw = Raw {
        mode: if wire.is_some() { "kernel" } else { "mahimahi-kernel" },
        record,
        ends,
        round_trips: flows.clone().map(round_trips).collect(),
        exchanges: flows.map(|flow| exchange(flow, &governed.governors[flow], &lines)).collect(),
        notes: stage.timeline.into_notes(),
    };
    let wall_s = started.elapsed().as_secs_f64();
    Ok(RunResult { wall_s, ..figures::result(scenario, governed, seed, epoch, &raw) })
}

/// A socket for each flow, from its own address. Made before the run begins, so that no flow depends on
/// what is registered when it starts.
fn client_sockets(governors: &[FlowGovernor]) -> Result<Vec<OwnedFd>> {
    let open = |(flow, governor): (usize, &FlowGovernor)| {
        let name = match governor {
            FlowGovernor::Linux(name) => name,
            FlowGovernor::Agent(_) => CONGESTION_CONTROL,
            FlowGovernor::Native | FlowGovernor::Stack(_) | FlowGovernor::InProcess(_) => {
                return Err(anyhow!("{governor:?} is no congestion control of the kernel"));
            }
        };
        let socket = tcp_socket(name)?;
        bind(socket.as_raw_fd(), &SockaddrIn::from(Hosts::source(flow)))
            .with_context(|| format!("cannot use the address {}", Hosts::source(flow)))?;
        Ok(socket)
    };
    governors.iter().enumerate().map(open).collect()
}

/// The name for what a socket has that asks for nothing, which whoever switches connections (`anole-ccp --switch`) may change.
const DEFAULT: &str = "default";

/// A TCP socket in the calling thread's namespace with this congestion control.
fn tcp_socket(congestion_control: &str) -> Result<OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket =
        socket(AddressFamily::Inet, SockType::Stream, flags, None).context("cannot open a socket")?;
    if congestion_control == DEFAULT {
        return Ok(socket);
    }
    // The kernel loads a module of this name if there is one.
    match setsockopt(&socket, TcpCongestion, &congestion_control.into()) {
        Ok(()) => Ok(socket),
        Err(Errno::ENOENT) => Err(usage(format!(
            "this kernel has no congestion control {congestion_control:?}; it has {}. More may come with a module (modprobe tcp_NAME)",
            available().map(|name| format!("linux:{name}")).collect::<Vec<_>>().join(", "),
        ))),
        Err(error) => {
            Err(anyhow!("the kernel refuses the congestion control {congestion_control:?}: {error}"))
        }
    }
}

/// What the tasks of a run share.
struct Stage {
    timeline: Timeline,
    receivers: Vec<Receiver>,
    /// Each flow's socket once more while it is connected, to ask the kernel about it.
    sockets: Vec<Mutex<Option<OwnedFd>>>,
    between: Between<TunPair>,
}

/// What arrived of a flow.
#[derive(Debug, Default)]
struct Receiver {
    bytes: AtomicU64,
    /// Told when all of a flow with a size is there.
    complete: Notify,
}

impl Stage {
    fn snapshot(&self, flow: usize) -> Snapshot {
        let counts = self.between.counts(flow);
        let payload_bytes = self.receivers[flow].bytes.load(Relaxed);
        let window = self.socket(flow).as_ref().and_then(|socket| tcp_window(socket.as_fd()));
        Snapshot {
            wire_bytes: self.between.delivered_bytes(flow, payload_bytes, &self.timeline.scenario),
            payload_bytes,
            sent_packets: counts.as_ref().map_or(0, |counts| counts.entered_packets()),
            lost_packets: counts.as_ref().map_or(0, |counts| counts.repeated_packets()),
            // The kernel tells of all flows together alone.
            governor: None,
            cwnd_bytes: window.map(|window| window.cwnd_bytes),
            pacing_mbps: window.and_then(|window| window.pacing_bytes_per_s).map(|rate| rate as f64 * 8e-6),
        }
    }

    fn socket(&self, flow: usize) -> MutexGuard<'_, Option<OwnedFd>> {
        self.sockets[flow].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn snapshots(&self) -> Vec<Snapshot> {
        (0..self.receivers.len()).map(|flow| self.snapshot(flow)).collect()
    }
}

/// Runs every flow until the scenario's end; how each ended.
async fn drive(stage: &Arc<Stage>, sockets: Vec<OwnedFd>, bar: &ProgressBar) -> Result<Vec<FlowEnd>> {
    let sockets: Vec<_> = sockets.into_iter().map(|socket| std::cell::Cell::new(Some(socket))).collect();
    let flow = |index: usize| {
        let (stage, socket) = (stage.clone(), sockets[index].take());
        async move { drive_flow(&stage, index, socket.context("its socket is gone")?).await }
    };
    stage.timeline.drive(flow, || stage.snapshots(), bar).await
}

/// One flow from its start to its stop.
async fn drive_flow(stage: &Stage, index: usize, socket: OwnedFd) -> Result<FlowEnd> {
    let spec: &FlowSpec = &stage.timeline.scenario.flows[index];
    let (start, stop) = stage.timeline.span(index);
    sleep_until(start.into()).await;
    let note_end = |at: Instant, complete: bool| {
        stage.timeline.note_over(|| stage.snapshots());
        FlowEnd { at, complete, snapshot: stage.snapshot(index) }
    };
    let socket = tokio::net::TcpSocket::from_std_stream(TcpStream::from(socket));
    let mut stream = tokio::select! {
        stream = socket.connect(Hosts::destination().into()) => stream.context("cannot connect")?,
        () = sleep_until(stop.into()) => return Ok(note_end(stop, false)),
    };
    // What is unsent when a flow stops is not sent any more: closing resets the connection.
    stream.set_zero_linger().context("cannot set up the socket")?;
    *stage.socket(index) = stream.as_fd().try_clone_to_owned().ok();
    let complete = async {
        send(&mut stream, spec.bytes).await.context("cannot send")?;
        stage.receivers[index].complete.notified().await;
        anyhow::Ok(())
    };
    let end = tokio::select! {
        sent = complete => sent.map(|()| note_end(Instant::now(), true)),
        () = sleep_until(stop.into()) => Ok(note_end(stop, false)),
    };
    // The connection ends with the last who holds it.
    *stage.socket(index) = None;
    end
}

/// Hands so many bytes to the socket, or without end.
async fn send(stream: &mut tokio::net::TcpStream, bytes: Option<u64>) -> io::Result<()> {
    let chunk = vec![0; CHUNK_BYTES];
    let mut left = bytes.unwrap_or(u64::MAX);
    while left > 0 {
        let part = usize::try_from(left).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
        let taken = stream.write(&chunk[..part]).await?;
        if bytes.is_some() {
            left -= taken as u64;
        }
    }
    Ok(())
}

/// Receives from every flow; returns only when that fails.
async fn serve(stage: &Arc<Stage>, listener: TcpListener) -> anyhow::Error {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return error.into(),
    };
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                let flow = Hosts::flow_of(from.port()).filter(|&flow| flow < stage.receivers.len());
                if let Some(flow) = flow {
                    tokio::spawn(receive(stage.clone(), flow, stream));
                }
            }
            Err(error) => return error.into(),
        }
    }
}

/// Takes what comes until the sender's end, which is a reset or that of the run.
async fn receive(stage: Arc<Stage>, flow: usize, mut stream: tokio::net::TcpStream) {
    let mut buffer = vec![0; CHUNK_BYTES];
    let wanted = stage.timeline.scenario.flows[flow].bytes;
    let Receiver { bytes, complete } = &stage.receivers[flow];
    while let Ok(taken @ 1..) = stream.read(&mut buffer).await {
        let before = bytes.fetch_add(taken as u64, Relaxed);
        if wanted.is_some_and(|wanted| before + taken as u64 >= wanted) {
            complete.notify_one();
        }
    }
}

/// What was exchanged about a flow, by its port; the last line is that of the agent that ran to the end.
fn exchange(flow: usize, governor: &FlowGovernor, lines: &[Vec<ReportedFlow>]) -> FlowExchange {
    let FlowGovernor::Agent(agent) = governor else { return FlowExchange::default() };
    let port = u32::from(Hosts::source(flow).port());
    let line = lines.get(*agent).and_then(|lines| lines.iter().rev().find(|line| line.src_port == port));
    FlowExchange {
        reports: line.map(|line| line.reports),
        updates: line.map(|line| line.updates),
        line: line.cloned(),
    }
}
