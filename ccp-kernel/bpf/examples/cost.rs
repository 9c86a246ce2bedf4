// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! What an ACK costs: a bulk transfer over loopback under the fallback, an empty program, and one that keeps
//! ten registers, as byte code and interpreted; beside them the kernel's CUBIC, called by BPF, and a callback
//! that does nothing. Prints the mean of the kernel's own run-time statistics, which take what they say of the
//! callback that does nothing, and how long a report takes to be answered in force. Needs root.
//!
//! `cargo run --release -p anole-bpf --features bench --example cost`

#![allow(clippy::disallowed_methods, reason = "real sockets, in real time")]

use anole_bpf::bench::{BenchControls, CUBIC, NOTHING, ProgramReading, Statistics};
use anole_bpf::{BpfDatapath, Mode};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The mean is taken over spans of this length, and the best of them counts: others use the machine too.
const WINDOW: Duration = Duration::from_millis(50);
/// ACKs that such a span needs to count.
const FEW: u64 = 100;
const SPAN: Duration = Duration::from_secs(2);
/// Enough for loopback: the statistics are those of warm caches.
const WINDOW_BYTES: u64 = 1_000_000;
const RATE: u64 = 4_000_000_000;

type Register = (u8, u32);
const IMMEDIATE: u8 = 1;
const MICROS: Register = (2, 3);

fn instruction(op: u8, result: Register, left: Register, right: Register) -> Vec<u8> {
    let mut bytes = vec![op];
    for (kind, index) in [result, left, right] {
        bytes.push(kind);
        bytes.extend(index.to_le_bytes());
    }
    bytes
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn message(kind: u16, sid: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = [kind.to_le_bytes(), (8 + body.len() as u16).to_le_bytes()].concat();
    bytes.extend(sid.to_le_bytes());
    bytes.extend(body);
    bytes
}

/// Ten registers kept with every ACK (sums, minima, maxima, averages) and reported every 10 ms; or none.
fn program(registers: u32) -> Vec<u8> {
    let report = |n: u32| (5u8, n);
    let flag = |n: u32| (2u8, n);
    let mut code: Vec<Vec<u8>> =
        (0..registers).map(|n| instruction(2, report(n), report(n), (IMMEDIATE, 0))).collect();
    let definitions = code.len() as u32;
    code.push(instruction(1, flag(0), flag(0), (IMMEDIATE, 1)));
    for n in 0..registers {
        let primitive = (4u8, n % 15);
        code.push(match n % 4 {
            0 => instruction(0, report(n), report(n), primitive),
            1 => instruction(9, report(n), report(n), primitive),
            2 => instruction(11, report(n), report(n), primitive),
            _ => instruction(5, report(n), (IMMEDIATE, 8), primitive),
        });
    }
    code.push(instruction(1, flag(1), flag(1), (IMMEDIATE, 1)));
    let second = code.len() as u32;
    code.push(instruction(6, flag(0), MICROS, (IMMEDIATE, 10_000)));
    code.push(instruction(1, MICROS, MICROS, (IMMEDIATE, 0)));
    code.push(instruction(1, flag(2), flag(2), (IMMEDIATE, 1)));
    let first = [definitions, 1, definitions + 1, second - definitions - 1];
    let expressions = [first, [second, 1, second + 1, 2]];
    let mut body = words(&[1, 2, code.len() as u32]);
    body.extend(words(expressions.as_flattened()));
    body.extend(code.concat());
    message(2, 0, &body)
}

fn fields(fields: &[(u32, u64)]) -> Vec<u8> {
    let mut bytes = words(&[fields.len() as u32]);
    for (index, value) in fields {
        bytes.push(2);
        bytes.extend(index.to_le_bytes());
        bytes.extend(value.to_le_bytes());
    }
    bytes
}

/// The names of an algorithm's programs begin with the first; the second runs once per ACK.
fn programs(algorithm: &str) -> (&'static str, &'static str) {
    match algorithm {
        CUBIC => ("bench_", "bench_cong_avoi"),
        NOTHING => ("bench_", "bench_nothing"),
        _ => ("anole_", "anole_cong_cont"),
    }
}

fn transfer(name: &str, algorithm: &str, mode: Mode, program: Option<Vec<u8>>) {
    let mut datapath =
        BpfDatapath::open(Path::new("/nowhere"), &[], mode).expect("root, and a kernel from 6.1 on");
    if let Some(program) = &program {
        datapath.send(program).unwrap();
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut taken, _) = listener.accept().unwrap();
    // SAFETY: a string and its length.
    let set = unsafe {
        let length = algorithm.len() as libc::socklen_t;
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            algorithm.as_ptr().cast(),
            length,
        )
    };
    assert_eq!(set, 0);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let sender = std::thread::spawn(move || {
        // Small packets: many ACKs.
        let data = [1; 1000];
        while !stopped.load(Relaxed) {
            stream.write_all(&data).unwrap();
        }
    });
    let receiver = std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while taken.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {}
    });
    let (prefix, once) = programs(algorithm);
    let (mut best, mut runs, mut before, mut window) =
        (f64::INFINITY, 0, ProgramReading::take(prefix), Instant::now());
    let (mut buffer, mut answered) = ([0; 1024], Vec::new());
    let end = Instant::now() + SPAN;
    let mut told = false;
    while Instant::now() < end {
        if window.elapsed() > WINDOW {
            let now = ProgramReading::take(prefix);
            let (all, acks) = now.since(&before, once);
            if acks.count > FEW {
                best = best.min(all.nanos as f64 / acks.count as f64);
            }
            (runs, before, window) = (runs + acks.count, now, Instant::now());
        }
        let Some(length) = datapath.receive(&mut buffer, Duration::from_millis(50)) else { continue };
        let sid = u32::from_le_bytes(buffer[4..8].try_into().unwrap());
        let control = fields(&[(4, WINDOW_BYTES), (5, RATE)]);
        match (buffer[0], length) {
            (0, _) if program.is_some() && !told => {
                told = true;
                datapath.send(&message(4, sid, &[words(&[1]), control].concat())).unwrap();
            }
            (1, 17..) => {
                let begin = Instant::now();
                if datapath.send(&message(3, sid, &control)).is_ok() {
                    while !datapath.is_taken(sid) && begin.elapsed() < Duration::from_millis(20) {
                        std::hint::spin_loop();
                    }
                    answered.push(begin.elapsed());
                }
            }
            _ => {}
        }
    }
    stop.store(true, Relaxed);
    sender.join().unwrap();
    receiver.join().unwrap();
    answered.sort();
    let at = |share: usize| answered.get(answered.len() * share / 100).map_or(0, |time| time.as_micros());
    println!("{name:32} {best:6.0} ns/ACK  {runs:8} ACKs  sent→in force p50 {} µs p99 {} µs", at(50), at(99));
}

fn main() {
    let _statistics = Statistics::enable().expect("root");
    let _peers = BenchControls::register().expect("Linux from 6.4 on, with CUBIC");
    let ours = "anole_ccp";
    transfer("a callback that does nothing", NOTHING, Mode::Generated, None);
    transfer("the kernel's CUBIC, called by BPF", CUBIC, Mode::Generated, None);
    transfer("fallback (CUBIC's kfuncs)", ours, Mode::Generated, None);
    transfer("empty program, generated", ours, Mode::Generated, Some(program(0)));
    transfer("ten registers, generated", ours, Mode::Generated, Some(program(10)));
    transfer("ten registers, interpreted", ours, Mode::Interpreted, Some(program(10)));
}
