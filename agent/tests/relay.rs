//! `anole-ccp relay` end to end: a TCP connection over loopback, governed by an agent at a Unix socket that knows nothing
//! of the kernel; the agent is killed, and another one takes its place. Needs root and a kernel with BPF's struct_ops;
//! skipped with the reason elsewhere.

#![allow(clippy::disallowed_methods, reason = "real connections, in real time")]

use nix::mount::{MsFlags, mount, umount};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::{Pid, Uid, chown};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const AGENT: &str = env!("CARGO_BIN_EXE_anole-ccp");
/// For what happens soon on a quiet host, and on a busy one some time; other tests of this host may have the kernel's
/// datapath meanwhile.
const PATIENCE: Duration = Duration::from_secs(60);
/// Whose agent it is: nobody's.
const USER: u32 = 65_534;

/// A folder of that user's, and a BPF file system; gone when it is dropped.
struct Place {
    folder: tempfile::TempDir,
    bpf: tempfile::TempDir,
}

impl Place {
    fn new() -> Result<Place, String> {
        if !nix::unistd::geteuid().is_root() {
            return Err("needs root".to_string());
        }
        if !Path::new("/sys/kernel/btf/vmlinux").exists() {
            return Err("the kernel has no /sys/kernel/btf/vmlinux".to_string());
        }
        let make = || tempfile::tempdir().map_err(|error| error.to_string());
        let place = Place { folder: make()?, bpf: make()? };
        chown(place.folder.path(), Some(Uid::from_raw(USER)), None).map_err(|error| error.to_string())?;
        mount(Some("bpf"), place.bpf.path(), Some("bpf"), MsFlags::empty(), None::<&str>)
            .map_err(|error| format!("mount -t bpf: {error}"))?;
        Ok(place)
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("agent.sock")
    }

    /// An agent of the other user's.
    fn agent(&self, alg: &str) -> Process {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &USER.to_string(), "--clear-groups", AGENT, "--alg", alg, "--socket"]);
        let agent = Process(command.arg(self.socket()).stderr(Stdio::null()).spawn().unwrap());
        wait_for("the agent's socket", || {
            let status = self.status();
            status.is_some_and(|flows| flows.contains("\"pid\""))
        });
        agent
    }

    /// What that agent says of its flows.
    fn status(&self) -> Option<String> {
        let output = Command::new(AGENT).args(["status", "--json", "--socket"]).arg(self.socket()).output();
        output
            .ok()
            .filter(|output| output.status.success())
            .map(|o| String::from_utf8_lossy(&o.stdout).into_owned())
    }

    fn relay(&self) -> Process {
        let mut command = Command::new(AGENT);
        command.arg("relay").arg("--socket").arg(self.socket()).arg("--bpf-fs").arg(self.bpf.path());
        Process(command.stderr(Stdio::piped()).spawn().unwrap())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // With its last pin, the registration goes.
        let _ = umount(self.bpf.path());
    }
}

struct Process(Child);

impl Process {
    /// Its log.
    fn end(&mut self, signal: Signal) -> String {
        let _ = kill(Pid::from_raw(self.0.id() as i32), signal);
        let _ = self.0.wait();
        let mut log = String::new();
        let _ = self.0.stderr.take().map(|mut stderr| stderr.read_to_string(&mut log));
        log
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "{what} within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn tcp_of_the_kernel_is_governed_by_an_agent_at_a_socket() {
    let place = match Place::new() {
        Ok(place) => place,
        Err(reason) => {
            anole_testing::skip!("{reason}");
            return;
        }
    };
    // Without an agent, and without a root's rights, it says so.
    let refused = Command::new(AGENT).args(["relay", "--socket"]).arg(place.socket()).output().unwrap();
    let error = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(error.contains("no agent is there; start it first"), "{error}");

    let mut first = place.agent("reno");
    let stats = || anole_bpf::stats(place.bpf.path()).unwrap_or_default();
    let mut relay = place.relay();
    wait_for("registration", || {
        if relay.0.try_wait().unwrap().is_some() {
            relay = place.relay();
        }
        anole_bpf::stats(place.bpf.path()).is_ok()
    });

    wait_for("no thread has more than what loading a program takes", || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", relay.0.id())).unwrap();
        let statuses =
            tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).unwrap());
        // CAP_NET_ADMIN (12), CAP_PERFMON (38), CAP_BPF (39); the second thread answers at the control socket.
        let few: Vec<_> = statuses.map(|status| status.contains("CapEff:\t000000c000001000")).collect();
        few.len() >= 2 && few.iter().all(|few| *few)
    });

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let receiver = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = vec![0; 1 << 16];
        while let Ok(1..) = stream.read(&mut buffer) {}
    });
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let sender = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(to).unwrap();
        setsockopt(&stream, sockopt::TcpCongestion, &"anole_ccp".into()).unwrap();
        // A packet at a time: what is tried here needs no load.
        while !stopped.load(Relaxed) {
            stream.write_all(&[b'x'; 4096]).unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let peer = format!("\"{to}\"");
    let governed = |alg: &str| {
        let flows = place.status().unwrap_or_default();
        flows.contains(&format!("\"{alg}\"")) && flows.contains("\"agent\"") && flows.contains(&peer)
    };
    wait_for("the first agent governs", || governed("reno") && stats().adopted >= 1);
    let host = Command::new(AGENT).args(["status", "--ipc", "bpf"]).output().unwrap();
    let host = String::from_utf8_lossy(&host.stdout);
    assert!(host.contains("relayed to") && host.contains("agent.sock"), "{host}");

    let fallbacks = stats().fallbacks;
    first.end(Signal::SIGKILL);
    wait_for("the fallback", || stats().fallbacks > fallbacks);
    let adopted = stats().adopted;
    let mut second = place.agent("vegas");
    wait_for("the second agent governs", || governed("vegas") && stats().adopted > adopted);
    stop.store(true, Relaxed);
    sender.join().unwrap();
    receiver.join().unwrap();
    let log = relay.end(Signal::SIGTERM);
    assert!(log.contains("the agent has gone") && log.contains("an agent is there"), "{log}");
    assert!(log.contains("relay stops") && !log.contains("dropped") && !log.contains("panic"), "{log}");
    second.end(Signal::SIGTERM);
    let left: Vec<_> =
        std::fs::read_dir(place.folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, ["agent.sock.lock"], "nothing else is left");
}
