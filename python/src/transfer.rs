//! A real QUIC transfer in this process: client and server over loopback, the scenario's link between them in user
//! space, and the client's flow governed through an agent's socket, by an algorithm in Python or one of the registry.
//!
//! ```text
//!  client ──UDP──▶ emulated link ──UDP──▶ server        (one tokio runtime)
//!    └ reports ──Unix datagrams──▶ agent (a thread) ──▶ on_flow, on_report; or a law in Rust
//! ```

use crate::algorithm::{Failure, Made};
use crate::scenario::Scenario;
use crate::serve::{Socket, answer_until};
use crate::simulate::{Run, Stop, of_arguments};
use anole_algorithms::{Algorithm, Build, BuildError, Commands, FlowInfo, Report};
use anole_datapath_host::{Host, HostOptions};
use anole_emulator::{EmulatedNetwork, Emulator, EmulatorOptions, Record, UDP_HEADER_BYTES, UdpPorts};
use anole_inference::{BackendSettings, Loader, Serving};
use anole_model::{Dur, Rate, Time};
use anole_quic::{
    AlgorithmName, Amount, ClientOptions, CongestionControl, DatagramSize, Reading, RttSample, Server,
    ServerOptions, Transfer,
};
use anole_sim::plan::{Choice, Custom, resolve};
use anole_sim::result::{FlowResult, LinkResult, RunResult, Series};
use anole_sim::scenario::Scenario as Checked;
use anole_sim::{SERIES_STEP, changes, histogram::Histogram, point_s};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// A peer that is silent for this long is an error: everything runs on this machine.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Sizes of QUIC's datagrams: at least what the protocol asks for, at most what the receiver announces.
const DATAGRAM_BYTES: std::ops::RangeInclusive<u32> = 1200..=1472;

/// Sends for the scenario's length over its links, and returns what was measured, as a run. `alg` and `policy` name an
/// algorithm; `own` is one in Python instead.
#[pyfunction]
#[pyo3(signature = (scenario, alg, policy, own, seed, stop))]
pub fn transfer(
    py: Python<'_>,
    scenario: &Scenario,
    alg: Option<String>,
    policy: Option<String>,
    own: Option<&Bound<'_, PyAny>>,
    seed: u64,
    stop: &Stop,
) -> PyResult<Run> {
    let scenario = &scenario.0;
    check(scenario).map_err(PyValueError::new_err)?;
    let bytes = scenario.full_packet() - UDP_HEADER_BYTES;
    let datagram =
        u16::try_from(bytes).ok().filter(|_| DATAGRAM_BYTES.contains(&bytes)).ok_or_else(|| {
            PyValueError::new_err(format!(
                "mss_bytes = {} makes QUIC datagrams of {bytes} bytes, which have to be {} to {}",
                scenario.mss,
                DATAGRAM_BYTES.start(),
                DATAGRAM_BYTES.end()
            ))
        })?;
    let failure = Failure::default();
    let asked = policy.clone();
    let custom = match own {
        Some(own) => {
            let custom = Made::read(own)?.custom(&failure);
            custom.check(scenario).map_err(|error| PyValueError::new_err(error.to_string()))?;
            custom
        }
        None => known(scenario, &alg.unwrap_or_default(), policy).map_err(PyValueError::new_err)?,
    };
    let alg = custom.name.clone();
    let run = py.detach(|| -> Result<RunResult, String> {
        let folder = tempfile::Builder::new().prefix("anole-").tempdir().map_err(text)?;
        let path = folder.path().join("agent.sock");
        let bound = Socket::bind(&path).map_err(text)?;
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let agent = scope.spawn(|| answer_until(&bound, custom, seed, &failure, &|| done.load(Relaxed)));
            let over = || stop.is_set() || failure.is_there();
            let sent = Sender { scenario, datagram, seed, over: &over, failure: &failure }.send(&path, alg);
            done.store(true, Relaxed);
            agent.join().map_err(|_| "the agent failed".to_string())?.map_err(text)?;
            sent
        })
    });
    match failure.take() {
        Some(error) => Err(error),
        None => run.map(|run| Run(RunResult { policy: asked, ..run })).map_err(PyOSError::new_err),
    }
}

/// Refuses what only a simulation does.
fn check(scenario: &Checked) -> Result<(), String> {
    let [flow] = scenario.flows.as_slice() else {
        return Err(format!("the scenario has {} flows; a transfer has one", scenario.flows.len()));
    };
    if !flow.under_test {
        return Err(format!("scenario \"{}\" has no flow under test; add under_test = true", scenario.name));
    }
    let simulated = [
        (flow.app.is_some(), "app_mbps"),
        (flow.ecn, "ecn"),
        (!flow.preferences.is_empty(), "preferences"),
        (flow.bytes.is_some() || flow.drawn.is_some(), "bytes"),
        (flow.start != Time::ZERO, "start_s"),
    ];
    match simulated.iter().find(|(asked, _)| *asked) {
        None => Ok(()),
        Some((_, key)) => Err(format!(
            "scenario \"{}\" has {key}, which only `simulate` knows: a transfer sends all it can from the start on; leave it out",
            scenario.name
        )),
    }
}

/// An algorithm of the registry, as this module's agent runs it; its slots are those of a simulation.
fn known(scenario: &Checked, alg: &str, policy: Option<String>) -> Result<Custom, String> {
    let refused = |reason: BuildError| format!("alg: {alg}: {}", of_arguments(reason));
    let choice = Choice { alg: Some(alg.to_string()), classic: None, policy };
    let resolved = resolve(scenario, &choice).map_err(of_arguments)?;
    let Choice { classic, policy, .. } = resolved.into_iter().next().unwrap_or_default();
    let spec = anole_algorithms::find(alg).map_err(|reason| format!("alg: {reason}"))?;
    let loader = Loader::new(BackendSettings::default(), Serving::Immediate).map_err(text)?;
    let flow = FlowInfo { mss: scenario.mss, init_cwnd: scenario.mss };
    let (policies, params) = (Arc::new(loader), scenario.params.clone());
    let build = Build { flow, classic, policy, policies, params, seed: 0 };
    spec.build(&build).map_err(refused)?;
    // It has just been built, and neither a flow's sizes nor its seed are a reason to refuse it.
    let make = move |flow, seed| {
        spec.build(&Build { flow, seed, ..build.clone() }).unwrap_or_else(|_| Box::new(Silent))
    };
    Ok(Custom { name: alg.to_string(), programs: spec.programs.to_vec(), make: Arc::new(make) })
}

/// Leaves the flow as it is.
struct Silent;

impl Algorithm for Silent {
    fn start(&mut self, _: Time, _: &mut Commands) {}
    fn on_report(&mut self, _: Time, _: &Report<'_>, _: &mut Commands) {}
}

/// What a transfer is made of.
struct Sender<'a> {
    scenario: &'a Checked,
    datagram: u16,
    seed: u64,
    over: &'a dyn Fn() -> bool,
    failure: &'a Failure,
}

/// Counters so far.
#[derive(Clone, Copy, Default)]
struct Counts {
    /// On the wire, at the receiver.
    wire_bytes: u64,
    /// Payload there.
    payload_bytes: u64,
    sender: Reading,
}

/// What was counted.
struct Counted {
    /// When the flow started: with its handshake, as in `emulate`.
    started: Instant,
    lasted: Duration,
    readings: Vec<Counts>,
    samples: Vec<RttSample>,
    record: Record,
}

impl Sender<'_> {
    fn send(&self, agent: &std::path::Path, alg: String) -> Result<RunResult, String> {
        let began = Instant::now();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(text)?;
        let host = Arc::new(Host::connect(agent, HostOptions::default()).map_err(text)?);
        let counted = runtime.block_on(self.drive(&host))?;
        let wall_s = began.elapsed().as_secs_f64();
        Ok(RunResult { wall_s, ..self.result(alg, &counted) })
    }

    /// How long the flow sends.
    fn length(&self) -> Dur {
        self.scenario.flows[0].stop.since(Time::ZERO)
    }

    async fn drive(&self, host: &Arc<Host>) -> Result<Counted, String> {
        let listen = (Ipv4Addr::LOCALHOST, 0).into();
        let options = ServerOptions { listen, idle_timeout: IDLE_TIMEOUT };
        let server = Arc::new(Server::bind(&options).map_err(text)?);
        let ports = UdpPorts::open(1, server.address().map_err(text)?).map_err(text)?;
        let (entry, exit) = (ports.entries().map_err(text)?[0], ports.exits().map_err(text)?[0]);
        let receiving = tokio::spawn({
            let server = server.clone();
            async move { server.run(tokio::sync::mpsc::unbounded_channel().0).await }
        });
        let network = EmulatedNetwork::of(self.scenario, self.seed);
        let started = Instant::now();
        let options = EmulatorOptions { epoch: started, warmup: self.scenario.warmup };
        let emulator = Emulator::start(network, ports, options).map_err(text)?;
        let (sender, samples) = mpsc::channel();
        let client = ClientOptions {
            remote: entry,
            certificate: server.certificate().clone(),
            idle_timeout: IDLE_TIMEOUT,
            datagram: DatagramSize::Fixed(self.datagram),
            rtt_samples: Some(sender),
        };
        let control = CongestionControl::AnoleCcp { host: host.clone(), algorithm: AlgorithmName::NONE };
        let transfer = Transfer::connect(client, &control).await.map_err(text)?;
        let (meter, counts) = (transfer.meter(), emulator.counts(0));
        let stop = started + Duration::from_nanos(self.length().as_nanos());
        let left = stop.saturating_duration_since(Instant::now());
        let mut sending = tokio::spawn(transfer.run(Amount::Time(left)));
        let step = Duration::from_nanos(SERIES_STEP.as_nanos());
        let mut ticks = tokio::time::interval_at((started + step).into(), step);
        let points = self.length().as_nanos().div_ceil(SERIES_STEP.as_nanos()) as usize;
        let mut end = std::pin::pin!(tokio::time::sleep_until(stop.into()));
        let read = || Counts {
            wire_bytes: counts.delivered_bytes(),
            payload_bytes: server.received_from(exit).map_or(0, |received| received.bytes()),
            sender: meter.read(),
        };
        let mut readings = vec![Counts::default()];
        let ended = loop {
            tokio::select! {
                biased;
                _ = ticks.tick(), if readings.len() < points => {
                    readings.push(read());
                    if let Some(signal) = Python::attach(|py| py.check_signals().err()) {
                        self.failure.note(signal);
                    }
                    if (self.over)() {
                        return Err("the transfer was ended".to_string());
                    }
                }
                () = &mut end => break None,
                report = &mut sending => break Some(report),
            }
        };
        // What arrives while the connection closes is no part of it.
        readings.push(read());
        let lasted = started.elapsed();
        let (record, _ports) = emulator.finish().map_err(text)?;
        let ended = match ended {
            Some(report) => report,
            None => sending.await,
        };
        ended.map_err(text)?.map_err(text)?;
        server.close().await;
        receiving.abort();
        let samples = samples.try_iter().collect();
        Ok(Counted { started, lasted, readings, samples, record })
    }

    fn result(&self, alg: String, counted: &Counted) -> RunResult {
        let scenario = self.scenario;
        let (lasted, step) = (counted.lasted.as_secs_f64(), SERIES_STEP.as_secs_f64());
        // Counts are read once in a step.
        let warm = (scenario.warmup.as_secs_f64() / step).round() as usize;
        let active = lasted - warm as f64 * step;
        let last = counted.readings.last().copied().unwrap_or_default();
        // A flow that was over before the warm-up has no figures.
        let first = counted.readings.get(warm).filter(|_| active > 0.0);
        let mut round_trips = Histogram::default();
        let since = counted.started + Duration::from_nanos(scenario.warmup.as_nanos());
        for sample in counted.samples.iter().filter(|sample| sample.at >= since) {
            round_trips.add(Dur::from_secs_f64(sample.rtt.as_secs_f64()));
        }
        let mbps = |of: fn(&Counts) -> u64| {
            let bytes = of(&last).saturating_sub(of(first?));
            Some(Rate::from_bytes_per_s(bytes as f64 / active).mbps())
        };
        let packets = |of: fn(&Counts) -> u64| first.map(|first| of(&last).saturating_sub(of(first)) as f64);
        let lost = packets(|at| at.sender.lost_packets).zip(packets(|at| at.sender.sent_packets));
        let flow = FlowResult {
            alg: alg.clone(),
            under_test: true,
            start_s: 0.0,
            stop_s: lasted,
            active_s: active.max(0.0),
            optimal_mbps: None,
            throughput_mbps: mbps(|at| at.wire_bytes),
            goodput_mbps: mbps(|at| at.payload_bytes),
            owd_mean_ms: None,
            owd_p50_ms: None,
            owd_p95_ms: None,
            owd_p99_ms: None,
            rtt_mean_ms: round_trips.mean().map(Dur::as_millis_f64),
            rtt_p95_ms: round_trips.quantile(0.95).map(Dur::as_millis_f64),
            ideal_rtt_ms: scenario
                .ideal_rtt(0, &changes(scenario, self.seed), Time::from_secs_f64(lasted))
                .as_millis_f64(),
            loss_rate: lost.map(|(lost, sent)| lost / sent.max(1.0)),
            retransmit_rate: None,
            app_delay: None,
            fct_s: None,
            applied: None,
            decisions: None,
            inferences: None,
            reports: Some(last.sender.reports),
            updates: Some(last.sender.updates),
            governed: Vec::new(),
            series: series(counted, self.length()),
            explained: Vec::new(),
            units: Vec::new(),
        };
        let links = scenario.links.iter().zip(&counted.record.links).map(|(spec, stats)| LinkResult {
            name: spec.name.clone(),
            utilization: stats.utilization,
            loss_rate: stats.loss_rate,
            queue_delay_mean_ms: stats.queue_delay_mean.map(Dur::as_millis_f64),
            queue_delay_p95_ms: stats.queue_delay_p95.map(Dur::as_millis_f64),
            series: None,
        });
        RunResult {
            scenario: scenario.name.clone(),
            mode: "quic",
            alg,
            seed: self.seed,
            version: env!("CARGO_PKG_VERSION"),
            classic: None,
            policy: None,
            backend: None,
            set: Vec::new(),
            wall_s: 0.0,
            links: links.collect(),
            flows: vec![flow],
            jain_index: None,
            disturbed: None,
            optimal_mbps: None,
            measured_s: counted.record.measured.as_secs_f64(),
        }
    }
}

/// The readings as points of [`SERIES_STEP`], the last of which ends with the flow.
fn series(counted: &Counted, length: Dur) -> Series {
    let dt_s = SERIES_STEP.as_secs_f64();
    let points = counted.readings.len().saturating_sub(1);
    let mut sums = vec![(0.0, 0u32); points];
    for sample in &counted.samples {
        let at = sample.at.saturating_duration_since(counted.started).as_secs_f64() / dt_s;
        if let Some(point) = sums.get_mut(at as usize) {
            *point = (point.0 + sample.rtt.as_secs_f64() * 1e3, point.1 + 1);
        }
    }
    let pairs = || counted.readings.iter().zip(counted.readings.iter().skip(1));
    let ends = || counted.readings.iter().skip(1).map(|at| &at.sender);
    let window = |reading: &Reading| u32::try_from(reading.cwnd_bytes).ok();
    Series {
        dt_s,
        throughput_mbps: pairs()
            .enumerate()
            .map(|(number, (from, to))| {
                let bytes = to.wire_bytes.saturating_sub(from.wire_bytes) as f64;
                Rate::from_bytes_per_s(bytes / point_s(length, number)).mbps()
            })
            .collect(),
        rtt_ms: sums.iter().map(|&(sum, n)| (n > 0).then(|| sum / f64::from(n))).collect(),
        cwnd_bytes: Some(ends().map(window).collect()),
        pacing_mbps: Some(ends().map(Reading::pacing_mbps).collect()),
        in_flight_bytes: None,
        lost_packets: Some(
            pairs()
                .map(|(from, to)| to.sender.lost_packets.saturating_sub(from.sender.lost_packets))
                .collect(),
        ),
    }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}
