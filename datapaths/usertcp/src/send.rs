//! `anole-usertcp send`.

use crate::cli::Send;
use crate::iperf3::Agreed;
use crate::{failed, interrupted};
use anole_cli::Failure;
use anole_transfer::trace::{TraceWriteError, TraceWriter};
use anole_transfer::{Reading, summarise};
use anole_usertcp::real::{self, Turn, Waiter, drive};
use anole_usertcp::{Governance, Progress, Sender, SenderOptions};
use anyhow::anyhow;
use smoltcp::phy::Device;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Opens the device and the connection, sends and summarises.
pub fn run(options: Send) -> Result<(), Failure> {
    let flags = &options.device;
    flags.check(Some(options.remote.ip()))?;
    match (&flags.tun, &flags.interface) {
        (Some(tun), _) => transfer(&options, real::open_tun(tun).map_err(failed)?),
        (None, Some(interface)) => transfer(&options, real::open_interface(interface).map_err(failed)?),
        (None, None) => Err(Failure::Usage(anyhow!("--tun or --interface is needed"))),
    }
}

fn transfer<D: Device + AsRawFd>(options: &Send, device: D) -> Result<(), Failure> {
    let (transfer, flags) = (&options.transfer, &options.device);
    let (host, algorithm) = transfer.host()?;
    let agreed = options.iperf3.then(|| Agreed::with(options.remote, transfer.amount())).transpose();
    let agreed = agreed.map_err(Failure::Run)?;
    let mut trace = Trace::create(options)?;
    let stop = interrupted()?;
    let host_address = real::host(flags.interface.as_deref(), flags.address, flags.gateway);
    let sender = SenderOptions {
        host: host_address,
        port: real::ephemeral_port(host_address.seed),
        remote: options.remote,
        preamble: agreed.as_ref().map(Agreed::preamble).unwrap_or_default(),
        amount: transfer.amount(),
        idle_timeout: transfer.idle_timeout,
    };
    let waiter = Waiter::of(&device);
    let mut sender =
        Sender::connect(device, Governance { host, algorithm }, sender, Instant::now()).map_err(failed)?;
    let ended = drive(&waiter, |now| {
        if stop.load(Relaxed) && !sender.end() {
            return Ok(Turn::Over(Err(anyhow!("interrupted"))));
        }
        let progress = sender.poll(now);
        match trace.add(now, || sender.read()) {
            Err(error) => Ok(Turn::Over(Err(error.into()))),
            Ok(row) => match progress {
                Progress::Over(report) => Ok(Turn::Over(report.map_err(Into::into))),
                Progress::Running(next) => Ok(Turn::Until(next.into_iter().chain(row).min())),
            },
        }
    });
    // What was recorded until the connection, the device or somebody ended it is told in any case.
    let traced = trace.finish();
    let ended = ended.map_err(failed)?;
    traced?;
    let report = ended.map_err(Failure::Run)?;
    summarise("anole-ccp", options.transfer.alg.as_deref(), &[(0, report)], options.transfer.json);
    if stop.load(Relaxed) {
        return Err(Failure::Run(anyhow!("interrupted")));
    }
    if let Some(agreed) = agreed {
        let received = agreed.end(report.reading.delivered_bytes).map_err(Failure::Run)?;
        eprintln!("the iperf3 server received {received} bytes");
    }
    Ok(())
}

/// A row from time to time.
struct Trace {
    writer: Option<TraceWriter>,
    interval: Duration,
    started: Instant,
    next: Instant,
}

impl Trace {
    fn create(options: &Send) -> Result<Trace, Failure> {
        let writer = options.transfer.trace.as_deref().map(TraceWriter::create).transpose();
        let writer = writer.map_err(|error| Failure::Usage(error.into()))?;
        let now = Instant::now();
        Ok(Trace { writer, interval: options.transfer.trace_interval(), started: now, next: now })
    }

    /// Adds a row if one is due; says when the next one is.
    fn add(
        &mut self,
        now: Instant,
        read: impl FnOnce() -> Reading,
    ) -> Result<Option<Instant>, TraceWriteError> {
        let Some(writer) = &mut self.writer else { return Ok(None) };
        if now >= self.next {
            writer.add((now - self.started).as_secs_f64(), 0, &read())?;
            let next = self.next + self.interval;
            // A host that stood still is no reason for rows without time between them.
            self.next = if next > now { next } else { now + self.interval };
        }
        Ok(Some(self.next))
    }

    fn finish(self) -> Result<(), Failure> {
        self.writer.map_or(Ok(()), TraceWriter::finish).map_err(|error| Failure::Run(error.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_stood_still_owes_no_rows() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.csv");
        let (started, interval) = (Instant::now(), Duration::from_millis(50));
        let writer = Some(TraceWriter::create(&path).unwrap());
        let mut trace = Trace { writer, interval, started, next: started };
        // The times of polls, ms.
        for now in [0, 20, 180, 181, 229, 230] {
            trace.add(started + Duration::from_millis(now), Reading::default).unwrap();
        }
        assert!(trace.finish().is_ok());
        let rows = std::fs::read_to_string(&path).unwrap();
        let times: Vec<&str> = rows.lines().skip(1).filter_map(|row| row.split(',').next()).collect();
        assert_eq!(times, ["0.0000", "0.1800", "0.2300"]);
    }
}
