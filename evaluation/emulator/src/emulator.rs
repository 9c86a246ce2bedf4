//! The thread that moves datagrams between sockets and the network.
//!
//! Waiting: `ppoll` on the sockets until shortly before the next packet is due, with the thread's timer
//! slack at its minimum instead of the default 50 µs, then a short spin on the clock. No real-time
//! scheduling, and next to no CPU while nothing is due.

use crate::measure::{Counts, FlowRecord, Record, TimerRecord};
use crate::network::{Due, Network};
use crate::{EmulatorError, UDP_HEADER_BYTES};
use anole_model::{Dur, Time};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl::set_timerslack;
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The last stretch before a departure is spun, ns: about what a wake-up takes on an idle machine.
const SPIN_NANOS: u64 = 20_000;

/// Longest wait, so that a request to stop is seen.
const MAX_WAIT: Duration = Duration::from_millis(20);

/// Datagrams taken from one socket before the others have their turn.
const MAX_BATCH: usize = 64;

/// Socket buffers asked of the kernel, bytes: nothing may be lost but by the links, and the thread may
/// be kept from running for tens of milliseconds on a busy machine.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// Largest datagram carried.
const MAX_DATAGRAM_BYTES: usize = 65_536;

/// What an emulator is started with.
#[derive(Clone, Copy, Debug)]
pub struct EmulatorOptions {
    /// Where the data goes.
    pub server: SocketAddr,
    /// Time zero of the network and its changes.
    pub epoch: Instant,
    /// Measuring begins this long after the epoch.
    pub warmup: Dur,
}

/// A running emulator; dropping it stops it.
#[derive(Debug)]
pub struct Emulator {
    ports: Vec<Port>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Record>>,
}

/// What the outside knows of one flow.
#[derive(Debug)]
struct Port {
    entry: SocketAddr,
    exit: SocketAddr,
    counts: Arc<Counts>,
}

/// One flow's pair of sockets.
struct Sockets {
    entry: UdpSocket,
    exit: UdpSocket,
    client: Option<SocketAddr>,
    counts: Arc<Counts>,
}

impl Emulator {
    /// Opens the sockets and starts the thread.
    pub fn start(network: Network<Vec<u8>>, options: EmulatorOptions) -> Result<Emulator, EmulatorError> {
        let mut flows = Vec::new();
        let mut ports = Vec::new();
        for _ in 0..network.flows() {
            let entry = open().map_err(EmulatorError::Socket)?;
            let exit = open().map_err(EmulatorError::Socket)?;
            exit.connect(options.server).map_err(EmulatorError::Socket)?;
            let counts = Arc::new(Counts::default());
            ports.push(Port {
                entry: entry.local_addr().map_err(EmulatorError::Socket)?,
                exit: exit.local_addr().map_err(EmulatorError::Socket)?,
                counts: counts.clone(),
            });
            flows.push(Sockets { entry, exit, client: None, counts });
        }
        let stop = Arc::new(AtomicBool::new(false));
        let worker = Worker {
            record: Record {
                flows: vec![FlowRecord::default(); flows.len()],
                timer: TimerRecord::default(),
                ..Record::default()
            },
            lost_before: vec![0; flows.len()],
            flows,
            network,
            options,
            buffer: vec![0; MAX_DATAGRAM_BYTES],
            stop: stop.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("anole-emulator".to_string())
            .spawn(move || worker.run())
            .map_err(|e| EmulatorError::Thread(e.to_string()))?;
        Ok(Emulator { ports, stop, thread: Some(thread) })
    }

    /// Where the client of a flow has to send to.
    pub fn entry(&self, flow: usize) -> SocketAddr {
        self.ports[flow].entry
    }

    /// The address under which the server sees a flow.
    pub fn exit(&self, flow: usize) -> SocketAddr {
        self.ports[flow].exit
    }

    /// A flow's live counters.
    pub fn counts(&self, flow: usize) -> Arc<Counts> {
        self.ports[flow].counts.clone()
    }

    /// Stops and tells what was measured.
    pub fn finish(mut self) -> Result<Record, EmulatorError> {
        self.stop.store(true, Relaxed);
        let thread = self.thread.take().ok_or_else(|| EmulatorError::Thread("already stopped".into()))?;
        thread.join().map_err(|_| EmulatorError::Thread("it panicked".into()))
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn open() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_nonblocking(true)?;
    // The privileged form ignores net.core.{r,w}mem_max; without the privilege the maximum has to do.
    if setsockopt(&socket, sockopt::RcvBufForce, &SOCKET_BUFFER_BYTES).is_err() {
        let _ = setsockopt(&socket, sockopt::RcvBuf, &SOCKET_BUFFER_BYTES);
    }
    if setsockopt(&socket, sockopt::SndBufForce, &SOCKET_BUFFER_BYTES).is_err() {
        let _ = setsockopt(&socket, sockopt::SndBuf, &SOCKET_BUFFER_BYTES);
    }
    Ok(socket)
}

struct Worker {
    network: Network<Vec<u8>>,
    flows: Vec<Sockets>,
    options: EmulatorOptions,
    record: Record,
    lost_before: Vec<u64>,
    buffer: Vec<u8>,
    stop: Arc<AtomicBool>,
}

impl Worker {
    fn run(mut self) -> Record {
        // A refusal costs accuracy, which the record shows.
        let _ = set_timerslack(1);
        let started = Instant::now();
        let cpu_before = thread_cpu();
        let mut measuring_since = None;
        while !self.stop.load(Relaxed) {
            if measuring_since.is_none() && self.now() >= Time::ZERO + self.options.warmup {
                measuring_since = Some(self.begin_measuring());
            }
            self.send_due();
            self.wait();
            self.receive();
        }
        let now = self.now();
        self.record.measured = measuring_since.map_or(Dur::ZERO, |since| now.since(since));
        self.record.links = self.network.link_stats(now);
        self.record.possible_bytes = self.network.possible_bytes(now);
        self.record.inside = self.network.data_inside();
        for (flow, record) in self.record.flows.iter_mut().enumerate() {
            record.lost_packets = self.network.lost_of(flow) - self.lost_before[flow];
        }
        self.record.timer.wall = duration(started.elapsed());
        self.record.timer.cpu = duration(thread_cpu().saturating_sub(cpu_before));
        self.record
    }

    fn now(&self) -> Time {
        Time::ZERO + duration(self.options.epoch.elapsed())
    }

    fn begin_measuring(&mut self) -> Time {
        let now = self.now();
        self.network.reset_stats(now);
        for (flow, record) in self.record.flows.iter_mut().enumerate() {
            *record = FlowRecord::default();
            self.lost_before[flow] = self.network.lost_of(flow);
        }
        now
    }

    /// Hands over everything whose time has come.
    fn send_due(&mut self) {
        while let Some(Due { at, flow, entered, data }) = self.network.pop(self.now()) {
            let sockets = &self.flows[flow];
            let sent = match (entered, sockets.client) {
                (Some(_), _) => sockets.exit.send(&data),
                (None, Some(client)) => sockets.entry.send_to(&data, client),
                // No client has spoken yet, so that nobody waits for this.
                (None, None) => continue,
            };
            match sent {
                Ok(_) => {}
                // The other end's socket is closed, as at the end of every run.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(_) => {
                    self.record.timer.send_failures += 1;
                    continue;
                }
            }
            let now = self.now();
            self.record.timer.lateness.add(now.since(at));
            if let Some(entered) = entered {
                let bytes = u64::from(wire_size(data.len()));
                sockets.counts.delivered_packets.fetch_add(1, Relaxed);
                sockets.counts.delivered_bytes.fetch_add(bytes, Relaxed);
                let record = &mut self.record.flows[flow];
                record.delivered_packets += 1;
                record.delivered_bytes += bytes;
                record.one_way_delay.add(now.since(entered));
            }
        }
    }

    /// Waits until a datagram comes or the next one is due.
    fn wait(&self) {
        let until_due = |now: Time| self.network.next_event().map_or(u64::MAX, |at| at.since(now).as_nanos());
        let now = self.now();
        let due = until_due(now);
        if due > SPIN_NANOS {
            let wait = Duration::from_nanos(due - SPIN_NANOS).min(MAX_WAIT);
            let mut fds: Vec<PollFd<'_>> = self
                .flows
                .iter()
                .flat_map(|sockets| [&sockets.entry, &sockets.exit])
                .map(|socket| PollFd::new(socket.as_fd(), PollFlags::POLLIN))
                .collect();
            // An interrupted wait is a short one.
            if ppoll(&mut fds, Some(TimeSpec::from_duration(wait)), None).is_ok_and(|ready| ready > 0) {
                return;
            }
        }
        let due = until_due(self.now());
        if due <= SPIN_NANOS {
            let deadline = Instant::now() + Duration::from_nanos(due);
            while Instant::now() < deadline {
                std::hint::spin_loop();
            }
        }
    }

    /// Takes what waits at the sockets.
    fn receive(&mut self) {
        for flow in 0..self.flows.len() {
            for _ in 0..MAX_BATCH {
                let sockets = &mut self.flows[flow];
                let Ok((length, from)) = sockets.entry.recv_from(&mut self.buffer) else { break };
                sockets.client = Some(from);
                sockets.counts.entered_packets.fetch_add(1, Relaxed);
                self.record.flows[flow].entered_packets += 1;
                let data = self.buffer[..length].to_vec();
                let now = self.now();
                self.network.offer(now, flow, wire_size(length), data);
            }
            for _ in 0..MAX_BATCH {
                let Ok(length) = self.flows[flow].exit.recv(&mut self.buffer) else { break };
                let data = self.buffer[..length].to_vec();
                let now = self.now();
                self.network.offer_reverse(now, flow, data);
            }
        }
    }
}

fn wire_size(payload: usize) -> u32 {
    payload as u32 + UDP_HEADER_BYTES
}

fn duration(duration: Duration) -> Dur {
    Dur::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// CPU time of the calling thread.
fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}
