//! `anole-quic send`.

use crate::cli::{Cc, Send};
use anole::{InProcess, Settings};
use anole_cli::Failure;
use anole_quic::{
    ClientOptions, Closing, CongestionControl, DatagramSize, Meter, QuicError, ServerCertificate, Transfer,
};
use anole_transfer::trace::{TraceWriteError, TraceWriter};
use anole_transfer::{TransferReport, summarise};
use anyhow::{Context, anyhow};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior};

/// A connection, as it is seen beside its transfer.
struct Opened {
    meter: Arc<Meter>,
    handshake: Duration,
    closing: Closing,
}

impl Opened {
    fn of(transfer: &Transfer) -> Opened {
        Opened { meter: transfer.meter(), handshake: transfer.handshake(), closing: transfer.closing() }
    }
}

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
    let mut transfers = Vec::new();
    let refused = loop {
        tokio::select! {
            next = opening.join_next() => match next {
                Some(Ok(Ok(transfer))) => transfers.push(transfer),
                Some(Ok(Err(error))) => break Some(failed(error)),
                Some(Err(error)) => break Some(Failure::Run(error.into())),
                None => break None,
            },
            told = &mut interrupted => break Some(interruption(told)),
        }
    };
    if let Some(failure) = refused {
        close(transfers.iter().map(Opened::of).collect()).await;
        return Err(failure);
    }
    let opened: Vec<_> = transfers.iter().map(Opened::of).collect();
    let started = Instant::now();

    let mut running = JoinSet::new();
    for (number, transfer) in transfers.into_iter().enumerate() {
        running.spawn(async move { (number, transfer.run(amount).await) });
    }
    let interval = options.transfer.trace_interval();
    let all = running.join_all();
    let (reports, failure) = tokio::select! {
        ended = all => {
            let (reports, failure) = in_order(ended);
            (reports, failure.map(failed))
        }
        error = watch(&mut trace, &opened, interval) => {
            close(opened).await;
            return Err(Failure::Run(error.into()));
        }
        told = &mut interrupted => {
            let elapsed = started.elapsed();
            let report = |opened: &Opened| TransferReport {
                handshake: opened.handshake,
                elapsed,
                reading: opened.meter.read(),
            };
            let reports = opened.iter().map(report).enumerate().collect();
            close(opened).await;
            (reports, Some(interruption(told)))
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

/// What came of the connections, by their numbers in the trace; the first failure.
fn in_order<E>(
    mut ended: Vec<(usize, Result<TransferReport, E>)>,
) -> (Vec<(usize, TransferReport)>, Option<E>) {
    ended.sort_by_key(|(number, _)| *number);
    let mut failure = None;
    let mut reports = Vec::new();
    for (number, end) in ended {
        match end {
            Ok(report) => reports.push((number, report)),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    (reports, failure)
}

/// Ends the connections, so that the server hears of it now and not after its idle timeout.
async fn close(opened: Vec<Opened>) {
    let ends: JoinSet<()> = opened.into_iter().map(|opened| opened.closing.close()).collect();
    ends.join_all().await;
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

/// When rows of the trace are due.
fn ticks(interval: Duration) -> Interval {
    let mut ticks = tokio::time::interval(interval);
    // A host that stood still is no reason for rows without time between them.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}

/// Writes the trace for as long as it is awaited; returns only when that fails.
async fn watch(trace: &mut Option<TraceWriter>, opened: &[Opened], interval: Duration) -> TraceWriteError {
    let Some(trace) = trace else { return std::future::pending().await };
    let started = Instant::now();
    let mut ticks = ticks(interval);
    loop {
        ticks.tick().await;
        let time_s = started.elapsed().as_secs_f64();
        for (connection, opened) in opened.iter().enumerate() {
            if let Err(error) = trace.add(time_s, connection, &opened.meter.read()) {
                return error;
            }
        }
    }
}

fn failed(error: QuicError) -> Failure {
    Failure::Run(error.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use anole_transfer::Reading;

    #[tokio::test]
    async fn a_host_that_stood_still_owes_no_rows() {
        let mut ticks = ticks(Duration::from_millis(20));
        let begun = ticks.tick().await;
        std::thread::sleep(Duration::from_millis(150));
        let late = ticks.tick().await;
        assert!(late - begun < Duration::from_millis(150), "the one that was due");
        let next = ticks.tick().await;
        assert!(next - begun > Duration::from_millis(150), "{:?}", next - begun);
    }

    #[test]
    fn connections_keep_the_numbers_that_they_have_in_the_trace() {
        let report = |handshake| TransferReport {
            handshake: Duration::from_millis(handshake),
            elapsed: Duration::ZERO,
            reading: Reading::default(),
        };
        let ended = vec![(3, Ok(report(3))), (2, Err("two")), (0, Ok(report(0))), (1, Err("one"))];
        let (reports, failure) = in_order(ended);
        let told: Vec<_> =
            reports.iter().map(|(number, told)| (*number, told.handshake.as_millis())).collect();
        assert_eq!((told, failure), (vec![(0, 0), (3, 3)], Some("one")));
    }
}
