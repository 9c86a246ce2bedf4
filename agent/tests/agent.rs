//! The binary from outside: sockets, signals, restarts, bad flags, bad datagrams.
#![allow(clippy::disallowed_methods, reason = "real processes in real time")]

mod common;

use anole_testing::figure;
use common::MiniHost;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anole-ccp"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// A run that is meant to end by itself at once.
fn run(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

/// A running agent; killed when dropped.
struct Agent(Child);

impl Agent {
    fn start(socket: &Path, more: &[&str]) -> Agent {
        let mut arguments = vec!["--alg", "reno", "--log", "json", "--socket", socket.to_str().unwrap()];
        arguments.extend(more);
        let child = command(&arguments).stderr(Stdio::piped()).spawn().unwrap();
        let mut agent = Agent(child);
        let begin = Instant::now();
        while !listens(socket) {
            assert!(begin.elapsed() < PATIENCE, "the agent does not listen");
            assert!(agent.0.try_wait().unwrap().is_none(), "the agent ended");
            std::thread::sleep(Duration::from_millis(5));
        }
        agent
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id() as i32), signal).unwrap();
    }

    /// Waits for its end; its exit status and its log.
    fn end(mut self) -> (ExitStatus, String) {
        let mut log = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (self.0.wait().unwrap(), log)
    }

    fn stop(self) -> String {
        self.signal(Signal::SIGTERM);
        let (status, log) = self.end();
        assert_eq!(status.code(), Some(0), "{log}");
        log
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Both fail when it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn listens(socket: &Path) -> bool {
    UnixDatagram::unbound().unwrap().connect(socket).is_ok()
}

fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("agent.sock");
    (directory, socket)
}

#[test]
fn a_flow_is_taken_served_and_counted_and_the_stop_is_clean() {
    let (directory, socket) = place();
    let stats = directory.path().join("stats.jsonl");
    let agent = Agent::start(&socket, &["--stats", stats.to_str().unwrap(), "--seed", "42"]);
    let mut host = MiniHost::new(&socket, 1);
    let (asked, default) = (host.open("cubic"), host.open(""));
    assert!(host.drive(PATIENCE, |host| host.governed(asked) && host.governed(default)));
    // A window that does not grow is reported every 200 ms.
    let reports = |host: &MiniHost| host.datapath.flow(asked).unwrap().stats().reports;
    assert!(host.drive(PATIENCE, |host| reports(host) >= 2));
    assert!(host.drive(PATIENCE, |host| host.governed(asked) && host.governed(default)));
    assert_eq!(host.refused, 0);
    let reports = reports(&host);
    host.close(asked);
    host.drive(Duration::from_millis(50), |_| false);
    let log = agent.stop();
    assert!(log.contains("\"seed\":42"), "{log}");
    assert!(!socket.exists());
    let lines = std::fs::read_to_string(stats).unwrap();
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!((lines[0]["algorithm"].as_str(), lines[0]["end"].as_str()), (Some("cubic"), Some("closed")));
    assert_eq!(lines[0]["reports"].as_u64(), Some(reports));
    assert_eq!((lines[1]["algorithm"].as_str(), lines[1]["end"].as_str()), (Some("reno"), Some("dropped")));
}

/// The CCP project's kernel module asks for "reno" in every CREATE.
#[test]
fn a_forced_algorithm_overrides_what_a_datapath_asks_for_and_says_so() {
    for (flags, runs, line) in [
        (&[][..], "cubic", "flow's own algorithm taken"),
        (&["--force-alg"], "reno", "flow's own algorithm overridden"),
    ] {
        let (directory, socket) = place();
        let stats = directory.path().join("stats.jsonl");
        let agent = Agent::start(&socket, &[flags, &["--stats", stats.to_str().unwrap()]].concat());
        let mut host = MiniHost::new(&socket, 1);
        let flow = host.open("cubic");
        assert!(host.drive(PATIENCE, |host| host.governed(flow)));
        let log = agent.stop();
        assert!(log.contains(line) && log.contains("\"asked\":\"cubic\""), "{log}");
        assert!(std::fs::read_to_string(stats).unwrap().contains(&format!("\"algorithm\":\"{runs}\"")));
    }
}

#[test]
fn whoever_asks_is_told_of_the_flows() {
    let (_directory, socket) = place();
    let at = socket.to_str().unwrap();
    let status = || {
        let output = run(&["status", "--socket", at, "--json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let agent = Agent::start(&socket, &[]);
    let control = socket.with_file_name("agent.sock.control");
    let mut host = MiniHost::new(&socket, 1);
    let flow = host.open("cubic");
    assert!(host.drive(PATIENCE, |host| host.datapath.flow(flow).unwrap().stats().reports >= 2));
    // The agent's two sockets come one after the other.
    assert_eq!(std::fs::metadata(&control).unwrap().permissions().mode() & 0o777, 0o600);
    let told = status();
    assert_eq!((told["pid"].as_u64(), told["ipc"].as_str()), (Some(agent.0.id().into()), Some("unix")));
    let row = &told["flows"][0];
    for (key, expected) in [("algorithm", "cubic"), ("governor", "agent"), ("peer", "192.0.2.2:2")] {
        assert_eq!(row[key], expected, "{row}");
    }
    assert!(row["rate_mbps"].as_f64().unwrap() > 0.0 && row["rtt_ms"] == 20.0, "{row}");
    assert_eq!(
        (&row["loss_percent"], row["datapath"].as_str().unwrap().ends_with(".dp.1")),
        (&0.0.into(), true)
    );
    let table = String::from_utf8(run(&["status", "--socket", at]).stdout).unwrap();
    assert!(table.lines().nth(2).unwrap().contains("cubic"), "{table}");
    // Clients that ask and do not read, and such that go at once, take nothing from the flow.
    let idle: Vec<_> = (0..20).map(|_| UnixStream::connect(&control).unwrap()).collect();
    assert!(host.drive(Duration::from_millis(700), |_| false) || host.governed(flow));
    drop(idle);
    host.close(flow);
    assert!(host.drive(PATIENCE, |_| status()["flows"].as_array().unwrap().is_empty()));
    let log = agent.stop();
    for event in ["\"message\":\"flow begins\"", "\"message\":\"flow ends\""] {
        assert_eq!(log.matches(event).count(), 1, "{log}");
    }
    assert!(!control.exists());
    let error = String::from_utf8(run(&["status", "--socket", at]).stderr).unwrap();
    assert!(
        error.starts_with("anole-ccp: no agent answers at ") && error.contains("is anole-ccp running"),
        "{error}"
    );
}

#[test]
fn an_interrupt_stops_it_as_well() {
    let (_directory, socket) = place();
    let agent = Agent::start(&socket, &[]);
    agent.signal(Signal::SIGINT);
    assert_eq!(agent.end().0.code(), Some(0));
    assert!(!socket.exists());
}

#[test]
fn the_end_of_standard_input_stops_it_where_it_was_asked_to() {
    let (_folder, socket) = place();
    let mut command = command(&["--until-stdin-ends", "--socket", socket.to_str().unwrap()]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + PATIENCE;
    while !listens(&socket) {
        assert!(Instant::now() < end, "it does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(child.try_wait().unwrap(), None, "the pipe is open");
    drop(child.stdin.take());
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if Instant::now() > end => {
                child.kill().unwrap();
                panic!("it outlives its standard input");
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    assert!(status.success(), "{status}");
    assert!(!socket.exists(), "it cleans up");
}

#[test]
fn a_second_agent_is_refused_by_name_and_pid() {
    let (directory, socket) = place();
    let stats = directory.path().join("stats");
    let stats = stats.to_str().unwrap();
    let first = Agent::start(&socket, &["--stats", stats]);
    let mut host = MiniHost::new(&socket, 1);
    let flow = host.open("");
    assert!(host.drive(PATIENCE, |host| host.governed(flow)));
    host.close(flow);
    let second = run(&["--alg", "reno", "--socket", socket.to_str().unwrap(), "--stats", stats]);
    let error = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(2), "{error}");
    assert!(error.contains(&format!("pid {}", first.0.id())) && error.contains("agent.sock"), "{error}");
    first.stop();
    assert_eq!(
        std::fs::read_to_string(stats).unwrap().lines().count(),
        1,
        "the first agent's lines are kept"
    );
}

/// As timeout(1) ends what it has begun, which gets the signal by itself and with its process group.
#[test]
fn two_signals_at_once_are_one() {
    let (directory, socket) = place();
    let stats = directory.path().join("stats");
    let agent = Agent::start(&socket, &["--stats", stats.to_str().unwrap()]);
    let mut host = MiniHost::new(&socket, 1);
    let flow = host.open("");
    assert!(host.drive(PATIENCE, |host| host.governed(flow)));
    // Two of the same kind may come as one.
    agent.signal(Signal::SIGINT);
    agent.stop();
    assert_eq!(std::fs::read_to_string(stats).unwrap().lines().count(), 1);
}

#[test]
fn an_agent_that_is_refused_leaves_the_files_of_earlier_ones() {
    let (directory, socket) = place();
    let stats = directory.path().join("stats");
    std::fs::write(&stats, "of an earlier run\n").unwrap();
    let flags = ["--stats", stats.to_str().unwrap(), "--antelope-log"];
    let refused = [&["--socket", socket.to_str().unwrap()], &flags[..], &["/no/such/dir/log"]].concat();
    let output = run(&refused);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("--antelope-log /no/such/dir/log"), "{error}");
    assert_eq!(std::fs::read_to_string(&stats).unwrap(), "of an earlier run\n");
    let log = directory.path().join("log");
    let agent = Agent::start(&socket, &[&flags[..], &[log.to_str().unwrap()]].concat());
    agent.stop();
    assert_eq!(std::fs::read_to_string(&stats).unwrap(), "", "one that serves begins anew");
}

#[test]
fn flows_survive_a_killed_agent_and_return_to_the_next() {
    let (_directory, socket) = place();
    let agent = Agent::start(&socket, &[]);
    let mut host = MiniHost::new(&socket, 1);
    let flow = host.open("");
    assert!(host.drive(PATIENCE, |host| host.governed(flow)));
    agent.signal(Signal::SIGKILL);
    let (status, _) = agent.end();
    assert_eq!(status.code(), None);
    assert!(socket.exists(), "SIGKILL leaves the socket");
    assert!(host.drive(PATIENCE, |host| !host.governed(flow)), "the fallback takes over");
    let next = Agent::start(&socket, &[]);
    assert!(host.drive(PATIENCE, |host| host.governed(flow)), "the next agent adopts the flow");
    host.drive(Duration::from_millis(700), |_| false);
    assert!(host.drive(PATIENCE, |host| host.governed(flow)), "and keeps it");
    next.stop();
}

#[test]
fn an_agent_that_comes_late_finds_the_flow() {
    let (_directory, socket) = place();
    let mut host = MiniHost::new(&socket, 1);
    let flow = host.open("cubic");
    host.drive(Duration::from_millis(300), |_| false);
    let agent = Agent::start(&socket, &[]);
    assert!(host.drive(PATIENCE, |host| host.governed(flow)));
    agent.stop();
}

/// A datapath of older make: no READY, no name in CREATE, no announcement after a loss.
struct OldDatapath(UnixDatagram, PathBuf);

impl OldDatapath {
    fn new(agent: &Path) -> OldDatapath {
        let socket = UnixDatagram::bind(format!("{}.dp.old", agent.display())).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        OldDatapath(socket, agent.to_path_buf())
    }

    fn send(&self, bytes: &[u8]) {
        self.0.send_to(bytes, &self.1).unwrap();
    }

    /// Types and flows of the messages that come until there are no more.
    fn receive(&self) -> Vec<(u8, u32)> {
        self.receive_whole().iter().map(|message| (message[0], word(message, 4))).collect()
    }

    /// The messages themselves.
    fn receive_whole(&self) -> Vec<Vec<u8>> {
        let mut buffer = [0; 65_536];
        let mut messages = Vec::new();
        while let Ok(length) = self.0.recv(&mut buffer) {
            assert!(length >= 8);
            messages.push(buffer[..length].to_vec());
        }
        messages
    }
}

/// A number in a message.
fn word(message: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([message[at], message[at + 1], message[at + 2], message[at + 3]])
}

const INSTALL: u8 = 2;
const UPDATE: u8 = 3;
const CHANGE_PROG: u8 = 4;

#[test]
fn an_older_datapath_is_served() {
    let (_directory, socket) = place();
    let agent = Agent::start(&socket, &[]);
    let old = OldDatapath::new(&socket);
    old.send(&message(0, 3, &[&14_480u32.to_le_bytes()[..], &1448u32.to_le_bytes(), &[0; 16]].concat()));
    let (begin, mut messages) = (Instant::now(), Vec::new());
    while !messages.contains(&(UPDATE, 3)) {
        assert!(begin.elapsed() < PATIENCE, "{messages:?}");
        messages.extend(old.receive());
    }
    // The program, and then the word that every report will be answered.
    let (installs, begun) = messages.split_at(messages.len() - 2);
    assert_eq!(begun, [(CHANGE_PROG, 3), (UPDATE, 3)]);
    // More programs than datagrams may wait at a socket by default are no trouble.
    assert!(installs.len() > 1 && installs.iter().all(|&(kind, _)| kind == INSTALL), "{installs:?}");
    agent.stop();
}

/// The wire format of 2018, as mTCP's CCP support speaks it, over a flow's whole life: CREATE of 32 bytes, reports, answers, and
/// no close.
#[test]
fn a_flow_of_2018_is_governed_report_by_report() {
    let (directory, socket) = place();
    let stats = directory.path().join("stats.jsonl");
    let agent = Agent::start(&socket, &["--stats", stats.to_str().unwrap()]);
    let old = OldDatapath::new(&socket);
    old.send(&message(0, 3, &[&14_480u32.to_le_bytes()[..], &1448u32.to_le_bytes(), &[0; 16]].concat()));
    let begin = Instant::now();
    let mut program = None;
    while program.is_none() {
        assert!(begin.elapsed() < PATIENCE, "the flow gets a program");
        let messages = old.receive_whole();
        program = messages.iter().find(|message| message[0] == CHANGE_PROG).map(|message| word(message, 8));
    }
    // Reno's report: bytes acknowledged, packets lost, timeout, RTT, smallest RTT, window.
    let mut report = [program.unwrap().to_le_bytes(), 6u32.to_le_bytes()].concat();
    for value in [144_800u64, 1, 0, 20_000, 20_000, 144_800] {
        report.extend(value.to_le_bytes());
    }
    old.send(&message(1, 3, &report));
    let begin = Instant::now();
    let window = loop {
        assert!(begin.elapsed() < PATIENCE, "the report is answered");
        // An update's entries: a register's kind and number, and its value. The window is register 4 of kind 2.
        let entries =
            |message: &Vec<u8>| message[12..].chunks_exact(13).map(<[u8]>::to_vec).collect::<Vec<_>>();
        let messages = old.receive_whole();
        let updates = messages.iter().filter(|message| (message[0], word(message, 4)) == (UPDATE, 3));
        if let Some(entry) = updates.flat_map(entries).find(|entry| (entry[0], word(entry, 1)) == (2, 4)) {
            break word(&entry, 5);
        }
    };
    assert_eq!(window, 72_400, "a loss halves the window");
    agent.stop();
    let line = std::fs::read_to_string(stats).unwrap();
    let line: serde_json::Value = serde_json::from_str(line.lines().next().unwrap()).unwrap();
    assert_eq!((line["algorithm"].as_str(), line["reports"].as_u64()), (Some("reno"), Some(1)), "{line}");
}

#[test]
fn a_datapath_that_never_announces_its_flows_gets_them_adopted() {
    let (_directory, socket) = place();
    let agent = Agent::start(&socket, &[]);
    let old = OldDatapath::new(&socket);
    let report = message(1, 9, &[77, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
    let begin = Instant::now();
    let mut messages = Vec::new();
    while !messages.contains(&(CHANGE_PROG, 9)) {
        assert!(begin.elapsed() < PATIENCE, "{messages:?}");
        old.send(&report);
        messages.extend(old.receive());
    }
    assert!(begin.elapsed() > Duration::from_secs(2), "a flow that may still be announced is left alone");
    agent.stop();
}

#[test]
fn a_datapath_that_does_not_read_disturbs_nobody() {
    let (_directory, socket) = place();
    let agent = Agent::start(&socket, &[]);
    let mut host = MiniHost::new(&socket, 1);
    let flow = host.open("");
    assert!(host.drive(PATIENCE, |host| host.governed(flow)));
    let deaf = OldDatapath::new(&socket);
    host.drive(Duration::from_millis(1500), |_| {
        deaf.send(&message(5, 0, &[1, 0, 0, 0]));
        false
    });
    assert!(host.drive(PATIENCE, |host| host.governed(flow)));
    let fallbacks = host.datapath.flow(flow).unwrap().stats().fallbacks;
    figure("agent: fallbacks beside a datapath that does not read", 0.0..=0.0, fallbacks as f64);
    let log = agent.stop();
    assert!(log.contains("datapath does not read its messages"), "{log}");
}

/// One datagram of the kind that a broken or hostile datapath sends.
fn malformed(random: &mut Pcg64Mcg, good: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = match random.random_range(0..3) {
        0 => {
            let mut bytes = vec![0; random.random_range(0..1500)];
            random.fill_bytes(&mut bytes);
            bytes
        }
        _ => good[random.random_range(0..good.len())].clone(),
    };
    for _ in 0..random.random_range(1..4) {
        if bytes.is_empty() {
            break;
        }
        let at = random.random_range(0..bytes.len());
        match random.random_range(0..4) {
            0 => bytes.truncate(at),
            1 => bytes[at] = random.random(),
            // Type and length are where it hurts most.
            2 => bytes[at.min(3)] = random.random_range(0..8),
            _ => bytes.insert(at, random.random()),
        }
    }
    bytes
}

/// A header and a body.
fn message(kind: u16, sid: u32, body: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &(8 + body.len() as u16).to_le_bytes(), &sid.to_le_bytes(), body].concat()
}

#[test]
fn malformed_datagrams_hurt_nobody() {
    // A million with ANOLE_MALFORMED=1000000.
    let total: u64 = std::env::var("ANOLE_MALFORMED").map_or(100_000, |text| text.parse().unwrap());
    let (_directory, socket) = place();
    let mut agent = Agent::start(&socket, &[]);
    let mut lines = BufReader::new(agent.0.stderr.take().unwrap());
    let mut host = MiniHost::new(&socket, 1);
    let flow = host.open("");
    assert!(host.drive(PATIENCE, |host| host.governed(flow)));

    let mut vandal = MiniHost::new(&socket, 2);
    let seed = 7;
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let good = [
        message(0, 1, &[1; 24]),
        message(0, 1, &[&[1; 24][..], b"cubic", &[0; 59]].concat()),
        message(1, 1, &[1, 0, 0, 0, 2, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8]),
        message(1, 1, &[1, 0, 0, 0, 0, 0, 0, 0]),
        message(2, 0, &[1; 44]),
        message(3, 1, &[1, 0, 0, 0, 2, 4, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9]),
        message(4, 1, &[1, 0, 0, 0, 0, 0, 0, 0]),
        message(5, 0, &[1, 0, 0, 0]),
    ];
    let begin = Instant::now();
    let mut sent = 0;
    while sent < total {
        for _ in 0..500 {
            sent += u64::from(vandal.send_raw(&malformed(&mut random, &good)));
        }
        vandal.receive();
        host.receive();
        host.ack();
        assert!(agent.0.try_wait().unwrap().is_none(), "the agent ended, seed {seed}");
    }
    eprintln!("{sent} datagrams in {:?}", begin.elapsed());
    // During a flood the kernel may refuse a report, since all senders share one queue of few datagrams,
    // and then the fallback may serve the flow. Afterwards the agent does, without an interruption.
    assert!(host.drive(PATIENCE, |host| host.governed(flow)), "the agent serves the flow again");
    let before = host.datapath.flow(flow).unwrap().stats();
    host.drive(Duration::from_millis(700), |_| false);
    let stats = |host: &MiniHost| host.datapath.flow(flow).unwrap().stats();
    let answered = |host: &MiniHost| host.governed(flow) && stats(host).updates > before.updates;
    assert!(host.drive(PATIENCE, answered), "{:?}", stats(&host));
    let fallbacks = stats(&host).fallbacks - before.fallbacks;
    figure("agent: fallbacks after a flood of malformed datagrams", 0.0..=0.0, fallbacks as f64);

    agent.signal(Signal::SIGTERM);
    let mut log = String::new();
    while lines.read_line(&mut log).unwrap() > 0 {}
    assert_eq!(agent.0.wait().unwrap().code(), Some(0), "{log}");
    let warnings: Vec<&str> = log.lines().filter(|line| line.contains("datagram dropped")).collect();
    for kind in
        ["unknown message type", "malformed MEASURE", "a message that only agents send", "length field"]
    {
        let times = warnings.iter().filter(|line| line.contains(kind)).count() as u64;
        let minutes = 1 + begin.elapsed().as_secs() / 60;
        assert!((1..=minutes).contains(&times), "{kind}: {times} lines\n{log}");
    }
    assert!(!log.contains("panic"), "{log}");
}

#[test]
fn bad_flags_end_with_2_and_say_what_to_do() {
    let (directory, socket) = place();
    let socket = socket.to_str().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let file = file.to_str().unwrap();
    let config = directory.path().join("config.toml");
    std::fs::write(&config, "alg = \"reno\"\n\nalgo = 1\n").unwrap();
    let config = config.to_str().unwrap();
    let misnamed = directory.path().join("misnamed.toml");
    std::fs::write(&misnamed, "alg = \"rno\"\n").unwrap();
    let misnamed = misnamed.to_str().unwrap();
    let long = format!("{}/{}", directory.path().display(), "x".repeat(120));
    let missing = format!("{}/no/such/dir/sock", directory.path().display());
    let base = ["--alg", "reno", "--socket", socket];
    let with =
        |more: &[&'static str]| -> Vec<String> { base.iter().chain(more).map(|s| s.to_string()).collect() };
    let alone = |args: &[&str]| -> Vec<String> { args.iter().map(|s| s.to_string()).collect() };
    let cases: Vec<(Vec<String>, &str)> = vec![
        (alone(&["--alg", "rno", "--socket", socket]), "did you mean reno?"),
        (with(&["--param", "beta"]), "NAME=VALUE"),
        (alone(&["--alg", "cubic", "--param", "bta=0.5"]), "did you mean beta?"),
        (alone(&["--alg", "cubic", "--param", "beta=7"]), "--param is for --alg cubic: parameter beta is 7"),
        (with(&["--param", "beta=0.7"]), "--param is for --alg reno: unknown parameter"),
        (with(&["--ipc", "bpf"]), "--socket goes with"),
        (with(&["--cgroup", "/sys/fs/cgroup/lab"]), "--cgroup goes with --ipc bpf"),
        (with(&["--prefix", "10.0.0.0/8"]), "--prefix goes with --ipc bpf"),
        (alone(&["--ipc", "bpf", "--cgroup", "/a", "--prefix", "10.0.0.0/33"]), "the length is at most 32"),
        (
            alone(&["--ipc", "bpf", "--cgroup", "/no/such/cgroup"]),
            "--cgroup: cgroup /no/such/cgroup: cannot open",
        ),
        (alone(&["--ipc", "bpf", "--cgroup", "/proc"]), "--cgroup: /proc is no cgroup of version 2"),
        (with(&["--ipc", "carrier-pigeon"]), "--ipc"),
        (with(&["--switch", "linux"]), "--socket does not go with --switch linux"),
        (alone(&["--switch", "linux", "--alg", "rein", "--ipc", "bpf"]), "--ipc does not go with --switch"),
        (alone(&["--switch", "linux", "--alg", "rein", "--prefix", "::1"]), "--prefix does not go with"),
        (alone(&["--switch", "linux", "--alg", "reno"]), "goes with --alg antelope or rein"),
        (alone(&["--switch", "linux"]), "choose among laws; anole does not"),
        (alone(&["--switch", "linx", "--alg", "rein"]), "a similar value exists: 'linux'"),
        (with(&["--no-such-flag"]), "--no-such-flag"),
        (with(&["--stats", "/no/such/dir/stats"]), "--stats /no/such/dir/stats"),
        (alone(&["--ipc", "netlink", "--alg", "reno", "--socket", socket]), "--socket goes with"),
        (alone(&["--alg", "reno", "--socket", &long]), "shorter path"),
        (alone(&["--alg", "reno", "--socket", &missing]), "has to exist"),
        (alone(&["--alg", "reno", "--socket", file]), "not a socket"),
        (alone(&["--config", config]), "config.toml:3: unknown field `algo`, expected one of"),
        (alone(&["--config", misnamed, "--socket", socket]), "misnamed.toml: --alg: unknown algorithm"),
        (alone(&["--config", "/no/such/config"]), "--config /no/such/config"),
        (alone(&["check", "/no/such/file.ccp"]), "/no/such/file.ccp"),
        (alone(&["status", "--ipc", "bpf", "--socket", socket]), "--socket goes with --ipc unix only"),
        (alone(&["prefer", "1", "la-1", "--ipc", "netlink", "--socket", socket]), "--socket goes with"),
    ];
    for (arguments, expected) in cases {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = run(&arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(expected), "{arguments:?}: {error}");
        // What is said is said once; the command line's own parser shows the usage as well.
        assert!(error.lines().any(|line| line.starts_with("anole-ccp: ")), "{arguments:?}: {error}");
        let ours = !error.contains("--help");
        assert!(!ours || error.matches(expected).count() == 1, "{arguments:?}: {error}");
        assert!(!error.contains("panicked"), "{error}");
    }
}

#[test]
fn a_full_disk_ends_the_statistics_and_not_the_agent() {
    let (_directory, socket) = place();
    let agent = Agent::start(&socket, &["--stats", "/dev/full"]);
    let mut host = MiniHost::new(&socket, 1);
    let first = host.open("");
    assert!(host.drive(PATIENCE, |host| host.governed(first)));
    host.close(first);
    let second = host.open("");
    assert!(host.drive(PATIENCE, |host| host.governed(second)), "the agent serves on");
    agent.signal(Signal::SIGTERM);
    let (status, log) = agent.end();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.lines().last().unwrap().contains("--stats /dev/full"), "{log}");
}

#[test]
fn algorithms_are_listed() {
    let output = run(&["algs", "--json"]);
    assert!(output.status.success());
    let list: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    let cubic = list.iter().find(|algorithm| algorithm["name"] == "cubic").unwrap();
    assert_eq!(cubic["programs"][0], "cubic");
    assert!(cubic["source"].as_str().unwrap().contains("9438"));
    assert!(cubic["parameters"].as_array().unwrap().iter().any(|parameter| parameter["name"] == "beta"));
    let table = String::from_utf8(run(&["algs"]).stdout).unwrap();
    assert!(table.contains("cubic (rule)") && table.contains("--param beta="), "{table}");
}

#[test]
fn programs_are_checked_with_line_and_column() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("bad.ccp");
    std::fs::write(
        &file,
        "(def (Report (volatile acked 0)))\n(when true\n    (:= Report.acked (/ 1 0))\n    (reset)\n)\n",
    )
    .unwrap();
    let output = run(&["check", file.to_str().unwrap()]);
    let findings = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{findings}");
    assert!(findings.contains("bad.ccp:4:"), "{findings}");
    let good = concat!(env!("CARGO_MANIFEST_DIR"), "/../datapath-programs/programs/reno.ccp");
    let output = run(&["check", good]);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stdout).unwrap().contains("of 255 instructions"));
}

#[test]
fn the_program_behaves_as_the_others_do() {
    anole_testing::command_line("anole-ccp", env!("CARGO_BIN_EXE_anole-ccp"));
}
