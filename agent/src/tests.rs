//! The whole agent but its command line, with algorithms made for the test, over a real socket.

#[allow(dead_code, reason = "the tests of the binary use the rest")]
#[path = "../tests/common/mod.rs"]
mod common;

use crate::control::{self, ControlSocket};
use crate::ipc::socket_path::control_of;
use crate::ipc::unix::Unix;
use crate::lines::Lines;
use crate::plan::{Plan, Wish};
use crate::prior::Priors;
use crate::records::Records;
use crate::run::serve_until;
use anole_algorithms::{Algorithm, Build, Builder, Commands, Preference, Program, Report, Spec};
use anole_cli::Failure;
use anole_datapath::FlowId;
use anole_datapath::wire::{self, AlgorithmName, CreateMessage};
use anole_model::{Rate, Time};
use anole_programs::rate_hold;
use common::MiniHost;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// `net.core.wmem_max` of a Linux host as it is installed.
const USERS_BUFFER_BYTES: usize = 212_992;
/// Datapaths that have stopped.
const STOPPED: u32 = 100;

/// Starts a program and then has nothing to say.
struct Silent;
/// Panics at its third report.
struct Fragile(u32);
/// Sets registers before any program.
struct Hasty;
/// Has a rate for each preference.
struct Obliging(f64);

fn begin(rate_mbps: f64, out: &mut Commands) {
    out.run(&rate_hold::PROGRAM)
        .set(rate_hold::control::INTERVAL_US, 20_000)
        .rate(Rate::from_mbps(rate_mbps))
        .cwnd(100_000);
}

impl Algorithm for Silent {
    fn start(&mut self, _: Time, out: &mut Commands) {
        begin(11.0, out);
    }
    fn on_report(&mut self, _: Time, report: &Report<'_>, _: &mut Commands) {
        assert!(rate_hold::Report::read(report.values).is_some_and(|report| report.acked > 0));
    }
}

impl Algorithm for Fragile {
    fn start(&mut self, _: Time, out: &mut Commands) {
        begin(22.0, out);
    }
    fn on_report(&mut self, _: Time, _: &Report<'_>, out: &mut Commands) {
        self.0 += 1;
        assert!(self.0 < 3, "made to panic");
        out.rate(Rate::from_mbps(33.0));
    }
}

impl Drop for Fragile {
    fn drop(&mut self) {
        assert!(self.0 < 3, "made to panic once more");
    }
}

impl Algorithm for Obliging {
    fn start(&mut self, _: Time, out: &mut Commands) {
        begin(self.0, out);
    }
    fn on_report(&mut self, _: Time, _: &Report<'_>, out: &mut Commands) {
        out.rate(Rate::from_mbps(self.0));
    }
    fn prefer(&mut self, preference: Preference) -> bool {
        self.0 = if preference == Preference::Default { 11.0 } else { 44.0 };
        true
    }
}

impl Algorithm for Hasty {
    fn start(&mut self, _: Time, out: &mut Commands) {
        out.cwnd(1);
    }
    fn on_report(&mut self, _: Time, _: &Report<'_>, _: &mut Commands) {}
}

static PROGRAMS: [&Program; 1] = [&rate_hold::PROGRAM];

fn spec(name: &'static str, builder: &'static Builder) -> Spec {
    Spec {
        name,
        kind: "rule",
        summary: "",
        programs: &PROGRAMS,
        parameters: &[],
        source: "",
        takes_classic: false,
        takes_policy: false,
        builder,
    }
}

fn specs() -> Vec<Spec> {
    vec![
        spec("silent", &|_: &Build| Ok(Box::new(Silent))),
        spec("fragile", &|_: &Build| Ok(Box::new(Fragile(0)))),
        spec("hasty", &|_: &Build| Ok(Box::new(Hasty))),
        spec("obliging", &|_: &Build| Ok(Box::new(Obliging(11.0)))),
    ]
}

/// An agent in a thread of its own.
struct Agent {
    socket: PathBuf,
    stats: PathBuf,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), Failure>>,
    _directory: tempfile::TempDir,
}

impl Agent {
    fn start(specs: Vec<Spec>) -> Agent {
        Agent::start_with(&specs, "silent", 4 << 20)
    }

    /// With a default algorithm, and so much room in the socket.
    fn start_with(specs: &[Spec], alg: &str, buffer_bytes: usize) -> Agent {
        let directory = tempfile::tempdir().unwrap();
        let (socket, stats) = (directory.path().join("agent"), directory.path().join("stats"));
        let stop = Arc::new(AtomicBool::new(false));
        let transport = Unix::bind_with(&socket, buffer_bytes).unwrap();
        let plan = Plan::new(
            specs,
            Wish { alg: alg.to_string(), seed: 1, ..Wish::default() },
            Arc::new(anole_algorithms::learned::Shipped),
        )
        .unwrap();
        let (flows, stopped) = (Lines::open("--stats", &stats).unwrap(), Arc::clone(&stop));
        let units = Lines::open("--antelope-log", &stats.with_extension("units")).unwrap();
        let priors = Priors::open(Some(&stats.with_extension("prior")), Box::new(|_, _| ())).unwrap();
        let records = Records { flows, units, priors };
        let control = ControlSocket::beside(transport.place()).unwrap();
        let thread =
            std::thread::spawn(move || serve_until(transport, Some(&control), plan, records, stopped));
        Agent { socket, stats, stop, thread, _directory: directory }
    }

    /// Drives the datapath until the agent has told of `ended` flows that have.
    fn awaits_ends(&self, host: &mut MiniHost, ended: usize) {
        let told = host.drive(Duration::from_secs(20), |_| read_lines(&self.stats).len() >= ended);
        assert!(told, "{} of {ended} flows' ends are told", read_lines(&self.stats).len());
    }

    /// Stops it; the lines of its statistics.
    fn stop(self) -> Vec<serde_json::Value> {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().unwrap().unwrap();
        read_lines(&self.stats)
    }
}

fn read_lines(path: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn an_algorithm_that_says_nothing_keeps_its_flow() {
    let agent = Agent::start(specs());
    let mut host = MiniHost::new(&agent.socket, 1);
    let flow = host.open("silent");
    assert!(host.drive(Duration::from_secs(2), |host| host.governed(flow)), "the agent takes the flow");
    // Longer than the 500 ms after which an unanswered report costs the flow, with reports all the time,
    host.drive(Duration::from_millis(900), |_| false);
    assert!(host.governed(flow));
    // and with one report before a silence, as a sender that pauses makes them.
    std::thread::sleep(Duration::from_millis(900));
    host.receive();
    host.ack();
    assert!(host.governed(flow));
    let stats = host.datapath.flow(flow).unwrap().stats();
    assert_eq!((stats.fallbacks, host.refused), (0, 0));
    // One CHANGE_PROG, and an empty UPDATE for about every fifth report.
    assert!(stats.updates < stats.reports / 2, "{stats:?}");
    host.close(flow);
    agent.awaits_ends(&mut host, 1);
    let lines = agent.stop();
    assert_eq!(lines.len(), 1);
    assert_eq!((lines[0]["algorithm"].as_str(), lines[0]["end"].as_str()), (Some("silent"), Some("closed")));
    assert_eq!(lines[0]["updates"].as_u64(), Some(1));
    assert_eq!(lines[0]["reports"].as_u64(), Some(stats.reports));
}

/// What datapaths that have stopped do not read stays in the agent's send buffer, which is small for a user without
/// privileges.
#[test]
fn datapaths_that_have_stopped_do_not_mute_the_agent() {
    let agent = Agent::start_with(anole_algorithms::all(), "reno", USERS_BUFFER_BYTES);
    let mut stopped: Vec<_> = (0..STOPPED).map(|number| MiniHost::new(&agent.socket, 100 + number)).collect();
    for host in &mut stopped {
        host.open("");
    }
    std::thread::sleep(Duration::from_millis(200));
    let mut host = MiniHost::new(&agent.socket, 1);
    let flow = host.open("");
    assert!(host.drive(Duration::from_secs(10), |host| host.governed(flow)), "the agent answers who reads");
    host.drive(Duration::from_secs(1), |_| false);
    assert!(host.governed(flow));
    assert_eq!(host.datapath.flow(flow).unwrap().stats().fallbacks, 0);
    agent.stop();
}

#[test]
fn a_panic_costs_one_flow_and_nothing_else() {
    let agent = Agent::start(specs());
    let mut host = MiniHost::new(&agent.socket, 1);
    let (fragile, hasty, silent) = (host.open("fragile"), host.open("hasty"), host.open(""));
    assert!(host.drive(Duration::from_secs(2), |host| host.governed(fragile) && host.governed(silent)));
    let lost = host.drive(Duration::from_secs(3), |host| !host.governed(fragile));
    assert!(lost, "nobody answers the flow of an algorithm that panicked");
    // The datapath announces the flow again and again; it stays with the datapath.
    host.drive(Duration::from_millis(600), |_| false);
    assert!(!host.governed(fragile) && !host.governed(hasty));
    assert!(host.drive(Duration::from_secs(2), |host| host.governed(silent)));
    for flow in [fragile, hasty, silent] {
        host.close(flow);
    }
    agent.awaits_ends(&mut host, 3);
    // A flow that failed stands in nobody else's way.
    let next = host.open("silent");
    assert_ne!(next, fragile, "ids are not used again at once");
    assert!(host.drive(Duration::from_secs(2), |host| host.governed(next)));
    let mut lines: Vec<_> =
        agent.stop().iter().map(|line| format!("{} {}", line["algorithm"], line["end"])).collect();
    lines.sort();
    assert_eq!(
        lines,
        [r#""fragile" "failed""#, r#""hasty" "failed""#, r#""silent" "closed""#, r#""silent" "dropped""#]
    );
}

#[test]
fn antelopes_data_units_are_logged_and_its_law_is_remembered_for_the_address() {
    let agent = Agent::start_with(anole_algorithms::all(), "antelope", USERS_BUFFER_BYTES);
    let (units, prior) = (agent.stats.with_extension("units"), agent.stats.with_extension("prior"));
    let mut host = MiniHost::new(&agent.socket, 1);
    let flow = host.open("");
    // Units have 20 ACKs.
    let judged = |line: &serde_json::Value| line["judged"] == true;
    let count = || read_lines(&units).into_iter().filter(judged).count();
    assert!(host.drive(Duration::from_secs(20), |_| !read_lines(&units).is_empty()) && count() == 0);
    // The end of slow start.
    host.lost_packets = 1;
    assert!(host.drive(Duration::from_secs(20), |_| count() >= 5));
    host.close(flow);
    agent.awaits_ends(&mut host, 1);
    let Agent { stop, thread, _directory, .. } = agent;
    stop.store(true, Ordering::SeqCst);
    thread.join().unwrap().unwrap();
    let lines = read_lines(&units);
    assert!(lines.iter().all(|line| line["flow"] == 0 && line["acks"].as_f64() >= Some(20.0)), "{lines:?}");
    let arms: Vec<&str> =
        lines.iter().filter(|line| judged(line)).filter_map(|line| line["arm"].as_str()).collect();
    let longest = anole_algorithms::ARMS.iter().max_by_key(|arm| arms.iter().filter(|a| a == arm).count());
    let first = Priors::open(Some(&prior), Box::new(|_, _| ())).unwrap().first([192, 0, 2, 99].into());
    assert_eq!(first.map(|arm| &anole_algorithms::ARMS[arm]), longest);
}

#[test]
fn a_program_that_is_not_what_the_bindings_say_ends_the_agent() {
    static ODD: Program = Program {
        name: rate_hold::PROGRAM.name,
        source: rate_hold::PROGRAM.source,
        reports: rate_hold::PROGRAM.reports,
        controls: rate_hold::PROGRAM.controls,
        expressions: rate_hold::PROGRAM.expressions,
        instructions: rate_hold::PROGRAM.instructions,
        code: anole_programs::reno::PROGRAM.code,
    };
    static ODDS: [&Program; 1] = [&ODD];
    let mut specs = specs();
    specs[0].programs = &ODDS;
    specs.truncate(1);
    let agent = Agent::start(specs);
    let Err(Failure::Run(error)) = agent.thread.join().unwrap() else { panic!("the agent runs on") };
    assert!(error.to_string().contains("rate-hold"), "{error}");
    assert!(!agent.socket.exists());
}

fn mbps(host: &MiniHost, flow: FlowId) -> f64 {
    let rate = host.datapath.flow(flow).unwrap().control().rate;
    Rate::from_bytes_per_s(f64::from(rate)).mbps().round()
}

#[test]
fn what_an_application_prefers_outlives_its_flow_s_next_announcement() {
    let agent = Agent::start(specs());
    let mut host = MiniHost::new(&agent.socket, 1);
    let flow = host.open("obliging");
    assert!(host.drive(Duration::from_secs(2), |host| mbps(host, flow) == 11.0));
    control::prefer(&control_of(&agent.socket), flow.0, Preference::La1, None).unwrap();
    assert!(host.drive(Duration::from_secs(2), |host| mbps(host, flow) == 44.0));
    let name = AlgorithmName::new("obliging").unwrap();
    let create = wire::Message::Create(flow.0, CreateMessage::without_addresses(14_480, 1448, name));
    let mut bytes = Vec::new();
    wire::encode(&create, &mut bytes).unwrap();
    assert!(host.send_raw(&bytes));
    agent.awaits_ends(&mut host, 1);
    // Its new session's first message, and answers to reports.
    host.drive(Duration::from_millis(300), |_| false);
    assert_eq!(mbps(&host, flow), 44.0);
    agent.stop();
}

#[test]
fn what_means_nothing_to_a_flow_s_algorithm_is_refused() {
    let agent = Agent::start(specs());
    let mut host = MiniHost::new(&agent.socket, 1);
    let flow = host.open("silent");
    assert!(host.drive(Duration::from_secs(2), |host| host.governed(flow)));
    let refused = control::prefer(&control_of(&agent.socket), flow.0, Preference::La1, None);
    let Err(Failure::Run(error)) = refused else { panic!("{refused:?}") };
    assert!(error.to_string().ends_with("is run by silent, to which a preference means nothing"), "{error}");
    agent.stop();
}

#[test]
fn a_message_that_is_refused_leaves_those_behind_it() {
    let agent = Agent::start(specs());
    let mut host = MiniHost::new(&agent.socket, 1);
    let mut bytes = Vec::new();
    // The flow that ends is not known.
    let end = wire::Message::Measure { sid: 1, uid: 1, values: Vec::new() };
    let create = CreateMessage::without_addresses(14_480, 1448, AlgorithmName::NONE);
    for message in [end, wire::Message::Create(2, create)] {
        let mut one = Vec::new();
        wire::encode(&message, &mut one).unwrap();
        bytes.append(&mut one);
    }
    assert!(host.send_raw(&bytes));
    let known = || control::ask(&control_of(&agent.socket)).unwrap().flows;
    assert!(host.drive(Duration::from_secs(5), |_| known().iter().any(|flow| flow.flow == 2)));
    agent.stop();
}

#[test]
fn each_flow_gets_what_it_asks_for() {
    let agent = Agent::start(specs());
    let mut host = MiniHost::new(&agent.socket, 1);
    let (silent, fragile, unknown) = (host.open("silent"), host.open("fragile"), host.open("no-such-thing"));
    let mut seen = Vec::new();
    host.drive(Duration::from_secs(2), |host| {
        seen = vec![mbps(host, silent), mbps(host, fragile), mbps(host, unknown)];
        seen.iter().all(|&rate| rate > 0.0)
    });
    // The default stands in for what is not there.
    assert_eq!((seen[0], seen[2]), (11.0, 11.0));
    assert!(seen[1] == 22.0 || seen[1] == 33.0, "{seen:?}");
    agent.stop();
}
