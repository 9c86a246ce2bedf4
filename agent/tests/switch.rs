//! `--switch linux` end to end: a connection between network namespaces, whose algorithm the agent switches under it, the
//! agent killed. Needs root, BPF, cgroups of version 2, and BBR and CUBIC in the kernel; skipped with the reason
//! elsewhere.

#![allow(clippy::disallowed_methods, reason = "real links, in real time")]

#[path = "common/lab.rs"]
mod lab;

use anole_bpf::switch::{attached, available};
use lab::{Agent, Namespaces, agent_with_unit_capabilities};
use nix::sys::socket::{getsockopt, sockopt};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const RECEIVER: &str = "10.77.2.2:7778";
/// For what happens soon on a quiet host, and on a busy one some time.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cgroup that this process is in until it is dropped.
struct Cgroup {
    path: PathBuf,
    before: PathBuf,
}

impl Cgroup {
    fn enter() -> Result<Cgroup, String> {
        let top = anole_bpf::top_cgroup().ok_or("there is no cgroup2 file system")?;
        let own = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
        let own = own
            .lines()
            .find_map(|line| line.strip_prefix("0::/"))
            .ok_or("there is no cgroup of this process")?;
        let cgroup =
            Cgroup { path: top.join(format!("anole-switch-{}", std::process::id())), before: top.join(own) };
        let failed = |error| format!("{}: {error}", cgroup.path.display());
        fs::create_dir(&cgroup.path).map_err(failed)?;
        fs::write(cgroup.path.join("cgroup.procs"), "0").map_err(failed)?;
        Ok(cgroup)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::write(self.before.join("cgroup.procs"), "0");
        let _ = fs::remove_dir(&self.path);
    }
}

/// An agent, attached. Another test of this host may be in its place for a while.
fn agent(cgroup: &Path, files: &Path) -> Agent {
    let end = Instant::now() + PATIENCE;
    loop {
        let file = |name: &str| files.join(name);
        let child = agent_with_unit_capabilities()
            .args(["--switch", "linux", "--alg", "antelope", "--cgroup"])
            .arg(cgroup)
            .arg("--policy")
            .arg(file("models.json"))
            .arg("--antelope-log")
            .arg(file("units"))
            .arg("--stats")
            .arg(file("flows"))
            .stderr(Stdio::piped())
            .spawn();
        let mut agent = Agent(child.unwrap());
        while agent.0.try_wait().unwrap().is_none() {
            if attached(cgroup).unwrap() == 1 {
                return agent;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let log = agent.kill();
        assert!(log.contains("another agent") && Instant::now() < end, "{log}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "{what} within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn control_name(stream: &TcpStream) -> String {
    getsockopt(stream, sockopt::TcpCongestion).unwrap().to_string_lossy().trim_end_matches('\0').to_string()
}

fn connect() -> TcpStream {
    let to: SocketAddr = RECEIVER.parse().unwrap();
    TcpStream::connect_timeout(&to, PATIENCE).unwrap()
}

/// What goes wherever a connection is: byte n of it.
fn byte(n: u64) -> u8 {
    (n % 251) as u8
}

/// Reads whole connections, and counts what was right in the first.
fn receive(listener: &TcpListener, right: &Arc<AtomicU64>, stop: &Arc<AtomicBool>) {
    for (number, stream) in listener.incoming().enumerate() {
        if stop.load(SeqCst) {
            break;
        }
        let (mut stream, right) = (stream.unwrap(), Arc::clone(right));
        std::thread::spawn(move || {
            let (mut buffer, mut at) = (vec![0; 1 << 16], 0);
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                let good = buffer[..count].iter().zip(at..).filter(|(seen, n)| **seen == byte(*n)).count();
                at += count as u64;
                right.fetch_add(if number == 0 { good as u64 } else { 0 }, SeqCst);
            }
        });
    }
}

/// Sends as much as goes.
struct Sender {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Sender {
    fn start(mut stream: TcpStream) -> Sender {
        let stop = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut sent = 0;
            while !over.load(SeqCst) {
                let data: Vec<u8> = (sent..sent + (1 << 14)).map(byte).collect();
                stream.write_all(&data).unwrap();
                sent += data.len() as u64;
            }
            sent
        });
        Sender { stop, thread }
    }

    /// How many bytes that was.
    fn end(self) -> u64 {
        self.stop.store(true, SeqCst);
        self.thread.join().unwrap()
    }
}

/// The data units of the log: flow and algorithm.
fn units(files: &Path) -> Vec<(u64, String)> {
    let text = fs::read_to_string(files.join("units")).unwrap();
    // The last line may not be whole yet.
    let values = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    values.filter_map(|unit| Some((unit["flow"].as_u64()?, unit["arm"].as_str()?.to_string()))).collect()
}

/// Models that predict always the same: `best` is better.
fn models(best: &str) -> String {
    let leaf = |name: &str| {
        let value = if name == best { 0.5 } else { 0.2 };
        format!(
            r#""{name}": {{"learner": {{"learner_model_param": {{"base_score": "{value}", "num_feature": "7"}},
            "gradient_booster": {{"name": "gbtree", "model": {{"trees": []}}}}}}}}"#
        )
    };
    format!(r#"{{"boosters": {{{}, {}}}}}"#, leaf("bbr"), leaf("cubic"))
}

/// What the test needs, and of BBR and CUBIC the one that connections have here, and the other.
fn prepared() -> Result<(Namespaces, Cgroup, [&'static str; 2]), String> {
    if !nix::unistd::geteuid().is_root() {
        return Err("needs root".to_string());
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Err("the kernel has no BTF".to_string());
    }
    if ["bbr", "cubic"].iter().any(|name| !available().iter().any(|known| known == name)) {
        return Err("the kernel has not both BBR and CUBIC (modprobe tcp_bbr)".to_string());
    }
    let default = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap_or_default();
    let algorithms = match default.trim() {
        "bbr" => ["bbr", "cubic"],
        "cubic" => ["cubic", "bbr"],
        other => return Err(format!("net.ipv4.tcp_congestion_control is {other}, neither bbr nor cubic")),
    };
    Ok((Namespaces::new()?, Cgroup::enter()?, algorithms))
}

#[test]
fn a_live_flow_is_switched_and_outlives_the_agent() {
    let (spaces, cgroup, [host, other]) = match prepared() {
        Ok(prepared) => prepared,
        Err(reason) => {
            anole_testing::skip!("{reason}");
            return;
        }
    };
    let files = tempfile::tempdir().unwrap();
    fs::write(files.path().join("models.json"), models(other)).unwrap();
    let (right, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let (counted, ends) = (Arc::clone(&right), Arc::clone(&stop));
    let (listening, listens) = std::sync::mpsc::channel();
    let receiver = spaces.spawn(2, move || {
        let listener = TcpListener::bind(RECEIVER).unwrap();
        listening.send(()).unwrap();
        receive(&listener, &counted, &ends);
    });
    listens.recv().unwrap();
    assert_eq!(attached(&cgroup.path).unwrap(), 0);
    let agent = agent(&cgroup.path, files.path());

    let stream = spaces.spawn(0, connect).join().unwrap();
    assert_eq!(control_name(&stream), host, "nothing is known of the address");
    let sender = Sender::start(stream.try_clone().unwrap());
    // The link has less room than the connection takes, so that its slow start ends.
    wait_for("the flow is switched", || control_name(&stream) == other);
    let units = || units(files.path());
    wait_for("what follows is told", || units().iter().any(|(_, arm)| arm == other));
    let first = units()[0].0;
    let output = Command::new(env!("CARGO_BIN_EXE_anole-ccp")).args(["status", "--switch", "linux"]).output();
    let flows = String::from_utf8_lossy(&output.unwrap().stdout).into_owned();
    assert!(flows.lines().any(|row| row.contains(RECEIVER) && row.contains(other)), "{flows}");

    // A second one, whose end teaches what serves its address.
    let second = Sender::start(spaces.spawn(0, connect).join().unwrap());
    wait_for("it has had the other one longest", || {
        let its: Vec<_> = units().into_iter().filter(|(flow, _)| *flow != first).collect();
        2 * its.iter().filter(|(_, arm)| arm == other).count() > its.len() + 1
    });
    second.end();
    wait_for("a flow begins with it", || control_name(&spaces.spawn(0, connect).join().unwrap()) == other);

    let log = agent.kill();
    assert!(log.contains("new connections are switched") && !log.contains("panic"), "{log}");
    wait_for("nothing is attached", || attached(&cgroup.path).unwrap() == 0);
    assert_eq!(control_name(&stream), other, "a flow keeps what it has");
    assert_eq!(control_name(&spaces.spawn(0, connect).join().unwrap()), host, "a later one is the host's");
    let arrived = right.load(SeqCst);
    wait_for("and goes on", || right.load(SeqCst) > arrived + (1 << 16));
    let sent = sender.end();
    drop(stream);
    stop.store(true, SeqCst);
    // The receiver looks at the flag when somebody comes.
    spaces.spawn(0, connect).join().unwrap();
    receiver.join().unwrap();
    wait_for("every byte has arrived", || right.load(SeqCst) == sent);
    let ended = fs::read_to_string(files.path().join("flows")).unwrap();
    assert!(
        ended.lines().any(|line| line.contains("\"algorithm\":\"antelope\"") && line.contains("closed")),
        "{ended}"
    );
}
