//! One run over the user-space TCP: a stack for each flow and one that receives, all in this process, with the emulator
//! between them.
//!
//! Payload and completion are the receiver's figures; the datapath tells window, rate and who governs; the rest is the
//! emulator's, as over the kernel's TCP.

use super::figures::{self, Raw, exchange};
use super::govern::{FlowGovernor, GovernedFlows};
use super::interrupt::interrupted;
use super::outage::Agents;
use super::server::IDLE_TIMEOUT;
use super::timeline::{FlowEnd, Snapshot, Timeline, arrived};
use super::{AgentArgs, warn_of_lost};
use crate::options::usage;
use anole_datapath_host::{Host, HostOptions};
use anole_emulator::{EmulatedNetwork, Emulator, EmulatorOptions, Hosts, StackSockets};
use anole_quic::{AlgorithmName, Amount, Reading};
use anole_sim::result::RunResult;
use anole_sim::scenario::Scenario;
use anole_usertcp::real::{Turn, Waiter, drive};
use anole_usertcp::{
    Governance, HostAddress, Progress, Receiver, ReceiverOptions, Sender, SenderOptions, SocketDevice,
};
use anyhow::{Context, Result, anyhow};
use indicatif::ProgressBar;
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;
use tokio::time::sleep_until;

/// Full packets that the stack and IPv4 agree to.
const PACKET_BYTES: std::ops::RangeInclusive<u32> = 576..=65_500;
/// Flows of a run: the receiver serves no more at once.
const MAX_FLOWS: usize = 60;
/// The networks of the stacks' addresses (RFC 5737).
const PREFIX: u8 = 24;

/// Finds out before any run whether it can be done.
pub fn check(scenario: &Scenario, asked: &AgentArgs) -> Result<()> {
    if asked.agent_flood > 0 {
        return Err(usage("--agent-flood goes with --datapath quic; leave it out"));
    }
    if !PACKET_BYTES.contains(&scenario.full_packet()) {
        let overhead = scenario.full_packet() - scenario.mss;
        return Err(usage(format!(
            "mss_bytes = {} does not suit a TCP; emulate --datapath usertcp needs mss_bytes from {} to {}",
            scenario.mss,
            PACKET_BYTES.start() - overhead,
            PACKET_BYTES.end() - overhead,
        )));
    }
    if scenario.flows.len() > MAX_FLOWS {
        return Err(usage(format!(
            "the scenario has {} flows; emulate --datapath usertcp has room for {MAX_FLOWS}",
            scenario.flows.len()
        )));
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
    bar: &ProgressBar,
) -> Result<RunResult> {
    let started = Instant::now();
    // Sockets, statistics and logs of the agents; removed at the end, whatever it is.
    let folder = tempfile::Builder::new().prefix("anole-").tempdir().context("cannot make a folder")?;
    let agents = Agents::start(binary, folder.path(), &governed.agents, seed, &asked.agent_outage)?;
    let hosts = agents.hosts()?;
    let (wire, ends) = StackSockets::open(scenario.flows.len())?;
    let network = EmulatedNetwork::of(scenario, seed);
    let epoch = Instant::now();
    let options = EmulatorOptions { epoch, warmup: scenario.warmup };
    let stage = Arc::new(Stage {
        timeline: Timeline::new(scenario, epoch),
        mtu: scenario.full_packet() as usize,
        governances: governances(governed, &hosts)?,
        readings: scenario.flows.iter().map(|_| Mutex::default()).collect(),
        received: scenario.flows.iter().map(|_| AtomicU64::new(0)).collect(),
        over: AtomicBool::new(false),
        emulator: Emulator::start(network, wire, options)?,
    });
    drop(hosts);
    let receiver = receive(stage.clone(), ends.receiver)?;
    let agents = agents.play(epoch)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let driven = runtime.block_on(async {
        tokio::select! {
            driven = play(&stage, ends.senders, bar) => driven,
            () = interrupted() => Err(anyhow!("interrupted")),
        }
    });
    stage.over.store(true, Relaxed);
    // Waits for the senders' threads.
    drop(runtime);
    receiver.join().map_err(|_| anyhow!("the receiver's thread failed"))??;
    let ends = driven?;
    let stage = Arc::into_inner(stage).ok_or_else(|| anyhow!("a task outlived its run"))?;
    let (record, wire) = stage.emulator.finish()?;
    warn_of_lost(record.timer.send_failures, bar);
    drop(stage.governances);
    let lines = agents.finish()?;
    let flows = 0..scenario.flows.len();
    let readings = stage.readings.iter().map(|reading| Some(*lock(reading)));
    let raw = Raw {
        mode: "usertcp",
        record,
        ends,
        round_trips: flows.map(|flow| wire.round_trips(flow).to_vec()).collect(),
        exchanges: readings
            .zip(&governed.governors)
            .map(|(reading, governor)| exchange(reading, governor, &lines))
            .collect(),
        notes: stage.timeline.into_notes(),
    };
    let wall_s = started.elapsed().as_secs_f64();
    Ok(RunResult { wall_s, ..figures::result(scenario, governed, seed, epoch, &raw) })
}

/// What the threads of a run share.
struct Stage {
    timeline: Timeline,
    /// A full packet, bytes.
    mtu: usize,
    governances: Vec<Governance>,
    /// Of each flow's sender, as it was after its last turn.
    readings: Vec<Mutex<Reading>>,
    /// Of each flow, payload that the receiver has in order.
    received: Vec<AtomicU64>,
    /// Tells the threads that the run is over.
    over: AtomicBool,
    emulator: Emulator<StackSockets>,
}

impl Stage {
    fn snapshot(&self, flow: usize) -> Snapshot {
        let (counts, reading) = (self.emulator.counts(flow), *lock(&self.readings[flow]));
        Snapshot {
            wire_bytes: counts.delivered_bytes(),
            payload_bytes: self.received[flow].load(Relaxed),
            sent_packets: counts.entered_packets(),
            lost_packets: counts.repeated_packets(),
            ..Snapshot::of(&reading)
        }
    }

    fn snapshots(&self) -> Vec<Snapshot> {
        (0..self.readings.len()).map(|flow| self.snapshot(flow)).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn host(address: SocketAddrV4, seed: u64) -> HostAddress {
    HostAddress { address: (*address.ip()).into(), prefix: PREFIX, gateway: None, ethernet: None, seed }
}

/// Receives from every flow on a thread of its own, until the run is over.
fn receive(stage: Arc<Stage>, socket: OwnedFd) -> Result<JoinHandle<Result<()>>> {
    let thread = std::thread::Builder::new().name("usertcp-receiver".to_string());
    let running = thread.spawn(move || {
        let device = SocketDevice::new(socket, stage.mtu);
        let waiter = Waiter::of(&device);
        let at = Hosts::destination();
        let options = ReceiverOptions { host: host(at, 0), port: at.port(), idle_timeout: IDLE_TIMEOUT };
        let mut receiver = Receiver::listen(device, options, Instant::now());
        drive(&waiter, |now| {
            let (ended, next) = receiver.poll(now);
            let ended = ended.into_iter().map(|ended| (ended.remote, ended.bytes));
            for (remote, bytes) in ended.chain(receiver.open()) {
                let flow = Hosts::flow_of(remote.port()).and_then(|flow| stage.received.get(flow));
                flow.inspect(|received| received.store(bytes, Relaxed));
            }
            Ok(if stage.over.load(Relaxed) { Turn::Over(()) } else { Turn::Until(next) })
        })
        .context("the receiver failed")
    });
    running.context("cannot start the receiver's thread")
}

/// Runs every flow until the scenario's end; how each ended.
async fn play(stage: &Arc<Stage>, sockets: Vec<OwnedFd>, bar: &ProgressBar) -> Result<Vec<FlowEnd>> {
    let sockets: Vec<_> = sockets.into_iter().map(|socket| std::cell::Cell::new(Some(socket))).collect();
    let flow = |index: usize| {
        let (stage, socket) = (stage.clone(), sockets[index].take());
        async move { play_flow(stage, index, socket.context("its socket is gone")?).await }
    };
    stage.timeline.drive(flow, || stage.snapshots(), bar).await
}

/// One flow from its start to its stop.
async fn play_flow(stage: Arc<Stage>, index: usize, socket: OwnedFd) -> Result<FlowEnd> {
    let (start, stop) = stage.timeline.span(index);
    sleep_until(start.into()).await;
    let note_end = |at: Instant, complete: bool| {
        stage.timeline.note_over(|| stage.snapshots());
        FlowEnd { at, complete, snapshot: stage.snapshot(index) }
    };
    let sender = {
        let stage = stage.clone();
        move || send(&stage, index, socket)
    };
    let sending = tokio::task::spawn_blocking(sender);
    let received = || stage.received[index].load(Relaxed);
    tokio::select! {
        // Its sender learns of that later, and ends by itself.
        () = arrived(stage.timeline.scenario.flows[index].bytes, received) => Ok(note_end(Instant::now(), true)),
        sent = sending => {
            let complete = sent.context("a sender's thread failed")??;
            Ok(note_end(if complete { Instant::now() } else { stop }, complete))
        }
        () = sleep_until(stop.into()) => Ok(note_end(stop, false)),
    }
}

/// Sends until the flow's size has arrived, which is true, or its stop.
fn send(stage: &Stage, index: usize, socket: OwnedFd) -> Result<bool> {
    let (_, stop) = stage.timeline.span(index);
    let (source, now) = (Hosts::source(index), Instant::now());
    let bytes = stage.timeline.scenario.flows[index].bytes;
    let options = SenderOptions {
        host: host(source, index as u64 + 1),
        port: source.port(),
        remote: Hosts::destination().into(),
        preamble: Vec::new(),
        amount: bytes.map_or(Amount::Time(stop.saturating_duration_since(now)), Amount::Bytes),
        idle_timeout: IDLE_TIMEOUT,
    };
    let device = SocketDevice::new(socket, stage.mtu);
    let waiter = Waiter::of(&device);
    let mut sender = Sender::connect(device, stage.governances[index].clone(), options, now)?;
    let complete = drive(&waiter, |now| {
        let progress = sender.poll(now);
        *lock(&stage.readings[index]) = sender.read();
        match progress {
            Progress::Over(report) => report.map(|_| Turn::Over(bytes.is_some())),
            // Everything has arrived; the end of the connection is of no interest.
            _ if bytes.is_some_and(|bytes| stage.received[index].load(Relaxed) >= bytes) => {
                Ok(Turn::Over(true))
            }
            Progress::Running(_) if now >= stop || stage.over.load(Relaxed) => Ok(Turn::Over(false)),
            Progress::Running(next) => Ok(Turn::Until(Some(next.map_or(stop, |next| next.min(stop))))),
        }
    });
    Ok(complete?)
}

fn governances(governed: &GovernedFlows, hosts: &[Arc<Host>]) -> Result<Vec<Governance>> {
    let native = Arc::new(Host::detached(HostOptions::default()));
    let flows = governed.governors.iter().zip(&governed.algs);
    let governance = |(governor, alg): (&FlowGovernor, &String)| match governor {
        FlowGovernor::Native => Ok(Governance { host: native.clone(), algorithm: AlgorithmName::NONE }),
        FlowGovernor::Agent(index) => Ok(Governance {
            host: hosts[*index].clone(),
            algorithm: AlgorithmName::new(alg)
                .ok_or_else(|| usage(format!("{alg:?} is too long for an algorithm's name")))?,
        }),
        other => Err(anyhow!("{other:?} is nothing that the user-space TCP has")),
    };
    flows.map(governance).collect()
}
