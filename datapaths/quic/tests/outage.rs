//! A running transfer while its agent comes late, dies and comes back.
#![allow(clippy::disallowed_methods, reason = "the tests run in real time on real sockets")]

#[path = "../../host/tests/common/mod.rs"]
mod agent;
mod common;

use agent::ScriptedAgent;
use anole_datapath::wire::AlgorithmName;
use anole_datapath_host::{Host, HostOptions};
use anole_quic::{Amount, CongestionControl, GovernedBy, Meter};
use anole_testing::figure;
use common::{fallback_only, link, meanwhile, through_link};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The agent paces at 15 of the link's 20 Mbps, with room in the window.
const RATE: u32 = 15_000_000 / 8;
const CWND: u32 = 150_000;

/// The outage of the script.
const OUTAGE: Duration = Duration::from_secs(2);

/// Waits until `wanted` governs.
async fn governed_by(meter: &Meter, wanted: GovernedBy) {
    let end = Instant::now() + Duration::from_secs(60);
    while meter.read().governor != wanted {
        assert!(Instant::now() < end, "{wanted:?} does not govern: {:?}", meter.read());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Starts an agent late, kills it and starts another one while the transfer runs; the bytes delivered within
/// [`OUTAGE`] from its end on.
async fn script(path: &Path, meter: &Meter) -> u64 {
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(meter.read().governor, GovernedBy::Fallback, "there is no agent yet");
    let late = ScriptedAgent::start(path, CWND, RATE);
    governed_by(meter, GovernedBy::Agent).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    drop(late);
    let before = meter.read().delivered_bytes;
    tokio::time::sleep(OUTAGE).await;
    governed_by(meter, GovernedBy::Fallback).await;
    let outage = meter.read().delivered_bytes - before;
    let _again = ScriptedAgent::start(path, CWND, RATE);
    governed_by(meter, GovernedBy::Agent).await;
    assert!(meter.read().fallbacks >= 1);
    outage
}

#[tokio::test]
async fn the_transfer_survives_its_agent() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.sock");
    let host = Arc::new(Host::connect(&path, HostOptions::default()).unwrap());
    let cc = CongestionControl::AnoleCcp { host, algorithm: AlgorithmName::NONE };
    let outage = meanwhile(link(20.0, 10), &cc, async |meter| script(&path, &meter).await).await;
    assert!(outage > 0, "the fallback carries nothing");

    let alone = through_link(link(20.0, 10), &fallback_only(), Amount::Time(OUTAGE)).await;
    let alone = alone.report.unwrap().reading.delivered_bytes;
    figure("QUIC: bytes in an outage over those of the fallback alone", 0.8.., outage as f64 / alone as f64);
}
