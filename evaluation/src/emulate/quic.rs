//! One run over QUIC: agents, server, emulator and clients brought up, driven in real time, and taken down.

use super::between::{Between, EmulatorKind, Mahimahi, Ready};
use super::figures::{self, Raw, exchange};
use super::flood::Flood;
use super::govern::{FlowGovernor, GovernedFlows, Stack};
use super::interrupt::interrupted;
use super::outage::Agents;
use super::server::{IDLE_TIMEOUT, ServerThread};
use super::timeline::{FlowEnd, Snapshot, Timeline, arrived, since_epoch};
use super::{AgentArgs, warn_of_lost};
use crate::options::usage;
use anole_datapath_host::{Host, HostOptions};
use anole_emulator::{EmulatedNetwork, EmulatorError, Hosts, RoundTrip, UDP_HEADER_BYTES, UdpPorts};
use anole_model::{Dur, Time};
use anole_quic::{
    AlgorithmName, Amount, ClientOptions, CongestionControl, DatagramSize, Meter, RttSample, Server,
    ServerCertificate, Transfer,
};
use anole_sim::result::RunResult;
use anole_sim::scenario::{FlowSpec, Scenario};
use anyhow::{Context, Result, anyhow};
use indicatif::ProgressBar;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::time::{Duration, Instant};
use tokio::time::sleep_until;

/// Datagrams of QUIC: at least what the protocol asks for, at most what the receiver announces.
const DATAGRAM_BYTES: std::ops::RangeInclusive<u32> = 1200..=1472;

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
    let datagram = datagram(scenario)?;
    // Sockets, statistics and logs of the agents; removed at the end, whatever it is.
    let folder = tempfile::Builder::new().prefix("anole-").tempdir().context("cannot make a folder")?;
    let agents = Agents::start(binary, folder.path(), &governed.agents, seed, &asked.agent_outage)?;
    let sockets: Vec<PathBuf> = agents.sockets().collect();
    let hosts = agents.hosts()?;
    let Ends { server, namespaces, ready, entries, exits } = match emulator {
        EmulatorKind::Own => Ends::on_loopback(scenario, seed)?,
        EmulatorKind::Mahimahi => Ends::in_namespaces(scenario)?,
    };
    let epoch = Instant::now();

    let stage = Arc::new(Stage {
        timeline: Timeline::new(scenario, epoch),
        datagram,
        certificate: server.server.certificate().clone(),
        controls: controls(governed, &hosts)?,
        meters: scenario.flows.iter().map(|_| OnceLock::new()).collect(),
        server: server.server.clone(),
        between: ready.start(scenario, epoch)?,
        own_port: namespaces.is_some(),
        entries,
        exits,
    });
    drop(hosts);
    let agents = agents.play(epoch)?;
    let flood = match asked.agent_flood {
        wanted if wanted > 0 && !sockets.is_empty() => {
            let span = Duration::from_nanos(scenario.duration.as_nanos());
            Some(Flood::start(sockets, wanted, span, seed)?)
        }
        _ => None,
    };
    let all = || -> Result<_> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // Its end ends every connection, and with them their flows at the agent.
        runtime.block_on(async {
            tokio::select! {
                driven = drive(&stage, bar) => driven,
                () = interrupted() => Err(anyhow!("interrupted")),
            }
        })
    };
    let driven = match &namespaces {
        None => all(),
        Some(hosts) => hosts.sender.run(|| Ok(all()))?,
    };
    if let Some(flood) = flood {
        let outcome = flood.finish()?;
        bar.suspend(|| eprintln!("{outcome}"));
    }
    let (ends, samples) = driven?;
    let stage = Arc::into_inner(stage).ok_or_else(|| anyhow!("a task outlived its run"))?;
    let (record, ports) = stage.between.finish(scenario)?;
    warn_of_lost(record.timer.send_failures, bar);
    drop((stage.controls, server));
    let lines = agents.finish()?;
    let readings = stage.meters.iter().map(|meter| meter.get().map(|meter| meter.read()));
    let flows = readings.zip(&governed.governors);
    let round_trip = |sample: &RttSample| RoundTrip {
        at: Time::ZERO + since_epoch(epoch, sample.at),
        rtt: Dur::from_secs_f64(sample.rtt.as_secs_f64()),
    };
    let raw = Raw {
        mode: match ports {
            None => "mahimahi-quic",
            Some(_) if governed.in_process.is_empty() => "quic",
            Some(_) => "in-process",
        },
        record,
        ends,
        round_trips: samples.iter().map(|samples| samples.iter().map(round_trip).collect()).collect(),
        exchanges: flows.map(|(reading, governor)| exchange(reading, governor, &lines)).collect(),
        notes: stage.timeline.into_notes(),
    };
    let wall_s = started.elapsed().as_secs_f64();
    Ok(RunResult { wall_s, ..figures::result(scenario, governed, seed, epoch, &raw) })
}

/// Both ends of every flow, and what will lie between them.
struct Ends {
    server: ServerThread,
    /// Namespaces, if the ends are in some.
    namespaces: Option<Arc<Hosts>>,
    ready: Ready<UdpPorts>,
    /// Per flow: where its client sends to, and under which address the server sees it.
    entries: Vec<SocketAddr>,
    exits: Vec<SocketAddr>,
}

impl Ends {
    fn on_loopback(scenario: &Scenario, seed: u64) -> Result<Ends> {
        let server = ServerThread::start((Ipv4Addr::LOCALHOST, 0).into())?;
        let ports = UdpPorts::open(scenario.flows.len(), server.server.address()?)?;
        let (entries, exits) = (ports.entries()?, ports.exits()?);
        let network = EmulatedNetwork::of(scenario, seed);
        Ok(Ends { server, namespaces: None, ready: Ready::Own(ports, network), entries, exits })
    }

    fn in_namespaces(scenario: &Scenario) -> Result<Ends> {
        let mahimahi = Mahimahi::start(scenario)?;
        let hosts = mahimahi.hosts.clone();
        let destination: SocketAddr = Hosts::destination().into();
        let server = hosts.receiver.run(|| Ok::<_, EmulatorError>(ServerThread::start(destination)))??;
        let flows = 0..scenario.flows.len();
        Ok(Ends {
            server,
            namespaces: Some(hosts),
            ready: Ready::Mahimahi(mahimahi),
            entries: vec![destination; flows.len()],
            exits: flows.map(|flow| Hosts::source(flow).into()).collect(),
        })
    }
}

/// What the tasks of a run share.
struct Stage {
    timeline: Timeline,
    datagram: u16,
    certificate: ServerCertificate,
    controls: Vec<CongestionControl>,
    meters: Vec<OnceLock<Arc<Meter>>>,
    server: Arc<Server>,
    between: Between<UdpPorts>,
    /// A flow's socket has to have the port of its source.
    own_port: bool,
    /// Per flow: where its client sends to, and under which address the server sees it.
    entries: Vec<SocketAddr>,
    exits: Vec<SocketAddr>,
}

impl Stage {
    fn snapshot(&self, flow: usize) -> Snapshot {
        let reading = self.meters[flow].get().map(|meter| meter.read()).unwrap_or_default();
        let received = self.server.received_from(self.exits[flow]);
        let payload_bytes = received.map_or(0, |received| received.bytes());
        Snapshot {
            wire_bytes: self.between.delivered_bytes(flow, payload_bytes, &self.timeline.scenario),
            payload_bytes,
            ..Snapshot::of(&reading)
        }
    }

    fn snapshots(&self) -> Vec<Snapshot> {
        (0..self.timeline.scenario.flows.len()).map(|flow| self.snapshot(flow)).collect()
    }
}

/// Runs every flow until the scenario's end; how each ended, and what its sender measured.
async fn drive(stage: &Arc<Stage>, bar: &ProgressBar) -> Result<(Vec<FlowEnd>, Vec<Vec<RttSample>>)> {
    let samples: Mutex<Vec<mpsc::Receiver<RttSample>>> = Mutex::default();
    let flow = |index| {
        let (sender, receiver) = mpsc::channel();
        samples.lock().unwrap_or_else(PoisonError::into_inner).push(receiver);
        let stage = stage.clone();
        async move { drive_flow(&stage, index, sender).await }
    };
    let ends = stage.timeline.drive(flow, || stage.snapshots(), bar).await?;
    let samples = samples.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((ends, samples.into_iter().map(|receiver| receiver.try_iter().collect()).collect()))
}

/// One flow from its start to its stop.
async fn drive_flow(stage: &Stage, index: usize, rtt_samples: mpsc::Sender<RttSample>) -> Result<FlowEnd> {
    let spec: &FlowSpec = &stage.timeline.scenario.flows[index];
    let (start, stop) = stage.timeline.span(index);
    sleep_until(start.into()).await;
    let options = ClientOptions {
        remote: stage.entries[index],
        certificate: stage.certificate.clone(),
        idle_timeout: IDLE_TIMEOUT,
        datagram: DatagramSize::Fixed(stage.datagram),
        rtt_samples: Some(rtt_samples),
    };
    let note_end = |at: Instant, complete: bool| {
        stage.timeline.note_over(|| stage.snapshots());
        FlowEnd { at, complete, snapshot: stage.snapshot(index) }
    };
    if stage.own_port {
        // The socket is bound when the connection begins, before anything else runs on this thread.
        Hosts::next_port_of(index)?;
    }
    let transfer = tokio::select! {
        transfer = Transfer::connect(options, &stage.controls[index]) => transfer?,
        () = sleep_until(stop.into()) => return Ok(note_end(stop, false)),
    };
    let _ = stage.meters[index].set(transfer.meter());
    let connected = Instant::now();
    let amount = match spec.bytes {
        Some(bytes) => Amount::Bytes(bytes),
        None => Amount::Time(stop.saturating_duration_since(connected)),
    };
    let mut sending = tokio::spawn(transfer.run(amount));
    let received = || stage.server.received_from(stage.exits[index]).map_or(0, |received| received.bytes());
    tokio::select! {
        // Its sender learns of that later, and closes by itself.
        () = arrived(spec.bytes, received) => Ok(note_end(Instant::now(), true)),
        report = &mut sending => {
            let report = report.context("a transfer's task failed")??;
            Ok(note_end(connected + report.elapsed, spec.bytes.is_some()))
        }
        () = sleep_until(stop.into()) => {
            let end = note_end(stop, false);
            // A timed transfer closes by itself at this moment; a sized one that is late does not.
            if spec.bytes.is_some() {
                sending.abort();
            }
            Ok(end)
        }
    }
}

/// A full packet of the scenario as a UDP payload.
fn datagram(scenario: &Scenario) -> Result<u16> {
    let bytes = scenario.full_packet() - UDP_HEADER_BYTES;
    match u16::try_from(bytes) {
        Ok(datagram) if DATAGRAM_BYTES.contains(&bytes) => Ok(datagram),
        _ => {
            let overhead = scenario.full_packet() - scenario.mss - UDP_HEADER_BYTES;
            Err(usage(format!(
                "mss_bytes = {} makes QUIC datagrams of {bytes} bytes, which have to be {} to {}; emulate needs mss_bytes from {} to {}",
                scenario.mss,
                DATAGRAM_BYTES.start(),
                DATAGRAM_BYTES.end(),
                DATAGRAM_BYTES.start() - overhead,
                DATAGRAM_BYTES.end() - overhead,
            )))
        }
    }
}

fn controls(governed: &GovernedFlows, hosts: &[Arc<Host>]) -> Result<Vec<CongestionControl>> {
    let native = Arc::new(Host::detached(HostOptions::default()));
    let flows = governed.governors.iter().zip(&governed.algs);
    flows
        .map(|(governor, alg)| {
            Ok(match governor {
                FlowGovernor::Stack(Stack::Cubic) => CongestionControl::Cubic,
                FlowGovernor::Stack(Stack::Bbr) => CongestionControl::Bbr,
                FlowGovernor::Stack(Stack::NewReno) => CongestionControl::NewReno,
                FlowGovernor::Native => {
                    CongestionControl::AnoleCcp { host: native.clone(), algorithm: AlgorithmName::NONE }
                }
                FlowGovernor::Linux(name) => {
                    return Err(usage(format!("\"linux:{name}\" needs --datapath kernel")));
                }
                FlowGovernor::InProcess(index) => {
                    CongestionControl::InProcess(governed.in_process[*index].clone())
                }
                FlowGovernor::Agent(index) => CongestionControl::AnoleCcp {
                    host: hosts[*index].clone(),
                    algorithm: AlgorithmName::new(alg)
                        .ok_or_else(|| usage(format!("{alg:?} is too long for an algorithm's name")))?,
                },
            })
        })
        .collect()
}
