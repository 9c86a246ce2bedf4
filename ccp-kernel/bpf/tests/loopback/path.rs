// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! A path whose MTU shrinks, in a network namespace of its own.

use super::congestion::{LOST_PACKETS, WAS_TIMEOUT, WINDOW, drop_arrivals, govern};
use super::idle::{alone, answer, connected, is_acknowledged, unacknowledged, window};
use super::support::{fields, message, registered, settle, sums, word, words};
use anole_bpf::Mode;
use std::io::Write;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);
const IP_BYTES: usize = 20;
/// Bytes.
const SMALLER_MTU: u16 = 1000;

fn raw(protocol: libc::c_int) -> OwnedFd {
    // SAFETY: a new descriptor, ours alone.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol) };
    assert!(fd >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: as above.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// The IP header and the first 8 bytes of TCP's of the next packet with data that `stream` sends.
fn header_of_data(sniffer: &OwnedFd, stream: &TcpStream) -> [u8; IP_BYTES + 8] {
    let port = stream.local_addr().unwrap().port().to_be_bytes();
    let mut packet = [0u8; 2048];
    loop {
        // SAFETY: writes at most as many bytes as there are.
        let got = unsafe {
            libc::recv(sniffer.as_raw_fd(), packet.as_mut_ptr().cast(), packet.len(), libc::MSG_TRUNC)
        };
        assert!(got > 0, "{}", std::io::Error::last_os_error());
        if packet[IP_BYTES..IP_BYTES + 2] == port && got > 1000 {
            return packet[..IP_BYTES + 8].try_into().unwrap();
        }
    }
}

/// Tells the host that a packet was too large (RFC 1191: destination unreachable, fragmentation needed).
fn say_too_large(header: [u8; IP_BYTES + 8]) {
    let mut icmp = vec![3, 4, 0, 0, 0, 0];
    icmp.extend(SMALLER_MTU.to_be_bytes());
    icmp.extend(header);
    let sum: u32 = icmp.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    icmp[2..4].copy_from_slice(&checksum.to_be_bytes());
    // SAFETY: all fields are integers.
    let mut to: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    to.sin_family = libc::AF_INET as libc::sa_family_t;
    to.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
    let socket = raw(libc::IPPROTO_ICMP);
    let (bytes, length) = (icmp.as_ptr().cast(), size_of_val(&to) as libc::socklen_t);
    // SAFETY: bytes and an address with their lengths.
    let sent =
        unsafe { libc::sendto(socket.as_raw_fd(), bytes, icmp.len(), 0, (&raw const to).cast(), length) };
    assert_eq!(sent, icmp.len() as isize, "{}", std::io::Error::last_os_error());
}

/// A path whose MTU shrinks under so many small packets in flight and then so many that are too large, with a window of
/// `packets`, is no timeout and no loss.
fn shrinks_under(packets: u32, small: usize, full: usize) {
    let Some((mut datapath, _guard)) = registered(Mode::Generated) else { return };
    alone(move || {
        // Neither a timeout nor a probe comes meanwhile: either sends again what then arrives, before the path's word.
        std::fs::write("/proc/sys/net/ipv4/tcp_early_retrans", "0").unwrap();
        let route = "route replace local 127.0.0.1 dev lo table local rto_min 20s";
        assert!(Command::new("ip").args(route.split(' ')).status().unwrap().success());
        super::support::next(&mut datapath, 5);
        datapath.send(&sums(1, &[WAS_TIMEOUT, LOST_PACKETS], 0)).unwrap();
        datapath.beat();
        let (mut stream, _other) = connected("anole_ccp");
        let (sid, mss) = govern(&mut datapath, &stream, 1);
        let command = fields(u64::from(packets) * mss, 0);
        datapath.send(&message(3, sid, &[words(&[2]), command].concat())).unwrap();
        stream.write_all(&[1; 100]).unwrap();
        settle(&mut datapath, sid);
        answer(&mut datapath, Duration::from_millis(100));
        assert_eq!(window(&stream), packets);
        drop_arrivals(&stream, true);
        let sniffer = raw(libc::IPPROTO_TCP);
        for _ in 0..small {
            stream.write_all(&[1; 100]).unwrap();
        }
        stream.write_all(&vec![1; full * mss as usize]).unwrap();
        let header = header_of_data(&sniffer, &stream);
        assert_eq!(unacknowledged(&stream) as usize, small + full);
        drop_arrivals(&stream, false);
        say_too_large(header);
        let (mut told, mut buffer, end) = ([0; 2], [0; 1024], Instant::now() + PATIENCE);
        while !is_acknowledged(&stream) {
            assert!(Instant::now() < end, "it is sent again in smaller packets");
            let got = datapath.receive(&mut buffer, Duration::from_millis(20));
            if got.is_some() && buffer[0] == 1 && word(&buffer, 12) > 0 {
                told = [told[0] + word(&buffer, 16), told[1] + word(&buffer, 24)];
                datapath.send(&message(3, sid, &words(&[0]))).unwrap();
            }
        }
        while datapath.receive(&mut buffer, Duration::from_millis(50)).is_some() {
            told = [told[0] + word(&buffer, 16), told[1] + word(&buffer, 24)];
        }
        // tcpi_snd_mss
        let size = word(&super::support::info(&stream), 16);
        assert!(size < u32::from(SMALLER_MTU), "packets of {size} bytes");
        assert_eq!(told, [0, 0], "timeouts and losses");
        assert!(window(&stream) >= packets, "{} packets", window(&stream));
    });
}

#[test]
fn a_path_whose_mtu_shrinks_is_no_timeout_and_no_loss() {
    shrinks_under(WINDOW, 0, 10);
}

/// What is left in flight is one below the window, as after a timeout.
#[test]
fn a_path_whose_mtu_shrinks_under_a_full_window_of_one_large_packet_is_none_either() {
    shrinks_under(3, 2, 1);
}
