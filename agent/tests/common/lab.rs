//! What the tests of the kernel's TCP run in: a sender, a router and a receiver in network namespaces, over a link of
//! 20 Mbit/s to the receiver; an agent with no more capabilities than its systemd unit gives it.

use nix::sched::{CloneFlags, setns};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use std::fs::File;
use std::io::Read;
use std::process::{Child, Command};
use std::thread::JoinHandle;

fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split_whitespace()).output();
    let output = output.map_err(|error| format!("ip: {error}"))?;
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(format!("ip {arguments}: {error}")) }
}

/// The agent's program, to be run with these capabilities.
pub fn agent_with_unit_capabilities() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--no-new-privs", "--inh-caps", "-all", "--bounding-set", &unit_capabilities()]);
    command.arg(env!("CARGO_BIN_EXE_anole-ccp"));
    command
}

/// A running agent; killed when this is dropped.
pub struct Agent(pub Child);

impl Agent {
    /// Kills it; its log.
    pub fn kill(self) -> String {
        self.end(Signal::SIGKILL)
    }

    /// Ends it by a signal; its log.
    pub fn end(mut self, signal: Signal) -> String {
        let _ = nix::sys::signal::kill(Pid::from_raw(self.0.id() as i32), signal);
        let _ = self.0.wait();
        let mut log = String::new();
        let _ = self.0.stderr.take().map(|mut stderr| stderr.read_to_string(&mut log));
        log
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Those of the systemd unit, as setpriv takes them.
fn unit_capabilities() -> String {
    let unit = include_str!("../../../ccp-kernel/bpf/anole-ccp.service");
    let set = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let names = set.expect("the unit names capabilities").split_whitespace();
    let names = names.map(|name| format!(",+{}", name.trim_start_matches("CAP_").to_lowercase()));
    format!("-all{}", names.collect::<String>())
}

/// The three hosts; gone when this is dropped.
pub struct Namespaces {
    names: [String; 3],
}

impl Namespaces {
    pub fn new() -> Result<Namespaces, String> {
        let pid = std::process::id();
        let names = ["s", "r", "d"].map(|role| format!("anole-{pid}-{role}"));
        let spaces = Namespaces { names };
        let [s, r, d] = &spaces.names;
        for name in &spaces.names {
            ip(&format!("netns add {name}"))?;
            ip(&format!("-n {name} link set lo up"))?;
        }
        for (net, end) in [(1, s), (2, d)] {
            ip(&format!("-n {r} link add v{net} type veth peer name eth netns {end}"))?;
            ip(&format!("-n {r} addr add 10.77.{net}.1/24 dev v{net}"))?;
            ip(&format!("-n {end} addr add 10.77.{net}.2/24 dev eth"))?;
            ip(&format!("-n {r} link set v{net} up"))?;
            ip(&format!("-n {end} link set eth up"))?;
            ip(&format!("-n {end} route add default via 10.77.{net}.1"))?;
        }
        ip(&format!("netns exec {r} sysctl -qw net.ipv4.ip_forward=1"))?;
        ip(&format!("netns exec {r} tc qdisc add dev v2 root tbf rate 20mbit burst 20kb latency 40ms"))?;
        Ok(spaces)
    }

    /// Runs in one of the namespaces, in a thread of its own.
    pub fn spawn<T: Send + 'static>(
        &self,
        role: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let path = format!("/run/netns/{}", self.names[role]);
        std::thread::spawn(move || {
            setns(File::open(path).unwrap(), CloneFlags::CLONE_NEWNET).unwrap();
            work()
        })
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = ip(&format!("netns del {name}"));
        }
    }
}
