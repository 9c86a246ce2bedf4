//! Whole transfers in virtual time: none is ended by what a path loses, what an agent asks for or a late reader.

mod cost;
mod in_process;
mod path;

use crate::congestion::CongestionControl;
use crate::meter::Meter;
use crate::transport::DatagramSize;
use anole_datapath::wire::AlgorithmName;
use anole_datapath_host::{Host, HostOptions};
use anole_model::seed::{SplitMix64, derive};
use noq_proto::congestion::{Controller, ControllerFactory};
use path::{Link, VirtualTransfer};
use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);
const FULL: DatagramSize = DatagramSize::Fixed(1472);

/// The fallback.
fn fallback() -> Arc<dyn ControllerFactory + Send + Sync> {
    let host = Arc::new(Host::detached(HostOptions::default()));
    let cc = CongestionControl::AnoleCcp { host, algorithm: AlgorithmName::NONE };
    cc.factory(&Arc::new(Meter::new(None)))
}

/// Windows from 2 KiB to 2 GiB, another one with each ACK and loss, as the maddest of agents would set them.
#[derive(Clone, Debug)]
struct Wild {
    random: SplitMix64,
    window: u64,
}

impl Wild {
    fn draw(&mut self) {
        self.window = (1 << (11 + self.random.below(20))) + self.random.below(1 << 16);
    }
}

impl ControllerFactory for Wild {
    fn build(self: Arc<Self>, _: Instant, _: u16) -> Box<dyn Controller> {
        self.clone_box()
    }
}

impl Controller for Wild {
    fn on_end_acks(&mut self, _: Instant, _: u64, _: bool, _: Option<u64>) {
        self.draw();
    }
    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: bool, _: u64, _: u64) {
        self.draw();
    }
    fn on_mtu_update(&mut self, _: u16) {}
    fn window(&self) -> u64 {
        self.window
    }
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
    fn initial_window(&self) -> u64 {
        14_720
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Every slow start ends by overshooting: up to a window is lost, in bursts, with as much in flight behind it.
#[test]
fn slow_start_on_a_long_fat_path_ends_no_transfer() {
    for (mbps, round_trip_ms, buffer_bdp, seconds) in
        [(100.0, 200, 1.0, 4), (100.0, 200, 0.1, 4), (1000.0, 300, 0.1, 6)]
    {
        let mut transfer =
            VirtualTransfer::start(Link::new(mbps, round_trip_ms, buffer_bdp), fallback(), FULL);
        transfer.run(SECOND * (seconds - 1)).unwrap();
        let before = transfer.received;
        transfer.run(SECOND).unwrap();
        let used = (transfer.received - before) as f64 * 8e-6 / mbps;
        assert!(transfer.link.lost > 1000 && used > 0.5, "{mbps} Mbps: {used}, {} lost", transfer.link.lost);
    }
}

#[test]
fn no_agent_s_windows_and_no_losses_end_a_transfer() {
    for (datagram, loss) in [(FULL, 0.0), (DatagramSize::Discovered, 0.5), (DatagramSize::Fixed(1200), 0.5)] {
        let mut link = Link::new(100.0, 200, 4.0);
        link.loses = Box::new(move |n| derive(2, n) as f64 / u64::MAX as f64 <= loss);
        let mut transfer = VirtualTransfer::start(
            link,
            Arc::new(Wild { random: SplitMix64::new(1), window: 14_720 }),
            datagram,
        );
        transfer.run(SECOND * 4).unwrap();
        assert!(transfer.received > 10_000, "{datagram:?}, loss {loss}: {} bytes", transfer.received);
    }
}

/// The receiver keeps what its application does not read; flow control bounds it.
#[test]
fn a_reader_that_is_late_ends_no_transfer() {
    let mut transfer = VirtualTransfer::start(Link::new(1000.0, 20, 1.0), fallback(), FULL);
    transfer.reads_from = transfer.now + SECOND * 2;
    transfer.run(SECOND * 2).unwrap();
    assert_eq!(transfer.received, 0);
    transfer.run(SECOND).unwrap();
    assert!(transfer.received > 64 << 20, "{}", transfer.received);
}
