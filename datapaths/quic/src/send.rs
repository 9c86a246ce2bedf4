//! `anole-quic send`.

use crate::cli::{Cc, Send};
use anole_cli::Failure;
use anole_datapath::wire::AlgorithmName;
use anole_datapath_host::{Host, HostOptions};
use anole_quic::trace::{TraceWriteError, TraceWriter};
use anole_quic::{
    Amount, Certificate, ClientOptions, CongestionControl, DatagramSize, Meter, QuicError, Transfer,
    TransferReport,
};
use anyhow::{Context, anyhow};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// What a transfer without --size and --duration does.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// Opens the connections, sends on all of them and summarises.
pub async fn run(options: Send) -> Result<(), Failure> {
    let usage = |error: anyhow::Error| Failure::Usage(error);
    let certificate = Certificate::read(&options.cert).context("--cert").map_err(usage)?;
    let cc = congestion_control(&options)?;
    let mut trace = match &options.trace {
        Some(path) => Some(TraceWriter::create(path).map_err(|error| Failure::Usage(error.into()))?),
        None => None,
    };
    let amount = match (options.size, options.duration) {
        (Some(bytes), _) => Amount::Bytes(bytes),
        (None, duration) => Amount::Time(duration.unwrap_or(DEFAULT_DURATION)),
    };
    let client = ClientOptions {
        remote: options.remote,
        certificate,
        idle_timeout: options.idle_timeout,
        datagram: options.datagram_bytes.map_or(DatagramSize::Discovered, DatagramSize::Fixed),
        rtt_samples: None,
    };
    let mut opening = JoinSet::new();
    for _ in 0..options.connections {
        let (client, cc) = (client.clone(), cc.clone());
        opening.spawn(async move { Transfer::connect(client, &cc).await });
    }
    let transfers = opening.join_all().await.into_iter().collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let meters: Vec<Arc<Meter>> = transfers.iter().map(Transfer::meter).collect();

    let mut running = JoinSet::new();
    for transfer in transfers {
        running.spawn(transfer.run(amount));
    }
    let interval = Duration::from_millis(options.trace_interval_ms);
    let all = running.join_all();
    let reports = tokio::select! {
        reports = all => reports,
        error = watch(&mut trace, &meters, interval) => return Err(Failure::Run(error.into())),
        _ = tokio::signal::ctrl_c() => return Err(Failure::Run(anyhow!("interrupted"))),
    };
    let reports = reports.into_iter().collect::<Result<Vec<_>, _>>().map_err(failed)?;
    if let Some(trace) = trace {
        trace.finish().map_err(|error| Failure::Run(error.into()))?;
    }
    summarise(&options, &reports);
    Ok(())
}

fn congestion_control(options: &Send) -> Result<CongestionControl, Failure> {
    if options.cc != Cc::AnoleCcp && options.agent.is_some() {
        let error =
            anyhow!("--agent goes with --cc anole-ccp; --cc {} is the stack's own", options.cc.name());
        return Err(Failure::Usage(error));
    }
    match options.cc {
        Cc::Cubic => Ok(CongestionControl::Cubic),
        Cc::Bbr => Ok(CongestionControl::Bbr),
        Cc::Newreno => Ok(CongestionControl::NewReno),
        Cc::AnoleCcp => {
            let name = options.alg.as_deref().unwrap_or("");
            let algorithm = AlgorithmName::new(name)
                .ok_or_else(|| Failure::Usage(anyhow!("--alg {name:?}: at most 63 bytes without NUL")))?;
            let host = match &options.agent {
                Some(agent) => Host::connect(agent, HostOptions::default())
                    .with_context(|| format!("--agent {}", agent.display()))
                    .map_err(Failure::Usage)?,
                None => Host::detached(HostOptions::default()),
            };
            Ok(CongestionControl::AnoleCcp { host: Arc::new(host), algorithm })
        }
    }
}

/// Writes the trace for as long as it is awaited; returns only when that fails.
async fn watch(
    trace: &mut Option<TraceWriter>,
    meters: &[Arc<Meter>],
    interval: Duration,
) -> TraceWriteError {
    let Some(trace) = trace else { return std::future::pending().await };
    let started = Instant::now();
    let mut ticks = tokio::time::interval(interval);
    loop {
        ticks.tick().await;
        let time_s = started.elapsed().as_secs_f64();
        for (connection, meter) in meters.iter().enumerate() {
            if let Err(error) = trace.add(time_s, connection, &meter.read()) {
                return error;
            }
        }
    }
}

fn failed(error: QuicError) -> Failure {
    Failure::Run(error.into())
}

fn summarise(options: &Send, reports: &[TransferReport]) {
    let total: f64 = reports.iter().map(TransferReport::throughput_mbps).sum();
    if options.json {
        let connections: Vec<_> = reports
            .iter()
            .map(|report| {
                let r = &report.reading;
                serde_json::json!({
                    "handshake_s": report.handshake.as_secs_f64(), "elapsed_s": report.elapsed.as_secs_f64(),
                    "throughput_mbps": report.throughput_mbps(),
                    "sent_packets": r.sent_packets, "sent_bytes": r.sent_bytes,
                    "delivered_packets": r.delivered_packets, "delivered_bytes": r.delivered_bytes,
                    "lost_packets": r.lost_packets, "rtt_ms": r.rtt_ms(), "cwnd_bytes": r.cwnd_bytes,
                    "pacing_mbps": r.pacing_mbps(), "governor": r.governor.name(),
                    "reports": r.reports, "updates": r.updates, "fallbacks": r.fallbacks,
                })
            })
            .collect();
        let summary = serde_json::json!({
            "cc": options.cc.name(), "alg": options.alg, "throughput_mbps": total, "connections": connections,
        });
        return tell(&summary.to_string());
    }
    for (index, report) in reports.iter().enumerate() {
        let r = &report.reading;
        tell(&format!(
            "{index}: {:.2} Mbps, {} of {} packets lost, RTT {} ms, window {} bytes, {}, {} ({} reports, {} commands, {} fallbacks)",
            report.throughput_mbps(),
            r.lost_packets,
            r.sent_packets,
            r.rtt_ms().map_or("?".to_string(), |ms| format!("{ms:.1}")),
            r.cwnd_bytes,
            r.pacing_mbps()
                .map_or("paced by the window".to_string(), |mbps| format!("pacing {mbps:.2} Mbps")),
            r.governor.name(),
            r.reports,
            r.updates,
            r.fallbacks,
        ));
    }
    tell(&format!("total: {total:.2} Mbps"));
}

/// A line on standard output; whoever closed it does not want it.
fn tell(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
