//! `anole-quic` from the outside: exit codes, messages, files.
#![allow(clippy::disallowed_methods, reason = "the tests run in real time on real sockets")]

mod common;

use common::{emulated, link};
use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// A server and the folder with its certificate.
struct Serving {
    folder: tempfile::TempDir,
    server: Child,
    address: String,
}

impl Serving {
    fn start() -> Serving {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Command::new(env!("CARGO_BIN_EXE_anole-quic"))
            .args(["serve", "--listen", "127.0.0.1:0", "--json", "--cert"])
            .arg(folder.path().join("cert.pem"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(server.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.strip_prefix("listening on ").unwrap().split(';').next().unwrap().to_string();
        Serving { folder, server, address }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What the server tells of the connections that end, one by one.
    fn ends(&mut self) -> impl Iterator<Item = serde_json::Value> + use<> {
        let lines = BufReader::new(self.server.stdout.take().unwrap()).lines();
        lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap())
    }

    fn sender(&self, address: &str, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anole-quic"));
        command.args(["send", address, "--cert"]).arg(self.path("cert.pem")).args(args);
        command
    }

    fn send(&self, args: &[&str]) -> Output {
        self.sender(&self.address, args).output().unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// The one line that a command that must fail with `code` leaves on standard error.
fn refusal(output: &Output, code: i32) -> String {
    let text = String::from_utf8_lossy(&output.stderr).to_string();
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

#[test]
fn without_an_agent_the_algorithm_runs_in_the_process() {
    let serving = Serving::start();
    let trace = serving.path("trace.csv");
    for alg in [&[][..], &["--alg", "copa"]] {
        let flags = ["--in-process", "--size", "4M", "--json", "--trace", trace.to_str().unwrap()];
        let output = serving.send(&[&flags, alg].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let connection = &summary["connections"][0];
        assert_eq!(
            (&connection["governor"], connection["fallbacks"].as_u64()),
            (&"in-process".into(), Some(0))
        );
        assert!(
            connection["reports"].as_u64() > Some(0) && connection["updates"].as_u64() > Some(0),
            "{summary}"
        );
        assert!(std::fs::read_to_string(&trace).unwrap().trim_end().ends_with("in-process"));
    }
}

#[test]
fn sizes_traces_and_summaries() {
    let serving = Serving::start();
    let trace = serving.path("trace.csv");
    let output =
        serving.send(&["--size", "2M", "--connections", "2", "--json", "--trace", trace.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let connections = summary["connections"].as_array().unwrap();
    assert_eq!(connections.len(), 2);
    for (number, connection) in connections.iter().enumerate() {
        assert_eq!(connection["connection"].as_u64(), Some(number as u64));
        assert!(connection["delivered_bytes"].as_u64().unwrap() >= 2_000_000);
        assert_eq!(connection["governor"], "fallback");
    }
    assert!(std::fs::read_to_string(&trace).unwrap().lines().count() > 2);
    // The certificate and the trace, nothing temporary.
    assert_eq!(std::fs::read_dir(serving.folder.path()).unwrap().count(), 2);
}

/// Through a link, so that the transfer goes on at a rate that any host bears.
#[test]
fn a_peer_that_vanishes_ends_the_transfer() {
    let mut serving = Serving::start();
    let (entry, _, emulator) = emulated(link(10.0, 5), serving.address.parse().unwrap());
    let trace = serving.path("trace.json");
    let args = ["--duration", "30", "--idle-timeout", "1", "--trace", trace.to_str().unwrap()];
    let mut sender = serving.sender(&entry.to_string(), &args);
    let sender = sender.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    serving.server.kill().unwrap();
    let message = refusal(&sender.wait_with_output().unwrap(), 1);
    assert!(message.contains("has not answered for 1 s"), "{message}");
    rows_of(&trace);
    emulator.finish().unwrap();
}

/// A trace as JSON; it is whole, and there is nothing temporary beside it.
fn rows_of(trace: &Path) -> Vec<serde_json::Value> {
    assert_eq!(
        std::fs::read_dir(trace.parent().unwrap()).unwrap().count(),
        2,
        "the certificate and the trace"
    );
    let rows: Vec<serde_json::Value> =
        serde_json::from_str(&std::fs::read_to_string(trace).unwrap()).unwrap();
    assert!(rows.len() > 2, "{rows:?}");
    rows
}

#[test]
fn an_interruption_loses_nothing_that_was_recorded() {
    let mut serving = Serving::start();
    let mut ends = serving.ends();
    let (entry, _, emulator) = emulated(link(10.0, 5), serving.address.parse().unwrap());
    let trace = serving.path("trace.json");
    for signal in ["INT", "TERM"] {
        let args = ["--duration", "30", "--json", "--trace", trace.to_str().unwrap()];
        let mut sender = serving.sender(&entry.to_string(), &args);
        let mut sender = sender.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(700));
        Command::new("kill").args([&format!("-{signal}"), &sender.id().to_string()]).status().unwrap();
        let mut summary = String::new();
        sender.stdout.take().unwrap().read_to_string(&mut summary).unwrap();
        let message = refusal(&sender.wait_with_output().unwrap(), 1);
        assert!(message.contains("interrupted"), "{message}");
        let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
        assert!(summary["connections"][0]["delivered_bytes"].as_u64() > Some(10_000), "{summary}");
        assert!(rows_of(&trace).last().unwrap()["delivered_bytes"].as_u64() > Some(10_000));
        // The server heard of it.
        let end = ends.next().unwrap();
        assert!(end["error"].is_null() && end["received_bytes"].as_u64() > Some(10_000), "{end}");
    }
    emulator.finish().unwrap();
}

#[test]
fn a_server_that_is_stopped_tells_of_the_connections_that_are_open() {
    let mut serving = Serving::start();
    let mut ends = serving.ends();
    let (entry, _, emulator) = emulated(link(10.0, 5), serving.address.parse().unwrap());
    let mut sender = serving.sender(&entry.to_string(), &["--duration", "30"]);
    let sender = sender.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    Command::new("kill").args(["-TERM", &serving.server.id().to_string()]).status().unwrap();
    let end = ends.next().unwrap();
    assert_eq!((&end["error"], ends.next()), (&"the server was stopped".into(), None));
    assert!(end["received_bytes"].as_u64() > Some(10_000), "{end}");
    let message = refusal(&sender.wait_with_output().unwrap(), 1);
    assert!(message.contains("server closed"), "{message}");
    emulator.finish().unwrap();
}

/// Carries the datagrams of the client that speaks first; tells others a moment later that their version is unknown.
fn first_client_only(server: &str) -> String {
    let (front, back) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    back.connect(server).unwrap();
    let address = front.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (front, back) = (&front, &back);
        std::thread::scope(|scope| {
            let (mut buffer, mut first) = ([0; 2048], None);
            while let Ok((length, from)) = front.recv_from(&mut buffer) {
                if first.is_none() {
                    first = Some(from);
                    scope.spawn(move || {
                        let mut buffer = [0; 2048];
                        while let Ok(length) = back.recv(&mut buffer) {
                            let _ = front.send_to(&buffer[..length], from);
                        }
                    });
                }
                if first == Some(from) {
                    let _ = back.send(&buffer[..length]);
                    continue;
                }
                let answer = unknown_version(&buffer[..length]);
                scope.spawn(move || {
                    std::thread::sleep(Duration::from_millis(200));
                    let _ = front.send_to(&answer, from);
                });
            }
        });
    });
    address
}

/// What a server says that knows another version alone (RFC 9000 §17.2.1).
fn unknown_version(initial: &[u8]) -> Vec<u8> {
    let (destination, rest) = initial[6..].split_at(initial[5].into());
    let source = &rest[1..][..rest[0].into()];
    let ids = [&[rest[0]], source, &[initial[5]], destination].concat();
    [&[0x80, 0, 0, 0, 0], &ids[..], &[0x0a; 4]].concat()
}

#[test]
fn where_one_connection_cannot_be_opened_the_others_are_closed() {
    let mut serving = Serving::start();
    let mut ends = serving.ends();
    let address = first_client_only(&serving.address);
    let message = refusal(&serving.sender(&address, &["--connections", "2"]).output().unwrap(), 1);
    assert!(message.contains("version"), "{message}");
    let end = ends.next().unwrap();
    assert!(end["error"].is_null() && end["lasted_s"].as_f64() < Some(5.0), "{end}");
}

#[test]
fn an_interruption_before_anybody_answers_leaves_nothing_behind() {
    let serving = Serving::start();
    // Bound, but nobody answers.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (trace, agent) = (serving.path("trace.csv"), serving.path("agent.sock"));
    let _agent = UnixDatagram::bind(&agent).unwrap();
    let args = ["--trace", trace.to_str().unwrap(), "--agent", agent.to_str().unwrap()];
    let mut sender = serving.sender(&silent.local_addr().unwrap().to_string(), &args);
    let sender = sender.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    silent.recv(&mut [0; 2048]).unwrap();
    Command::new("kill").args(["-TERM", &sender.id().to_string()]).status().unwrap();
    let message = refusal(&sender.wait_with_output().unwrap(), 1);
    assert!(message.contains("interrupted"), "{message}");
    let left = std::fs::read_dir(serving.folder.path()).unwrap().count();
    assert_eq!(left, 2, "the certificate and the agent's socket");
}

#[test]
fn what_cannot_work_says_why() {
    let serving = Serving::start();
    let cases: [(&[&str], i32, &str); 6] = [
        (&["--trace", "/nonexistent/t.csv"], 2, "/nonexistent/t.csv"),
        (&["--trace", "t.txt"], 2, ".csv or .json"),
        (&["--agent", "/nonexistent/agent.sock"], 2, "--agent"),
        (&["--cc", "bbr", "--agent", "/tmp/agent.sock"], 2, "--cc anole-ccp"),
        (&["--cc", "bbr", "--in-process"], 2, "--in-process goes with --cc anole-ccp"),
        (&["--in-process", "--alg", "anol"], 2, "did you mean anole?"),
    ];
    for (args, code, hint) in cases {
        let message = refusal(&serving.send(args), code);
        assert!(message.contains(hint), "{message}");
    }
    let run = |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_anole-quic")).args(args).output().unwrap();
    let message = refusal(&run(&["serve", "--listen", &serving.address]), 2);
    assert!(message.contains(&serving.address) && message.contains("another port"), "{message}");
    let message = refusal(&run(&["send", &serving.address, "--cert", "/nonexistent.pem"]), 2);
    assert!(message.contains("/nonexistent.pem"), "{message}");
}

#[test]
fn a_server_that_is_not_there_or_not_ours() {
    let serving = Serving::start();
    let other = Serving::start();
    // Bound, but nobody answers.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let send = |address: &str, cert: PathBuf| {
        Command::new(env!("CARGO_BIN_EXE_anole-quic"))
            .args(["send", address, "--idle-timeout", "1", "--cert", cert.to_str().unwrap()])
            .output()
            .unwrap()
    };
    let address = silent.local_addr().unwrap().to_string();
    let message = refusal(&send(&address, serving.path("cert.pem")), 1);
    assert!(message.contains("no answer for 1 s"), "{message}");
    let message = refusal(&send(&serving.address, other.path("cert.pem")), 1);
    assert!(message.contains("--cert has to be the file that this server wrote"), "{message}");
}

#[test]
fn the_program_behaves_as_the_others_do() {
    anole_testing::command_line("anole-quic", env!("CARGO_BIN_EXE_anole-quic"));
}
