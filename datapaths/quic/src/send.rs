//! `anole-quic send`.

use crate::cli::{Cc, Send};
use anole::{InProcess, Settings};
use anole_cli::Failure;
use anole_quic::{
    ClientOptions, CongestionControl, DatagramSize, Meter, QuicError, ServerCertificate, Transfer,
};
use anole_transfer::trace::{TraceWriteError, TraceWriter};
use anole_transfer::{TransferReport, summarise};
use anyhow::{Context, anyhow};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Opens the connections, sends on all of them and summarises.
pub async fn run(options: Send) -> Result<(), Failure> {
    let usage = |error: anyhow::Error| Failure::Usage(error);
    let certificate = ServerCertificate::read(&options.cert).context("--cert").map_err(usage)?;
    let cc = congestion_control(&options)?;
    let mut trace = match &options.transfer.trace {
        Some(path) => Some(TraceWriter::create(path).map_err(|error| Failure::Usage(error.into()))?),
        None => None,
    };
    let amount = options.transfer.amount();
    let client = ClientOptions {
        remote: options.remote,
        certificate,
        idle_timeout: options.transfer.idle_timeout,
        datagram: options.datagram_bytes.map_or(DatagramSize::Discovered, DatagramSize::Fixed),
        rtt_samples: None,
    };
    let mut opening = JoinSet::new();
    for _ in 0..options.connections {
        let (client, cc) = (client.clone(), cc.clone());
        opening.spawn(async move { Transfer::connect(client, &cc).await });
    }
    let mut interrupted = pin!(crate::interrupted());
    let interruption =
        |told: io::Result<()>| Failure::Run(told.map_or_else(Into::into, |()| anyhow!("interrupted")));
    let transfers = tokio::select! {
        transfers = opening.join_all() => transfers,
        told = &mut interrupted => return Err(interruption(told)),
    };
    let transfers = transfers.into_iter().collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let opened: Vec<_> = transfers.iter().map(|transfer| (transfer.meter(), transfer.handshake())).collect();
    let started = Instant::now();

    let mut running = JoinSet::new();
    for transfer in transfers {
        running.spawn(transfer.run(amount));
    }
    let interval = options.transfer.trace_interval();
    let all = running.join_all();
    let mut failure = None;
    let reports = tokio::select! {
        ended = all => ended
            .into_iter()
            .filter_map(|report| report.map_err(|error| failure = failure.take().or(Some(failed(error)))).ok())
            .collect(),
        error = watch(&mut trace, &opened, interval) => return Err(Failure::Run(error.into())),
        told = &mut interrupted => {
            failure = Some(interruption(told));
            let report = |(meter, handshake): &(Arc<Meter>, _)| TransferReport {
                handshake: *handshake,
                elapsed: started.elapsed(),
                reading: meter.read(),
            };
            opened.iter().map(report).collect::<Vec<_>>()
        }
    };
    // What was recorded until a connection ended, or somebody ended all of them, is told in any case.
    if let Some(trace) = trace {
        trace.finish().map_err(|error| Failure::Run(error.into()))?;
    }
    let (cc, alg) = (options.cc.name(), options.transfer.alg.as_deref());
    if !reports.is_empty() {
        summarise(cc, alg, &reports, options.transfer.json);
    }
    failure.map_or(Ok(()), Err)
}

fn congestion_control(options: &Send) -> Result<CongestionControl, Failure> {
    for (flag, given) in [("--agent", options.transfer.agent.is_some()), ("--in-process", options.in_process)]
    {
        if given && options.cc != Cc::AnoleCcp {
            let error =
                anyhow!("{flag} goes with --cc anole-ccp; --cc {} is the stack's own", options.cc.name());
            return Err(Failure::Usage(error));
        }
    }
    match options.cc {
        Cc::Cubic => Ok(CongestionControl::Cubic),
        Cc::Bbr => Ok(CongestionControl::Bbr),
        Cc::Newreno => Ok(CongestionControl::NewReno),
        Cc::AnoleCcp if options.in_process => {
            let algorithm = options.transfer.alg.clone();
            let settings = algorithm
                .map_or_else(Settings::default, |algorithm| Settings { algorithm, ..Settings::default() });
            let governed_by = InProcess::new(settings).context("--alg").map_err(Failure::Usage)?;
            Ok(CongestionControl::InProcess(governed_by))
        }
        Cc::AnoleCcp => {
            let (host, algorithm) = options.transfer.host()?;
            Ok(CongestionControl::AnoleCcp { host, algorithm })
        }
    }
}

/// Writes the trace for as long as it is awaited; returns only when that fails.
async fn watch(
    trace: &mut Option<TraceWriter>,
    opened: &[(Arc<Meter>, Duration)],
    interval: Duration,
) -> TraceWriteError {
    let Some(trace) = trace else { return std::future::pending().await };
    let started = Instant::now();
    let mut ticks = tokio::time::interval(interval);
    loop {
        ticks.tick().await;
        let time_s = started.elapsed().as_secs_f64();
        for (connection, (meter, _)) in opened.iter().enumerate() {
            if let Err(error) = trace.add(time_s, connection, &meter.read()) {
                return error;
            }
        }
    }
}

fn failed(error: QuicError) -> Failure {
    Failure::Run(error.into())
}
