//! A peer that stops reading for a while: its window closes, and nothing is lost.
#![allow(clippy::disallowed_methods, reason = "virtual time begins at the clock's")]

mod common;

use anole_transfer::{Amount, Reading};
use anole_usertcp::{PairEnd, Sender, pair};
use common::{PORT, fallback_only, host, to};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp;
use smoltcp::time::Instant as StackTime;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use std::time::{Duration, Instant};

const STEP: Duration = Duration::from_millis(1);
const BUFFER_BYTES: usize = 300_000;

/// A server that reads when it is told to.
struct Peer {
    device: PairEnd,
    interface: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
}

impl Peer {
    fn listen(mut device: PairEnd) -> Peer {
        let mut interface = Interface::new(Config::new(HardwareAddress::Ip), &mut device, StackTime::ZERO);
        interface.update_ip_addrs(|addresses| {
            addresses.push(IpCidr::new(IpAddress::from(host(2, 8).address), 24)).unwrap();
        });
        let buffer = |bytes| tcp::SocketBuffer::new(vec![0; bytes]);
        let mut socket = tcp::Socket::new(buffer(BUFFER_BYTES), buffer(1000));
        socket.listen(PORT).unwrap();
        let mut sockets = SocketSet::new(Vec::new());
        let socket = sockets.add(socket);
        Peer { device, interface, sockets, socket }
    }

    fn poll(&mut self, at: Duration, most: usize) {
        let at = StackTime::from_micros(at.as_micros() as i64);
        self.interface.poll(at, &mut self.device, &mut self.sockets);
        let socket = self.sockets.get_mut::<tcp::Socket>(self.socket);
        let take = |bytes: &mut [u8]| (bytes.len().min(most), ());
        if socket.can_recv() {
            socket.recv(take).unwrap();
        }
        self.interface.poll(at, &mut self.device, &mut self.sockets);
    }
}

struct Transfer {
    sender: Sender<PairEnd>,
    peer: Peer,
    start: Instant,
    at: Duration,
}

impl Transfer {
    fn start() -> Transfer {
        let (near, far) = pair(1500);
        let start = Instant::now();
        let amount = Amount::Time(Duration::from_secs(3600));
        let mut sender = Sender::connect(near, fallback_only(), to(2, amount), start).unwrap();
        sender.set_time(start);
        Transfer { sender, peer: Peer::listen(far), start, at: Duration::ZERO }
    }

    /// The peer reads so many bytes a millisecond for so long.
    fn run(&mut self, span: Duration, most: usize) -> Reading {
        let end = self.at + span;
        while self.at < end {
            self.at += STEP;
            self.sender.set_time(self.start + self.at);
            self.sender.poll(self.start + self.at);
            self.peer.poll(self.at, most);
        }
        self.sender.read()
    }
}

#[test]
fn a_peer_that_does_not_read_is_no_congestion() {
    let mut transfer = Transfer::start();
    let before = transfer.run(Duration::from_millis(100), BUFFER_BYTES);
    assert!(before.delivered_bytes > 100_000, "{before:?}");
    let full = transfer.run(Duration::from_secs(1), 0);
    let closed = transfer.run(Duration::from_secs(20), 0);
    assert_eq!(closed, full, "nothing is sent, nothing is lost");
    assert_eq!((closed.lost_packets, transfer.sender.bytes_in_flight()), (0, 0));
    // It reads again, a little and then everything.
    let after = transfer.run(Duration::from_secs(3), 10);
    let open = transfer.run(Duration::from_secs(1), BUFFER_BYTES);
    assert_eq!((open.lost_packets, open.cwnd_bytes >= full.cwnd_bytes), (0, true));
    assert!(open.delivered_bytes > after.delivered_bytes + 1_000_000);
    assert_eq!(open.delivered_packets, open.sent_packets - transfer.sender.bytes_in_flight().div_ceil(1460));
}
