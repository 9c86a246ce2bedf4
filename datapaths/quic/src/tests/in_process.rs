//! Connections without an agent, in virtual time, beside the stack's own controllers.

use super::path::{Link, VirtualTransfer};
use super::{FULL, SECOND};
use crate::congestion::CongestionControl;
use crate::meter::Meter;
use anole::{InProcess, Settings};
use std::sync::Arc;
use std::time::Duration;

pub const MBPS: f64 = 20.0;
pub const ROUND_TRIP_MS: u64 = 40;
/// Of 1500 bytes: the bandwidth-delay product, and the buffer.
const PACKETS_OF_THE_PATH: u64 = 67;
/// 2 Mbps in frames of 20 ms, and 22, which is more than the link carries.
const FEW: usize = 5000;
const MANY: usize = 55_000;

pub fn ours(algorithm: &str) -> CongestionControl {
    let settings = Settings { algorithm: algorithm.to_string(), ..Settings::default() };
    CongestionControl::InProcess(InProcess::new(settings).unwrap())
}

fn start(cc: &CongestionControl) -> VirtualTransfer {
    let link = Link::new(MBPS, ROUND_TRIP_MS, 1.0);
    VirtualTransfer::start(link, cc.factory(&Arc::new(Meter::new(None))), FULL)
}

/// Mbps over `span`.
fn goodput(transfer: &mut VirtualTransfer, span: Duration) -> f64 {
    let before = transfer.received;
    transfer.run(span).unwrap();
    (transfer.received - before) as f64 * 8e-6 / span.as_secs_f64()
}

#[test]
fn every_kind_of_algorithm_fills_a_link() {
    for name in ["anole", "cubic", "bbr", "vegas", "libra-rl"] {
        let mut transfer = start(&ours(name));
        transfer.run(SECOND * 5).unwrap();
        let seen = goodput(&mut transfer, SECOND * 10);
        assert!(seen > 0.7 * MBPS, "{name}: {seen} Mbps");
    }
}

/// An application that paces itself at a tenth of the link for 15 s, before and after more than the link carries.
#[test]
fn a_flow_that_paces_itself_neither_bursts_nor_forgets() {
    for (name, longest_ms) in [("anole", 4), ("bbr", 8), ("cubic", 4)] {
        let mut transfer = start(&ours(name));
        transfer.frame_bytes = Some(MANY);
        transfer.run(SECOND * 5).unwrap();
        transfer.frame_bytes = Some(FEW);
        // What has piled up leaves first.
        transfer.run(SECOND * 5).unwrap();
        (transfer.link.lost, transfer.link.longest_wait) = (0, Duration::ZERO);
        let paced = goodput(&mut transfer, SECOND * 10);
        let (lost, wait) = (transfer.link.lost, transfer.link.longest_wait);
        assert!((1.9..2.1).contains(&paced) && lost == 0, "{name}: {paced} Mbps, {lost} lost");
        // A frame is four packets, which the link carries in 2.4 ms. BBR's probes of the RTT keep four packets in flight: what
        // they hold back follows together.
        assert!(wait < Duration::from_millis(longest_ms), "{name}: {wait:?}");
        transfer.frame_bytes = Some(MANY);
        let first = goodput(&mut transfer, SECOND);
        let lost = transfer.link.lost;
        assert!(first > 0.8 * MBPS, "{name} has forgotten the path: {first} Mbps");
        assert!(lost < PACKETS_OF_THE_PATH, "{name} bursts: {lost} packets lost");
    }
}
