//! What the transfer tests share.
#![allow(dead_code, reason = "every test file is a crate of its own and uses a part of this")]

use anole_datapath::wire::AlgorithmName;
use anole_datapath_host::{Host, HostOptions};
use anole_emulator::{
    Awake, EmulatedNetwork, Emulator, EmulatorOptions, NetworkLink, Record, Route, UdpPorts,
};
use anole_model::{Dur, Rate};
use anole_quic::{
    Amount, ClientOptions, CongestionControl, DatagramSize, Meter, QuicError, Server, ServerOptions,
    Transfer, TransferReport,
};
use anole_sim::link::{Aggregation, Capacity, LinkConfig, QueueKind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// A drop-tail link with a buffer of one bandwidth-delay product.
pub fn link(mbps: f64, delay_ms: u64) -> NetworkLink {
    let config = LinkConfig {
        capacity: Capacity::Fixed(Rate::from_mbps(mbps)),
        delay: Dur::from_millis(delay_ms),
        buffer_bytes: (mbps * 1e6 / 8.0 * 2.0 * delay_ms as f64 / 1e3) as u64,
        random_loss: 0.0,
        queue: QueueKind::DropTail,
        aggregation: Aggregation::default(),
        full_packet: 1500,
        seed: 1,
    };
    NetworkLink { config, reverse_delay: None }
}

/// Our datapath without an agent.
pub fn fallback_only() -> CongestionControl {
    let host = Arc::new(Host::detached(HostOptions::default()));
    CongestionControl::AnoleCcp { host, algorithm: AlgorithmName::NONE }
}

/// What a run came to.
pub struct Run {
    pub report: Result<TransferReport, QuicError>,
    pub received: u64,
    pub record: Record,
}

/// One transfer from a client through an emulated link to a server, all in this process.
pub async fn through_link(link: NetworkLink, cc: &CongestionControl, amount: Amount) -> Run {
    watched_through_link(link, cc, amount, |_| async {}).await.0
}

/// The same, with something else going on meanwhile.
pub async fn watched_through_link<F, W>(
    link: NetworkLink,
    cc: &CongestionControl,
    amount: Amount,
    watch: W,
) -> (Run, F::Output)
where
    F: Future,
    W: FnOnce(Arc<Meter>) -> F,
{
    let _awake = Awake::keep();
    let idle_timeout = Duration::from_secs(5);
    let server =
        Arc::new(Server::bind(&ServerOptions { listen: ([127, 0, 0, 1], 0).into(), idle_timeout }).unwrap());
    let (ended, mut ends) = mpsc::unbounded_channel();
    let task = tokio::spawn({
        let server = server.clone();
        async move { server.run(ended).await }
    });
    let route = Route { path: vec![0], extra_delay: Dur::ZERO };
    let network = EmulatedNetwork::new(vec![link], vec![route], Vec::new());
    let ports = UdpPorts::open(1, server.address().unwrap()).unwrap();
    let (entry, exit) = (ports.entries().unwrap()[0], ports.exits().unwrap()[0]);
    let options = EmulatorOptions { epoch: Instant::now(), warmup: Dur::ZERO };
    let emulator = Emulator::start(network, ports, options).unwrap();
    let options = ClientOptions {
        remote: entry,
        certificate: server.certificate().clone(),
        idle_timeout,
        datagram: DatagramSize::Fixed(1472),
        rtt_samples: None,
    };
    let transfer = Transfer::connect(options, cc).await.unwrap();
    let watch = watch(transfer.meter());
    let (report, watched) = tokio::join!(transfer.run(amount), watch);
    let _ = tokio::time::timeout(Duration::from_secs(1), ends.recv()).await;
    let received = server.received_from(exit).map_or(0, |received| received.bytes());
    let (record, _) = emulator.finish().unwrap();
    task.abort();
    (Run { report, received, record }, watched)
}
