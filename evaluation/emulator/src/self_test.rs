//! How accurate the emulator is on this machine.

use crate::emulator::{Emulator, EmulatorOptions};
use crate::hosts::Hosts;
use crate::measure::Record;
use crate::network::{EmulatedNetwork, NetworkLink, Route};
use crate::udp::UdpPorts;
use crate::wire::Wire;
use crate::{EmulatorError, UDP_HEADER_BYTES};
use anole_model::{Dur, Rate};
use anole_sim::link::{Aggregation, Capacity, Impairments, LinkConfig, QueueKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// A full packet of the test.
const PACKET_BYTES: u32 = 1500;
/// Payload of the test's datagrams.
const PAYLOAD_BYTES: usize = (PACKET_BYTES - UDP_HEADER_BYTES) as usize;

/// Rates tried for the highest one carried, Mbps.
const LADDER_MBPS: [f64; 8] = [50.0, 100.0, 200.0, 400.0, 700.0, 1000.0, 1500.0, 2000.0];

/// Rate at which packets travel alone: one every 2 ms.
const LONE_PACKETS_MBPS: f64 = 6.0;

/// A rate counts as carried when at most this share of its packets is missing.
const CARRIED_LOSS: f64 = 0.001;

/// By which way packets reach the emulator and leave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    /// UDP sockets on loopback.
    Udp,
    /// TUN devices of two network namespaces; takes root.
    Tun,
}

/// The figures of a self-test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SelfTest {
    /// Rate of the link under test, Mbps.
    pub link_mbps: f64,
    /// Rate delivered while the link was overloaded, against its capacity, percent.
    pub rate_error_percent: f64,
    /// One-way delay of lone packets against the configured one, median, µs.
    pub delay_error_us: f64,
    /// Departure after the time due, median, µs.
    pub jitter_p50_us: f64,
    /// Departure after the time due, 99th percentile, µs.
    pub jitter_p99_us: f64,
    /// Share of one CPU that the emulator took at that rate.
    pub cpu_share: f64,
    /// Highest rate that was carried with at most 0.1 % of the packets missing, Mbps; `None` when even
    /// the lowest was not.
    pub highest_mbps: Option<f64>,
}

/// Measures for about `time` in all: an overloaded link, a lightly loaded one, and rising rates over a
/// link that limits nothing.
pub fn self_test(through: Through, link_mbps: f64, time: Duration) -> Result<SelfTest, EmulatorError> {
    let part = time / (3 + LADDER_MBPS.len() as u32);
    let full = blast(through, link_mbps, link_mbps * 1.1, 2 * part)?;
    let light = blast(through, link_mbps, LONE_PACKETS_MBPS.min(link_mbps * 0.5), part)?;
    let mut highest = None;
    for mbps in LADDER_MBPS {
        let run = blast(through, 10_000.0, mbps, part)?;
        if run.missing() > CARRIED_LOSS {
            break;
        }
        highest = Some(mbps);
    }
    let micros = |dur: Option<Dur>| dur.map_or(0.0, |dur| dur.as_millis_f64() * 1e3);
    let lateness = &full.record.timer.lateness;
    // Transmission of one packet, and the propagation delay.
    let nominal = Dur::from_secs_f64(1500.0 * 8e-6 / link_mbps) + DELAY;
    Ok(SelfTest {
        link_mbps,
        rate_error_percent: (full.delivered_mbps() / link_mbps - 1.0) * 100.0,
        delay_error_us: micros(light.record.flows[0].one_way_delay.quantile(0.5)) - micros(Some(nominal)),
        jitter_p50_us: micros(lateness.quantile(0.5)),
        jitter_p99_us: micros(lateness.quantile(0.99)),
        cpu_share: full.record.timer.cpu_share(),
        highest_mbps: highest,
    })
}

/// Propagation delay of the test link.
const DELAY: Dur = Dur::from_millis(5);

struct Blast {
    record: Record,
    /// Packets sent, and those of them that came in, with what went before the measurement began.
    sent: u64,
    entered: u64,
}

impl Blast {
    /// What came out at the far end, Mbps on the wire.
    fn delivered_mbps(&self) -> f64 {
        Rate::from_bytes_in(self.record.flows[0].delivered_bytes, self.record.measured).mbps()
    }

    /// Share of the packets sent while it was measured that never came out and were not dropped by the link.
    fn missing(&self) -> f64 {
        let Record { flows, inside_before, inside, .. } = &self.record;
        let before = self.entered.saturating_sub(flows[0].entered_packets);
        let sent = self.sent.saturating_sub(before);
        let seen =
            (flows[0].delivered_packets + flows[0].lost_packets + inside).saturating_sub(*inside_before);
        sent.saturating_sub(seen) as f64 / sent.max(1) as f64
    }
}

/// Sends at `mbps` through a link of `link_mbps` for `time`.
fn blast(through: Through, link_mbps: f64, mbps: f64, time: Duration) -> Result<Blast, EmulatorError> {
    let socket = |address: SocketAddr| UdpSocket::bind(address).map_err(EmulatorError::Socket);
    let connected = |from: SocketAddr, to: SocketAddr| {
        let source = socket(from)?;
        source.connect(to).map_err(EmulatorError::Socket)?;
        Ok(source)
    };
    match through {
        Through::Udp => {
            let any: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
            let sink = socket(any)?;
            let ports = UdpPorts::open(1, sink.local_addr().map_err(EmulatorError::Socket)?)?;
            let source = connected(any, ports.entries()?[0])?;
            blast_from(&source, ports, link_mbps, mbps, time)
        }
        Through::Tun => {
            let (hosts, pair) = Hosts::new(1, PACKET_BYTES)?;
            let _sink = hosts.receiver.run(|| socket(Hosts::destination().into()))?;
            let source =
                hosts.sender.run(|| connected(Hosts::source(0).into(), Hosts::destination().into()))?;
            blast_from(&source, pair, link_mbps, mbps, time)
        }
    }
}

/// The same from an open socket.
fn blast_from<W: Wire>(
    source: &UdpSocket,
    wire: W,
    link_mbps: f64,
    mbps: f64,
    time: Duration,
) -> Result<Blast, EmulatorError> {
    let config = LinkConfig {
        capacity: Capacity::Fixed(Rate::from_mbps(link_mbps)),
        delay: DELAY,
        // 20 ms at the link's rate.
        buffer_bytes: (link_mbps * 1e6 / 8.0 * 0.02) as u64,
        random_loss: 0.0,
        queue: QueueKind::DropTail,
        aggregation: Aggregation::default(),
        impairments: Impairments::default(),
        cross: Vec::new(),
        full_packet: PACKET_BYTES,
        seed: 1,
    };
    let network = EmulatedNetwork::new(
        vec![NetworkLink { config, reverse_delay: None }],
        vec![Route { path: vec![0], extra_delay: Dur::ZERO }],
        Vec::new(),
    );
    let options = EmulatorOptions {
        epoch: Instant::now(),
        // The first quarter fills the link.
        warmup: Dur::from_secs_f64(time.as_secs_f64() / 4.0),
    };
    let emulator = Emulator::start(network, wire, options)?;
    let counts = emulator.counts(0);
    let sent = pace(source, mbps, time);
    let entered = counts.entered_packets();
    let (record, _wire) = emulator.finish()?;
    Ok(Blast { record, sent, entered })
}

/// Sends full packets at a rate, in bursts of at most a millisecond; returns how many.
fn pace(socket: &UdpSocket, mbps: f64, time: Duration) -> u64 {
    let payload = [0u8; PAYLOAD_BYTES];
    let per_second = mbps * 1e6 / (1500.0 * 8.0);
    let started = Instant::now();
    let mut sent = 0u64;
    while started.elapsed() < time {
        let owed = (started.elapsed().as_secs_f64() * per_second) as u64;
        while sent < owed {
            if socket.send(&payload).is_err() {
                std::thread::yield_now();
            }
            sent += 1;
        }
        std::thread::sleep(Duration::from_micros(250));
    }
    // What is on its way may arrive.
    std::thread::sleep(Duration::from_millis(10));
    sent
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::FlowRecord;
    use anole_testing::figure;

    /// What is inside when measuring begins makes up for nothing that is missing later.
    #[test]
    fn what_never_came_in_is_missing_whatever_was_inside_before() {
        let flow = FlowRecord { entered_packets: 1000, delivered_packets: 1020, ..FlowRecord::default() };
        let record = Record { flows: vec![flow], inside_before: 20, ..Record::default() };
        let run = Blast { record, sent: 2020, entered: 2000 };
        assert_eq!(run.missing(), 20.0 / 1020.0);
    }

    #[test]
    fn an_overloaded_link_delivers_no_more_than_its_rate() {
        let run = blast(Through::Udp, 20.0, 24.0, Duration::from_millis(800)).unwrap();
        let delivered = run.delivered_mbps();
        assert!(delivered > 0.0 && delivered < 20.0 * 1.03, "{delivered} Mbps");
        let delay = run.record.flows[0].one_way_delay.quantile(0.5).unwrap();
        assert!(delay > DELAY, "{delay}");
        // The link computes in nominal time: it falls short where the sender is kept from running for longer than the
        // queue lasts.
        figure("emulator, overloaded at 20 Mbps: delivered, Mbps", 19.4..20.6, delivered);
        figure("emulator, overloaded at 20 Mbps: share missing", ..0.01, run.missing());
        // 5 ms of propagation, 20 ms of queue.
        figure("emulator, overloaded at 20 Mbps: one-way delay, ms", 20.0..30.0, delay.as_millis_f64());
    }
}
