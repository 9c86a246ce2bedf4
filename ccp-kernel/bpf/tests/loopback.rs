//! The datapath over loopback, without an agent: what a flow announces, obeys, reports, and what it does
//! when nobody answers. Needs root; skipped with the reason elsewhere.

#![allow(clippy::disallowed_methods, reason = "real sockets, in real time")]

use anole_bpf::{Datapath, Error, Mode};
use nix::mount::{MsFlags, mount, umount};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The name anole_ccp is the host's.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const IMMEDIATE: u8 = 1;
const IMPLICIT: u8 = 2;
const PRIMITIVE: u8 = 4;
const VOLATILE_REPORT: u8 = 5;

fn message(kind: u16, sid: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend((8 + body.len() as u16).to_le_bytes());
    bytes.extend(sid.to_le_bytes());
    bytes.extend(body);
    bytes
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn instruction(op: u8, operands: [(u8, u32); 3]) -> Vec<u8> {
    let mut bytes = vec![op];
    for (kind, index) in operands {
        bytes.push(kind);
        bytes.extend(index.to_le_bytes());
    }
    bytes
}

/// Sums up the bytes acknowledged, and reports them every 20 ms.
fn program() -> Vec<u8> {
    const REPORT: (u8, u32) = (VOLATILE_REPORT, 0);
    let code = [
        instruction(2, [REPORT, REPORT, (IMMEDIATE, 0)]),
        instruction(1, [(IMPLICIT, 0), (IMPLICIT, 0), (IMMEDIATE, 1)]),
        instruction(0, [REPORT, REPORT, (PRIMITIVE, 0)]),
        instruction(1, [(IMPLICIT, 1), (IMPLICIT, 1), (IMMEDIATE, 1)]),
        instruction(6, [(IMPLICIT, 0), (IMPLICIT, 3), (IMMEDIATE, 20_000)]),
        instruction(1, [(IMPLICIT, 3), (IMPLICIT, 3), (IMMEDIATE, 0)]),
        instruction(1, [(IMPLICIT, 2), (IMPLICIT, 2), (IMMEDIATE, 1)]),
    ];
    let mut body = words(&[1, 2, code.len() as u32, 1, 1, 2, 2, 4, 1, 5, 2]);
    body.extend(code.concat());
    message(2, 0, &body)
}

/// Ten registers, with every kind of arithmetic that needs no guard, reported every 20 ms.
fn program_with_ten_registers() -> Vec<u8> {
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

fn fields(cwnd: u64, rate: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, value) in [(4u32, cwnd), (5, rate)] {
        bytes.push(IMPLICIT);
        bytes.extend(index.to_le_bytes());
        bytes.extend(value.to_le_bytes());
    }
    bytes
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// A sender that always has something to send, and its receiver.
struct Transfer {
    stream: TcpStream,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Transfer {
    fn start(name: &str) -> Transfer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut taken, _) = listener.accept().unwrap();
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

    /// Window in packets, packet size, pacing rate in bytes/s, as the kernel has them.
    fn control(&self) -> (u32, u32, u64) {
        let mut info = [0; 256];
        let mut length = info.len() as libc::socklen_t;
        // SAFETY: writes at most `length` bytes.
        let got = unsafe {
            libc::getsockopt(
                self.stream.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info.as_mut_ptr().cast(),
                &mut length,
            )
        };
        assert_eq!(got, 0);
        // struct tcp_info of linux/tcp.h: snd_mss, snd_cwnd, pacing_rate.
        (word(&info, 80), word(&info, 16), u64::from_le_bytes(info[104..112].try_into().unwrap()))
    }

    fn end(self) {
        self.stop.store(true, Relaxed);
        drop(self.stream);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// Receives until a message of this kind comes.
fn next(datapath: &mut Datapath, kind: u8) -> Vec<u8> {
    let end = Instant::now() + Duration::from_secs(5);
    let mut buffer = [0; 1024];
    while Instant::now() < end {
        if let Some(length) = datapath.receive(&mut buffer, Duration::from_millis(50))
            && buffer[0] == kind
        {
            return buffer[..length].to_vec();
        }
    }
    panic!("no message of type {kind} within 5 s");
}

/// Other tests of this host may have the name for a while.
fn open(directory: &Path, mode: Mode) -> Result<Datapath, Error> {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        match Datapath::open(directory, &["libra-rl"], mode) {
            Err(Error::Register(_)) if Instant::now() < end => {}
            done => return done,
        }
    }
}

/// Until the flow has taken what it was sent; reports that come meanwhile may be older.
fn settle(datapath: &mut Datapath, sid: u32) {
    let end = Instant::now() + Duration::from_secs(5);
    while !datapath.is_taken(sid) {
        assert!(Instant::now() < end, "the flow takes its mail within 5 s");
        datapath.receive(&mut [0; 1024], Duration::from_millis(5));
    }
}

/// `None`, with the reason told, where this cannot be.
fn open_if_possible(directory: &Path, mode: Mode) -> Option<Datapath> {
    match open(directory, mode) {
        Ok(datapath) => Some(datapath),
        Err(error @ (Error::Kernel(_) | Error::Load(_))) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn is_registered() -> bool {
    let names = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    names.split_whitespace().any(|name| name == "anole_ccp")
}

/// The registration has ended; another test of this host may have the name meanwhile.
fn is_gone() -> bool {
    let end = Instant::now() + Duration::from_secs(60);
    while is_registered() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
    }
    !is_registered()
}

/// A BPF file system; gone when it is dropped.
struct BpfFs(PathBuf);

impl BpfFs {
    fn mount() -> nix::Result<BpfFs> {
        let folder = std::env::temp_dir().join(format!("anole-bpf-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let place = BpfFs(folder);
        mount(Some("bpf"), &place.0, Some("bpf"), MsFlags::empty(), None::<&str>).map(|()| place)
    }

    /// As an administrator would.
    fn remove_pins(&self) {
        std::fs::remove_dir_all(self.0.join("anole_ccp")).unwrap();
    }
}

impl Drop for BpfFs {
    fn drop(&mut self) {
        let _ = umount(&self.0);
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn a_flow_obeys_reports_and_falls_back(mode: Mode) {
    let _guard = ONE_AT_A_TIME.lock();
    let Some(mut datapath) = open_if_possible(Path::new("/nowhere"), mode) else { return };
    next(&mut datapath, 5);
    datapath.send(&[program(), program_with_ten_registers()].concat()).unwrap();
    assert_eq!(datapath.programs(mode), 2, "the verifier takes what is generated");
    let named = Transfer::start("anole_libra_rl");
    let create = next(&mut datapath, 0);
    assert!(create[32..].starts_with(b"libra-rl\0"), "{create:?}");
    named.end();
    next(&mut datapath, 1);
    let transfer = Transfer::start("anole_ccp");
    let create = next(&mut datapath, 0);
    assert_eq!(create[32], 0);
    let (sid, mss) = (word(&create, 4), word(&create, 12));
    assert_eq!((create.len(), word(&create, 16)), (96, u32::from_ne_bytes([127, 0, 0, 1])));
    assert_eq!(word(&create, 20), u32::from(transfer.stream.local_addr().unwrap().port()));
    assert_eq!(word(&create, 28), u32::from(transfer.stream.peer_addr().unwrap().port()));

    let change =
        |uid: u32| message(4, sid, &[words(&[uid, 2]), fields(20 * u64::from(mss), 30_000_000)].concat());
    assert!(matches!(datapath.send(&change(9)), Err(Error::UnknownProgram(9))));
    datapath.send(&change(1)).unwrap();
    let report = next(&mut datapath, 1);
    assert_eq!((word(&report, 4), word(&report, 8), word(&report, 12)), (sid, 1, 1));
    assert!(word(&report, 16) >= 8192, "bytes were acknowledged in 20 ms: {report:?}");
    // The packet size grows with the receiver's window; the window in bytes does not.
    let (packets, size, rate) = transfer.control();
    assert!((20 * mss - size..=20 * mss).contains(&(packets * size)), "{packets} packets of {size} bytes");
    assert_eq!(rate, 30_000_000);

    // Beyond every bound: two packets, 1500 bytes/s at least.
    datapath.send(&message(3, sid, &[words(&[2]), fields(1, 400_000_000)].concat())).unwrap();
    settle(&mut datapath, sid);
    let (packets, _, rate) = transfer.control();
    assert_eq!((packets, rate), (2, 400_000_000));
    let unknown = message(3, sid ^ 0x10000, &[words(&[2]), fields(1, 1)].concat());
    assert!(matches!(datapath.send(&unknown), Err(Error::UnknownFlow(_))));
    assert_eq!(datapath.stats().fallbacks, 0);

    datapath.send(&message(4, sid, &words(&[2, 0]))).unwrap();
    let report = loop {
        let report = next(&mut datapath, 1);
        if word(&report, 8) == 2 {
            break report;
        }
    };
    assert_eq!((word(&report, 12), report.len()), (10, 16 + 80));
    assert!(word(&report, 16) > 0 && word(&report, 24) > 0, "{report:?}");
    datapath.send(&message(3, sid, &words(&[0]))).unwrap();
    settle(&mut datapath, sid);

    // Nobody answers, although the agent lives.
    let begin = Instant::now();
    let announced = next(&mut datapath, 0);
    assert_eq!(word(&announced, 4), sid);
    assert!(begin.elapsed() > Duration::from_millis(350), "{:?}", begin.elapsed());
    assert_eq!(datapath.stats().fallbacks, 1);
    datapath.send(&message(3, sid, &words(&[0]))).unwrap();
    next(&mut datapath, 1);
    assert_eq!(datapath.stats().adopted, 2, "any message brings the flow back");

    // Nobody is there.
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(datapath.stats().fallbacks, 2);
    assert_eq!(datapath.stats().aborts, 0);
    transfer.end();
    drop(datapath);
    assert!(is_gone());
}

#[test]
fn a_pinned_registration_outlives_its_agent() {
    let _guard = ONE_AT_A_TIME.lock();
    let place = match BpfFs::mount() {
        Ok(place) => place,
        Err(error) => {
            eprintln!("skipped: no BPF file system can be mounted here ({error})");
            return;
        }
    };
    let Some(first) = open_if_possible(&place.0, Mode::Generated) else { return };
    assert!(first.is_pinned() && !first.is_adopted());
    assert!(matches!(Datapath::open(&place.0, &["libra-rl"], Mode::Generated), Err(Error::Taken(_))));
    drop(first);
    let transfer = Transfer::start("anole_ccp");
    let mut second = open(&place.0, Mode::Generated).unwrap();
    assert!(second.is_pinned() && second.is_adopted());
    next(&mut second, 5);
    second.send(&program()).unwrap();
    let sid = word(&next(&mut second, 0), 4);
    second.send(&message(4, sid, &words(&[1, 0]))).unwrap();
    next(&mut second, 1);
    transfer.end();
    drop(second);
    assert!(is_registered());

    // Before Linux 6.4 it is still registered then, and the next agent ends that.
    place.remove_pins();
    let third = open(Path::new("/nowhere"), Mode::Generated).unwrap();
    assert!(!third.is_pinned());
    drop(third);
    assert!(is_gone());
}

#[test]
fn a_flow_under_generated_byte_code() {
    a_flow_obeys_reports_and_falls_back(Mode::Generated);
}

#[test]
fn a_flow_under_the_interpreter() {
    a_flow_obeys_reports_and_falls_back(Mode::Interpreted);
}
