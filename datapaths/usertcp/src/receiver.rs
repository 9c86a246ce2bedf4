//! The receiving end: takes every connection, counts and forgets.

use crate::device::Watched;
use crate::sender::new_socket;
use crate::stack::{HostAddress, Stack};
use smoltcp::iface::SocketHandle;
use smoltcp::phy::Device;
use smoltcp::socket::tcp;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// Sockets that listen at once: connections that may come between two polls.
const LISTENERS: usize = 4;
/// Credit of a connection, bytes. No transfer may be limited by it: a gigabit over 100 ms are 12.5 MB.
const RECEIVE_BUFFER_BYTES: usize = 16 << 20;
/// A server answers nothing.
const SEND_BUFFER_BYTES: usize = 4 * 1024;
/// Connections served at once; each has a buffer of 16 MiB.
const MAX_CONNECTIONS: usize = 64;

/// What a server is set up with.
#[derive(Clone, Copy, Debug)]
pub struct ReceiverOptions {
    /// The host that the stack plays.
    pub host: HostAddress,
    /// The port to listen on.
    pub port: u16,
    /// A connection from which nothing came for this long is closed.
    pub idle_timeout: Duration,
}

/// How a connection ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The sender's address.
    pub remote: SocketAddr,
    /// Bytes delivered in order.
    pub bytes: u64,
    /// How long it lasted.
    pub lasted: Duration,
    /// Why it ended, unless the sender closed it.
    pub error: Option<&'static str>,
}

struct Connection {
    socket: SocketHandle,
    /// Whose SYN was taken last.
    remote: Option<SocketAddr>,
    bytes: u64,
    /// When the handshake was over.
    since: Option<Instant>,
}

impl Connection {
    /// Its end; a handshake that was never over was no connection.
    fn ended(&self, now: Instant, error: Option<&'static str>) -> Option<Ended> {
        let lasted = now.saturating_duration_since(self.since?);
        Some(Ended { remote: self.remote?, bytes: self.bytes, lasted, error })
    }
}

/// A server that listens.
pub struct Receiver<D: Device> {
    pub(crate) stack: Stack<D>,
    options: ReceiverOptions,
    connections: Vec<Connection>,
}

impl<D: Device> Receiver<D> {
    /// Listens.
    pub fn listen(device: D, options: ReceiverOptions, now: Instant) -> Receiver<D> {
        let stack = Stack::new(Watched::new(device, None), &options.host, now);
        let mut receiver = Receiver { stack, options, connections: Vec::new() };
        receiver.keep_listening();
        receiver
    }

    /// The device.
    pub fn device(&self) -> &D {
        self.stack.device.inner()
    }

    /// Bytes that all connections that are open have delivered.
    pub fn bytes(&self) -> u64 {
        self.connections.iter().map(|connection| connection.bytes).sum()
    }

    /// The connections that are open: the sender's address, and the bytes delivered in order so far.
    pub fn open(&self) -> impl Iterator<Item = (SocketAddr, u64)> + '_ {
        let open = self.connections.iter().filter(|connection| connection.since.is_some());
        open.filter_map(|connection| Some((connection.remote?, connection.bytes)))
    }

    /// Takes of what has come as much as goes before the other direction has its turn; tells of connections that ended, and
    /// when to poll again unless a packet comes: at once where something came.
    pub fn poll(&mut self, now: Instant) -> (Vec<Ended>, Option<Instant>) {
        let mut ended = Vec::new();
        let taken = self.stack.take_all(now, |_| {});
        self.drain(now, &mut ended);
        self.keep_listening();
        self.stack.send(now);
        let next = self.stack.next(now);
        (ended, if taken { Some(now) } else { next })
    }

    /// Resets the connections that are open, and tells of them.
    pub fn stop(&mut self, now: Instant) -> Vec<Ended> {
        let mut ended = Vec::new();
        for connection in self.connections.drain(..) {
            self.stack.sockets.get_mut::<tcp::Socket>(connection.socket).abort();
            ended.extend(connection.ended(now, Some("the server was stopped")));
        }
        self.stack.send(now);
        ended
    }

    fn drain(&mut self, now: Instant, ended: &mut Vec<Ended>) {
        let sockets = &mut self.stack.sockets;
        let mut over = Vec::new();
        for (index, connection) in self.connections.iter_mut().enumerate() {
            let socket = sockets.get_mut::<tcp::Socket>(connection.socket);
            // A handshake that is reset leaves the socket to the next.
            if let Some(end) = socket.remote_endpoint() {
                connection.remote = Some(SocketAddr::new(IpAddr::from(end.addr), end.port));
            }
            while let Ok(taken) = socket.recv(|bytes| (bytes.len(), bytes.len())) {
                connection.bytes += taken as u64;
                if taken == 0 {
                    break;
                }
            }
            let state = socket.state();
            let opened = !matches!(state, tcp::State::Listen | tcp::State::SynReceived | tcp::State::Closed);
            if opened || connection.bytes > 0 {
                connection.since.get_or_insert(now);
            }
            let error = match state {
                tcp::State::CloseWait => None,
                tcp::State::Closed => Some("reset by the sender, or silent for too long"),
                _ => continue,
            };
            socket.close();
            ended.extend(connection.ended(now, error));
            over.push(index);
        }
        for index in over.into_iter().rev() {
            // What is left of the connection is the stack's; a later listener takes the place of one that is closed.
            self.connections.swap_remove(index);
        }
    }

    /// Has enough sockets listen.
    fn keep_listening(&mut self) {
        let closed: Vec<SocketHandle> = self
            .stack
            .sockets
            .iter()
            .filter(|(handle, _)| !self.connections.iter().any(|known| known.socket == *handle))
            .filter(|(_, socket)| match socket {
                smoltcp::socket::Socket::Tcp(socket) => !socket.is_open(),
            })
            .map(|(handle, _)| handle)
            .collect();
        for handle in closed {
            self.stack.sockets.remove(handle);
        }
        let sockets = &mut self.stack.sockets;
        let listens = |known: &&Connection| sockets.get::<tcp::Socket>(known.socket).is_listening();
        let waiting = self.connections.iter().filter(listens).count();
        for _ in waiting..LISTENERS {
            // Those that wait for the acknowledgement of their end have buffers too.
            if sockets.iter().count() >= MAX_CONNECTIONS {
                return;
            }
            let mut socket = new_socket(SEND_BUFFER_BYTES, RECEIVE_BUFFER_BYTES, self.options.idle_timeout);
            // Refused for port 0 alone.
            let _ = socket.listen(self.options.port);
            let socket = sockets.add(socket);
            self.connections.push(Connection { socket, remote: None, bytes: 0, since: None });
        }
    }
}
