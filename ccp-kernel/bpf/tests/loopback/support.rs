// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! A datapath, CCP's messages and TCP connections.

use anole_bpf::{BpfDatapath, Error, Mode};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The name anole_ccp is the host's.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// For what happens soon on a quiet host, and on a busy one some time.
const PATIENCE: Duration = Duration::from_secs(20);

pub const IMMEDIATE: u8 = 1;
pub const IMPLICIT: u8 = 2;
pub const PRIMITIVE: u8 = 4;
pub const VOLATILE_REPORT: u8 = 5;

pub fn message(kind: u16, sid: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend((8 + body.len() as u16).to_le_bytes());
    bytes.extend(sid.to_le_bytes());
    bytes.extend(body);
    bytes
}

pub fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

pub fn instruction(op: u8, operands: [(u8, u32); 3]) -> Vec<u8> {
    let mut bytes = vec![op];
    for (kind, index) in operands {
        bytes.push(kind);
        bytes.extend(index.to_le_bytes());
    }
    bytes
}

/// Sums up the bytes acknowledged, and reports them every 20 ms.
pub fn program() -> Vec<u8> {
    sums(1, &[0], 20_000)
}

/// A program with a report register for each of `primitives`, which sums it up, reported after more than `interval_us`.
pub fn sums(uid: u32, primitives: &[u32], interval_us: u32) -> Vec<u8> {
    let registers = || (0u32..).zip(primitives).map(|(n, primitive)| ((VOLATILE_REPORT, n), *primitive));
    let mut code: Vec<_> =
        registers().map(|(register, _)| instruction(2, [register, register, (IMMEDIATE, 0)])).collect();
    let first = code.len() as u32;
    code.push(instruction(1, [(IMPLICIT, 0), (IMPLICIT, 0), (IMMEDIATE, 1)]));
    for (register, primitive) in registers() {
        code.push(instruction(0, [register, register, (PRIMITIVE, primitive)]));
    }
    code.push(instruction(1, [(IMPLICIT, 1), (IMPLICIT, 1), (IMMEDIATE, 1)]));
    let second = code.len() as u32;
    code.push(instruction(6, [(IMPLICIT, 0), (IMPLICIT, 3), (IMMEDIATE, interval_us)]));
    code.push(instruction(1, [(IMPLICIT, 3), (IMPLICIT, 3), (IMMEDIATE, 0)]));
    code.push(instruction(1, [(IMPLICIT, 2), (IMPLICIT, 2), (IMMEDIATE, 1)]));
    let events = [first, 1, first + 1, second - first - 1, second, 1, second + 1, 2];
    let mut body = words(&[uid, 2, code.len() as u32]);
    body.extend(words(&events));
    body.extend(code.concat());
    message(2, 0, &body)
}

/// Ten registers, with every kind of arithmetic that needs no guard, reported every 20 ms.
pub fn program_with_ten_registers() -> Vec<u8> {
    const REGISTERS: u32 = 10;
    // ADD, MAX, MIN, MAXWRAP, EWMA, IF of a register and a primitive; a primitive.
    const SUMS: [(u8, u32); 10] =
        [(0, 0), (0, 5), (0, 4), (9, 10), (11, 12), (10, 6), (5, 12), (9, 11), (7, 8), (0, 2)];
    let register = |index: u32| (VOLATILE_REPORT, index);
    let mut code: Vec<_> =
        (0..REGISTERS).map(|n| instruction(2, [register(n), register(n), (IMMEDIATE, n)])).collect();
    code.push(instruction(1, [(IMPLICIT, 0), (IMPLICIT, 0), (IMMEDIATE, 1)]));
    for (n, (op, primitive)) in (0..REGISTERS).zip(SUMS) {
        // EWMA's left side is its weight.
        let left = if op == 5 { (IMMEDIATE, 9) } else { register(n) };
        code.push(instruction(op, [register(n), left, (PRIMITIVE, primitive)]));
    }
    code.push(instruction(1, [(IMPLICIT, 1), (IMPLICIT, 1), (IMMEDIATE, 1)]));
    code.push(instruction(6, [(IMPLICIT, 0), (IMPLICIT, 3), (IMMEDIATE, 20_000)]));
    code.push(instruction(1, [(IMPLICIT, 3), (IMPLICIT, 3), (IMMEDIATE, 0)]));
    code.push(instruction(1, [(IMPLICIT, 2), (IMPLICIT, 2), (IMMEDIATE, 1)]));
    let mut body = words(&[2, 2, code.len() as u32, 10, 1, 11, 11, 22, 1, 23, 2]);
    body.extend(code.concat());
    message(2, 0, &body)
}

pub fn fields(cwnd: u64, rate: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, value) in [(4u32, cwnd), (5, rate)] {
        bytes.push(IMPLICIT);
        bytes.extend(index.to_le_bytes());
        bytes.extend(value.to_le_bytes());
    }
    bytes
}

pub fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Makes a connection use an algorithm.
pub fn choose(stream: &TcpStream, name: &str) {
    // SAFETY: a string and its length.
    let set = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        )
    };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// struct tcp_info of linux/tcp.h.
pub fn info(stream: &TcpStream) -> [u8; 256] {
    let mut info = [0; 256];
    let mut length = info.len() as libc::socklen_t;
    // SAFETY: writes at most `length` bytes.
    let got = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &mut length,
        )
    };
    assert_eq!(got, 0);
    info
}

/// Window in packets, packet size, pacing rate in bytes/s, as the kernel has them.
pub fn control(stream: &TcpStream) -> (u32, u32, u64) {
    let info = info(stream);
    (word(&info, 80), word(&info, 16), u64::from_le_bytes(info[104..112].try_into().unwrap()))
}

/// A sender that always has something to send, and its receiver.
pub struct Transfer {
    pub stream: TcpStream,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Transfer {
    pub fn start(name: &str) -> Transfer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut taken, _) = listener.accept().unwrap();
        choose(&stream, name);
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, mut sending) = (Arc::clone(&stop), stream.try_clone().unwrap());
        let sender = std::thread::spawn(move || {
            let data = [7; 8192];
            while !stopped.load(Relaxed) {
                sending.write_all(&data).unwrap();
                std::thread::sleep(Duration::from_micros(500));
            }
        });
        let receiver = std::thread::spawn(move || {
            let mut buffer = [0; 1 << 16];
            while taken.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {}
        });
        Transfer { stream, stop, threads: vec![sender, receiver] }
    }

    pub fn end(self) {
        self.stop.store(true, Relaxed);
        drop(self.stream);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// Receives until a message of this kind comes.
pub fn next(datapath: &mut BpfDatapath, kind: u8) -> Vec<u8> {
    let end = Instant::now() + PATIENCE;
    let mut buffer = [0; 1024];
    while Instant::now() < end {
        if let Some(length) = datapath.receive(&mut buffer, Duration::from_millis(50))
            && buffer[0] == kind
        {
            return buffer[..length].to_vec();
        }
    }
    panic!("no message of type {kind} within {PATIENCE:?}");
}

/// Until the flow has taken what it was sent; reports that come meanwhile may be older.
pub fn settle(datapath: &mut BpfDatapath, sid: u32) {
    let end = Instant::now() + PATIENCE;
    while !datapath.is_taken(sid) {
        assert!(Instant::now() < end, "the flow takes its mail within {PATIENCE:?}");
        datapath.receive(&mut [0; 1024], Duration::from_millis(5));
    }
}

/// Other tests of this host may have the name for a while.
pub fn open(directory: &Path, mode: Mode) -> Result<BpfDatapath, Error> {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        match BpfDatapath::open(directory, &["libra-rl"], mode) {
            Err(Error::Register(_)) if Instant::now() < end => {}
            done => return done,
        }
    }
}

/// The datapath for this test alone; `None`, with the reason printed, where it cannot be.
pub fn registered(mode: Mode) -> Option<(BpfDatapath, MutexGuard<'static, ()>)> {
    registered_in(Path::new("/nowhere"), mode)
}

/// The same, pinned where `directory` is a BPF file system.
pub fn registered_in(directory: &Path, mode: Mode) -> Option<(BpfDatapath, MutexGuard<'static, ()>)> {
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match open(directory, mode) {
        Ok(datapath) => Some((datapath, guard)),
        Err(error) if error.is_out_of_reach() => {
            anole_testing::skip!("{error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The host has the name.
pub fn is_registered() -> bool {
    let names = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    names.split_whitespace().any(|name| name == "anole_ccp")
}

/// The registration has ended; another test of this host may have the name meanwhile.
pub fn is_gone() -> bool {
    let end = Instant::now() + Duration::from_secs(60);
    while is_registered() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
    }
    !is_registered()
}
