//! `anole-eval emulate --emulator mahimahi` from the outside. Takes Mahimahi's mm-delay, mm-loss and mm-link, which
//! Debian 12 has no package of (docs/mahimahi.md), and what they take: root to begin with, iptables, dnsmasq. Where they
//! are missing, what runs them is skipped.
#![allow(clippy::disallowed_methods, reason = "the tests run in real time on real sockets")]

use anole_testing::skip;
use nix::unistd::geteuid;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

const SCENARIO: &str = r#"
name = "short"
source = "test"
duration_s = 4.0
warmup_s = 1.0
[[link]]
name = "bottleneck"
capacity_mbps = 12.0
one_way_delay_ms = 10.0
buffer_bdp = 2.0
random_loss = 0.02
[[flow]]
alg = "linux:reno"
under_test = true
"#;

/// Runs in real time take turns.
static TURN: Mutex<()> = Mutex::new(());

/// Why its shells cannot run here.
fn missing() -> Option<String> {
    if !geteuid().is_root() {
        return Some("they take root".to_string());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = |name: &str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    for shell in ["mm-delay", "mm-loss", "mm-link"] {
        if !on_path(shell) {
            return Some(format!("there is no {shell}"));
        }
    }
    let needs = ["/dev/net/tun", "/usr/sbin/iptables", "/usr/sbin/dnsmasq"];
    needs.into_iter().find(|need| !Path::new(need).exists()).map(|need| format!("there is no {need}"))
}

fn emulate(scenario: &str, options: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    // The shells run as `nobody`, and write their log below.
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let file = folder.path().join("short.toml");
    std::fs::write(&file, scenario).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_anole-eval"));
    command.args(["emulate", "--emulator", "mahimahi", "--json"]).arg(file).args(options);
    command.env("TMPDIR", folder.path()).env_remove("ANOLE_CCP").output().unwrap()
}

#[test]
fn tcp_and_quic_pass_its_shells_and_their_log_is_read() {
    if let Some(reason) = missing() {
        skip!("Mahimahi's shells cannot run here: {reason}");
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let two = SCENARIO.to_string() + "[[flow]]\nalg = \"linux:cubic\"\nbytes = 20000\n";
    for (options, scenario, mode, flows) in [
        (&["--datapath", "kernel"][..], SCENARIO, "mahimahi-kernel", 1),
        (&["--datapath", "kernel"][..], &two, "mahimahi-kernel", 2),
        (&["--alg", "native"][..], SCENARIO, "mahimahi-quic", 1),
    ] {
        let output = emulate(scenario, options);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let run: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((run["mode"].as_str(), run["flows"].as_array().unwrap().len()), (Some(mode), flows));
        let figure = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("a figure is missing in {run}"));
        let (link, flow) = (&run["links"][0], &run["flows"][0]);
        // A loss of 2 % on a link of 12 Mbps: something passed, something was lost, nothing was faster than the link.
        assert!(figure(&link["utilization"]) > 0.0 && figure(&link["utilization"]) <= 1.0, "{run}");
        assert!(figure(&link["loss_rate"]) > 0.0 && figure(&link["loss_rate"]) < 0.5, "{run}");
        assert!(figure(&link["queue_delay_mean_ms"]) >= 0.0, "{run}");
        assert!((figure(&run["optimal_mbps"]) - 12.0).abs() < 0.1, "{run}");
        assert!(figure(&flow["throughput_mbps"]) > 0.0, "{run}");
        // One queue for all: only a lone flow has delays of its own.
        let delay = &flow["owd_mean_ms"];
        assert!(if flows == 1 { figure(delay) >= 10.0 } else { delay.is_null() }, "{run}");
        assert!(flow["retransmit_rate"].is_null() || mode == "mahimahi-quic", "{run}");
        if flows == 2 {
            assert!(figure(&run["flows"][1]["fct_s"]) > 0.0, "{run}");
        }
    }
    let devices = std::fs::read_to_string("/proc/net/dev").unwrap();
    assert!(!devices.contains("delay-"), "a shell's device is left outside");
}

#[test]
fn what_it_cannot_do_is_refused_by_key() {
    let changed =
        SCENARIO.to_string() + "[[change]]\nat_s = 1.0\nlink = \"bottleneck\"\ncapacity_mbps = 1.0\n";
    for (scenario, key) in
        [(changed, "[[change]]"), (SCENARIO.replace("random_loss = 0.02", "queue = \"red\""), "queue")]
    {
        let output = emulate(&scenario, &["--datapath", "kernel"]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(&format!("Mahimahi cannot do what {key} asks for")), "{error}");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_anole-eval"))
        .args(["emulate", "--self-test", "--emulator", "mahimahi"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}
