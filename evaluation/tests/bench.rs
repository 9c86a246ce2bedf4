//! `anole-eval bench --part kernel` from the outside, in its short form. Takes root and a kernel whose BTF is
//! there; elsewhere the program says what it leaves out and why, and so does the test. An agent that is named has to be there.
#![allow(clippy::disallowed_methods, reason = "runs programs")]

mod support;

use anole_testing::{figure as noted, skip};
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use support::agent;

/// Who may do nothing: `nobody` on Debian.
const NOBODY: u32 = 65_534;

fn bench(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(["bench", "--part", "kernel", "--quick", "--json"]).args(arguments).env_remove("ANOLE_CCP");
    command
}

fn message(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_kernels_datapath_is_measured() {
    let output =
        bench(env!("CARGO_BIN_EXE_anole-eval").as_ref(), &["--agent-binary", agent().to_str().unwrap()])
            .output()
            .unwrap();
    assert!(output.status.success(), "{}", message(&output));
    if output.stdout.is_empty() {
        let message = message(&output);
        assert!(message.contains("is left out: "), "{message}");
        skip!("{}", message.trim());
        return;
    }
    let lines: Vec<Value> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let median = |line: &Value, key: &str| {
        let figure = line[key]["median"].as_f64().unwrap_or_else(|| panic!("{key} in {line}"));
        assert!(
            figure.is_finite() && line[key]["low"].is_number() && line[key]["high"].is_number(),
            "{line}"
        );
        figure
    };
    let of = |bench: &str| lines.iter().filter(|line| line["bench"] == bench).cloned().collect::<Vec<_>>();
    let acks = of("kernel-ack");
    assert_eq!(acks.len(), 16, "eight subjects with 1 and 500 flows");
    for line in &acks {
        assert!(line["acks"].as_u64() > Some(0) && median(line, "busy_ns") > 0.0, "{line}");
        if line["what"] != "linux:cubic" {
            assert!(median(line, "counted_ns") > 0.0, "{line}");
            median(line, "added_ns");
        }
    }
    for flows in [1, 500] {
        let counted = |what: &str| {
            let line = acks.iter().find(|line| line["what"] == what && line["flows"] == flows);
            median(line.unwrap_or_else(|| panic!("{what}")), "counted_ns")
        };
        let nothing = counted("empty callback");
        for what in ["linux:cubic, called by BPF", "10 registers, generated"] {
            noted(
                &format!("bench, {flows} flows: empty callback over {what}"),
                ..1.0,
                nothing / counted(what),
            );
        }
    }
    let loads = of("kernel-load");
    for alg in ["anole", "cubic", "linux:cubic"] {
        let ours: Vec<&Value> = loads.iter().filter(|line| line["alg"] == alg).collect();
        assert_eq!(ours.len(), 4, "{alg}: 1 and 500 flows, with and without limit");
        let (mut answers, mut busy) = (0, 0.0);
        for line in ours {
            for key in ["throughput_mbps", "cpu_s_per_gbit", "cpu_ratio_to_linux_cubic", "ack_gap_us"] {
                assert!(median(line, key) > 0.0, "{key} in {line}");
            }
            assert_eq!(line["unsent"], 0, "{line}");
            // On a busy machine a flow may be without an agent for all of so short a time.
            if line["answers"].as_u64() > Some(0) {
                let time = |key: &str| line[key].as_f64().unwrap_or_else(|| panic!("{key} in {line}"));
                let (p50, p99) = (time("report_to_applied_p50_us"), time("report_to_applied_p99_us"));
                assert!(0.0 < p50 && p50 <= p99, "{line}");
                noted(&format!("bench, {alg}: p99 from report to answer in force, s"), ..10.0, p99 / 1e6);
            }
            answers += line["answers"].as_u64().unwrap();
            busy += median(line, "agent_share");
        }
        if alg != "linux:cubic" {
            noted(&format!("bench, {alg}: answers"), 1.0.., answers as f64);
            noted(&format!("bench, {alg}: processors that the agent took"), 1e-6.., busy);
        }
    }
    let left = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    assert!(!left.contains("bench_"), "{left}");
}

#[test]
fn who_cannot_measure_it_is_told() {
    // The program has to be where everybody may read.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("anole-eval");
    std::fs::copy(env!("CARGO_BIN_EXE_anole-eval"), &program).unwrap();
    let mut command = bench(&program, &[]);
    if nix::unistd::geteuid().is_root() {
        std::os::unix::fs::chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    let message = message(&output);
    assert!(output.status.success() && output.stdout.is_empty(), "{message}");
    assert_eq!(message.trim(), "anole-eval: the kernel's datapath is left out: it takes root");
}

#[test]
fn an_agent_that_was_named_is_not_left_out() {
    let agent = |options: &[&str]| {
        // Nobody's agent lies beside this copy.
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("anole-eval");
        std::fs::copy(env!("CARGO_BIN_EXE_anole-eval"), &program).unwrap();
        let mut command = Command::new(program);
        command.args(["bench", "--part", "agent", "--json"]).args(options).env_remove("ANOLE_CCP");
        command.output().unwrap()
    };
    let (missing, nowhere) = (agent(&["--agent-binary", "/nonexistent"]), agent(&[]));
    assert_eq!(missing.status.code(), Some(2), "{}", message(&missing));
    assert!(message(&missing).contains("no agent at /nonexistent"), "{}", message(&missing));
    assert!(nowhere.status.success(), "{}", message(&nowhere));
    assert!(message(&nowhere).contains("the agent is left out: "), "{}", message(&nowhere));
}
