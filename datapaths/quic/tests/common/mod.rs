//! What the transfer tests share.
#![allow(dead_code, reason = "every test file is a crate of its own and uses a part of this")]

use anole_datapath::wire::AlgorithmName;
use anole_datapath_host::{Host, HostOptions};
use anole_emulator::{
    Awake, EmulatedNetwork, Emulator, EmulatorOptions, NetworkLink, Record, Route, UdpPorts,
};
use anole_model::{Dur, Rate};
use anole_quic::{
    Amount, ClientOptions, CongestionControl, DatagramSize, Ended, Meter, QuicError, Server, ServerOptions,
    Transfer, TransferReport,
};
use anole_sim::link::{Aggregation, Capacity, Impairments, LinkConfig, QueueKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// A drop-tail link with a buffer of one bandwidth-delay product.
pub fn link(mbps: f64, delay_ms: u64) -> NetworkLink {
    let config = LinkConfig {
        capacity: Capacity::Fixed(Rate::from_mbps(mbps)),
        delay: Dur::from_millis(delay_ms),
        buffer_bytes: (mbps * 1e6 / 8.0 * 2.0 * delay_ms as f64 / 1e3) as u64,
        random_loss: 0.0,
        queue: QueueKind::DropTail,
        aggregation: Aggregation::default(),
        impairments: Impairments::default(),
        cross: Vec::new(),
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

/// A link to `server` in front of it: where packets enter, from where they come to the server, and what runs it.
pub fn emulated(link: NetworkLink, server: SocketAddr) -> (SocketAddr, SocketAddr, Emulator<UdpPorts>) {
    let route = Route { path: vec![0], extra_delay: Dur::ZERO };
    let network = EmulatedNetwork::new(vec![link], vec![route], Vec::new());
    let ports = UdpPorts::open(1, server).unwrap();
    let (entry, exit) = (ports.entries().unwrap()[0], ports.exits().unwrap()[0]);
    let options = EmulatorOptions { epoch: Instant::now(), warmup: Dur::ZERO };
    (entry, exit, Emulator::start(network, ports, options).unwrap())
}

/// An emulated link with a server behind it, all in this process.
struct Path {
    entry: SocketAddr,
    exit: SocketAddr,
    server: Arc<Server>,
    serving: JoinHandle<()>,
    ends: mpsc::UnboundedReceiver<Ended>,
    emulator: Emulator<UdpPorts>,
    _awake: Awake,
}

const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

impl Path {
    fn open(link: NetworkLink) -> Path {
        let awake = Awake::keep();
        let options = ServerOptions { listen: ([127, 0, 0, 1], 0).into(), idle_timeout: IDLE_TIMEOUT };
        let server = Arc::new(Server::bind(&options).unwrap());
        let (ended, ends) = mpsc::unbounded_channel();
        let serving = tokio::spawn({
            let server = server.clone();
            async move { server.run(ended).await }
        });
        let (entry, exit, emulator) = emulated(link, server.address().unwrap());
        Path { entry, exit, server, serving, ends, emulator, _awake: awake }
    }

    async fn connect(&self, cc: &CongestionControl) -> Transfer {
        let options = ClientOptions {
            remote: self.entry,
            certificate: self.server.certificate().clone(),
            idle_timeout: IDLE_TIMEOUT,
            datagram: DatagramSize::Fixed(1472),
            rtt_samples: None,
        };
        Transfer::connect(options, cc).await.unwrap()
    }

    /// What has passed the link, and what the server has of it.
    async fn close(mut self) -> (u64, Record) {
        let _ = tokio::time::timeout(Duration::from_secs(1), self.ends.recv()).await;
        let received = self.server.received_from(self.exit).map_or(0, |received| received.bytes());
        let (record, _) = self.emulator.finish().unwrap();
        self.serving.abort();
        (received, record)
    }
}

/// One transfer from a client through an emulated link to a server.
pub async fn through_link(link: NetworkLink, cc: &CongestionControl, amount: Amount) -> Run {
    let path = Path::open(link);
    let report = path.connect(cc).await.run(amount).await;
    let (received, record) = path.close().await;
    Run { report, received, record }
}

/// A transfer that goes on for as long as something else takes, which sees its meter.
pub async fn meanwhile<F, W>(link: NetworkLink, cc: &CongestionControl, watch: W) -> F::Output
where
    F: Future,
    W: FnOnce(Arc<Meter>) -> F,
{
    const FOREVER: Amount = Amount::Time(Duration::from_secs(3600));
    let path = Path::open(link);
    let transfer = path.connect(cc).await;
    let watch = watch(transfer.meter());
    let watched = tokio::select! {
        report = transfer.run(FOREVER) => panic!("the transfer ended: {report:?}"),
        watched = watch => watched,
    };
    path.close().await;
    watched
}
