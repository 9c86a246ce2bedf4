//! `anole-eval suite`: results, figures, refusals.

#![allow(clippy::disallowed_methods, reason = "tests of a binary read its files")]

use std::process::{Command, Output};

/// A suite of three short links with these options.
fn suite(options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anole-eval"));
    command.args(["suite", "--links", "3"]).args(options);
    if !options.contains(&"--duration") {
        command.args(["--duration", "1.5"]);
    }
    command.output().unwrap()
}

fn lines(output: &Output) -> Vec<serde_json::Value> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let values = text.lines().map(|line| {
        let mut value: serde_json::Value = serde_json::from_str(line).unwrap();
        if value.get("wall_s").is_some() {
            value["wall_s"] = 0.into();
        }
        value
    });
    values.collect()
}

#[test]
fn every_algorithm_and_policy_runs_on_every_link() {
    let options = ["--alg", "anole,cubic", "--policy", "delay-target,fault:random", "--json"];
    let runs = lines(&suite(&[&options[..], &["--jobs", "2"]].concat()));
    assert_eq!(runs, lines(&suite(&[&options[..], &["--jobs", "1"]].concat())));
    let who: Vec<String> =
        runs.iter().map(|run| format!("{} {} {}", run["scenario"], run["alg"], run["policy"])).collect();
    assert_eq!(runs.len(), 9, "{who:?}");
    assert_eq!(who[0], r#""suite-random-0" "anole" "delay-target""#);
    assert_eq!(who[2], r#""suite-random-0" "cubic" null"#);
    assert_eq!(who[4], r#""suite-random-1" "anole" "fault:random""#);
    // All on the same link, with the same random losses.
    assert_eq!(runs[0]["optimal_mbps"], runs[2]["optimal_mbps"]);
    assert_eq!(runs[0]["seed"], runs[2]["seed"]);
    assert_ne!(runs[0]["seed"], runs[3]["seed"]);
    assert_ne!(lines(&suite(&[&options[..], &["--seed", "2"]].concat())), runs);
}

#[test]
fn a_summary_has_the_figures_and_the_differences_from_the_first() {
    let all = lines(&suite(&["--alg", "cubic,anole+none", "--summary", "--ranges", "inside"]));
    assert_eq!(all.len(), 2);
    assert_eq!((&all[0]["alg"], &all[1]["alg"]), (&"cubic".into(), &"anole+none".into()));
    for one in &all {
        assert_eq!(one["links"], 3);
        for figure in ["utilization", "power", "power_p10", "loss_rate"] {
            let value = one[figure].as_f64().unwrap();
            assert!((0.0..=1.01).contains(&value), "{figure} {value}");
        }
    }
    assert_eq!(all[0]["first_less_this_power"]["mean"], 0.0);
    let (first, second) = (all[0]["power"].as_f64().unwrap(), all[1]["power"].as_f64().unwrap());
    let told = all[1]["first_less_this_power"]["mean"].as_f64().unwrap();
    assert!((told - (first - second)).abs() < 1e-9, "{told} {first} {second}");
}

#[test]
fn a_table_is_for_people_and_files_for_programs() {
    let folder = tempfile::tempdir().unwrap();
    let ranges = folder.path().join("short.json");
    std::fs::write(&ranges, r#"{"capacity_mbps": [5.0, 6.0], "duration_s": 1.0}"#).unwrap();
    let out = folder.path().join("out");
    let paths = [ranges.to_str().unwrap(), out.to_str().unwrap()];
    let output = suite(&["--alg", "cubic,reno", "--ranges", paths[0], "--out", paths[1]]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("power") && text.contains("cubic less each other"), "{text}");
    assert_eq!(std::fs::read_dir(out).unwrap().count(), 6);
    // Policies whose names differ in what no file's name takes.
    let policy = include_bytes!("../../policies/shipped/libra.safetensors");
    std::fs::create_dir(folder.path().join("models")).unwrap();
    for name in ["models/libra.safetensors", "models-libra.safetensors"] {
        std::fs::write(folder.path().join(name), policy).unwrap();
    }
    let alg = "anole+models/libra.safetensors,anole+models-libra.safetensors";
    let mut command = Command::new(env!("CARGO_BIN_EXE_anole-eval"));
    command.args(["suite", "--links", "1", "--duration", "1.5", "--out", "two", "--alg", alg]);
    assert!(command.current_dir(folder.path()).output().unwrap().status.success());
    let files: Vec<_> = std::fs::read_dir(folder.path().join("two")).unwrap().collect();
    assert_eq!(files.len(), 2);
    for file in files {
        let run = std::fs::read_to_string(file.unwrap().path()).unwrap();
        assert!(run.contains("\"backend\":\"embedded\""), "{run}");
    }
}

#[test]
fn runs_of_other_ranges_have_other_names() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let run = |options: &[&str]| {
        let options = [&["--alg", "cubic", "--json", "--out", out.to_str().unwrap()], options].concat();
        lines(&suite(&options)).remove(0)["set"].clone()
    };
    // One name, and other links in its place.
    let file = folder.path().join("inside.json");
    let file = file.to_str().unwrap();
    assert_eq!(run(&["--ranges", "inside"]), serde_json::json!(["duration_s=1.5"]));
    assert_eq!(run(&["--ranges", "inside", "--duration", "1"]), serde_json::json!(["duration_s=1.0"]));
    for capacity in ["[5.0, 6.0]", "[5.0, 7.0]"] {
        std::fs::write(file, format!("{{\"capacity_mbps\": {capacity}}}")).unwrap();
        let set = run(&["--ranges", file, "--duration", "1"]).to_string();
        assert!(set.contains(&format!("capacity_mbps={}", capacity.replace(' ', ""))), "{set}");
    }
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 4 * 3);
}

#[test]
fn nonsense_ends_with_2_and_one_message() {
    // No cross traffic on the first link.
    let folder = tempfile::tempdir().unwrap();
    let crossed = folder.path().join("crossed.json");
    std::fs::write(&crossed, r#"{"cross_flows": [0, 1], "cross_algs": ["cubic", "cubicc"]}"#).unwrap();
    for (options, message) in [
        (
            &["--alg", "reno", "--ranges", crossed.to_str().unwrap()][..],
            "crossed.json: cross_algs: unknown algorithm",
        ),
        (&["--alg", "cubick"], "did you mean cubic?"),
        (&["--alg", "anole", "--policy", "delay"], "delay"),
        (&["--alg", "cubic,bbr", "--policy", "libra"], "--policy: cubic takes no policy"),
        (&["--alg", "cubic", "--classic", "reno"], "--classic: cubic takes no rule-based candidate"),
        (&["--alg", "cubic,cubic"], "name cubic twice"),
        (&["--ranges", "all"], "known are random, inside"),
        (&["--ranges", "/nowhere/ranges.json"], "cannot read the ranges"),
        (&["--duration", "0"], "--duration 0.0: give 0.1 to 3600 s"),
        (&["--duration", "nan"], "--duration NaN: give 0.1"),
        (&["--duration", "-1"], "--duration -1.0: give 0.1"),
        (&["--alg", "quic:cubic"], "real transport"),
        (&["--alg", "aurora"], "aurora: --alg aurora needs "),
        (&["--duration", "3600"], "a link would carry up to 720000 Mbit"),
    ] {
        let output = suite(options);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{options:?}: {text}");
        assert!(text.contains(message) && text.trim_end().lines().count() == 1, "{options:?}: {text}");
    }
}
