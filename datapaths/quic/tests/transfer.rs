//! Transfers over loopback and through the link emulator.
#![allow(clippy::disallowed_methods, reason = "the tests run in real time on real sockets")]

mod common;

use anole_quic::{Amount, CongestionControl, GovernedBy};
use anole_testing::figure;
use common::{fallback_only, link, through_link};
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
