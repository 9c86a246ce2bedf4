//! A transfer in virtual time: the stack without its sockets, between two ends of a link.
//!
//! The same configuration, controller and streams as in [`crate::Transfer`] and [`crate::Server`], driven by hand: the
//! same packets are lost at the same times whatever the host does.

use crate::tls::{self, SERVER_NAME};
use crate::transport::{self, DatagramSize, STREAMS};
use bytes::{Bytes, BytesMut};
use noq_proto::congestion::ControllerFactory;
use noq_proto::{
    Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event,
    FourTuple, StreamEvent, StreamId,
};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of IPv4 and UDP around each datagram.
const HEADER_BYTES: usize = 28;

/// Between two frames of an application that paces itself.
pub const FRAME: Duration = Duration::from_millis(20);

/// A drop-tail link, and the way back, which loses nothing.
pub struct Link {
    bytes_per_s: f64,
    round_trip: Duration,
    buffer_bytes: f64,
    /// Whether the n-th datagram is lost before it gets to the buffer.
    pub loses: Box<dyn Fn(u64) -> bool>,
    /// Datagrams lost so far.
    pub lost: u64,
    /// The longest that a datagram waited for those before it.
    pub longest_wait: Duration,
    offered: u64,
    free_at: Instant,
}

impl Link {
    pub fn new(mbps: f64, round_trip_ms: u64, buffer_bdp: f64) -> Link {
        let (bytes_per_s, round_trip) = (mbps * 1e6 / 8.0, Duration::from_millis(round_trip_ms));
        Link {
            bytes_per_s,
            round_trip,
            buffer_bytes: buffer_bdp * bytes_per_s * round_trip.as_secs_f64(),
            loses: Box::new(|_| false),
            lost: 0,
            longest_wait: Duration::ZERO,
            offered: 0,
            free_at: epoch(),
        }
    }

    /// When a datagram arrives that is sent now, bytes; `None` when it is lost.
    fn offer(&mut self, now: Instant, datagram: usize) -> Option<Instant> {
        let bytes = (datagram + HEADER_BYTES) as f64;
        let start = self.free_at.max(now);
        let queued = (start - now).as_secs_f64() * self.bytes_per_s;
        self.offered += 1;
        if (self.loses)(self.offered) || queued + bytes > self.buffer_bytes.max(2.0 * bytes) {
            self.lost += 1;
            return None;
        }
        self.longest_wait = self.longest_wait.max(start - now);
        self.free_at = start + Duration::from_secs_f64(bytes / self.bytes_per_s);
        Some(self.free_at + self.round_trip / 2)
    }
}

/// Far enough ahead that no clock of the host catches up: controllers never take an earlier time than the host's.
fn epoch() -> Instant {
    static EPOCH: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    *EPOCH.get_or_init(|| Instant::now() + Duration::from_secs(86_400))
}

/// One end.
struct End {
    address: SocketAddr,
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    inbound: VecDeque<(Instant, BytesMut)>,
}

impl End {
    fn new(port: u16, server: Option<noq::ServerConfig>) -> End {
        let mut config = EndpointConfig::default();
        config.rng_seed(Some([7; 32]));
        End {
            address: ([127, 0, 0, 1], port).into(),
            endpoint: Endpoint::new(Arc::new(config), server.map(Arc::new), true),
            connection: None,
            inbound: VecDeque::new(),
        }
    }

    fn next(&self) -> Option<Instant> {
        let timer = self.connection.as_ref().and_then(|(_, connection)| connection.poll_timeout());
        [self.inbound.front().map(|(at, _)| *at), timer].into_iter().flatten().min()
    }

    /// Takes what has arrived and what timers ask for.
    fn take(&mut self, now: Instant, peer: SocketAddr) {
        while let Some((_, datagram)) = self.inbound.pop_front_if(|(at, _)| *at <= now) {
            let from = FourTuple::from_remote(peer);
            let mut answer = Vec::new();
            match self.endpoint.handle(now, from, None, datagram, &mut answer) {
                Some(DatagramEvent::ConnectionEvent(_, event)) => {
                    if let Some((_, connection)) = &mut self.connection {
                        connection.handle_event(event);
                    }
                }
                Some(DatagramEvent::NewConnection(incoming)) => {
                    self.connection = self.endpoint.accept(incoming, now, &mut answer, None).ok();
                }
                Some(DatagramEvent::Response(_)) | None => {}
            }
        }
        let Some((handle, connection)) = &mut self.connection else { return };
        if connection.poll_timeout().is_some_and(|at| at <= now) {
            connection.handle_timeout(now);
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
    }

    /// The next datagram that may leave now.
    fn transmit(&mut self, now: Instant) -> Option<BytesMut> {
        let (_, connection) = self.connection.as_mut()?;
        let mut buffer = Vec::new();
        let sent = connection.poll_transmit(now, NonZeroUsize::MIN, &mut buffer)?;
        Some(BytesMut::from(&buffer[..sent.size]))
    }

    fn poll(&mut self) -> Option<Event> {
        self.connection.as_mut()?.1.poll()
    }
}

/// A client that sends as much as it may, and a server that reads.
pub struct VirtualTransfer {
    pub link: Link,
    pub now: Instant,
    /// Bytes read by the server.
    pub received: u64,
    /// Before then the server reads nothing.
    pub reads_from: Instant,
    /// The client writes so many bytes every [`FRAME`] to one stream, as media are; `None`: as much as it may.
    pub frame_bytes: Option<usize>,
    next_frame: Option<Instant>,
    client: End,
    server: End,
    chunk: Bytes,
    streams: Vec<StreamId>,
    unread: Vec<StreamId>,
    failed: Option<ConnectionError>,
}

impl VirtualTransfer {
    pub fn start(
        link: Link,
        cc: Arc<dyn ControllerFactory + Send + Sync>,
        datagram: DatagramSize,
    ) -> VirtualTransfer {
        let idle = Duration::from_secs(30);
        let (mut server, certificate) = tls::server_config().unwrap();
        server.transport_config(Arc::new(transport::config(datagram, idle).unwrap()));
        let mut client = certificate.client_config().unwrap();
        let mut config = transport::config(datagram, idle).unwrap();
        config.congestion_controller_factory(cc);
        client.transport_config(Arc::new(config));
        let (now, server) = (epoch(), End::new(2, Some(server)));
        let mut end = End::new(1, None);
        end.connection = Some(end.endpoint.connect(now, client, server.address, SERVER_NAME).unwrap());
        VirtualTransfer {
            link,
            now,
            received: 0,
            client: end,
            server,
            chunk: Bytes::from(vec![0; 64 * 1024]),
            reads_from: now,
            frame_bytes: None,
            next_frame: None,
            streams: Vec::new(),
            unread: Vec::new(),
            failed: None,
        }
    }

    /// Goes on for `span`; the reason if the connection ends.
    pub fn run(&mut self, span: Duration) -> Result<(), ConnectionError> {
        let end = self.now + span;
        self.read();
        self.exchange();
        while let Some(next) =
            [self.client.next(), self.server.next(), self.next_frame].into_iter().flatten().min()
        {
            if next > end {
                break;
            }
            self.now = self.now.max(next);
            self.client.take(self.now, self.server.address);
            self.send();
            self.write();
            self.server.take(self.now, self.client.address);
            self.read();
            self.exchange();
            if let Some(reason) = self.failed.take() {
                return Err(reason);
            }
        }
        self.now = end;
        Ok(())
    }

    /// The client's side: every stream is kept full.
    fn send(&mut self) {
        while let Some(event) = self.client.poll() {
            let Some((_, connection)) = &mut self.client.connection else { return };
            match event {
                Event::Connected => {
                    let open =
                        || connection.streams().open(Dir::Uni).expect("the server lets them be opened");
                    self.streams = std::iter::repeat_with(open).take(STREAMS as usize).collect();
                    self.next_frame = Some(self.now);
                }
                Event::Stream(StreamEvent::Writable { id }) if self.frame_bytes.is_none() => {
                    fill(connection, id, &self.chunk);
                }
                Event::ConnectionLost { reason } => self.failed = Some(reason),
                _ => {}
            }
        }
    }

    /// The application's side: a frame when it is time, or every stream full.
    fn write(&mut self) {
        let (Some(due), Some((_, connection))) = (self.next_frame, &mut self.client.connection) else {
            return;
        };
        if due > self.now {
            return;
        }
        self.next_frame = Some(due + FRAME);
        match self.frame_bytes {
            Some(bytes) => {
                let _ = connection.send_stream(self.streams[0]).write(&self.chunk[..bytes]);
            }
            None => self.streams.iter().for_each(|&id| fill(connection, id, &self.chunk)),
        }
    }

    /// The server's side.
    fn read(&mut self) {
        while let Some(event) = self.server.poll() {
            let Some((_, connection)) = &mut self.server.connection else { return };
            match event {
                Event::Stream(StreamEvent::Opened { .. }) => {
                    self.unread.extend(std::iter::from_fn(|| connection.streams().accept(Dir::Uni)));
                }
                Event::Stream(StreamEvent::Readable { id }) => self.unread.push(id),
                Event::ConnectionLost { reason } => self.failed = Some(reason),
                _ => {}
            }
        }
        let Some((_, connection)) = &mut self.server.connection else { return };
        if self.now < self.reads_from {
            return;
        }
        for id in self.unread.drain(..) {
            let mut stream = connection.recv_stream(id);
            let Ok(mut chunks) = stream.read(true) else { continue };
            while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                self.received += chunk.bytes.len() as u64;
            }
            let _ = chunks.finalize();
        }
    }

    fn exchange(&mut self) {
        while let Some(datagram) = self.client.transmit(self.now) {
            if let Some(at) = self.link.offer(self.now, datagram.len()) {
                self.server.inbound.push_back((at, datagram));
            }
        }
        while let Some(datagram) = self.server.transmit(self.now) {
            self.client.inbound.push_back((self.now + self.link.round_trip / 2, datagram));
        }
    }
}

fn fill(connection: &mut Connection, id: StreamId, chunk: &Bytes) {
    while connection.send_stream(id).write_chunks(&mut &mut [chunk.clone()][..]).is_ok() {}
}
