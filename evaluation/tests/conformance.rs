//! What every algorithm has to bear, in simulation: one seed has one result, so that this is the same on every host. Misses
//! that are known are in `known-conformance-misses.txt`, each with its reason.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Output};

const KNOWN: &str = include_str!("known-conformance-misses.txt");

fn conformance(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_anole-eval")).arg("conformance").args(args).output().unwrap()
}

fn known() -> BTreeMap<(String, String), String> {
    let lines = KNOWN.lines().filter(|line| !line.starts_with('#'));
    let miss = |line: &str| {
        let fields: Vec<&str> = line.splitn(3, " | ").collect();
        assert!(fields.len() == 3 && !fields[2].is_empty(), "algorithm | case | reason: {line}");
        ((fields[0].to_string(), fields[1].to_string()), fields[2].to_string())
    };
    lines.map(miss).collect()
}

#[test]
fn every_algorithm_bears_every_case_but_the_known_misses() {
    let output = conformance(&["--json"]);
    let (mut ran, mut missed, mut told) = (BTreeSet::new(), BTreeSet::new(), String::new());
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let verdict: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| verdict[key].as_str().unwrap().to_string();
        let name = (text("alg"), text("case"));
        if !verdict["missed"].as_array().unwrap().is_empty() {
            told += &format!("{line}\n");
            missed.insert(name.clone());
        }
        ran.insert(name);
    }
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("no policy of theirs is shipped: astraea, aurora, indigo"), "{error}");
    let algs: BTreeSet<&String> = ran.iter().map(|(alg, _)| alg).collect();
    assert!(algs.len() >= 24 && ran.len() == algs.len() * 9, "{} of {} algorithms", ran.len(), algs.len());
    let known: BTreeSet<_> = known().into_keys().collect();
    assert!(known.is_subset(&ran), "no such run: {:?}", known.difference(&ran));
    assert!(missed.is_subset(&known), "missed:\n{told}");
    assert!(known.is_subset(&missed), "met, and no known miss: {:?}", known.difference(&missed));
    assert_eq!(output.status.code(), Some(if missed.is_empty() { 0 } else { 1 }));
}

#[test]
fn what_cannot_be_run_is_refused_with_what_can() {
    let refused = |args: &[&str]| {
        let output = conformance(args);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(&["--case", "nonsense"]).contains("there are empty link, loss"));
    assert!(refused(&["--alg", "cubik"]).contains("did you mean cubic"));
    assert!(refused(&["--alg", "aurora"]).contains("aurora"));
    // Nothing that ran is nothing that was borne.
    let nothing = refused(&["--alg", "cubic", "--case", "application-limited", "--datapath", "in-process"]);
    assert!(nothing.contains("simulated only"), "{nothing}");
    // A backend that is not there leaves no algorithm out, and one that runs nothing is named.
    let server = ["--backend", "server", "--policy-server", "/nonexistent"];
    let broken = refused(&[&["--case", "one packet"][..], &server].concat());
    assert!(broken.contains("--policy-server /nonexistent"), "{broken}");
    let unused = refused(&["--alg", "cubic", "--backend", "torch", "--torch-library", "/nonexistent"]);
    assert!(
        unused.contains("--backend torch: no flow here runs a trained policy; name an algorithm"),
        "{unused}"
    );
    let agent = refused(&["--alg", "cubic", "--agent-binary", "/nonexistent"]);
    assert!(agent.contains("--datapath quic, usertcp and kernel"), "{agent}");
    let jobs = refused(&["--alg", "cubic", "--datapath", "in-process", "--jobs", "2"]);
    assert!(jobs.contains("--jobs: runs in real time disturb each other"), "{jobs}");
}
