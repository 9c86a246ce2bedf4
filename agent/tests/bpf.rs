//! `--ipc bpf` end to end: TCP between network namespaces over a 20 Mbit/s link, the agent killed and
//! started again, with no more capabilities than its systemd unit gives it. Needs root and a kernel with BPF's
//! struct_ops; skipped with the reason elsewhere.

#![allow(clippy::disallowed_methods, reason = "real links, in real time")]

#[path = "common/lab.rs"]
mod lab;

use anole_bpf::DatapathStats;
use anole_testing::figure;
use lab::{Agent, Namespaces, agent_with_unit_capabilities};
use nix::mount::{MsFlags, mount, umount};
use nix::sys::signal::Signal;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, setsockopt, socket, sockopt,
};
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const LINK_BYTES_PER_S: f64 = 20e6 / 8.0;
const RECEIVER: &str = "10.77.2.2:7777";
/// Connections that come and go.
const MANY: u64 = 200;
/// For what happens soon on a quiet host, and on a busy one some time.
const PATIENCE: Duration = Duration::from_secs(30);

/// A sender, a router and a receiver, and a BPF file system; gone when it is dropped.
struct Lab {
    spaces: Namespaces,
    bpf: tempfile::TempDir,
}

impl Lab {
    fn new() -> Result<Lab, String> {
        let lab =
            Lab { spaces: Namespaces::new()?, bpf: tempfile::tempdir().map_err(|error| error.to_string())? };
        mount(Some("bpf"), lab.bpf.path(), Some("bpf"), MsFlags::empty(), None::<&str>)
            .map_err(|error| format!("mount -t bpf: {error}"))?;
        Ok(lab)
    }

    fn stats(&self) -> DatapathStats {
        anole_bpf::stats(self.bpf.path()).unwrap_or_default()
    }

    fn flows(&self) -> usize {
        anole_bpf::flows(self.bpf.path()).unwrap_or(0)
    }

    /// An agent, and what it is there for has come. Other tests of this host may be where it wants to be for a while.
    fn agent_until(&self, more: &[&str], what: &str, mut done: impl FnMut() -> bool) -> Agent {
        let end = Instant::now() + Duration::from_secs(60);
        let mut agent = self.agent(more);
        let mut before = String::new();
        while !done() {
            if Instant::now() >= end {
                panic!("{what} within a minute: {before}{}", agent.kill());
            }
            std::thread::sleep(Duration::from_millis(50));
            if agent.0.try_wait().unwrap().is_some() {
                before = format!("(an agent before it: {}) ", agent.kill());
                agent = self.agent(more);
            }
        }
        agent
    }

    fn agent(&self, more: &[&str]) -> Agent {
        let child = agent_with_unit_capabilities()
            .args(["--ipc", "bpf", "--alg", "cubic", "--bpf-fs"])
            .arg(self.bpf.path())
            .args(more)
            .stderr(Stdio::piped())
            .spawn();
        Agent(child.unwrap())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // With its last pin, the registration goes.
        let _ = umount(self.bpf.path());
    }
}

fn wait_for(what: &str, limit: Duration, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !done() {
        assert!(Instant::now() < end, "{what} within {limit:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A connection that asks for nothing.
fn plain() -> std::io::Result<TcpStream> {
    let to: SocketAddr = RECEIVER.parse().unwrap();
    TcpStream::connect_timeout(&to, Duration::from_secs(5))
}

fn connect() -> std::io::Result<TcpStream> {
    let stream = plain()?;
    setsockopt(&stream, sockopt::TcpCongestion, &"anole_ccp".into())?;
    Ok(stream)
}

/// Takes connections and counts their bytes, until one says "end".
fn receive(listener: &TcpListener, bytes: &Arc<AtomicU64>) {
    let mut readers = Vec::new();
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let bytes = Arc::clone(bytes);
        let mut first = [0; 1];
        if stream.read(&mut first).unwrap_or(0) == 1 && first[0] == b'.' {
            break;
        }
        readers.push(std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                bytes.fetch_add(count as u64, Relaxed);
            }
        }));
    }
    readers.into_iter().for_each(|reader| reader.join().unwrap());
}

/// Share of the link that was used over a while.
fn utilisation(bytes: &AtomicU64, over: Duration) -> f64 {
    let (start, before) = (Instant::now(), bytes.load(Relaxed));
    std::thread::sleep(over);
    (bytes.load(Relaxed) - before) as f64 / start.elapsed().as_secs_f64() / LINK_BYTES_PER_S
}

fn supported(path: &Path) -> Result<(), String> {
    if !nix::unistd::geteuid().is_root() {
        return Err("needs root".to_string());
    }
    if !path.exists() {
        return Err(format!("the kernel has no {}", path.display()));
    }
    Ok(())
}

/// What the agent cannot reach once it has given up root's way around permissions is refused at the start, before
/// anything is registered.
#[test]
fn what_belongs_to_another_user_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let [server, models] = ["policy.sock", "models.json"].map(|name| folder.path().join(name));
    let listener = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
    bind(listener.as_raw_fd(), &UnixAddr::new(&server).unwrap()).unwrap();
    listen(&listener, Backlog::new(8).unwrap()).unwrap();
    std::fs::write(&models, "{}").unwrap();
    for path in [&server, &models] {
        std::fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
        if let Err(error) = chown(path, Some(65_534), Some(65_534)) {
            anole_testing::skip!("needs root: {error}");
            return;
        }
    }
    for (flags, path) in [
        (&["--ipc", "bpf", "--policy", "libra", "--backend", "server", "--policy-server"][..], &server),
        (&["--switch", "linux", "--alg", "antelope", "--policy"], &models),
    ] {
        let agent = Command::new(env!("CARGO_BIN_EXE_anole-ccp")).args(flags).arg(path).output().unwrap();
        let error = String::from_utf8_lossy(&agent.stderr);
        assert_eq!(agent.status.code(), Some(2), "{error}");
        let said = "Permission denied: it belongs to user 65534, mode 0600, and user 0 without CAP_DAC_OVERRIDE asks";
        assert!(error.contains(said) && error.contains(path.to_str().unwrap()), "{error}");
    }
}

#[test]
fn flows_survive_the_agent_and_come_back_to_the_next_one() {
    let lab = match supported(Path::new("/sys/kernel/btf/vmlinux")).and_then(|()| Lab::new()) {
        Ok(lab) => lab,
        Err(reason) => {
            anole_testing::skip!("{reason}");
            return;
        }
    };
    let first = lab.agent_until(&[], "registration", || anole_bpf::stats(lab.bpf.path()).is_ok());
    let (bytes, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let counted = Arc::clone(&bytes);
    let (listening, listens) = std::sync::mpsc::channel();
    let receiver = lab.spaces.spawn(2, move || {
        let listener = TcpListener::bind(RECEIVER).unwrap();
        listening.send(()).unwrap();
        receive(&listener, &counted);
    });
    listens.recv().unwrap();
    let stopped = Arc::clone(&stop);
    let sender = lab.spaces.spawn(0, move || {
        let mut stream = connect().unwrap();
        let data = vec![b'x'; 1 << 15];
        while !stopped.load(Relaxed) {
            stream.write_all(&data).unwrap();
        }
    });
    let status = std::fs::read_to_string(format!("/proc/{}/status", first.0.id())).unwrap();
    // CAP_NET_ADMIN (12), CAP_PERFMON (38), CAP_BPF (39).
    assert!(status.contains("CapBnd:\t000000c000001000"), "{status}");
    wait_for("the agent governs", PATIENCE, || lab.stats().adopted >= 1);
    // Another agent is refused by what runs, whatever BPF file system it is given.
    for bpf_fs in [lab.bpf.path(), Path::new("/nowhere")] {
        let mut second = Command::new(env!("CARGO_BIN_EXE_anole-ccp"));
        let output = second.args(["--ipc", "bpf", "--bpf-fs"]).arg(bpf_fs).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(&format!("another agent (pid {})", first.0.id())), "{error}");
    }
    let output =
        Command::new(env!("CARGO_BIN_EXE_anole-ccp")).args(["status", "--ipc", "bpf"]).output().unwrap();
    let flows = String::from_utf8_lossy(&output.stdout);
    assert!(flows.lines().any(|row| row.contains(RECEIVER) && row.contains("cubic")), "{flows}");
    std::thread::sleep(Duration::from_millis(500));
    let governed = utilisation(&bytes, Duration::from_secs(2));
    figure("kernel, --ipc bpf: fallbacks while the agent lives", 0.0..=0.0, lab.stats().fallbacks as f64);

    let fallbacks = lab.stats().fallbacks;
    let log = first.kill();
    assert!(log.contains("anole_ccp is registered"), "{log}");
    wait_for("the fallback", PATIENCE, || lab.stats().fallbacks > fallbacks);
    let alone = utilisation(&bytes, Duration::from_secs(2));

    // Opened while nobody is there: for it the agent is late.
    let late =
        lab.spaces.spawn(0, || connect().and_then(|mut stream| stream.write_all(b"so far").map(|()| stream)));
    let mut late = late.join().unwrap().unwrap();
    let (adopted, ended) = (lab.stats().adopted, lab.bpf.path().with_extension("jsonl"));
    let more = ["--prefix", "10.77.2.2/32=reno", "--stats", ended.to_str().unwrap()];
    // Without cgroups, the same without the choice by prefix.
    let chooses = anole_bpf::top_cgroup().is_some();
    let more = if chooses { &more[..] } else { &more[2..] };
    let second = lab.agent_until(more, "the flow comes back", || lab.stats().adopted > adopted);
    let again = utilisation(&bytes, Duration::from_secs(2));
    // It announces itself at an ACK, and is taken at a later one.
    wait_for("and the late one", PATIENCE, || {
        late.write_all(b", and on").unwrap();
        lab.stats().adopted > adopted + 1
    });
    drop(late);

    let opened = lab.stats().opened;
    let connection = move || if chooses { plain() } else { connect() };
    let many = lab.spaces.spawn(0, move || {
        for _ in 0..MANY {
            connection().unwrap().write_all(b"hello, many times over").unwrap();
        }
    });
    many.join().unwrap();
    // One for which the kernel left `init` out is opened at its first ACK.
    wait_for("all are opened", PATIENCE, || lab.stats().opened == opened + MANY);
    wait_for("one flow is left", PATIENCE, || lab.flows() == 1);
    stop.store(true, Relaxed);
    sender.join().unwrap();
    lab.spaces.spawn(0, move || connection().unwrap().write_all(b".").unwrap()).join().unwrap();
    receiver.join().unwrap();
    wait_for("no flow is left", PATIENCE, || lab.flows() == 0);
    // The long one, the late one and the one that ended the receiver, besides.
    let read = || std::fs::read_to_string(&ended).unwrap();
    wait_for("the agent has heard of each end", PATIENCE, || read().lines().count() as u64 == MANY + 3);
    let log = second.end(Signal::SIGTERM);
    assert!(log.contains("registered by an earlier agent") && !log.contains("panic"), "{log}");
    let stats = lab.stats();
    assert_eq!((stats.unsent, stats.aborts, stats.unslotted), (0, 0, 0), "{stats:?}");
    // The agent forgot each when it ended: none was left for it to drop.
    let lines = read();
    let _ = std::fs::remove_file(&ended);
    let count = |what: &str| lines.lines().filter(|line| line.contains(what)).count() as u64;
    assert_eq!((count("\"end\":\"closed\""), count("\"end\":\"dropped\"")), (MANY + 3, 0), "{lines}");
    assert_eq!(count("\"algorithm\":\"reno\""), if chooses { MANY + 1 } else { 0 }, "chosen by prefix");
    for (phase, share) in [("governed", governed), ("agent killed", alone), ("agent back", again)] {
        assert!(share > 0.0, "{phase}: nothing arrives");
        figure(&format!("kernel, --ipc bpf, {phase}: share of the link"), 0.7..1.02, share);
    }
}
