//! C libccp as a datapath under our agent, over Unix sockets where portus's convention puts them: real processes, real time.

#![allow(clippy::disallowed_methods, reason = "runs processes, in a folder of its own")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);
/// How long a flow runs.
const SECONDS: &str = "1.5";
/// Programs that datapaths usually give libccp room for; it uses one less.
const USUAL_ROOM: &str = "10";
/// Room for the programs of every algorithm, of which there are ten.
const ROOM_FOR_ALL: &str = "11";

/// The agent of the workspace above, built if it is not there yet.
fn agent() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = root.join("target/debug/anole-ccp");
    if !program.is_file() {
        let build =
            ["build", "--locked", "--package", "anole-agent", "--bin", "anole-ccp", "--target-dir", "target"];
        let built = Command::new(env!("CARGO")).args(build).current_dir(&root).status().unwrap();
        assert!(built.success() && program.is_file());
    }
    program
}

/// A running agent; killed when dropped.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Agent {
    fn start(socket: &Path, stats: &Path, flags: &[&str]) -> Agent {
        let mut command = Command::new(agent());
        command.args(flags).args(["--log-level", "warn", "--until-stdin-ends"]);
        command.arg("--socket").arg(socket).arg("--stats").arg(stats);
        let agent = Agent(command.stdin(Stdio::piped()).spawn().unwrap());
        let end = Instant::now() + PATIENCE;
        while !socket.exists() {
            assert!(Instant::now() < end, "the agent opens its socket");
            std::thread::sleep(Duration::from_millis(10));
        }
        agent
    }

    /// Ends with its standard input.
    fn stop(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

/// What the datapath says of itself after a while under an agent with these flags, and what the
/// agent says of the flow.
fn converse(
    name: &str,
    flags: &[&str],
    asks: Option<&str>,
    room: &str,
) -> (BTreeMap<String, u64>, serde_json::Value) {
    let folder = std::env::temp_dir().join(format!("anole-libccp-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (socket, stats) = (folder.join("portus"), folder.join("stats"));
    let agent = Agent::start(&socket, &stats, flags);
    let output = Command::new(env!("LIBCCP_DATAPATH"))
        .arg(&folder)
        .args(["1", SECONDS, room])
        .args(asks)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The flow's end is on its way.
    std::thread::sleep(Duration::from_millis(100));
    agent.stop();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find(|line| line.starts_with("windows ")).unwrap_or_else(|| panic!("{text}"));
    let words: Vec<&str> = line.split_whitespace().collect();
    let told = words.chunks(2).map(|pair| (pair[0].to_string(), pair[1].parse().unwrap())).collect();
    let flows = std::fs::read_to_string(&stats).unwrap();
    assert_eq!(flows.lines().count(), 1, "{flows}");
    let flow = serde_json::from_str(flows.lines().next().unwrap()).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    (told, flow)
}

#[test]
fn libccp_is_governed() {
    let cubic = Some("cubic");
    for (alg, force, asks, runs) in
        [("reno", true, None, "reno"), ("anole", true, cubic, "anole"), ("reno", false, cubic, "cubic")]
    {
        let flags = [&["--alg", alg][..], if force { &["--force-alg"] } else { &[] }].concat();
        // Forced, the agent installs the programs of one algorithm alone.
        let room = if force { USUAL_ROOM } else { ROOM_FOR_ALL };
        let (told, flow) = converse(runs, &flags, asks, room);
        let of = |name: &str| told[name];
        // Programs, the change to one of them, and answers to reports; none is more than libccp takes.
        assert!(of("taken") > 3 && of("refused") == 0, "{alg}: {told:?}");
        assert!(of("windows") + of("rates") > 0 && of("delivered") > 0, "{alg}: {told:?}");
        assert_eq!(
            (flow["algorithm"].as_str(), flow["end"].as_str()),
            (Some(runs), Some("closed")),
            "{flow}"
        );
        assert!(flow["reports"].as_u64() > Some(2) && flow["updates"].as_u64() > Some(2), "{flow}");
    }
}

/// What is asked for is what libccp sets: the agent holds 33 packets and 4 Mbps.
#[test]
fn what_the_agent_holds_is_in_force() {
    let flags = ["--alg", "hold", "--force-alg", "--param", "window_packets=33", "--param", "rate_mbps=4"];
    let (told, _) = converse("hold", &flags, None, USUAL_ROOM);
    assert_eq!((told["cwnd"], told["rate"]), (33 * 1448, 500_000), "{told:?}");
}
