//! Two hosts of this machine's kernel, joined by a virtual Ethernet cable, and bulk traffic between them.
//!
//! The namespaces have no names: they go with this process, and nothing is left to clean up.

use anole_bpf::bench::limit_rate;
use anole_emulator::{EmulatorError, Namespace};
use anyhow::{Context, Result, anyhow, bail};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, connect, setsockopt, socket,
    sockopt::{TcpCongestion, TcpNoDelay},
};
use nix::time::{ClockId, clock_gettime};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Addresses for documentation (RFC 5737).
const SENDER: &str = "192.0.2.1/30";
const RECEIVER: &str = "192.0.2.2/30";
const DESTINATION: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), 5001);
/// Buffers shall not end a window, and a flow shall learn nothing from the one before it; `ssthresh` of the
/// route counts.
const PARAMETERS: [(&str, &str); 4] = [
    ("/proc/sys/net/ipv4/tcp_rmem", "4096 131072 33554432"),
    ("/proc/sys/net/ipv4/tcp_wmem", "4096 131072 33554432"),
    ("/proc/sys/net/ipv4/tcp_no_metrics_save", "1"),
    ("/proc/sys/net/ipv4/tcp_no_ssthresh_metrics_save", "0"),
];
/// Bytes taken from a socket at a time.
const READ_BYTES: usize = 1 << 16;
/// How long a thread of the traffic waits before it looks whether it shall stop.
const LOOK: u16 = 20;
/// Writes to a socket, and events taken, at a time.
const BATCH: usize = 32;

/// The hosts.
pub struct Lab {
    sender: Namespace,
    receiver: Namespace,
}

impl Lab {
    /// Makes them. `device` is what is set of the sender's device (ip-link(8)), `route` what its route says
    /// beside its way (ip-route(8)), and `back` what the receiver's says.
    pub fn new(device: &str, route: &str, back: &str) -> Result<Lab> {
        let lab = Lab { sender: Namespace::new()?, receiver: Namespace::new()? };
        let far = format!("/proc/{}/fd/{}", std::process::id(), lab.receiver.as_fd().as_raw_fd());
        let host = |address: &str| -> Result<()> {
            for (path, value) in PARAMETERS {
                std::fs::write(path, value).with_context(|| format!("cannot write {path}"))?;
            }
            ip(&format!("address add {address} dev eth"))?;
            ip("link set eth up")
        };
        lab.sender.run(|| {
            Ok(ip(&format!("link add eth type veth peer name eth netns {far}")).and_then(|()| host(SENDER)))
        })??;
        lab.receiver.run(|| Ok(host(RECEIVER)))??;
        let change = |route: &str| ip(&format!("route change 192.0.2.0/30 dev eth {route}"));
        lab.sender.run(|| Ok(ip(&format!("link set eth {device}")).and_then(|()| change(route))))??;
        lab.receiver.run(|| Ok(change(back)))??;
        Ok(lab)
    }

    /// TCP segments that came in at the sender, which are ACKs, and those that it sent again.
    fn segments(&self) -> Result<[u64; 2]> {
        let text = self.sender.run(|| {
            std::fs::read_to_string("/proc/thread-self/net/snmp").map_err(EmulatorError::Namespace)
        })?;
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
        let (names, values) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
        let find = |wanted: &str| {
            let at = names.split(' ').position(|name| name == wanted);
            at.and_then(|at| values.split(' ').nth(at)?.parse().ok()).context("/proc/net/snmp has no TCP")
        };
        Ok([find("InSegs")?, find("RetransSegs")?])
    }
}

fn ip(arguments: &str) -> Result<()> {
    let output = Command::new("ip").args(arguments.split_whitespace()).output();
    let output = output.context("cannot run ip (Debian package iproute2)")?;
    if !output.status.success() {
        bail!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// What to send.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// The kernel's name of the congestion control.
    pub control: &'a str,
    /// Connections, which send at the same time.
    pub flows: usize,
    /// Handed to a socket at a time, and sent at once.
    pub write_bytes: usize,
    /// Of all flows together, bytes/s.
    pub limit: Option<u64>,
}

/// What was counted since the traffic began.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    /// When.
    pub at: Instant,
    /// Processor time of the sender's and the receiver's thread.
    pub busy: Duration,
    /// Bytes received.
    pub bytes: u64,
    /// Segments that came back.
    pub acks: u64,
    /// Segments that were sent again.
    pub again: u64,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    bytes: AtomicU64,
    /// ns, of each thread.
    busy: [AtomicU64; 2],
}

impl Shared {
    fn note(&self, thread: usize) {
        if let Ok(time) = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID) {
            self.busy[thread].store(Duration::from(time).as_nanos() as u64, Relaxed);
        }
    }
}

/// Traffic in progress; dropped, it stops.
pub struct Traffic<'a> {
    lab: &'a Lab,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl<'a> Traffic<'a> {
    /// Connects every flow and begins to send.
    pub fn start(lab: &'a Lab, load: Load<'_>) -> Result<Traffic<'a>> {
        let listener = lab.receiver.run(|| TcpListener::bind(DESTINATION).map_err(EmulatorError::Socket))?;
        let pairs = lab
            .sender
            .run(|| Ok((0..load.flows).map(|_| pair(&listener, load)).collect::<Result<Vec<_>>>()))??;
        let (near, far): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        let shared = Arc::new(Shared::default());
        let mut traffic = Traffic { lab, shared: shared.clone(), threads: Vec::new() };
        let of = shared.clone();
        let receive = move || each_ready(&far, EpollFlags::EPOLLIN, &of, 1, vec![0; READ_BYTES], receive);
        traffic.threads.push(std::thread::Builder::new().name("bench-receiver".to_string()).spawn(receive)?);
        let data = vec![0; load.write_bytes];
        let send = move || each_ready(&near, EpollFlags::EPOLLOUT, &shared, 0, data, send);
        traffic.threads.push(std::thread::Builder::new().name("bench-sender".to_string()).spawn(send)?);
        Ok(traffic)
    }

    /// What was counted so far.
    pub fn snapshot(&self) -> Result<Snapshot> {
        if self.threads.iter().any(JoinHandle::is_finished) {
            bail!("the traffic ended before its time");
        }
        let [acks, again] = self.lab.segments()?;
        let busy = self.shared.busy.iter().map(|nanos| nanos.load(Relaxed)).sum();
        Ok(Snapshot {
            at: Instant::now(),
            busy: Duration::from_nanos(busy),
            bytes: self.shared.bytes.load(Relaxed),
            acks,
            again,
        })
    }

    /// Stops and closes every connection.
    pub fn finish(mut self) -> Result<()> {
        self.shared.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            thread
                .join()
                .map_err(|_| anyhow!("a thread of the traffic failed"))?
                .context("the traffic failed")?;
        }
        Ok(())
    }
}

impl Drop for Traffic<'_> {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Both ends of a connection, made on a thread of the sender's namespace.
fn pair(listener: &TcpListener, load: Load<'_>) -> Result<(TcpStream, TcpStream)> {
    let near = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&near, TcpCongestion, &load.control.into())
        .with_context(|| format!("the kernel does not take the congestion control {}", load.control))?;
    setsockopt(&near, TcpNoDelay, &true)?;
    if let Some(limit) = load.limit {
        limit_rate(&near, limit / load.flows as u64)?;
    }
    connect(near.as_raw_fd(), &SockaddrIn::from(DESTINATION)).context("cannot connect")?;
    let (near, (far, _)) = (TcpStream::from(near), listener.accept()?);
    near.set_nonblocking(true)?;
    far.set_nonblocking(true)?;
    Ok((near, far))
}

/// Does something with every socket that is ready, until told to stop.
fn each_ready(
    sockets: &[TcpStream],
    wanted: EpollFlags,
    shared: &Shared,
    thread: usize,
    mut buffer: Vec<u8>,
    act: fn(&TcpStream, &mut [u8], &Shared) -> io::Result<()>,
) -> io::Result<()> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    for (n, socket) in sockets.iter().enumerate() {
        epoll.add(socket, EpollEvent::new(wanted, n as u64))?;
    }
    let mut events = [EpollEvent::empty(); BATCH];
    while !shared.stop.load(Relaxed) {
        let ready = match epoll.wait(&mut events, EpollTimeout::from(LOOK)) {
            Err(nix::errno::Errno::EINTR) => 0,
            ready => ready?,
        };
        for event in &events[..ready] {
            match act(&sockets[event.data() as usize], &mut buffer, shared) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The other end has closed first.
                Err(_) if shared.stop.load(Relaxed) => return Ok(()),
                done => done?,
            }
        }
        shared.note(thread);
    }
    Ok(())
}

fn send(mut to: &TcpStream, data: &mut [u8], _: &Shared) -> io::Result<()> {
    (0..BATCH).try_for_each(|_| to.write(data).map(|_| ()))
}

fn receive(mut from: &TcpStream, buffer: &mut [u8], shared: &Shared) -> io::Result<()> {
    let bytes = from.read(buffer)?;
    shared.bytes.fetch_add(bytes as u64, Relaxed);
    Ok(())
}
