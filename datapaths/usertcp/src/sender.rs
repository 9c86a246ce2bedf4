//! The sending end: one connection, for a size or a time.

use crate::UserTcpError;
use crate::device::Watched;
use crate::stack::{HostAddress, Stack};
use crate::watch::{Governance, Watch};
use anole_transfer::{Amount, Reading, TransferReport};
use smoltcp::iface::SocketHandle;
use smoltcp::phy::Device;
use smoltcp::socket::tcp;
use smoltcp::wire::IpEndpoint;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The send buffer, in segments: 16 MB, more than a gigabit over 100 ms. A whole number of segments, so that none is cut
/// where the buffer wraps.
const SEND_BUFFER_SEGMENTS: usize = 11_000;
/// A sender receives next to nothing.
const RECEIVE_BUFFER_BYTES: usize = 64 * 1024;
/// Bytes of an IPv4 or IPv6 header and a TCP header.
const IPV4_HEADERS: usize = 40;
const IPV6_HEADERS: usize = 60;
/// How long the end of a connection is waited for once its transfer is over.
const CLOSE_WAIT: Duration = Duration::from_millis(1_000);

/// What a connection is opened with.
#[derive(Clone, Debug)]
pub struct SenderOptions {
    /// The host that the stack plays.
    pub host: HostAddress,
    /// The port to send from.
    pub port: u16,
    /// The server.
    pub remote: SocketAddr,
    /// What goes before everything else.
    pub preamble: Vec<u8>,
    /// How much to send after that.
    pub amount: Amount,
    /// The peer is given up when it has not answered for this long.
    pub idle_timeout: Duration,
}

/// Where a transfer stands.
#[derive(Debug)]
pub enum Progress {
    /// It goes on: to be polled when a packet comes, and at this time if there is one.
    Running(Option<Instant>),
    /// It is over.
    Over(Result<TransferReport, UserTcpError>),
}

/// A connection that sends.
pub struct Sender<D: Device> {
    pub(crate) stack: Stack<D>,
    options: SenderOptions,
    socket: SocketHandle,
    opened: Instant,
    established: Option<Instant>,
    /// Bytes that the application has yet to hand over, and how many of them are the preamble's.
    left: u64,
    preamble_left: usize,
    /// The report, and when it was made: what follows is the end of the connection.
    report: Option<(Instant, TransferReport)>,
}

impl<D: Device> Sender<D> {
    /// Opens a connection.
    pub fn connect(
        device: D,
        governance: Governance,
        options: SenderOptions,
        now: Instant,
    ) -> Result<Sender<D>, UserTcpError> {
        let headers = if options.remote.is_ipv4() { IPV4_HEADERS } else { IPV6_HEADERS };
        let mss = device.capabilities().ip_mtu().saturating_sub(headers).max(1);
        let port = options.port;
        let local = SocketAddr::new(options.host.address, port);
        let watch = Watch::new(governance, local, options.remote, mss as u32);
        let mut stack = Stack::new(Watched::new(device, Some(watch)), &options.host, now);
        let socket = stack.sockets.add(new_socket(
            SEND_BUFFER_SEGMENTS * mss,
            RECEIVE_BUFFER_BYTES,
            options.idle_timeout,
        ));
        let remote: IpEndpoint = options.remote.into();
        let refused = |reason: String| UserTcpError::Connect { remote: options.remote, reason };
        stack
            .sockets
            .get_mut::<tcp::Socket>(socket)
            .connect(stack.interface.context(), remote, port)
            .map_err(|error| refused(error.to_string()))?;
        let left = match options.amount {
            Amount::Bytes(bytes) => bytes.saturating_add(options.preamble.len() as u64),
            Amount::Time(_) => u64::MAX,
        };
        let preamble_left = options.preamble.len();
        let (established, report) = (None, None);
        Ok(Sender { stack, options, socket, opened: now, established, left, preamble_left, report })
    }

    /// From now on it is `now`, whatever the clock says; for transfers in virtual time.
    pub fn set_time(&mut self, now: Instant) {
        self.stack.device.set_time(now);
    }

    /// The device.
    pub fn device(&self) -> &D {
        self.stack.device.inner()
    }

    /// The connection's counters.
    pub fn read(&self) -> Reading {
        self.stack.device.with(|watch| watch.read()).unwrap_or_default()
    }

    /// The transfer is over now, whatever is left. False without a connection, which has nothing to report.
    pub fn end(&mut self) -> bool {
        self.options.amount = Amount::Time(Duration::ZERO);
        self.established.is_some()
    }

    /// Data that is on its way, bytes.
    pub fn bytes_in_flight(&self) -> u64 {
        self.stack.device.with(|watch| watch.bytes_in_flight()).unwrap_or_default()
    }

    /// Takes what has come, sends what may go.
    pub fn poll(&mut self, now: Instant) -> Progress {
        let preamble = &self.options.preamble[self.options.preamble.len() - self.preamble_left..];
        let mut supply = Supply { socket: self.socket, left: self.left, preamble };
        self.stack.take_all(now, |stack| supply.fill(stack));
        if self.report.is_none() {
            supply.fill(&mut self.stack);
        }
        (self.left, self.preamble_left) = (supply.left, supply.preamble.len());
        self.stack.send(now);
        if let Some(over) = self.advance(now) {
            return Progress::Over(over);
        }
        let end = match (self.established, self.options.amount, &self.report) {
            (_, _, Some((at, _))) => Some(*at + CLOSE_WAIT),
            (Some(since), Amount::Time(time), None) => Some(since + time),
            _ => None,
        };
        Progress::Running(self.stack.next(now).into_iter().chain(end).min())
    }

    /// The states that a transfer goes through.
    fn advance(&mut self, now: Instant) -> Option<Result<TransferReport, UserTcpError>> {
        let socket = self.stack.sockets.get_mut::<tcp::Socket>(self.socket);
        let state = socket.state();
        if let Some((at, report)) = self.report {
            let all = socket.send_queue() == 0
                && !matches!(state, tcp::State::FinWait1 | tcp::State::Closing | tcp::State::LastAck);
            let waited = now >= at + CLOSE_WAIT;
            if !(all || waited || state == tcp::State::Closed) {
                return None;
            }
            socket.abort();
            self.stack.send(now);
            return Some(Ok(self.settled(report)));
        }
        // A peer that has ended its own direction still takes data.
        if state == tcp::State::Closed {
            return Some(Err(self.failure()));
        }
        if self.established.is_none() && socket.may_send() {
            self.established = Some(now);
        }
        let since = self.established?;
        let over = match self.options.amount {
            Amount::Bytes(_) => self.left == 0 && socket.send_queue() == 0,
            Amount::Time(time) => now >= since + time,
        };
        if over {
            socket.close();
            self.left = 0;
            let (handshake, elapsed) = (since - self.opened, now - since);
            self.report = Some((now, TransferReport { handshake, elapsed, reading: self.read() }));
            self.stack.send(now);
        }
        None
    }

    /// The report with the losses that only the end of the connection tells of.
    fn settled(&self, report: TransferReport) -> TransferReport {
        if matches!(self.options.amount, Amount::Time(_)) {
            return report;
        }
        self.stack.device.with(Watch::settle);
        let lost_packets = self.read().lost_packets;
        TransferReport { reading: Reading { lost_packets, ..report.reading }, ..report }
    }

    /// Why there is no connection: the peer has said so, or said nothing for too long.
    fn failure(&self) -> UserTcpError {
        let (remote, idle) = (self.options.remote, self.options.idle_timeout);
        let reset = self.stack.device.with(|watch| watch.reset).unwrap_or_default();
        let delivered_bytes = self.read().delivered_bytes;
        match (self.established, reset) {
            (None, false) => {
                let reason = format!(
                    "no answer for {} s; is a server listening there, and the route to it up?",
                    idle.as_secs_f64()
                );
                UserTcpError::Connect { remote, reason }
            }
            (None, true) => {
                UserTcpError::Connect { remote, reason: "refused; nothing listens there".to_string() }
            }
            (Some(_), false) => UserTcpError::Vanished { remote, idle, delivered_bytes },
            (Some(_), true) => UserTcpError::Ended { remote, delivered_bytes },
        }
    }
}

/// A socket with buffers of these sizes whose peer may be silent for so long.
pub(crate) fn new_socket(send_bytes: usize, receive_bytes: usize, idle: Duration) -> tcp::Socket<'static> {
    let buffer = |bytes| tcp::SocketBuffer::new(vec![0; bytes]);
    let mut socket = tcp::Socket::new(buffer(receive_bytes), buffer(send_bytes));
    socket.set_nagle_enabled(false);
    // Built without Reno and CUBIC, the stack has no congestion control of its own.
    socket.set_congestion_control(tcp::CongestionControl::None);
    socket.set_timeout(Some(smoltcp::time::Duration::from_micros(idle.as_micros() as u64)));
    socket
}

/// What the application has to send.
struct Supply<'a> {
    socket: SocketHandle,
    left: u64,
    /// What of it has to go first.
    preamble: &'a [u8],
}

impl Supply<'_> {
    /// Lets into the send buffer what the window allows.
    fn fill<D: Device>(&mut self, stack: &mut Stack<D>) {
        let socket = stack.sockets.get_mut::<tcp::Socket>(self.socket);
        if !socket.may_send() {
            return;
        }
        let queued = socket.send_queue() as u64;
        let room = stack.device.with(|watch| watch.room(queued)).unwrap_or(0);
        let mut wanted = room.min(self.left);
        self.left -= wanted;
        let first = self.preamble.len().min(usize::try_from(wanted).unwrap_or(usize::MAX));
        // Nothing enters a buffer that is full.
        let entered = socket.send_slice(&self.preamble[..first]).unwrap_or(0);
        self.preamble = &self.preamble[entered..];
        wanted -= entered as u64;
        while wanted > 0 && self.preamble.is_empty() {
            // The buffer holds zeros; any data is as good as any other.
            let entered =
                socket.send(|free| (free.len().min(wanted as usize), free.len().min(wanted as usize)));
            match entered {
                Ok(entered) if entered > 0 => wanted -= entered as u64,
                // The buffer is full.
                _ => break,
            }
        }
        self.left += wanted;
        let (queued, left) = (socket.send_queue() as u64, self.left);
        stack.device.with(|watch| {
            watch.app_limited = left == 0 || wanted > 0;
            watch.pending = watch.unsent(queued).saturating_add(left);
            watch.hold(queued);
        });
    }
}
