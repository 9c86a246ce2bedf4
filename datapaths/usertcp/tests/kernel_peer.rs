//! The kernel's TCP at the other end, in a network namespace behind an emulated link.
#![allow(clippy::disallowed_methods, reason = "the tests run in real time on real devices")]

mod common;

use anole_emulator::{
    EmulatedNetwork, Emulator, EmulatorError, EmulatorOptions, Hosts, Namespace, NetworkLink, Record, Route,
};
use anole_model::Dur;
use anole_testing::figure;
use anole_transfer::{Amount, TransferReport};
use anole_usertcp::real::{Turn, Waiter, drive, open_interface, open_tun};
use anole_usertcp::{HostAddress, Progress, Receiver, ReceiverOptions, Sender, SenderOptions};
use common::{fallback_only, link};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The stack's address, and the kernel's at the other end of its TUN device.
const STACK: [u8; 4] = [10, 9, 0, 2];
const KERNEL: [u8; 4] = [10, 9, 0, 1];
const SIZE: u64 = 5_000_000;

fn ip(arguments: &str) {
    let status =
        Command::new("ip").args(arguments.split_whitespace()).status().expect("iproute2 is installed");
    assert!(status.success(), "ip {arguments}");
}

/// Makes a namespace with a TUN device between the stack and the kernel there; nothing where that is not allowed.
fn namespace() -> Option<Namespace> {
    match Namespace::new() {
        Ok(namespace) => Some(namespace),
        Err(EmulatorError::Privilege) => {
            anole_testing::skip!("network namespaces need root");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn tun() {
    ip("tuntap add dev stack0 mode tun");
    ip("address add 10.9.0.1/24 dev stack0");
    ip("link set stack0 txqueuelen 10000 up");
}

fn stack() -> HostAddress {
    HostAddress { address: STACK.into(), prefix: 24, gateway: Some(KERNEL.into()), ethernet: None, seed: 1 }
}

fn to(remote: SocketAddr, port: u16, size: u64) -> SenderOptions {
    let amount = Amount::Bytes(size);
    SenderOptions { host: stack(), port, remote, amount, idle_timeout: Duration::from_secs(20) }
}

/// A kernel's server in this thread's namespace that counts what one connection brings. It has nothing to say, and ends its
/// own direction at once, as `nc -l < /dev/null` does.
fn sink(address: SocketAddr) -> JoinHandle<u64> {
    let listener = TcpListener::bind(address).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        std::io::copy(&mut stream, &mut std::io::sink()).unwrap()
    })
}

/// Sends through the TUN device of this thread's namespace.
fn send(options: SenderOptions) -> TransferReport {
    let device = open_tun("stack0").unwrap();
    let waiter = Waiter::of(&device);
    let mut sender = Sender::connect(device, fallback_only(), options, Instant::now()).unwrap();
    let ended = drive(&waiter, |now| match sender.poll(now) {
        Progress::Over(report) => Ok(Turn::Over(report)),
        Progress::Running(next) => Ok(Turn::Until(next)),
    });
    ended.unwrap().unwrap()
}

#[test]
fn a_kernel_receives_what_is_sent() {
    let Some(namespace) = namespace() else { return };
    let (report, received) = namespace
        .run(|| {
            tun();
            let address = SocketAddr::from((KERNEL, 5001));
            let received = sink(address);
            Ok((send(to(address, 50_000, SIZE)), received.join().unwrap()))
        })
        .unwrap();
    assert_eq!((report.reading.delivered_bytes, received), (SIZE, SIZE));
    assert_eq!(report.reading.lost_packets, 0);
    figure("User-space TCP: to the kernel over TUN, Mbps", 300.0.., report.throughput_mbps());
}

/// What a kernel's client sends while `receiver` is driven.
fn receive<D: smoltcp::phy::Device + std::os::fd::AsRawFd>(device: D, host: HostAddress) -> u64 {
    let client = std::thread::spawn(|| {
        let mut stream = TcpStream::connect((IpAddr::from(STACK), 5001)).unwrap();
        stream.write_all(&vec![7; SIZE as usize]).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = stream.read(&mut [0; 1]);
    });
    let waiter = Waiter::of(&device);
    let options = ReceiverOptions { host, port: 5001, idle_timeout: Duration::from_secs(10) };
    let mut receiver = Receiver::listen(device, options, Instant::now());
    let ended = drive(&waiter, |now| {
        let (ended, next) = receiver.poll(now);
        Ok(ended.into_iter().next().map_or(Turn::Until(next), Turn::Over))
    });
    let ended = ended.unwrap();
    assert_eq!(ended.error, None);
    drop(receiver);
    // Its last packet is lost, or the client would wait for the end of the connection.
    drop(client);
    ended.bytes
}

#[test]
fn a_kernel_s_data_is_received() {
    let Some(namespace) = namespace() else { return };
    let received = namespace
        .run(|| {
            tun();
            Ok(receive(open_tun("stack0").unwrap(), stack()))
        })
        .unwrap();
    assert_eq!(received, SIZE);
}

/// Two Ethernet interfaces joined to each other: the kernel has an address on one, the stack takes the other's frames.
#[test]
fn an_interface_s_frames_are_taken() {
    let Some(namespace) = namespace() else { return };
    let received = namespace
        .run(|| {
            ip("link add kernel0 type veth peer name stack0");
            ip("address add 10.9.0.1/24 dev kernel0");
            // Larger frames than the interface's would be handed over uncut.
            ip("link set kernel0 gso_max_size 1500 gso_max_segs 1 up");
            ip("link set stack0 arp off up");
            let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
            assert!(text.contains("stack0"));
            let host = HostAddress { ethernet: Some([2, 0, 0, 0, 9, 2]), ..stack() };
            Ok(receive(open_interface("stack0").unwrap(), host))
        })
        .unwrap();
    assert_eq!(received, SIZE);
}

/// A transfer to a kernel behind a link.
fn through(link: NetworkLink) -> Option<(TransferReport, u64, Record)> {
    let (hosts, wire) = match Hosts::new(1, 1500) {
        Err(EmulatorError::Privilege) => {
            anole_testing::skip!("network namespaces need root");
            return None;
        }
        made => made.unwrap(),
    };
    let received = hosts
        .receiver
        .run(|| {
            ip("route add 10.9.0.0/24 dev tun0");
            Ok(sink(Hosts::destination().into()))
        })
        .unwrap();
    let network =
        EmulatedNetwork::new(vec![link], vec![Route { path: vec![0], extra_delay: Dur::ZERO }], Vec::new());
    let options = EmulatorOptions { epoch: Instant::now(), warmup: Dur::ZERO };
    let emulator = Emulator::start(network, wire, options).unwrap();
    let report = hosts
        .sender
        .run(|| {
            tun();
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").map_err(EmulatorError::Namespace)?;
            Ok(send(to(Hosts::destination().into(), Hosts::source(0).port(), SIZE)))
        })
        .unwrap();
    let received = received.join().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    Some((report, received, emulator.finish().unwrap().0))
}

#[test]
fn every_loss_on_the_way_to_a_kernel_is_counted() {
    for (name, loss) in [("none", 0.0), ("0.1 %", 0.001), ("1 %", 0.01)] {
        let mut lossy = link(50.0, 10);
        lossy.config.random_loss = loss;
        let Some((report, received, record)) = through(lossy) else { return };
        assert_eq!((report.reading.delivered_bytes, received), (SIZE, SIZE));
        let lost = record.flows[0].lost_packets;
        println!(
            "{name}: {:.2} Mbps, {} counted, {lost} lost, {report:?}",
            report.throughput_mbps(),
            report.reading.lost_packets
        );
        // SYN, FIN and ACKs without data are the emulator's to lose, too.
        figure(
            &format!("User-space TCP: losses counted less those of the link, loss {name}"),
            -2.0..=0.0,
            report.reading.lost_packets as f64 - lost as f64,
        );
    }
}
