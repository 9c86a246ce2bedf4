//! One run: agents, server, emulator and clients brought up, driven in real time, and taken down.

use super::AgentArgs;
use super::figures::{self, FlowEnd, Raw, Snapshot};
use super::flood::Flood;
use super::govern::{Governed, Governor, Stack};
use super::outage::Agents;
use super::server::ServerThread;
use crate::options::usage;
use anole_datapath_host::{Host, HostOptions};
use anole_emulator::{Emulator, EmulatorOptions, Network, NetworkLink, Route, UDP_HEADER_BYTES};
use anole_model::{Dur, Time};
use anole_quic::{
    AlgorithmName, Amount, Certificate, ClientOptions, CongestionControl, DatagramSize, Meter, RttSample,
    Server, Transfer,
};
use anole_sim::result::RunResult;
use anole_sim::scenario::{FlowSpec, Scenario};
use anole_sim::{SERIES_STEP, changes, link_configs};
use anyhow::{Context, Result, anyhow};
use indicatif::ProgressBar;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::sleep_until;

/// A peer that is silent for this long is an error: everything runs on this machine.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Datagrams of QUIC: at least what the protocol asks for, at most what the receiver announces.
const DATAGRAM_BYTES: std::ops::RangeInclusive<u32> = 1200..=1472;

/// Runs a scenario once.
pub fn run(
    scenario: &Scenario,
    governed: &Governed,
    seed: u64,
    binary: Option<&Path>,
    asked: &AgentArgs,
    bar: &ProgressBar,
) -> Result<RunResult> {
    let started = Instant::now();
    let datagram = datagram(scenario)?;
    // Sockets, statistics and logs of the agents; removed at the end, whatever it is.
    let folder = tempfile::Builder::new().prefix("anole-").tempdir().context("cannot make a folder")?;
    let agents = Agents::start(binary, folder.path(), &governed.agents, seed, &asked.agent_outage)?;
    let sockets: Vec<PathBuf> = agents.sockets().collect();
    let hosts = sockets.iter().map(|socket| Host::connect(socket, HostOptions::default()).map(Arc::new));
    let hosts: Vec<Arc<Host>> = hosts.collect::<Result<_, _>>()?;
    let server = ServerThread::start()?;
    let epoch = Instant::now();
    let options = EmulatorOptions { server: server.server.address()?, epoch, warmup: scenario.warmup };
    let emulator = Emulator::start(network(scenario, seed), options)?;

    let stage = Arc::new(Stage {
        scenario: scenario.clone(),
        epoch,
        datagram,
        certificate: server.server.certificate().clone(),
        controls: controls(governed, &hosts)?,
        meters: scenario.flows.iter().map(|_| OnceLock::new()).collect(),
        server: server.server.clone(),
        emulator,
        notes: Mutex::default(),
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
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let driven = runtime.block_on(async {
        tokio::select! {
            driven = drive(&stage, bar) => driven,
            () = interrupted() => Err(anyhow!("interrupted")),
        }
    });
    // Ends every connection, and with them their flows at the agent.
    drop(runtime);
    if let Some(flood) = flood {
        let outcome = flood.finish()?;
        bar.suspend(|| eprintln!("{outcome}"));
    }
    let (ends, rtts) = driven?;
    let stage = Arc::into_inner(stage).ok_or_else(|| anyhow!("a task outlived its run"))?;
    let record = stage.emulator.finish()?;
    drop((stage.controls, server));
    let lines = agents.finish()?;
    let raw = Raw {
        record,
        ends,
        rtts,
        readings: stage.meters.iter().map(|meter| meter.get().map(|meter| meter.read())).collect(),
        notes: stage.notes.into_inner().unwrap_or_else(PoisonError::into_inner),
        lines,
    };
    let wall_s = started.elapsed().as_secs_f64();
    Ok(RunResult { wall_s, ..figures::result(scenario, governed, seed, epoch, &raw) })
}

/// What the tasks of a run share.
struct Stage {
    scenario: Scenario,
    epoch: Instant,
    datagram: u16,
    certificate: Certificate,
    controls: Vec<CongestionControl>,
    meters: Vec<OnceLock<Arc<Meter>>>,
    server: Arc<Server>,
    emulator: Emulator,
    notes: Mutex<Notes>,
}

/// What was noted at certain moments.
#[derive(Debug, Default)]
pub struct Notes {
    /// Every flow at the end of the warm-up.
    pub warm: Vec<Snapshot>,
    /// Every flow when all had started, and when the first was over.
    pub all_active: Option<Vec<Snapshot>>,
    pub one_over: Option<Vec<Snapshot>>,
    /// Bytes delivered per flow at the end of each step of the series.
    pub steps: Vec<Vec<u64>>,
}

impl Stage {
    fn at(&self, time: Time) -> Instant {
        self.epoch + Duration::from_nanos(time.as_nanos())
    }

    fn snapshot(&self, flow: usize) -> Snapshot {
        let reading = self.meters[flow].get().map(|meter| meter.read()).unwrap_or_default();
        Snapshot {
            wire_bytes: self.emulator.counts(flow).delivered_bytes(),
            payload_bytes: self
                .server
                .received_from(self.emulator.exit(flow))
                .map_or(0, |received| received.bytes()),
            sent_packets: reading.sent_packets,
            lost_packets: reading.lost_packets,
        }
    }

    fn snapshots(&self) -> Vec<Snapshot> {
        (0..self.scenario.flows.len()).map(|flow| self.snapshot(flow)).collect()
    }

    fn notes(&self) -> std::sync::MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs every flow and takes every note, until the scenario's end.
async fn drive(stage: &Arc<Stage>, bar: &ProgressBar) -> Result<(Vec<FlowEnd>, Vec<Vec<RttSample>>)> {
    let mut tasks = JoinSet::new();
    let mut samples = Vec::new();
    for index in 0..stage.scenario.flows.len() {
        let (sender, receiver) = mpsc::channel();
        samples.push(receiver);
        let stage = stage.clone();
        tasks.spawn(async move {
            let end = drive_flow(&stage, index, sender).await;
            end.map(|end| (index, end)).with_context(|| format!("flow {}", index + 1))
        });
    }
    let flows = async {
        let mut ends = Vec::new();
        while let Some(ended) = tasks.join_next().await {
            ends.push(ended.context("a flow's task failed")??);
        }
        ends.sort_by_key(|&(index, _)| index);
        anyhow::Ok(ends.into_iter().map(|(_, end)| end).collect())
    };
    let notes = async {
        tokio::join!(take_notes(stage), take_steps(stage, bar));
        anyhow::Ok(())
    };
    let (ends, ()) = tokio::try_join!(flows, notes)?;
    Ok((ends, samples.into_iter().map(|receiver| receiver.try_iter().collect()).collect()))
}

/// One flow from its start to its stop.
async fn drive_flow(stage: &Stage, index: usize, rtt_samples: mpsc::Sender<RttSample>) -> Result<FlowEnd> {
    let spec: &FlowSpec = &stage.scenario.flows[index];
    let (start, stop) = (stage.at(spec.start), stage.at(spec.stop.min(stage.scenario.end())));
    sleep_until(start.into()).await;
    let options = ClientOptions {
        remote: stage.emulator.entry(index),
        certificate: stage.certificate.clone(),
        idle_timeout: IDLE_TIMEOUT,
        datagram: DatagramSize::Fixed(stage.datagram),
        rtt_samples: Some(rtt_samples),
    };
    let note_end = |at: Instant, complete: bool| {
        let mut notes = stage.notes();
        if notes.one_over.is_none() {
            notes.one_over = Some(stage.snapshots());
        }
        FlowEnd { at, complete, snapshot: stage.snapshot(index) }
    };
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
    tokio::select! {
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

async fn take_notes(stage: &Stage) {
    let warm = Time::ZERO + stage.scenario.warmup;
    sleep_until(stage.at(warm).into()).await;
    stage.notes().warm = stage.snapshots();
    let all_started = stage.scenario.flows.iter().map(|flow| flow.start).fold(warm, Time::max);
    sleep_until(stage.at(all_started).into()).await;
    stage.notes().all_active = Some(stage.snapshots());
}

async fn take_steps(stage: &Stage, bar: &ProgressBar) {
    let mut at = Time::ZERO;
    while at < stage.scenario.end() {
        let step = SERIES_STEP.min(stage.scenario.end().since(at));
        at += step;
        sleep_until(stage.at(at).into()).await;
        let bytes = (0..stage.scenario.flows.len()).map(|flow| stage.emulator.counts(flow).delivered_bytes());
        stage.notes().steps.push(bytes.collect());
        bar.inc(step.as_micros() / 1000);
    }
}

async fn interrupted() {
    match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
        (Ok(mut interrupt), Ok(mut terminate)) => {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        }
        // Without handlers the system's own apply.
        _ => std::future::pending().await,
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

fn network(scenario: &Scenario, seed: u64) -> Network<Vec<u8>> {
    let links = link_configs(scenario, seed)
        .into_iter()
        .zip(&scenario.links)
        .map(|(config, spec)| NetworkLink { config, reverse_delay: spec.reverse_delay })
        .collect();
    let routes = scenario
        .flows
        .iter()
        .map(|flow| Route { path: flow.path.clone(), extra_delay: flow.extra_delay })
        .collect();
    Network::new(links, routes, changes(scenario, seed))
}

fn controls(governed: &Governed, hosts: &[Arc<Host>]) -> Result<Vec<CongestionControl>> {
    let native = Arc::new(Host::detached(HostOptions::default()));
    let flows = governed.governors.iter().zip(&governed.algs);
    flows
        .map(|(governor, alg)| {
            Ok(match governor {
                Governor::Stack(Stack::Cubic) => CongestionControl::Cubic,
                Governor::Stack(Stack::Bbr) => CongestionControl::Bbr,
                Governor::Stack(Stack::NewReno) => CongestionControl::NewReno,
                Governor::Native => {
                    CongestionControl::AnoleCcp { host: native.clone(), algorithm: AlgorithmName::NONE }
                }
                Governor::Agent(index) => CongestionControl::AnoleCcp {
                    host: hosts[*index].clone(),
                    algorithm: AlgorithmName::new(alg)
                        .ok_or_else(|| usage(format!("{alg:?} is too long for an algorithm's name")))?,
                },
            })
        })
        .collect()
}

/// How long after the epoch.
pub fn since_epoch(epoch: Instant, at: Instant) -> Dur {
    Dur::from_secs_f64(at.saturating_duration_since(epoch).as_secs_f64())
}
