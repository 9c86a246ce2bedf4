//! Whole transfers in virtual time: what the datapath holds, and what it survives.
#![allow(clippy::disallowed_methods, reason = "virtual time begins at the clock's")]

#[path = "../../host/tests/common/mod.rs"]
mod agent;
mod common;

use agent::{ScriptedAgent, eventually};
use anole_datapath_host::{Host, HostOptions};
use anole_model::Dur;
use anole_sim::link::Reorder;
use anole_transfer::{Amount, GovernedBy, TransferReport};
use anole_usertcp::{
    PairEnd, Progress, Receiver, ReceiverOptions, Sender, SenderOptions, UserTcpError, pair,
};
use common::{PORT, VirtualTransfer, fallback_only, governed_by, host, link, to};
use smoltcp::phy;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

/// UDP of somebody else.
const NOISE: [[u8; 7]; 4] =
    [[69, 0, 0, 28, 0, 0, 0], [0, 64, 17, 0, 0, 192, 0], [2, 9, 192, 0, 2, 1, 0], [9, 0, 9, 0, 8, 0, 0]];

#[test]
fn the_fallback_fills_a_link() {
    let mut transfer = VirtualTransfer::start(link(20.0, 20), fallback_only(), Amount::Time(10 * SECOND));
    let report = transfer.run(20 * SECOND, |_, _| {}).unwrap().unwrap();
    assert_eq!(report.reading.governor, GovernedBy::Fallback);
    assert!(report.throughput_mbps() > 6.0, "{report:?}");
}

#[test]
fn a_size_arrives_whole_despite_loss() {
    for seed in 1..=5 {
        let mut lossy = link(20.0, 20);
        (lossy.config.random_loss, lossy.config.seed) = (0.01, seed);
        let mut transfer = VirtualTransfer::start(lossy, fallback_only(), Amount::Bytes(3_000_000));
        let report = transfer.run(120 * SECOND, |_, _| {}).unwrap().unwrap();
        assert_eq!(report.reading.delivered_bytes, 3_000_000);
    }
}

#[test]
fn a_transfer_that_is_ended_reports_what_it_did() {
    let mut transfer = VirtualTransfer::start(link(20.0, 20), fallback_only(), Amount::Bytes(1 << 40));
    assert!(!transfer.sender.end(), "there is no connection yet");
    let mut transfer = VirtualTransfer::start(link(20.0, 20), fallback_only(), Amount::Bytes(1 << 40));
    assert!(transfer.run(2 * SECOND, |_, _| {}).is_none());
    assert!(transfer.sender.end());
    let report = transfer.run(2 * SECOND, |_, _| {}).unwrap().unwrap();
    assert!(report.reading.delivered_bytes > 100_000 && report.elapsed < 3 * SECOND, "{report:?}");
}

#[test]
fn reordering_ends_no_transfer() {
    let mut unruly = link(20.0, 20);
    unruly.config.impairments.reorder = Some(Reorder { share: 0.01, by: Dur::from_millis(5) });
    let mut transfer = VirtualTransfer::start(unruly, fallback_only(), Amount::Bytes(3_000_000));
    let report = transfer.run(120 * SECOND, |_, _| {}).unwrap().unwrap();
    assert_eq!(report.reading.delivered_bytes, 3_000_000);
}

/// An agent that asks for this window and rate, and a transfer that has heard of it.
fn commanded(window: u32, rate: u32, mbps: f64) -> (ScriptedAgent, VirtualTransfer, tempfile::TempDir) {
    governed(mbps, |path| ScriptedAgent::start(path, window, rate))
}

/// An agent, and a transfer that has heard of it.
fn governed(
    mbps: f64,
    start: impl FnOnce(&Path) -> ScriptedAgent,
) -> (ScriptedAgent, VirtualTransfer, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.sock");
    let agent = start(&path);
    // Virtual time passes faster than the agent answers.
    let options = HostOptions { agent_timeout: Dur::from_millis(3_600_000), ..HostOptions::default() };
    let host = Arc::new(Host::connect(&path, options).unwrap());
    let governance = anole_usertcp::Governance { host: host.clone(), ..governed_by(Host::detached(options)) };
    let mut transfer = VirtualTransfer::start(link(mbps, 20), governance, Amount::Time(3600 * SECOND));
    assert!(transfer.run(Duration::from_millis(100), |_, _| {}).is_none());
    assert!(eventually(|| host.stats().datagrams >= 2), "{:?}", host.stats());
    (agent, transfer, dir)
}

#[test]
fn a_window_is_held() {
    for window in [20_000, 100_000, 400_000] {
        let (_agent, mut transfer, _dir) = commanded(window, 0, 1000.0);
        transfer.run(SECOND, |_, _| {});
        let mut largest = 0;
        transfer.run(SECOND, |_, sender| {
            largest = largest.max(sender.bytes_in_flight());
        });
        assert_eq!(transfer.sender.read().governor, GovernedBy::Agent);
        // Whole segments.
        assert!((window - 1460..=window).contains(&(largest as u32)), "{window}: {largest}");
    }
}

#[test]
fn a_window_that_is_lowered_holds_what_the_send_buffer_has() {
    let lower = Arc::new(AtomicBool::new(false));
    let told = lower.clone();
    let (_agent, mut transfer, _dir) = governed(1000.0, |path| {
        ScriptedAgent::commanding(path, move |is_new| match (is_new, told.load(Relaxed)) {
            (true, _) => Some((1_000_000, 125_000)),
            (false, true) => Some((20_000, 10_000_000)),
            (false, false) => None,
        })
    });
    // Most of the window waits for the rate.
    transfer.run(SECOND, |_, _| {});
    lower.store(true, Relaxed);
    let is_lower = |transfer: &VirtualTransfer| transfer.sender.read().cwnd_bytes == 20_000;
    // The agent answers in its own time.
    assert!(eventually(|| {
        transfer.run(Duration::from_millis(10), |_, _| {});
        is_lower(&transfer)
    }));
    // What was in flight before arrives.
    transfer.run(Duration::from_millis(100), |_, _| {});
    let mut largest = 0;
    transfer.run(SECOND, |_, sender| largest = largest.max(sender.bytes_in_flight()));
    assert!((20_000 - 1460..=20_000).contains(&largest), "{largest}");
}

#[test]
fn an_agent_hears_that_a_flow_has_ended() {
    let (agent, transfer, _dir) = commanded(100_000, 0, 1000.0);
    drop(transfer);
    assert!(eventually(|| agent.seen.closed.load(Relaxed) == 1));
}

/// A wire with always one packet more for the host 192.0.2.2, to a port that nobody listens on.
struct Flood(u32);

impl phy::Device for Flood {
    type RxToken<'a> = Packet;
    type TxToken<'a> = Nowhere;

    fn receive(&mut self, _: smoltcp::time::Instant) -> Option<(Packet, Nowhere)> {
        self.0 += 1;
        assert!(self.0 < 10_000, "one poll takes for ever");
        Some((Packet, Nowhere))
    }

    fn transmit(&mut self, _: smoltcp::time::Instant) -> Option<Nowhere> {
        Some(Nowhere)
    }

    fn capabilities(&self) -> phy::DeviceCapabilities {
        let mut capabilities = phy::DeviceCapabilities::default();
        (capabilities.max_transmission_unit, capabilities.medium) = (1500, phy::Medium::Ip);
        capabilities
    }
}

struct Packet;
struct Nowhere;

impl phy::RxToken for Packet {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(&NOISE.concat())
    }
}

impl phy::TxToken for Nowhere {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, fill: F) -> R {
        fill(&mut vec![0; length])
    }
}

#[test]
fn a_receiver_under_a_flood_comes_back_and_asks_for_more() {
    let now = Instant::now();
    let options = ReceiverOptions { host: host(2, 8), port: PORT, idle_timeout: 2 * SECOND };
    let mut receiver = Receiver::listen(Flood(0), options, now);
    let (ended, next) = receiver.poll(now);
    assert_eq!((ended.len(), next), (0, Some(now)));
}

#[test]
fn a_rate_is_held() {
    for rate in [100_000, 1_000_000, 10_000_000] {
        let (_agent, mut transfer, _dir) = commanded(1 << 30, rate, 1000.0);
        transfer.run(SECOND, |_, _| {});
        let before = transfer.sender.read().sent_bytes;
        transfer.run(10 * SECOND, |_, _| {});
        let sent = (transfer.sender.read().sent_bytes - before) as f64 / 10.0;
        assert!((sent / f64::from(rate) - 1.0).abs() < 0.05, "{rate}: {sent}");
    }
}

/// 64 segments with one of them lost on the way: the smallest window meanwhile, bytes, and how long it took.
fn with_one_lost(round_trip_ms: u64, lost: u64) -> (u64, Duration) {
    let amount = Amount::Bytes(64 * 1460);
    let mut transfer = VirtualTransfer::start(link(20.0, round_trip_ms / 2), fallback_only(), amount);
    transfer.lose = Some(lost);
    let mut smallest = u64::MAX;
    let seen = |_, sender: &Sender<PairEnd>| match sender.read().cwnd_bytes {
        // There is no flow yet.
        0 => {}
        window => smallest = smallest.min(window),
    };
    let report = transfer.run(120 * SECOND, seen).unwrap().unwrap();
    assert_eq!(report.reading.lost_packets, 1, "{round_trip_ms} ms, {lost}");
    (smallest, report.elapsed)
}

#[test]
fn a_lost_packet_costs_a_few_round_trips_wherever_it_is_lost() {
    for round_trip_ms in [40, 200, 1200, 3000] {
        // The last three are followed by too few that could tell of it.
        for lost in 0..61 {
            let (smallest, elapsed) = with_one_lost(round_trip_ms, lost);
            assert!(smallest > 4 * 1460, "{round_trip_ms} ms, {lost}: {smallest}");
            let most = Duration::from_millis(9 * round_trip_ms);
            assert!(elapsed < most, "{round_trip_ms} ms, {lost}: {elapsed:?}");
        }
    }
}

/// A megabyte from this port, over a wire without delay.
fn connect(end: &PairEnd, port: u16, now: Instant) -> Sender<PairEnd> {
    let options = SenderOptions { port, idle_timeout: 2 * SECOND, ..to(2, Amount::Bytes(1_000_000)) };
    Sender::connect(end.clone(), fallback_only(), options, now).unwrap()
}

fn listen(end: &PairEnd, port: u16, now: Instant) -> Receiver<PairEnd> {
    Receiver::listen(end.clone(), ReceiverOptions { host: host(2, 8), port, idle_timeout: 2 * SECOND }, now)
}

/// Polls the sender until it is over, and `peer` in between.
fn until_over(
    mut sender: Sender<PairEnd>,
    mut now: Instant,
    mut peer: impl FnMut(Instant, &Sender<PairEnd>),
) -> Result<TransferReport, UserTcpError> {
    loop {
        sender.set_time(now);
        if let Progress::Over(over) = sender.poll(now) {
            return over;
        }
        peer(now, &sender);
        now += Duration::from_millis(5);
    }
}

#[test]
fn a_handshake_that_stays_open_or_is_reset_is_no_connection() {
    let ((near, far), start) = (pair(1500), Instant::now());
    let mut receiver = listen(&far, PORT, start);
    // Whoever sends the first two SYNs is gone before the answer comes.
    connect(&near, 50_001, start).poll(start);
    assert!(receiver.poll(start).0.is_empty() && receiver.open().count() == 0);
    let later = start + 3 * SECOND;
    connect(&near, 50_002, later).poll(later);
    assert!(receiver.poll(later).0.is_empty());
    // The third refuses what was meant for the second.
    let (third, mut ends) = (connect(&near, 50_003, later), Vec::new());
    let report = until_over(third, later + SECOND, |now, _| ends.extend(receiver.poll(now).0));
    assert_eq!(report.unwrap().reading.delivered_bytes, 1_000_000);
    let [end] = &ends[..] else { panic!("{ends:?}") };
    assert_eq!((end.remote.port(), end.bytes, end.error), (50_003, 1_000_000, None));
    assert!(end.lasted < SECOND, "{end:?}");
}

#[test]
fn a_peer_that_is_silent_is_told_from_one_that_refuses_whatever_else_arrives() {
    let ((near, far), start) = (pair(1500), Instant::now());
    let ends = |sender, peer: &mut dyn FnMut(Instant, &Sender<PairEnd>)| {
        until_over(sender, start, peer).unwrap_err().to_string()
    };
    let noise = NOISE.concat();
    let nobody = ends(connect(&near, 50_001, start), &mut |_, _| far.give(noise.clone()));
    assert!(nobody.contains("no answer for 2 s"), "{nobody}");
    while far.take().is_some() {}
    let mut receiver = listen(&far, PORT, start);
    let vanished = ends(connect(&near, 50_002, start), &mut |now, sender| {
        far.give(noise.clone());
        if sender.read().delivered_bytes < 100_000 {
            receiver.poll(now);
        }
    });
    assert!(vanished.contains("has not answered for 2 s"), "{vanished}");
    while far.take().is_some() {}
    let mut elsewhere = listen(&far, PORT + 1, start);
    let refused = ends(connect(&near, 50_003, start), &mut |now, _| {
        elsewhere.poll(now);
    });
    assert!(refused.contains("refused"), "{refused}");
}
