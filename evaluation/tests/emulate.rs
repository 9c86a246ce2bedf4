//! `anole-eval emulate` from the outside: real packets, short runs.
#![allow(clippy::disallowed_methods, reason = "the tests run in real time on real sockets")]

mod support;

use anole_testing::figure as noted;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::agent;

const SCENARIO: &str = r#"
name = "short"
source = "test"
duration_s = 2.0
warmup_s = 0.5
[[link]]
name = "bottleneck"
capacity_mbps = 16.0
one_way_delay_ms = 10.0
buffer_bdp = 2.0
[[flow]]
alg = "native"
under_test = true
"#;

/// A folder with the scenario, also the place of every temporary file.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("short.toml"), SCENARIO).unwrap();
        std::fs::create_dir(folder.path().join("tmp")).unwrap();
        Place { folder }
    }

    fn temporary(&self) -> PathBuf {
        self.folder.path().join("tmp")
    }

    fn emulate(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anole-eval"));
        command.arg("emulate").arg(self.folder.path().join("short.toml")).args(args);
        command.env("TMPDIR", self.temporary()).env_remove("ANOLE_CCP");
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.emulate(args).output().unwrap()
    }

    fn leftovers(&self) -> usize {
        std::fs::read_dir(self.temporary()).unwrap().count()
    }
}

fn objects(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn without_an_agent_every_key_is_there() {
    let place = Place::new();
    let results = objects(&place.run(&["--alg", "native,quic:cubic", "--json"]));
    assert_eq!(results.len(), 2);
    for (result, alg) in results.iter().zip(["native", "quic:cubic"]) {
        assert_eq!((result["mode"].as_str(), result["alg"].as_str()), (Some("quic"), Some(alg)));
        let flow = &result["flows"][0];
        let figure = |key: &str| flow[key].as_f64().unwrap_or_else(|| panic!("{alg}: {key} in {flow}"));
        // No more comes out within the measured 1.5 s than the link carries in all of the 2 s.
        assert!(figure("throughput_mbps") > 0.0 && figure("throughput_mbps") < 16.0 * 2.0 / 1.5, "{flow}");
        noted(&format!("QUIC, {alg}: Mbps of 16"), 8.0..16.5, figure("throughput_mbps"));
        assert!(figure("goodput_mbps") < figure("throughput_mbps"));
        assert!(figure("owd_p95_ms") >= 10.0 && figure("rtt_p95_ms") >= 20.0, "{flow}");
        assert_eq!(flow["decisions"], Value::Null);
        assert_eq!(flow["series"]["throughput_mbps"].as_array().unwrap().len(), 20);
        assert_eq!(result["optimal_mbps"].as_f64().map(f64::round), Some(16.0));
    }
    assert_eq!(place.leftovers(), 0);
}

#[test]
fn a_run_does_not_wait_for_flows_that_start_after_its_end() {
    let (place, began) = (Place::new(), Instant::now());
    let drawn = ["--set", "flow.count=2", "--set", "flow.arrivals_per_s=0.001"];
    let run = &objects(&place.run(&[&["--alg", "native", "--seed", "2", "--json"][..], &drawn].concat()))[0];
    for flow in run["flows"].as_array().unwrap() {
        let start_s = flow["start_s"].as_f64().unwrap();
        assert!(start_s > 60.0 && began.elapsed().as_secs_f64() < start_s, "{flow}");
        assert_eq!((&flow["start_s"], &flow["throughput_mbps"]), (&flow["stop_s"], &Value::Null), "{flow}");
    }
    assert_eq!((&run["jain_index"], place.leftovers()), (&Value::Null, 0));
}

#[test]
fn a_flow_with_a_size_is_over_when_its_receiver_has_all_of_it() {
    let place = Place::new();
    let mut args = vec!["--datapath", "usertcp", "--runs", "2", "--json"];
    for set in ["duration_s=0.38", "warmup_s=0", "bottleneck.one_way_delay_ms=105", "flow.bytes=1000"] {
        args.extend(["--set", set]);
    }
    let runs = objects(&place.run(&args));
    let fct_s = runs.iter().filter_map(|run| run["flows"][0]["fct_s"].as_f64()).fold(f64::INFINITY, f64::min);
    // A round trip for the handshake and half a one for the data; its sender looks again 0.1 s after either.
    assert!((0.315..0.38).contains(&fct_s), "{fct_s}");
}

#[test]
fn the_agent_governs_real_packets() {
    let place = Place::new();
    let agent = agent();
    let args = ["--alg", "reno", "--agent-binary", agent.to_str().unwrap(), "--json"];
    let result = &objects(&place.run(&args))[0];
    let flow = &result["flows"][0];
    assert!(flow["reports"].as_u64() > Some(0) && flow["updates"].as_u64() > Some(0), "{flow}");
    assert!(flow["decisions"].is_u64(), "{flow}");
    let mbps = flow["throughput_mbps"].as_f64().unwrap();
    assert!(mbps > 0.0, "{flow}");
    noted("QUIC, the agent's reno: Mbps of 16", 8.0.., mbps);
    noted("QUIC, the agent's reno: reports", 3.0.., flow["reports"].as_f64().unwrap());
    assert_eq!(place.leftovers(), 0);
}

#[test]
fn a_flood_and_an_outage_leave_the_flow_running() {
    let (place, agent) = (Place::new(), agent());
    let agent = agent.to_str().unwrap();
    let options = ["--alg", "cubic", "--json", "--agent-binary", agent];
    let flood = ["--agent-flood", "20000"];
    let outage = ["--agent-outage", "0.7:1.3"];
    for (what, fault) in [("flood", flood), ("outage", outage)] {
        let output = place.run(&[&options[..], &fault].concat());
        goes_on(&output, what);
        let governed = objects(&output)[0]["flows"][0]["governed"].as_array().unwrap().clone();
        let spans = governed.windows(2);
        assert!(
            spans.clone().all(|w| w[0]["by"] != w[1]["by"] && w[0]["to_s"] == w[1]["from_s"]),
            "{governed:?}"
        );
    }
    assert_eq!(place.leftovers(), 0);
}

fn goes_on(output: &Output, what: &str) {
    let run = &objects(output)[0];
    let goodput = run["flows"][0]["goodput_mbps"].as_f64().unwrap();
    assert!(goodput > 0.0, "{what}: nothing arrives");
    // A flow that stands still for the outage alone would have less.
    noted(&format!("QUIC, {what}: Mbps of 16"), 10.0.., goodput);
    if what == "flood" {
        let said = String::from_utf8_lossy(&output.stderr);
        let taken = said.split(" of 20000 malformed").next().and_then(|head| head.split_whitespace().last());
        let taken: u64 = taken.and_then(|number| number.parse().ok()).unwrap_or(0);
        assert!(taken > 0, "the agent's socket has to take some of the flood: {said}");
        noted("QUIC, flood: malformed datagrams that the agent's socket takes", 1000.0.., taken as f64);
    }
}

#[test]
fn an_interrupted_run_leaves_nothing() {
    let place = Place::new();
    let agent = agent();
    let args = ["--alg", "reno", "--agent-binary", agent.to_str().unwrap(), "--set", "duration_s=30"];
    let child = place.emulate(&args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let started = Instant::now();
    while place.leftovers() == 0 && started.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(500));
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted"));
    assert!(started.elapsed() < Duration::from_secs(20));
    assert_eq!(place.leftovers(), 0);
}

#[test]
fn a_signal_after_a_run_ends_the_program() {
    let place = Place::new();
    let (reader, mut full) = std::io::pipe().unwrap();
    let room = fcntl(&full, FcntlArg::F_GETPIPE_SZ).unwrap();
    full.write_all(&vec![0; room as usize]).unwrap();
    let short = ["--set", "duration_s=0.2", "--set", "warmup_s=0", "--json"];
    // The result finds no room.
    let mut child = place.emulate(&short).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let wait = |over: &mut dyn FnMut() -> bool| {
        let began = Instant::now();
        while !over() && began.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    wait(&mut || place.leftovers() > 0);
    wait(&mut || place.leftovers() == 0);
    std::thread::sleep(Duration::from_millis(100));
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    wait(&mut || child.try_wait().unwrap().is_some());
    drop(reader);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted"));
}

#[test]
fn a_demo_that_cannot_run_says_why() {
    for (args, hint) in [
        (&["--agent-outage", "8:12", "--agent-outage", "1:2"][..], "--agent-outage: give outages in order"),
        (&["--duration-s", "nan"], "--duration-s NaN: give 0.1 to 3600 s"),
        (&["--duration-s", "-1"], "--duration-s -1.0: give 0.1 to 3600 s"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_anole-eval"));
        let output = command.arg("demo").args(args).current_dir(folder.path()).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).to_string();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains(hint) && message.lines().count() == 1, "{args:?}: {message}");
    }
}

#[test]
fn what_cannot_run_says_why() {
    let place = Place::new();
    for (args, code, hint) in [
        (&["--datapath", "kernel"][..], 2, "--datapath quic"),
        (&["--alg", "linux:cubic"], 2, "--datapath kernel"),
        (&["--alg", "quic:vegas"], 2, "quic:newreno"),
        (&["--alg", "renno"], 2, "reno"),
        (&["--alg", "native", "--agent-outage", "1:2"], 2, "no flow has one"),
        (&["--datapath", "usertcp", "--agent-flood", "9"], 2, "--agent-flood goes with --datapath quic"),
        (&["--set", "mss_bytes=9000"], 2, "mss_bytes"),
        (&["--set", "flow.app_mbps=1.0"], 2, "app_mbps"),
        (&["--alg", "reno", "--agent-binary", "/nonexistent"], 2, "--agent-binary"),
        (&["--alg", "reno", "--agent-binary", "/bin/false"], 1, "the agent ended at once"),
    ] {
        let output = place.run(args);
        let message = String::from_utf8_lossy(&output.stderr).to_string();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
        assert!(message.contains(hint) && message.lines().count() == 1, "{args:?}: {message}");
    }
    assert_eq!(place.leftovers(), 0);
}
