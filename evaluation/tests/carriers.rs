//! One test body, five carriers: the cases of `anole-eval carriers` on each, in short runs. What holds on any host is
//! asserted: who governs, what is in force, what arrived. Figures are noted (`make check-realtime`, in full).
#![allow(clippy::disallowed_methods, reason = "the tests run in real time on real sockets")]

mod support;

use anole_testing::{figure as noted, measuring, skip};
use nix::unistd::geteuid;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const CASES: [&str; 8] =
    ["window", "rate", "AIMD", "Anole", "agent late", "agent restarted", "two flows", "size"];
/// What the user-space TCP falls short of for reasons of its stack (docs/usertcp.md).
const FALLS_SHORT: [(&str, &str); 4] =
    [("usertcp", "Anole"), ("usertcp", "agent late"), ("usertcp", "agent restarted"), ("usertcp", "size")];

fn every_case_holds(carrier: &str) {
    let agent = support::agent();
    let mut command = Command::new(env!("CARGO_BIN_EXE_anole-eval"));
    command.args(["carriers", "--carrier", carrier, "--json"]);
    if !["sim", "in-process"].contains(&carrier) {
        command.args(["--agent-binary", agent.to_str().unwrap()]);
    }
    command.args((!measuring()).then_some("--quick")).env_remove("ANOLE_CCP");
    let output = command.output().unwrap();
    let (out, error) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    let verdicts: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let agentless = carrier == "in-process";
    let expected: Vec<&str> =
        CASES.into_iter().filter(|case| !(agentless && case.starts_with("agent "))).collect();
    let ran: Vec<&str> = verdicts.iter().filter_map(|verdict| verdict["case"].as_str()).collect();
    assert_eq!(ran, expected, "{error}");
    for verdict in &verdicts {
        assert_eq!(verdict["faults"].as_array().map(Vec::len), Some(0), "{verdict}");
        let number = |key: &str| verdict[key].as_f64();
        let case = verdict["case"].as_str().unwrap();
        let name = format!("carriers, {carrier}, {case}");
        let figure = number("figure").unwrap_or(f64::NAN);
        match FALLS_SHORT.contains(&(carrier, case)) {
            true => noted(&name, .., figure),
            false => noted(&name, number("from").unwrap()..=number("to").unwrap(), figure),
        }
    }
    assert!(output.status.success(), "{error}");
}

#[test]
fn in_simulation() {
    every_case_holds("sim");
}

#[test]
fn over_quic_with_an_agent() {
    every_case_holds("quic");
}

#[test]
fn over_quic_without_an_agent() {
    every_case_holds("in-process");
}

#[test]
fn over_tcp_in_user_space() {
    every_case_holds("usertcp");
}

#[test]
fn over_linux_tcp() {
    let missing = [
        (!geteuid().is_root()).then_some("it takes root"),
        (!Path::new("/dev/net/tun").exists()).then_some("there is no /dev/net/tun"),
        Command::new("ip").arg("-V").output().is_err().then_some("there is no program ip (iproute2)"),
        (!Path::new("/sys/kernel/btf/vmlinux").exists()).then_some("this kernel tells no BTF"),
        std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
            .unwrap_or_default()
            .contains("anole_ccp")
            .then_some("another agent governs this kernel's TCP"),
    ];
    match missing.into_iter().flatten().next() {
        Some(reason) => skip!("Linux TCP under the agent cannot be run here: {reason}"),
        None => every_case_holds("kernel"),
    }
}

#[test]
fn what_cannot_be_run_is_refused_with_what_can() {
    for (args, told) in [
        (&["--carrier", "sim", "--case", "nonsense"][..], "there are window, rate"),
        // Nothing that ran is nothing that holds.
        (&["--carrier", "in-process", "--case", "agent late"], "no case of --case runs"),
        // No case runs a trained policy.
        (&["--carrier", "sim", "--case", "rate", "--backend", "server"], "unexpected argument '--backend'"),
        (
            &["--carrier", "sim", "--case", "rate", "--agent-binary", "/nonexistent"],
            "--carrier quic, usertcp",
        ),
    ] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_anole-eval")).arg("carriers").args(args).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).to_string();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(told), "{error}");
    }
}
