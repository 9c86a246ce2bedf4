//! `anole-eval emulate --datapath kernel` from the outside: the kernel's own TCP between two namespaces.
//! Takes root, TUN devices and iproute2; where they are missing, the tests are skipped. What depends on the host's
//! speed is no assertion but a figure (`make check-realtime`).
#![allow(clippy::disallowed_methods, reason = "the tests run in real time on real sockets")]

mod support;

use anole_testing::{figure as noted, measuring, skip};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use serde_json::Value;
use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const SCENARIO: &str = r#"
name = "short"
source = "test"
duration_s = 6.0
warmup_s = 1.0
[[link]]
name = "bottleneck"
capacity_mbps = 16.0
one_way_delay_ms = 10.0
buffer_bdp = 2.0
[[flow]]
alg = "linux:cubic"
under_test = true
"#;

/// Who may do nothing: `nobody` on Debian.
const NOBODY: u32 = 65_534;

/// Runs in real time take turns: they would disturb each other.
static TURN: Mutex<()> = Mutex::new(());

/// A folder with the scenario, also the place of every temporary file.
struct Place {
    folder: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Place {
    /// `None`, with the reason told, where the kernel's TCP cannot be emulated.
    fn new() -> Option<Place> {
        let reason = if !geteuid().is_root() {
            Some("they take root")
        } else if !Path::new("/dev/net/tun").exists() {
            Some("there is no /dev/net/tun")
        } else if Command::new("ip").arg("-V").output().is_err() {
            Some("there is no program ip (iproute2)")
        } else {
            None
        };
        if let Some(reason) = reason {
            skip!("namespaces with TUN devices cannot be made here: {reason}");
            return None;
        }
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("short.toml"), SCENARIO).unwrap();
        std::fs::create_dir(folder.path().join("tmp")).unwrap();
        Some(Place { folder, _turn: turn })
    }

    fn command(&self, mode: &[&str], args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anole-eval"));
        command.args(mode).arg(self.folder.path().join("short.toml")).args(args);
        command.env("TMPDIR", self.temporary()).env_remove("ANOLE_CCP");
        command
    }

    fn emulate(&self, args: &[&str]) -> Command {
        self.command(&["emulate", "--datapath", "kernel"], args)
    }

    fn temporary(&self) -> PathBuf {
        self.folder.path().join("tmp")
    }

    fn leftovers(&self) -> usize {
        std::fs::read_dir(self.temporary()).unwrap().count()
    }
}

/// The agent, built if it is not there yet; `None`, with the reason told, where BPF cannot be its datapath.
fn agent() -> Option<PathBuf> {
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        skip!("this kernel tells no BTF (CONFIG_DEBUG_INFO_BTF)");
        return None;
    }
    if host().contains("anole_ccp") {
        skip!("another agent governs this kernel's TCP (anole_ccp)");
        return None;
    }
    Some(support::agent())
}

/// Devices, named namespaces and congestion controls of this machine.
fn host() -> BTreeSet<String> {
    let names = |folder: &str| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path().display().to_string()).collect::<Vec<_>>()
    };
    let controls = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    let controls = controls.split_whitespace().map(str::to_string);
    names("/sys/class/net").into_iter().chain(names("/run/netns")).chain(controls).collect()
}

fn objects(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn figure(flow: &Value, key: &str) -> f64 {
    flow[key].as_f64().unwrap_or_else(|| panic!("{key} in {flow}"))
}

/// The agent heard of the flow and answered.
fn is_governed(flow: &Value) {
    assert!(figure(flow, "reports") > 0.0 && figure(flow, "updates") > 0.0, "{flow}");
    assert!(flow["decisions"].is_u64(), "{flow}");
    assert!(figure(flow, "goodput_mbps") > 0.0, "{flow}");
}

/// Links and flows of an experiment, over Linux TCP as they are in simulation.
#[test]
fn an_experiment_runs_over_linux_tcp() {
    let Some(place) = Place::new() else { return };
    let file = place.folder.path().join("mine.toml");
    std::fs::write(
        &file,
        "title = \"one link\"\nsource = \"mine\"\nabout = \"One flow.\"\nfamily = \"mine\"\nsubject = \"linux:cubic\"\n\
         seeds = [1, 1]\ncontenders = [\"subject\"]\n[[setting]]\nname = \"short\"\nscenario = \"short.toml\"\n\
         [[figure]]\nwhat = \"throughput\"\nmeasure = \"throughput\"\nunit = \"Mbps\"\n\
         [[panel]]\nkind = \"bars\"\ntitle = \"Throughput\"\ny = \"Mbps\"\nmeasure = \"throughput\"\n",
    )
    .unwrap();
    let out = place.folder.path().join("out");
    let run = Command::new(env!("CARGO_BIN_EXE_anole-eval"))
        .arg("reproduce")
        .args([
            file.as_os_str(),
            "--datapath".as_ref(),
            "kernel".as_ref(),
            "--json".as_ref(),
            "--out".as_ref(),
        ])
        .arg(&out)
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let figure: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert!(figure["mode"] == "kernel" && figure["mean"].as_f64() > Some(0.0), "{figure}");
    let page = std::fs::read_to_string(out.join("report.md")).unwrap();
    assert!(page.contains("over Linux TCP, in real time"), "{page}");
}

#[test]
fn cubic_of_the_kernel_is_like_the_simulators() {
    let Some(place) = Place::new() else { return };
    let before = host();
    let sim = &objects(&place.command(&["sim"], &["--alg", "cubic", "--json"]).output().unwrap())[0];
    is_like_the_simulators(&objects(&place.emulate(&["--json"]).output().unwrap())[0], sim);
    assert_eq!((place.leftovers(), host()), (0, before));
}

fn is_like_the_simulators(kernel: &Value, sim: &Value) {
    assert_eq!((kernel["mode"].as_str(), kernel["alg"].as_str()), (Some("kernel"), Some("linux:cubic")));
    let (flow, simulated) = (&kernel["flows"][0], &sim["flows"][0]);
    let (got, wanted) = (figure(flow, "throughput_mbps"), figure(simulated, "throughput_mbps"));
    noted("kernel, linux:cubic: throughput over the simulator's", 0.9..=1.1, got / wanted);
    // A full packet has 1448 bytes of payload and 52 of headers; what is sent again counts once as payload.
    let payload = figure(flow, "goodput_mbps") / got;
    assert!(payload > 0.0 && payload < 1.0, "{payload}: {flow}");
    noted("kernel, linux:cubic: share of payload", 0.945..=0.985, payload);
    // The link's propagation is the least there is; a queue of at most 40 ms comes to it.
    assert!(figure(flow, "owd_mean_ms") > 10.0 && figure(flow, "rtt_mean_ms") > 20.0, "{flow}");
    noted("kernel, linux:cubic: p95 of the RTT, ms", ..90.0, figure(flow, "rtt_p95_ms"));
    // What the queue drops is sent again.
    let (lost, again) = (figure(flow, "loss_rate"), figure(flow, "retransmit_rate"));
    assert!((0.0..1.0).contains(&lost) && (0.0..1.0).contains(&again), "{flow}");
    noted("kernel, linux:cubic: share lost", 1e-6..0.1, lost);
    noted("kernel, linux:cubic: share sent again", 1e-6..0.1, again);
    assert_eq!(flow["series"]["throughput_mbps"].as_array().unwrap().len(), 60);
    assert_eq!(flow["reports"], Value::Null);
}

#[test]
fn flows_share_the_link_and_sizes_end_them() {
    let Some(place) = Place::new() else { return };
    let options = ["--set", "duration_s=8", "--set", "flow.count=2", "--set", "flow.start_spacing_s=0.5"];
    let sized = ["--set", "flow.bytes=1000000", "--set", "warmup_s=0", "--json"];
    let result = &objects(&place.emulate(&[&options[..], &sized].concat()).output().unwrap())[0];
    for (index, flow) in result["flows"].as_array().unwrap().iter().enumerate() {
        assert_eq!(figure(flow, "start_s"), index as f64 * 0.5);
        // 8 Mbit alone take 0.5 s at 16 Mbps, and start-up.
        let fct = figure(flow, "fct_s");
        assert!(fct > 0.5, "{flow}");
        noted("kernel, two flows of 1 MB at 16 Mbps: completion, s", ..3.0, fct);
        let payload = figure(flow, "goodput_mbps") * fct / 8.0;
        assert!((payload - 1.0).abs() < 0.01, "{payload} MB: {flow}");
    }
    assert!(result["jain_index"].is_f64(), "{result}");
}

#[test]
fn the_agents_cubic_is_like_the_kernels_own_algorithms() {
    let (Some(place), Some(agent)) = (Place::new(), agent()) else { return };
    let mut algorithms = vec!["cubic", "linux:cubic"];
    // A kernel without BBR has one to compare with less.
    if measuring() && host().contains("bbr") {
        algorithms.push("linux:bbr");
    }
    let options = ["--json", "--agent-binary", agent.to_str().unwrap(), "--alg", &algorithms.join(",")];
    let short = ["--set", "duration_s=3"];
    let options = [&options[..], if measuring() { &[] } else { &short }].concat();
    let runs = objects(&place.emulate(&options).output().unwrap());
    let ran: Vec<&str> = runs.iter().filter_map(|run| run["alg"].as_str()).collect();
    assert_eq!(ran, algorithms);
    is_governed(&runs[0]["flows"][0]);
    assert_eq!(runs[1]["flows"][0]["reports"], Value::Null);
    are_alike(&runs);
}

fn are_alike(runs: &[Value]) {
    let of =
        |run: &Value| (figure(&run["flows"][0], "throughput_mbps"), figure(&run["flows"][0], "rtt_mean_ms"));
    let (ours, cubic) = (of(&runs[0]), of(&runs[1]));
    noted("kernel, the agent's cubic: throughput over linux:cubic's", 0.9..=1.1, ours.0 / cubic.0);
    noted("kernel, the agent's cubic: RTT over linux:cubic's", 0.75..=1.25, ours.1 / cubic.1);
    if let Some(bbr) = runs.get(2).map(of) {
        // BBR keeps its queue short; a window fills the buffer.
        noted("kernel, linux:bbr: throughput over the agent's cubic's", 0.8.., bbr.0 / ours.0);
        noted("kernel, linux:bbr: RTT over the agent's cubic's", ..1.0, bbr.1 / ours.1);
    }
}

#[test]
fn two_flows_of_the_agent_share_the_link() {
    let (Some(place), Some(agent)) = (Place::new(), agent()) else { return };
    // CUBIC's steps to equal shares take some three seconds each.
    let duration = if measuring() { "duration_s=16" } else { "duration_s=4" };
    let two = ["--set", "flow.count=2", "--set", "flow.start_spacing_s=0.2", "--set", duration];
    // Named from where the run is started.
    let (folder, name) = (agent.parent().unwrap(), Path::new(".").join(agent.file_name().unwrap()));
    let options = ["--json", "--alg", "cubic", "--agent-binary", name.to_str().unwrap()];
    share(&objects(&place.emulate(&options).args(two).current_dir(folder).output().unwrap())[0]);
}

fn share(run: &Value) {
    let flows = run["flows"].as_array().unwrap();
    let sum: f64 = flows.iter().map(|flow| figure(flow, "throughput_mbps")).sum();
    assert_eq!(flows.len(), 2, "{run}");
    flows.iter().for_each(is_governed);
    noted("kernel, two flows of the agent's cubic: Mbps of 16", 14.0.., sum);
    noted("kernel, two flows of the agent's cubic: Jain's index", 0.75.., figure(run, "jain_index"));
}

#[test]
fn a_killed_run_takes_its_agent_along() {
    let (Some(place), Some(agent)) = (Place::new(), agent()) else { return };
    let before = host();
    let mut command = place.emulate(&["--alg", "reno", "--agent-binary", agent.to_str().unwrap()]);
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // The agent is known by its files.
    let agents = || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
        let temporary = place.temporary().into_os_string().into_string().unwrap();
        lines.filter(|line| String::from_utf8_lossy(line).contains(&temporary)).count()
    };
    let eventually = |done: &dyn Fn() -> bool| {
        let end = Instant::now() + Duration::from_secs(60);
        while !done() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        done()
    };
    assert!(eventually(&|| agents() == 1 && host().contains("anole_ccp")), "the agent runs");
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(eventually(&|| agents() == 0), "the agent outlives its run");
    assert!(eventually(&|| host() == before), "its datapath outlives its run");
}

#[test]
fn an_agent_governs_the_kernels_flows_dies_and_returns() {
    let (Some(place), Some(agent)) = (Place::new(), agent()) else { return };
    let before = host();
    let options = ["--json", "--set", "duration_s=8", "--agent-binary", agent.to_str().unwrap()];
    let outage = ["--alg", "cubic", "--agent-outage", "2.5:4"];
    // The flow starts while there is none.
    let late = ["--alg", "cubic", "--agent-outage", "0.3:4", "--set", "flow.start_s=0.8"];
    for faults in [&["--alg", "reno"][..], &outage, &late] {
        let output = place.emulate(&[&options[..], faults].concat()).output().unwrap();
        goes_on(&objects(&output)[0]["flows"][0], faults);
        assert_eq!((place.leftovers(), host()), (0, before.clone()));
    }
}

/// The agent governed the flow, which went on without one.
fn goes_on(flow: &Value, faults: &[&str]) {
    // With the outage this is the second agent's line: it has taken the flow.
    is_governed(flow);
    let series: Vec<f64> = serde_json::from_value(flow["series"]["throughput_mbps"].clone()).unwrap();
    let outage = series[25..40].iter().sum::<f64>() / 15.0;
    assert!(outage > 0.0, "{faults:?}: nothing arrives from 2.5 to 4 s");
    let faults = faults.join(" ");
    noted(&format!("kernel, {faults}: reports"), 10.0.., figure(flow, "reports"));
    noted(&format!("kernel, {faults}: Mbps of 16"), 12.0.., figure(flow, "goodput_mbps"));
    noted(&format!("kernel, {faults}: Mbps from 2.5 to 4 s"), 10.0.., outage);
}

#[test]
fn two_hundred_connections_come_and_go() {
    let (Some(place), Some(agent)) = (Place::new(), agent()) else { return };
    let many = ["flow.count=200", "flow.start_spacing_s=0.02", "flow.bytes=20000", "warmup_s=0"];
    let many = many.iter().flat_map(|value| ["--set", value]);
    let options = ["--json", "--alg", "reno", "--agent-binary", agent.to_str().unwrap()];
    come_and_go(&objects(&place.emulate(&options).args(many).output().unwrap())[0]);
}

fn come_and_go(run: &Value) {
    let flows = run["flows"].as_array().unwrap();
    assert_eq!(flows.len(), 200);
    // Every one ended within the run.
    let slowest = flows.iter().map(|flow| figure(flow, "fct_s")).fold(0.0, f64::max);
    let governed = flows.iter().filter(|flow| flow["decisions"].is_u64()).count();
    assert!(governed > 0, "{run}");
    noted("kernel, 200 connections: the slowest, s", ..2.0, slowest);
    noted("kernel, 200 connections: those that the agent knows", 190.0..=200.0, governed as f64);
}

#[test]
fn an_interrupted_run_leaves_nothing() {
    let Some(place) = Place::new() else { return };
    let before = host();
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let mut command = place.emulate(&["--set", "duration_s=30"]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let started = Instant::now();
        while place.leftovers() == 0 && started.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(host(), before, "nothing shows even during the run");
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(started.elapsed() < Duration::from_secs(20));
        assert_eq!(host(), before, "after {signal}");
        if signal == Signal::SIGINT {
            assert_eq!(output.status.code(), Some(1));
            assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted"));
            assert_eq!(place.leftovers(), 0);
        }
    }
}

#[test]
fn what_cannot_run_says_why() {
    let Some(place) = Place::new() else { return };
    for (args, code, hint) in [
        (&["--alg", "linux:none"][..], 2, "linux:cubic"),
        (&["--alg", "quic:cubic"], 2, "--datapath quic"),
        (&["--alg", "native"], 2, "--datapath quic"),
        (&["--set", "mss_bytes=100"], 2, "mss_bytes"),
        (&["--agent-flood", "10"], 2, "--agent-flood"),
        (&["--alg", "reno", "--agent-outage", "0:1"], 2, "--agent-outage"),
        (&["--alg", "reno", "--agent-binary", "/bin/false"], 1, "the agent ended at once"),
    ] {
        let output = place.emulate(args).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).to_string();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
        assert!(message.contains(hint) && message.lines().count() == 1, "{args:?}: {message}");
    }
    assert_eq!(place.leftovers(), 0);
}

#[test]
fn who_is_not_root_is_told() {
    let Some(place) = Place::new() else { return };
    // The program and its scenario have to be where everybody may read.
    let program = place.folder.path().join("anole-eval");
    std::fs::copy(env!("CARGO_BIN_EXE_anole-eval"), &program).unwrap();
    std::os::unix::fs::chown(place.folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let mut command = Command::new(program);
    command.args(["emulate", "--datapath", "kernel"]).arg(place.folder.path().join("short.toml"));
    let output = command.env_remove("ANOLE_CCP").uid(NOBODY).gid(NOBODY).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).to_string();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("sudo") && message.lines().count() == 1, "{message}");
}
