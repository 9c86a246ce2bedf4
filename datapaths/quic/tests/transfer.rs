//! Transfers over loopback and through the link emulator.
#![allow(clippy::disallowed_methods, reason = "the tests run in real time on real sockets")]

#[path = "../../host/tests/common/mod.rs"]
mod agent;
mod common;

use agent::ScriptedAgent;
use anole_datapath_host::{Host, HostOptions};
use anole_model::seed::SplitMix64;
use anole_quic::{AlgorithmName, Amount, CongestionControl, GovernedBy};
use anole_testing::figure;
use common::{fallback_only, link, through_link};
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn the_fallback_governs_without_an_agent() {
    let run = through_link(link(20.0, 10), &fallback_only(), Amount::Time(Duration::from_secs(3))).await;
    let report = run.report.unwrap();
    assert_eq!(report.reading.governor, GovernedBy::Fallback);
    assert!(report.throughput_mbps() > 0.0, "{report:?}");
    figure("QUIC: the fallback, Mbps of 20", 15.0.., report.throughput_mbps());
}

#[tokio::test]
async fn a_size_arrives_whole_despite_loss() {
    let mut lossy = link(30.0, 5);
    lossy.config.random_loss = 0.01;
    let run = through_link(lossy, &fallback_only(), Amount::Bytes(3_000_000)).await;
    let report = run.report.unwrap();
    assert_eq!(run.received, 3_000_000);
    assert!(report.reading.lost_packets > 0);
    // Conservation: what came in came out, was dropped, or is still inside.
    let flow = &run.record.flows[0];
    assert_eq!(flow.entered_packets, flow.delivered_packets + flow.lost_packets + run.record.inside);
}

#[tokio::test]
async fn the_stack_s_own_controllers_run() {
    for cc in [CongestionControl::Cubic, CongestionControl::Bbr, CongestionControl::NewReno] {
        let run = through_link(link(20.0, 10), &cc, Amount::Time(Duration::from_secs(2))).await;
        let report = run.report.unwrap();
        assert_eq!(report.reading.governor, GovernedBy::Stack);
        assert!(report.throughput_mbps() > 0.0, "{cc:?} {report:?}");
        figure(&format!("QUIC: the stack's {cc:?}, Mbps of 20"), 8.0.., report.throughput_mbps());
    }
}

/// Windows from 2 KiB to 1 GiB and rates from 2 KB/s to 2 GB/s, others with each report.
#[tokio::test]
async fn an_agent_of_random_windows_ends_no_transfer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.sock");
    let mut random = SplitMix64::new(1);
    let agent = ScriptedAgent::commanding(&path, move |_| {
        let (window, rate) = (11 + random.below(20), 11 + random.below(21));
        Some((1 << window, 1 << rate))
    });
    let host = Arc::new(Host::connect(&path, HostOptions::default()).unwrap());
    let cc = CongestionControl::AnoleCcp { host, algorithm: AlgorithmName::NONE };
    let run = through_link(link(100.0, 100), &cc, Amount::Time(Duration::from_secs(6))).await;
    let report = run.report.unwrap();
    assert!(report.reading.updates > 1 && run.received > 0, "{report:?}");
    drop(agent);
}

/// Long and fat: slow start overshoots by some ten thousand packets.
#[tokio::test]
async fn a_long_fat_path_ends_no_transfer() {
    let mut fat = link(200.0, 100);
    fat.config.buffer_bytes /= 10;
    let run = through_link(fat, &fallback_only(), Amount::Time(Duration::from_secs(6))).await;
    let report = run.report.unwrap();
    assert!(run.received > 0 && report.reading.delivered_bytes > 0, "{report:?}");
    figure("QUIC: 200 Mbps, 200 ms, 0.1 BDP, Mbps over 6 s", 40.0.., report.throughput_mbps());
}
