//! Time from a report to its answer in force, through the Unix socket and the agent's process, as a transport in user
//! space sees it: one flow with an ACK every 20 µs, which bounds the accuracy.

use super::{agent_program, percentile, print};
use crate::emulate::DatapathKind;
use crate::emulate::agent::AgentProcess;
use crate::emulate::govern::AgentSpec;
use anole_datapath::AckSample;
use anole_datapath::wire::AlgorithmName;
use anole_datapath_host::{FlowOptions, Host, HostOptions};
use anole_inference::BackendSettings;
use anyhow::{Context, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time between two ACKs.
const ACK_EVERY: Duration = Duration::from_micros(20);
/// Round-trip time and packets that the flow tells of: 12 Mbit/s over 20 ms.
const RTT_US: u64 = 20_000;
const DURATION: Duration = Duration::from_secs(5);
const MSS: u32 = 1448;

#[derive(Serialize)]
struct Figure<'a> {
    bench: &'static str,
    alg: &'a str,
    answers: usize,
    p50_us: f64,
    p99_us: f64,
}

/// Measures each algorithm's agent.
pub fn run(algs: &[String], binary: Option<&Path>, folder: &Path, json: bool) -> Result<()> {
    let Some(binary) = agent_program("the agent", binary)? else { return Ok(()) };
    for (index, alg) in algs.iter().filter(|alg| *alg != anole_sim::plan::NATIVE).enumerate() {
        let mut times = measure(alg, &binary, folder, index)?;
        times.sort_by(f64::total_cmp);
        let (p50_us, p99_us) = (percentile(&times, 0.5), percentile(&times, 0.99));
        let figure = Figure { bench: "agent", alg, answers: times.len(), p50_us, p99_us };
        let text = || {
            format!(
                "{alg:<12} report to answer in force: {p50_us:.0} µs p50, {p99_us:.0} µs p99, {} answers",
                times.len()
            )
        };
        print(json, &figure, text)?;
    }
    Ok(())
}

/// Times from reports to answers, µs.
fn measure(alg: &str, binary: &Path, folder: &Path, index: usize) -> Result<Vec<f64>> {
    let spec = AgentSpec {
        datapath: DatapathKind::Quic,
        alg: alg.to_string(),
        classic: None,
        policy: None,
        params: BTreeMap::new(),
        policies: BackendSettings::default(),
    };
    let agent = AgentProcess::start(binary, folder, None, index, &spec, 1)?;
    let host = Host::connect(&AgentProcess::socket(folder, index), HostOptions::default())
        .context("no way to the agent")?;
    let begun = Instant::now();
    let algorithm = AlgorithmName::NONE;
    let mut flow = host
        .open(begun, &FlowOptions { algorithm, mss: MSS, init_cwnd: 10 * MSS, local: None, remote: None });
    let (mut asked, mut times, mut before) = (None, Vec::new(), flow.stats());
    let mut due = begun;
    while begun.elapsed() < DURATION {
        while Instant::now() < due {
            std::hint::spin_loop();
        }
        due += ACK_EVERY;
        let now = Instant::now();
        flow.on_ack(now, &ack());
        let stats = flow.stats();
        if stats.updates > before.updates
            && let Some(asked) = asked.take()
        {
            times.push(now.duration_since(asked).as_secs_f64() * 1e6);
        }
        if stats.reports > before.reports {
            asked = Some(now);
        }
        before = stats;
    }
    drop(flow);
    drop(agent);
    Ok(times)
}

fn ack() -> AckSample {
    AckSample {
        bytes_acked: MSS,
        packets_acked: 1,
        rtt_us: RTT_US,
        rate_incoming: 1_500_000,
        rate_outgoing: 1_500_000,
        packets_in_flight: 20,
        bytes_in_flight: Some(20 * MSS),
        bytes_pending: u32::MAX,
        ..AckSample::default()
    }
}
