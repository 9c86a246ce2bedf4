// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! Restart after idle (RFC 2861), in a network namespace of its own: what the window is at the first packet
//! after a pause of several timeouts.

use super::congestion::{govern, sum_reports};
use super::support::{choose, fields, info, message, next, program, registered, sums, word, words};
use anole_bpf::{BpfDatapath, Mode};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::{Duration, Instant};

/// Retransmission timeouts of a pause: the window is halved for each.
const PAUSE_RTOS: u32 = 8;
/// Packets; far above the window to restart from.
const WINDOW: u32 = 100;
/// Packets; what CUBIC reaches over loopback.
const WIDE: u32 = 40;
/// The initial window of RFC 6928, and what one packet acknowledged adds.
const RESTARTED: std::ops::RangeInclusive<u32> = 10..=12;

/// Runs in a network namespace of its own, with packets of 1500 bytes.
pub fn alone<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    // What is told of a skip has the test's name.
    let name = std::thread::current().name().unwrap_or("idle").to_string();
    let thread = std::thread::Builder::new().name(name).spawn(|| {
        // SAFETY: concerns this thread, and those that it starts.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            anole_testing::skip!("no network namespace: {}", std::io::Error::last_os_error());
            return None;
        }
        let up = Command::new("ip").args(["link", "set", "lo", "mtu", "1500", "up"]).status();
        if !up.as_ref().is_ok_and(|status| status.success()) {
            anole_testing::skip!("ip link set lo up: {up:?}");
            return None;
        }
        Some(work())
    });
    thread.unwrap().join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn slow_start_after_idle(yes: bool) {
    std::fs::write("/proc/sys/net/ipv4/tcp_slow_start_after_idle", if yes { "1" } else { "0" }).unwrap();
}

/// A connection, and its other end, where a thread reads.
pub fn connected(name: &str) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut taken, _) = listener.accept().unwrap();
    let other = taken.try_clone().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 1 << 16];
        while taken.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {}
    });
    stream.set_nodelay(true).unwrap();
    choose(&stream, name);
    (stream, other)
}

fn connection(name: &str) -> TcpStream {
    connected(name).0
}

pub fn window(stream: &TcpStream) -> u32 {
    word(&info(stream), 80)
}

pub fn threshold(stream: &TcpStream) -> u32 {
    word(&info(stream), 76)
}

/// Packets sent and not acknowledged in order.
pub fn unacknowledged(stream: &TcpStream) -> u32 {
    word(&info(stream), 24)
}

pub fn is_acknowledged(stream: &TcpStream) -> bool {
    unacknowledged(stream) == 0
}

/// Answers every report for a while.
pub fn answer(datapath: &mut BpfDatapath, over: Duration) {
    let end = Instant::now() + over;
    let mut buffer = [0; 1024];
    while Instant::now() < end {
        let got = datapath.receive(&mut buffer, Duration::from_millis(20));
        if got.is_some() && buffer[0] == 1 && word(&buffer, 12) > 0 {
            datapath.send(&message(3, word(&buffer, 4), &words(&[0]))).unwrap();
        }
    }
}

fn timeout(stream: &TcpStream) -> Duration {
    Duration::from_micros(word(&info(stream), 8).into())
}

/// Pauses, sends one packet, and tells the window when it is acknowledged.
fn after_a_pause(stream: &mut TcpStream, mut meanwhile: impl FnMut(Duration)) -> u32 {
    // What is on its way would end the pause.
    meanwhile(Duration::from_millis(100));
    meanwhile(PAUSE_RTOS * timeout(stream));
    stream.write_all(&[1; 100]).unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while !is_acknowledged(stream) {
        assert!(Instant::now() < end, "nothing is acknowledged");
        meanwhile(Duration::from_millis(20));
    }
    window(stream)
}

#[test]
fn a_governed_flow_restarts_after_idle() {
    let Some((mut datapath, _guard)) = registered(Mode::Generated) else { return };
    alone(move || {
        next(&mut datapath, 5);
        datapath.send(&program()).unwrap();
        datapath.beat();
        let mut stream = connection("anole_ccp");
        let create = next(&mut datapath, 0);
        let (sid, mss) = (word(&create, 4), word(&create, 12));
        let full = u64::from(WINDOW * mss);
        datapath.send(&message(4, sid, &[words(&[1, 2]), fields(full, 0)].concat())).unwrap();
        let send_all = |stream: &mut TcpStream, datapath: &mut BpfDatapath| {
            for _ in 0..40 {
                stream.write_all(&vec![1; 10 * mss as usize]).unwrap();
                answer(datapath, Duration::from_millis(5));
            }
            assert_eq!(window(stream), WINDOW, "the window is the program's");
        };
        send_all(&mut stream, &mut datapath);
        slow_start_after_idle(true);
        let restarted = after_a_pause(&mut stream, |over| answer(&mut datapath, over));
        assert!(RESTARTED.contains(&restarted), "{restarted} packets after a pause");
        send_all(&mut stream, &mut datapath);

        slow_start_after_idle(false);
        assert_eq!(after_a_pause(&mut stream, |over| answer(&mut datapath, over)), WINDOW, "switched off");

        slow_start_after_idle(true);
        datapath.send(&message(3, sid, &[words(&[2]), fields(full, 50_000_000)].concat())).unwrap();
        send_all(&mut stream, &mut datapath);
        assert_eq!(after_a_pause(&mut stream, |over| answer(&mut datapath, over)), WINDOW, "a rate paces it");
        let fallbacks = datapath.stats().fallbacks;
        anole_testing::figure("loopback: fallbacks of a flow that pauses", 0.0..=0.0, fallbacks as f64);
    });
}

/// As the kernel's own CUBIC does.
#[test]
fn the_fallback_restarts_after_idle() {
    let Some((datapath, _guard)) = registered(Mode::Generated) else { return };
    alone(move || {
        for name in ["cubic", "anole_ccp"] {
            let mut stream = connection(name);
            let end = Instant::now() + Duration::from_secs(60);
            while window(&stream) < WIDE {
                assert!(Instant::now() < end, "{name} opens its window over loopback: {}", window(&stream));
                stream.write_all(&[1; 1 << 18]).unwrap();
            }
            slow_start_after_idle(false);
            let before = after_a_pause(&mut stream, std::thread::sleep);
            assert!(before >= WIDE, "{name}, switched off: {before}");
            slow_start_after_idle(true);
            let restarted = after_a_pause(&mut stream, std::thread::sleep);
            assert!(RESTARTED.contains(&restarted), "{name}: {restarted} packets after a pause");
            let threshold = threshold(&stream);
            assert!(threshold >= before / 4 * 3, "{name}: slow start to {threshold} of {before}");
        }
        drop(datapath);
    });
}

/// What the application's last write leaves below a packet may wait for the next one: it does not fill the window then.
#[test]
fn less_than_a_packet_that_waits_is_nothing_to_send() {
    const BYTES_ACKED: u32 = 0;
    const BYTES_PENDING: u32 = 9;
    let Some((mut datapath, _guard)) = registered(Mode::Generated) else { return };
    alone(move || {
        next(&mut datapath, 5);
        datapath.send(&sums(1, &[BYTES_ACKED, BYTES_PENDING], 0)).unwrap();
        datapath.beat();
        let mut stream = connection("anole_ccp");
        hold_back(&stream);
        let (sid, _mss) = govern(&mut datapath, &stream, 1);
        // The first of them do not fit the window that the connection has until the program's is taken.
        sum_reports(&mut stream, &mut datapath, sid);
        let [acked, pending] = sum_reports(&mut stream, &mut datapath, sid);
        assert!(acked > 100_000, "{acked} bytes acknowledged");
        assert_eq!(pending, 0, "bytes that wait, summed over the ACKs");
    });
}

/// TCP_CORK: whole packets only, for 200 ms.
fn hold_back(stream: &TcpStream) {
    let (on, length) = (1i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: an integer and its size.
    let set = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CORK,
            (&raw const on).cast(),
            length,
        )
    };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}
