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
use std::io::{BufRead, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
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
    let (preamble, amount) = (Vec::new(), Amount::Bytes(size));
    SenderOptions { host: stack(), port, remote, preamble, amount, idle_timeout: Duration::from_secs(20) }
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
fn receive_from_an_interface(namespace: &Namespace, before: impl FnOnce() + Send) -> u64 {
    namespace
        .run(|| {
            ip("link add kernel0 type veth peer name stack0");
            ip("address add 10.9.0.1/24 dev kernel0");
            // Larger frames than the interface's would be handed over uncut.
            ip("link set kernel0 gso_max_size 1500 gso_max_segs 1 up");
            ip("link set stack0 arp off up");
            let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
            assert!(text.contains("stack0"));
            before();
            let host = HostAddress { ethernet: Some([2, 0, 0, 0, 9, 2]), ..stack() };
            Ok(receive(open_interface("stack0").unwrap(), host))
        })
        .unwrap()
}

#[test]
fn an_interface_s_frames_are_taken() {
    let Some(namespace) = namespace() else { return };
    assert_eq!(receive_from_an_interface(&namespace, || {}), SIZE);
}

fn tc(arguments: &str) -> Option<String> {
    let output = Command::new("tc").args(arguments.split_whitespace()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_frame_that_the_queueing_discipline_refuses_is_lost() {
    let Some(namespace) = namespace() else { return };
    let mut shaped = false;
    // Room for some ACKs of the thousands.
    let shape = || shaped = tc("qdisc add dev stack0 root tbf rate 1mbit burst 2k latency 5ms").is_some();
    let received = receive_from_an_interface(&namespace, shape);
    if !shaped {
        anole_testing::skip!("no token bucket filter (package iproute2, module sch_tbf)");
        return;
    }
    assert_eq!(received, SIZE);
    let told = namespace.run(|| Ok(tc("-s qdisc show dev stack0"))).unwrap().expect("it was there before");
    let dropped = told.split("(dropped ").nth(1).and_then(|rest| rest.split(',').next());
    assert!(dropped.is_some_and(|count| count != "0"), "{told}");
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

/// A program of this machine that takes or sends bytes; killed when dropped.
struct Peer(Child);

impl Peer {
    /// Starts it in this thread's namespace, where it listens on `port`.
    fn start(program: &str, arguments: &str, port: u16) -> Peer {
        let mut command = Command::new(program);
        command.args(arguments.split_whitespace()).stdin(Stdio::null()).stdout(Stdio::piped());
        let peer = Peer(command.stderr(Stdio::piped()).spawn().unwrap());
        let end = Instant::now() + Duration::from_secs(60);
        let entry = format!(":{port:04X} 00000000:0000 0A");
        let listens = || {
            let tables = ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"];
            let table = |path| std::fs::read_to_string(path).unwrap_or_default();
            tables.into_iter().any(|path| {
                table(path).lines().any(|line| {
                    line.contains(&entry) || line.contains(&format!(":{port:04X} {:032}:0000 0A", 0))
                })
            })
        };
        while !listens() {
            assert!(Instant::now() < end, "{program} listens within 10 s");
            std::thread::sleep(Duration::from_millis(10));
        }
        peer
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// `anole-usertcp send` to a server at the kernel's end.
fn program(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anole-usertcp"));
    command.args(["send"]).args(arguments.split_whitespace());
    command.args(["--tun", "stack0", "--address", "10.9.0.2/24", "--json"]);
    command
}

/// Its report.
fn program_sends(arguments: &str) -> std::process::Output {
    program(arguments).output().unwrap()
}

#[test]
fn a_device_that_goes_down_is_told_in_one_line() {
    let Some(namespace) = namespace() else { return };
    let output = namespace
        .run(|| {
            tun();
            let server = TcpListener::bind((IpAddr::from(KERNEL), 5001)).unwrap();
            let child = program("10.9.0.1:5001 --duration 20").stderr(Stdio::piped()).spawn().unwrap();
            let _open = server.accept().unwrap();
            ip("link set stack0 down");
            Ok(child.wait_with_output().unwrap())
        })
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let told = "anole-usertcp: the device is gone or down; set it up again and start anew\n";
    assert_eq!((output.status.code(), &*said), (Some(1), told));
}

#[test]
fn a_device_that_is_down_is_refused_by_name() {
    let Some(namespace) = namespace() else { return };
    let output = namespace
        .run(|| {
            tun();
            ip("link set stack0 down");
            Ok(program_sends("10.9.0.1:5001"))
        })
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.starts_with("anole-usertcp: cannot open the TUN device stack0: it is down; ip link"),
        "{said}"
    );
}

#[test]
fn an_iperf3_server_takes_part() {
    if !is_installed("iperf3") {
        anole_testing::skip!("no iperf3 (package iperf3)");
        return;
    }
    let Some(namespace) = namespace() else { return };
    let output = namespace
        .run(|| {
            tun();
            ip("link set lo up");
            let _server = Peer::start("iperf3", "-s -1 -p 5201", 5201);
            Ok(program_sends(&format!("10.9.0.1:5201 --iperf3 --size {SIZE}")))
        })
        .unwrap();
    let (report, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{report}{said}");
    let received = said.split("server received ").nth(1).and_then(|rest| rest.split_whitespace().next());
    let received: u64 = received.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{said}"));
    // The server counts what it has read when the test is over.
    assert!(received > 0 && received <= SIZE, "{received}");
    figure(
        "User-space TCP: bytes that an iperf3 server received, of those sent",
        1.0..=1.0,
        received as f64 / SIZE as f64,
    );
}

#[test]
fn netcat_takes_and_sends_bytes() {
    if !is_installed("nc") {
        anole_testing::skip!("no nc (package netcat-openbsd)");
        return;
    }
    let Some(namespace) = namespace() else { return };
    let output = namespace
        .run(|| {
            tun();
            let mut server = Peer::start("nc", "-l 10.9.0.1 5002", 5002);
            let taken = server.0.stdout.take().unwrap();
            let taken =
                std::thread::spawn(move || std::io::copy(&mut { taken }, &mut std::io::sink()).unwrap());
            let sent = program_sends(&format!("10.9.0.1:5002 --size {SIZE}"));
            // It ends with the connection.
            assert!(server.0.wait().unwrap().success());
            assert_eq!(taken.join().unwrap(), SIZE);
            Ok(sent)
        })
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The other way: netcat sends what it reads.
    let ended = namespace
        .run(|| {
            let mut serve = Command::new(env!("CARGO_BIN_EXE_anole-usertcp"));
            serve.args([
                "serve",
                "--tun",
                "stack0",
                "--address",
                "10.9.0.2/24",
                "--connections",
                "1",
                "--json",
            ]);
            let mut serve = Peer(serve.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
            let mut line = String::new();
            std::io::BufReader::new(serve.0.stderr.take().unwrap()).read_line(&mut line).unwrap();
            let mut client = Command::new("nc");
            client.args(["-N", "10.9.0.2", "5001"]).stdin(Stdio::piped());
            let mut client = Peer(client.spawn().unwrap());
            client.0.stdin.take().unwrap().write_all(&vec![7; SIZE as usize]).unwrap();
            let mut told = String::new();
            serve.0.stdout.take().unwrap().read_to_string(&mut told).unwrap();
            Ok(told)
        })
        .unwrap();
    assert!(ended.contains(&format!("\"bytes\":{SIZE}")) || ended.contains(&SIZE.to_string()), "{ended}");
}
