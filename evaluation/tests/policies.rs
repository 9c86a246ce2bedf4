//! Trained policies from the outside: backends, their refusals, and what a dead or broken policy server
//! does to a transfer of real packets.
#![allow(clippy::disallowed_methods, reason = "the tests run in real time on real sockets")]

#[path = "support/mod.rs"]
mod program;
#[path = "../../policies/inference/tests/support/mod.rs"]
mod support;

use anole_policies::file::{Origin, Tensor};
use anole_policies::{PolicyFile, schema};
use anole_testing::{figure as noted, skip};
use program::agent;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use support::{FakeServer, Manner};

/// Libra asks its policy in every cycle; Anole leaves it alone while a busy machine makes its model fail.
const SCENARIO: &str = r#"
name = "short"
source = "test"
duration_s = 3.0
warmup_s = 0.5
[[link]]
name = "bottleneck"
capacity_mbps = 16.0
one_way_delay_ms = 10.0
buffer_bdp = 2.0
[[flow]]
alg = "c-libra"
under_test = true
"#;

/// Transfers in real time share the processors badly: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// A folder with the scenario and a policy that keeps the rate: all its weights are zero. While it lives, no
/// other test of this file has one.
struct Place {
    folder: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Place {
    fn new() -> Place {
        // A test that failed leaves nothing behind that another one would see.
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let place = Place { folder: tempfile::tempdir().unwrap(), _alone: alone };
        std::fs::write(place.path("short.toml"), SCENARIO).unwrap();
        let schema = schema::builtin("libra").unwrap();
        let zeros = schema.tensors().into_iter().map(|(name, shape)| {
            let values = vec![0.0; shape.iter().product()];
            (name, Tensor { shape, values })
        });
        let file = PolicyFile::write(schema, Origin::default(), &zeros.collect());
        std::fs::write(place.path("libra.safetensors"), file).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_string()
    }

    /// `anole-eval MODE` with the policy and these options.
    fn command(&self, mode: &str, options: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anole-eval"));
        command.arg(mode).arg(self.path("short.toml")).args(["--json", "--policy"]);
        command.arg(self.path("libra.safetensors")).args(options);
        command.env_remove("ANOLE_CCP").env_remove("ANOLE_TORCH_LIBRARY");
        if mode == "emulate" {
            command.arg("--agent-binary").arg(agent());
        }
        command
    }

    fn run(&self, mode: &str, options: &[&str]) -> Value {
        result(&self.command(mode, options).output().unwrap())
    }

    /// Starts a transfer of so many seconds whose agent asks the server at `socket`.
    fn transfer(&self, socket: &Path, seconds: &str) -> Child {
        let socket = socket.to_str().unwrap();
        let duration = format!("duration_s={seconds}");
        let options = ["--backend", "server", "--policy-server", socket, "--set", &duration];
        let mut command = self.command("emulate", &options);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

fn result(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn widths() -> [u32; 3] {
    let schema = schema::builtin("libra").unwrap();
    [schema.inputs(), schema.outputs(), schema.state()].map(|width| width as u32)
}

/// Something arrived, and the policy was asked. Half of the capacity is meant to arrive.
fn is_carried(run: &Value, what: &str) {
    let flow = &run["flows"][0];
    let goodput = flow["goodput_mbps"].as_f64().unwrap();
    assert!(goodput > 0.0 && flow["inferences"].as_u64() > Some(0), "{flow}");
    noted(&format!("policy, {what}: Mbps of 16"), 8.0.., goodput);
    noted(&format!("policy, {what}: inferences"), 11.0.., flow["inferences"].as_f64().unwrap());
}

/// The transfer used the server and went on without: something arrived in its second half. Within every half second
/// after the start a quarter of the capacity is meant to arrive, and half of it altogether.
fn goes_on(run: &Value, what: &str) {
    let series = &run["flows"][0]["series"];
    let bins = (0.5 / series["dt_s"].as_f64().unwrap()).round() as usize;
    let throughput = series["throughput_mbps"].as_array().unwrap();
    let throughput: Vec<f64> = throughput.iter().map(|bin| bin.as_f64().unwrap()).collect();
    assert!(throughput[throughput.len() / 2..].iter().any(|&mbps| mbps > 0.0), "{throughput:?}");
    let means = throughput.windows(bins).skip(bins).map(|window| window.iter().sum::<f64>() / bins as f64);
    noted(
        &format!("policy, {what}: least of half a second, Mbps of 16"),
        4.0..,
        means.fold(f64::MAX, f64::min),
    );
    assert_eq!(run["backend"], "server");
    is_carried(run, what);
}

/// Waits until the transfer asks, and a little longer.
fn until_asked(server: &FakeServer) {
    let started = Instant::now();
    while server.steps() < 2 {
        assert!(started.elapsed() < Duration::from_secs(60), "the server is never asked");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_same_policy_in_simulation_and_over_quic() {
    let place = Place::new();
    let mut runs = [place.run("sim", &[]), place.run("sim", &["--backend", "embedded"])];
    runs.iter_mut().for_each(|run| run["wall_s"] = Value::Null);
    assert_eq!(runs[0], runs[1]);
    let simulated = &runs[0]["flows"][0];
    assert!(simulated["goodput_mbps"].as_f64() > Some(8.0), "{simulated}");
    assert!(simulated["inferences"].as_u64() > Some(10), "{simulated}");
    let emulated = place.run("emulate", &[]);
    is_carried(&emulated, "embedded");
    assert_eq!([&runs[0]["backend"], &emulated["backend"]], ["embedded"; 2]);
    let mut none = Command::new(env!("CARGO_BIN_EXE_anole-eval"));
    none.arg("sim").arg(place.path("short.toml")).args(["--json", "--policy", "none"]);
    assert_eq!(result(&none.output().unwrap())["backend"], Value::Null);
}

#[test]
fn a_server_that_dies_in_the_middle_leaves_the_transfer_running() {
    let place = Place::new();
    let socket = place.path("policy.sock");
    let server = FakeServer::start(&socket, widths(), Manner::Good);
    // A busy machine asks late, and comes back late.
    let transfer = place.transfer(&socket, "8");
    until_asked(&server);
    drop(server);
    std::thread::sleep(Duration::from_millis(600));
    let server = FakeServer::start(&socket, widths(), Manner::Good);
    let output = transfer.wait_with_output().unwrap();
    assert!(server.steps() > 0, "the agent does not come back to the new server");
    goes_on(&result(&output), "a server that dies and returns");
}

#[test]
fn a_slow_deaf_or_babbling_server_leaves_the_transfer_running() {
    let place = Place::new();
    for manner in [Manner::Slow, Manner::Deaf, Manner::Garbage, Manner::Nan] {
        let socket = place.path("policy.sock");
        let server = FakeServer::start(&socket, widths(), Manner::Good);
        let transfer = place.transfer(&socket, "3");
        until_asked(&server);
        server.set(manner);
        goes_on(&result(&transfer.wait_with_output().unwrap()), &format!("a server that is {manner:?}"));
    }
}

/// A program of `policy-server/build`, or of the folder that $ANOLE_POLICY_SERVER_BUILD names.
fn built(name: &str) -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../policy-server/build");
    let folder = std::env::var_os("ANOLE_POLICY_SERVER_BUILD").map_or(own, PathBuf::from);
    let file = folder.join(name);
    if !file.is_file() {
        skip!("{} is not built (see policy-server/README.md)", file.display());
        return None;
    }
    Some(file)
}

/// A server in a process of its own. Dropped, it is killed.
struct RealServer(Child);

impl RealServer {
    fn start(program: &Path, place: &Place, socket: &Path) -> RealServer {
        let mut command = Command::new(program);
        command.arg("--socket").arg(socket).arg("--models").arg(place.folder.path());
        let server = RealServer(command.stderr(Stdio::null()).spawn().unwrap());
        let started = Instant::now();
        // Where one was killed its socket is still there; then the agent has to try until it is served.
        while !socket.exists() {
            assert!(started.elapsed() < Duration::from_secs(20), "the policy server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn sigkill_of_the_policy_server_leaves_the_transfer_running() {
    let Some(program) = built("anole-policy-server") else { return };
    let place = Place::new();
    let socket = place.path("policy.sock");
    let server = RealServer::start(&program, &place, &socket);
    let transfer = place.transfer(&socket, "3");
    std::thread::sleep(Duration::from_millis(1500));
    drop(server);
    std::thread::sleep(Duration::from_millis(500));
    let _server = RealServer::start(&program, &place, &socket);
    goes_on(&result(&transfer.wait_with_output().unwrap()), "a server that is killed and started again");
}

#[test]
fn libtorch_computes_what_the_embedded_networks_do() {
    let Some(library) = built("libanole_policy_torch.so") else { return };
    let place = Place::new();
    let options = ["--backend", "torch", "--torch-library", library.to_str().unwrap()];
    let (torch, embedded) = (place.run("sim", &options), place.run("sim", &[]));
    assert_eq!((&torch["backend"], &embedded["backend"]), (&"torch".into(), &"embedded".into()));
    // With all weights zero both give exactly zero.
    assert_eq!(torch["flows"], embedded["flows"]);
    is_carried(&place.run("emulate", &options), "LibTorch");
}

#[test]
fn what_cannot_run_a_policy_says_why() {
    let place = Place::new();
    let nothing = place.text("nothing");
    let damaged = place.text("damaged.safetensors");
    let mut bytes = std::fs::read(place.path("libra.safetensors")).unwrap();
    *bytes.last_mut().unwrap() ^= 0x40;
    std::fs::write(&damaged, bytes).unwrap();
    let absent = place.text("absent.safetensors");
    for (options, policy, hints) in [
        (
            &["--backend", "torch", "--torch-library", &nothing][..],
            None,
            &["--torch-library", "make policy-server"][..],
        ),
        (&["--backend", "server"], None, &["--policy-server"]),
        (&["--backend", "server", "--policy-server", &nothing], None, &["nothing", "anole-policy-server"]),
        (&["--policy-server", &nothing], None, &["--backend server"]),
        (&[], Some(&damaged), &["damaged.safetensors", "SHA-256"]),
        (&[], Some(&absent), &["absent.safetensors", "cannot open"]),
    ] {
        for mode in ["sim", "emulate"] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_anole-eval"));
            command.arg(mode).arg(place.path("short.toml")).args(options).env_remove("ANOLE_TORCH_LIBRARY");
            command.arg("--policy").arg(policy.map_or(place.path("libra.safetensors"), PathBuf::from));
            let output = command.output().unwrap();
            let message = String::from_utf8_lossy(&output.stderr).to_string();
            assert_eq!(output.status.code(), Some(2), "{mode} {options:?}: {message}");
            for hint in hints {
                assert!(message.contains(hint), "{mode} {options:?}: {message}");
            }
            assert_eq!(message.lines().count(), 1, "{message}");
        }
        // The agent itself says the same.
        let mut command = Command::new(agent());
        command.args(options).arg("--policy").env_remove("ANOLE_TORCH_LIBRARY");
        command.arg(policy.map_or(place.path("libra.safetensors"), PathBuf::from));
        command.arg("--socket").arg(place.path("agent.sock"));
        let output = command.output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).to_string();
        assert_eq!(output.status.code(), Some(2), "{options:?}: {message}");
        for hint in hints {
            assert!(message.contains(hint), "{options:?}: {message}");
        }
    }
}
