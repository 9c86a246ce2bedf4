//! `anole-eval adversary`: the same table for the same seed, files that reproduce their scores, refusals.

#![allow(clippy::disallowed_methods, reason = "tests of a binary read its files")]

use std::path::Path;
use std::process::{Command, Output};

fn eval(command: &str, options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_anole-eval")).arg(command).args(options).output().unwrap()
}

fn lines(output: &Output) -> Vec<serde_json::Value> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Vegas gives up much of a link that swings: a find within few links.
fn attack(folder: &Path, jobs: &str) -> Vec<serde_json::Value> {
    let out = folder.to_str().unwrap();
    let options =
        ["--alg", "vegas,reno", "--family", "swings", "--budget", "12", "--worst", "3", "--jobs", jobs];
    lines(&eval("adversary", &[&options[..], &["--json", "--out", out]].concat()))
}

#[test]
fn one_seed_gives_one_table_and_a_file_reproduces_its_score() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let objects = attack(folders[0].path(), "1");
    assert_eq!(objects, attack(folders[1].path(), "2"));
    let rows: Vec<_> = objects.iter().filter(|object| object["kind"] == "robustness").collect();
    assert_eq!((rows.len(), &rows[0]["alg"], &rows[1]["alg"]), (2, &"vegas".into(), &"reno".into()));
    assert!(rows.iter().all(|row| row["links"] == 6 && row["searched"].as_u64().unwrap() > 0));
    let worst: Vec<_> = objects.iter().filter(|object| object["kind"] == "worst").collect();
    assert_eq!((worst.len(), &worst[0]["alg"], &worst[3]["alg"]), (6, &"vegas".into(), &"reno".into()));
    assert_eq!(worst[0]["score"], rows[0]["worst"]);
    let find = objects.iter().find(|object| object["kind"] == "find").expect("vegas has a find");
    assert_eq!(find["alg"], "vegas");
    let file = folders[0].path().join(format!("{}.toml", find["name"].as_str().unwrap()));
    let [score, floor] = ["score", "floor"].map(|key| find[key].as_f64().unwrap());
    assert!(score < floor, "{score} {floor}");
    // The scores are those of the file's seed and the two after it.
    let runs = eval("sim", &[file.to_str().unwrap(), "--alg", "vegas,cubic,bbr", "--runs", "3", "--json"]);
    let used = |run: &serde_json::Value| run["links"][0]["utilization"].as_f64().unwrap();
    let runs = lines(&runs);
    for (seed, told) in find["scores"].as_array().unwrap().iter().enumerate() {
        let [vegas, cubic, bbr] = [0, 3, 6].map(|first| used(&runs[first + seed]));
        let told = told.as_f64().unwrap();
        assert!((vegas / cubic.min(bbr) - told).abs() < 1e-9, "{vegas} {cubic} {bbr} {told}");
    }
    let replayed =
        lines(&eval("adversary", &["--alg", "vegas", "--replay", file.to_str().unwrap(), "--json"]));
    assert_eq!((&replayed[0]["kind"], &replayed[0]["scores"]), (&"replay".into(), &find["scores"]));
}

/// Whoever writes a file with a family's name gets a score, whatever its links.
#[test]
fn any_scenario_can_be_replayed_as_one_of_a_family() {
    let folder = tempfile::tempdir().unwrap();
    for family in ["swings", "jitter", "service", "cross", "crowds", "paths", "queues", "starts"] {
        let file = folder.path().join(format!("{family}.toml"));
        let text = format!(
            "name = \"x\"\nsource = \"family {family}, mine\"\nduration_s = 1.0\nseed = 18446744073709551615\n[[link]]\n\
             name = \"b\"\ncapacity_mbps = 5.0\none_way_delay_ms = 5.0\nbuffer_bdp = 1.0\n[[flow]]\nalg = \"cubic\"\n\
             under_test = true\n"
        );
        std::fs::write(&file, text).unwrap();
        let replayed =
            lines(&eval("adversary", &["--alg", "reno", "--replay", file.to_str().unwrap(), "--json"]));
        assert_eq!((replayed.len(), &replayed[0]["family"]), (1, &family.into()));
    }
}

#[test]
fn a_policy_is_that_of_its_own_algorithm_alone() {
    let scores = |alg: &str, against: &str| -> Vec<(String, serde_json::Value)> {
        let options = ["--family", "swings", "--budget", "4", "--seed", "3", "--finds", "0", "--json"];
        let rows = lines(&eval("adversary", &[&["--alg", alg, "--against", against][..], &options].concat()));
        rows.iter().map(|row| (row["alg"].as_str().unwrap().to_string(), row["median"].clone())).collect()
    };
    let alone = scores("c-libra", "cubic");
    let both = scores("c-libra+fault:low,c-libra", "cubic");
    assert!(both[1] == alone[0] && both[0].1 != alone[0].1, "{both:?} {alone:?}");
    let against = scores("cubic", "c-libra");
    assert_eq!(scores("c-libra+fault:low,cubic", "c-libra")[1], against[0]);
}

#[test]
fn who_hardly_sends_withstands_no_queue() {
    let options = ["--family", "queues", "--budget", "16", "--seed", "606", "--finds", "0", "--json"];
    let rows = lines(&eval("adversary", &[&["--alg", "hold", "--against", "cubic"][..], &options].concat()));
    assert!(rows[0]["below"].as_f64().unwrap() > 0.5, "{rows:?}");
}

#[test]
fn nonsense_ends_with_2_and_one_message() {
    for (options, message) in [
        (&["--alg", "cubick"][..], "--alg cubick: unknown algorithm \"cubick\"; did you mean cubic?"),
        (&["--against", "cubick"], "--against cubick: unknown algorithm"),
        (&["--alg", "cubic,cubic"], "--alg names cubic twice"),
        (&["--against", "bbr,bbr"], "--against names bbr twice"),
        (&["--family", "swing"], "no family is named \"swing\""),
        (&["--family", "swings,paths,swings"], "--family names swings twice"),
        // What would be ignored.
        (&["--replay", "/nowhere/swings.toml", "--seed", "2"], "cannot be used with '--seed"),
        (&["--replay", "/nowhere/swings.toml", "--finds", "2"], "cannot be used with '--finds"),
        (&["--budget", "1"], "1 is not in 2..=1000000"),
        (&["--alg", "quic:cubic"], "real transport"),
        (&["--replay", "/nowhere/swings.toml"], "cannot read the scenario /nowhere/swings.toml"),
        (&["--replay", "scenarios/anole-normal.toml"], "names no family"),
    ] {
        let output = eval("adversary", options);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{options:?}: {text}");
        assert!(text.contains(message), "{options:?}: {text}");
    }
}
