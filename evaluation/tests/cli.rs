//! What a user meets on the command line: results, exit codes, messages.

#![allow(clippy::disallowed_methods, reason = "tests of a binary read its files")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const SCENARIO: &str = r#"name = "small"
duration_s = 2.0
[[link]]
name = "bottleneck"
capacity_mbps = 12.0
one_way_delay_ms = 10.0
buffer_bdp = 1.0
random_loss = 0.01
[[flow]]
alg = "cubic"
under_test = true
"#;

struct Files(tempfile::TempDir);

impl Files {
    fn new(scenario: &str) -> Files {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("small.toml"), scenario).unwrap();
        Files(folder)
    }
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
    fn sim(&self, options: &[&str]) -> Output {
        sim(&self.path("small.toml"), options).output().unwrap()
    }
}

fn sim(file: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anole-eval"));
    command.arg("sim").arg(file).args(options);
    command
}

/// Standard error of a command that must fail with `code`, in one line of its own.
fn refusal(output: &Output, code: i32) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert_eq!(text.trim_end().lines().count(), 1, "{text}");
    assert!(output.stdout.is_empty());
    text
}

fn lines(output: &Output) -> Vec<serde_json::Value> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines()
        .map(|line| {
            let mut value: serde_json::Value = serde_json::from_str(line).unwrap();
            value["wall_s"] = 0.into();
            value
        })
        .collect()
}

#[test]
fn a_table_tells_of_flows_that_never_ran() {
    let files = Files::new(SCENARIO);
    let output = files.sim(&["--seed", "2", "--set", "flow.count=3", "--set", "flow.arrivals_per_s=0.001"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("cubic: seed 2, 3 of 3 flows never ran: they would start after"), "{text}");
}

#[test]
fn runs_come_in_order_and_are_the_same_however_many_at_once() {
    let files = Files::new(SCENARIO);
    let options = ["--alg", "cubic,reno", "--runs", "3", "--seed", "5", "--json"];
    let one = lines(&files.sim(&[&options[..], &["--jobs", "1"]].concat()));
    let many = lines(&files.sim(&[&options[..], &["--jobs", "3"]].concat()));
    assert_eq!(one, many);
    let order: Vec<(&str, u64)> =
        one.iter().map(|run| (run["alg"].as_str().unwrap(), run["seed"].as_u64().unwrap())).collect();
    assert_eq!(order, [("cubic", 5), ("cubic", 6), ("cubic", 7), ("reno", 5), ("reno", 6), ("reno", 7)]);
}

#[test]
fn set_changes_the_scenario() {
    let files = Files::new(SCENARIO);
    let options =
        ["--set", "bottleneck.random_loss=0", "--set", "flow.count=2", "--set", "duration_s=4", "--json"];
    let run = &lines(&files.sim(&options))[0];
    assert_eq!(run["flows"].as_array().unwrap().len(), 2);
    assert_eq!(run["flows"][0]["stop_s"], 4.0);
}

#[test]
fn a_table_is_for_people() {
    let output = Files::new(SCENARIO).sim(&["--runs", "2"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("throughput Mbps")
            && text.contains("cubic")
            && text.contains("± standard deviations of 2 runs"),
        "{text}"
    );
}

#[test]
fn a_scenario_has_a_name_and_runs_that_are_alike_are_told() {
    let files = Files::new(SCENARIO);
    let options = ["--set", "duration_s=2", "--alg", "cubic", "--runs", "2", "--plot", "--out"];
    let out = files.path("pictures");
    let output = sim(Path::new("anole-normal"), &options).arg(&out).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("all runs of cubic are alike"), "{said}");
    let picture = std::fs::read_to_string(out.join("anole-normal-sim-cubic-duration_s-2-1.svg")).unwrap();
    for panel in ["throughput", "Round-trip time", "Congestion window", "Queue", "Losses"] {
        assert!(picture.contains(panel), "{panel}");
    }
    assert!(!picture.contains("NaN"));
    let random = String::from_utf8_lossy(&files.sim(&["--runs", "2"]).stderr).into_owned();
    assert!(!random.contains("alike"), "{random}");
    let refused = refusal(&sim(Path::new("anole-norml"), &[]).output().unwrap(), 2);
    assert!(refused.contains("did you mean anole-normal?"), "{refused}");
}

#[test]
fn files_hold_what_is_printed() {
    let files = Files::new(SCENARIO);
    let out = files.path("results");
    let printed = lines(&files.sim(&["--json", "--out", out.to_str().unwrap()]));
    let mut written: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(out.join("small-sim-cubic-1.json")).unwrap()).unwrap();
    written["wall_s"] = 0.into();
    assert_eq!(printed[0], written);
    let options = ["--out", out.to_str().unwrap(), "--alg", "anole", "--policy", "fault:low"];
    let set = ["--set", "bottleneck.random_loss=0"];
    assert!(files.sim(&[&options[..], &set].concat()).status.success());
    let name = "small-sim-anole-fault-low-bottleneck.random_loss-0-1.json";
    let written: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(out.join(name)).unwrap()).unwrap();
    assert_eq!((written["policy"].as_str(), written["classic"].as_str()), (Some("fault:low"), None));
    assert_eq!(written["set"][0], "bottleneck.random_loss=0");
}

#[test]
fn a_run_with_many_options_still_has_a_file() {
    let files = Files::new(SCENARIO);
    let out = files.path("results");
    let set = ["--set", "bottleneck.random_loss=0.0001"].repeat(20);
    for last in ["bottleneck.random_loss=0.1", "bottleneck.random_loss=0.2"] {
        let options = [&["--out", out.to_str().unwrap()], &set[..], &["--set", last]].concat();
        assert!(files.sim(&options).status.success());
    }
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 2);
    // Values, and scenarios of long names, that differ in little.
    let capacity = ["bottleneck.capacity_mbps=1e+1", "bottleneck.capacity_mbps=1e-1"];
    let named = ["a", "b"].map(|last| format!("name=\"{}{last}\"", "long ".repeat(20)));
    for set in capacity.into_iter().chain(named.iter().map(String::as_str)) {
        assert!(files.sim(&["--out", out.to_str().unwrap(), "--set", set]).status.success());
    }
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 6);
}

#[test]
fn what_makes_no_sense_ends_with_2_and_one_message() {
    let files = Files::new(SCENARIO);
    let cases: [(&[&str], &str); 17] = [
        (&["--alg", "cubix"], "--alg: unknown algorithm \"cubix\"; did you mean cubic?"),
        (&["--alg", "anole", "--classic", "cubc"], "--classic: unknown rule-based candidate \"cubc\""),
        (
            &["--alg", "cubic", "--classic", "reno"],
            "--classic: cubic takes no rule-based candidate (\"reno\"); leave it",
        ),
        (
            &["--alg", "cubic", "--policy", "libra"],
            "--policy: cubic takes no policy (\"libra\"); leave it out, or run",
        ),
        (&["--alg", "cubic,bbr", "--policy", "libra"], "--policy: cubic takes no policy"),
        (&["--alg", "anole", "--policy", "fault:nam"], "--policy: unknown policy \"fault:nam\""),
        (&["--set", "flow.alg=\"cubix\""], "small.toml, with --set: unknown algorithm \"cubix\""),
        (&["--alg", "quic:cubic"], "`anole-eval emulate` only"),
        (&["--alg", "linux:bbr"], "Here, use the name without \"linux:\""),
        (&["--set", "bottleneck.capacity_mbps=0"], "capacity_mbps = 0 is outside"),
        (&["--set", "bottlenec.capacity_mbps=1"], "no link \"bottlenec\""),
        (&["--set", "flow.path=[\"gone\"]"], "no link is named \"gone\""),
        (&["--set", "flow.start_s=9"], "raise stop_s or duration_s"),
        (
            &["--alg", "anole,cubic", "--set", "param.mu=0.3"],
            "param.mu of cubic (see `anole-ccp algs`): unknown parameter \"mu\"",
        ),
        (&["--set", "bottleneck.lte=5"], "expected a table such as { mean_mbps = 12.0 }"),
        (&["--set", "bottleneck.reorder=1"], "expected a table such as { share = 0.01, by_ms = 5.0 }"),
        (&["--set", "bottleneck.burst_loss=1"], "expected a table such as { enter = 0.001, leave = 0.1 }"),
    ];
    for (options, expected) in cases {
        let message = refusal(&files.sim(options), 2);
        assert!(message.contains(expected), "{options:?}: {message}");
    }
    let message = refusal(&sim(&files.path("gone.toml"), &[]).output().unwrap(), 2);
    assert!(message.contains("cannot read the scenario") && message.contains("gone.toml"), "{message}");
    let wrong = Files::new(&SCENARIO.replace("random_loss", "random_los"));
    let message = refusal(&wrong.sim(&[]), 2);
    assert!(message.contains("small.toml:8: unknown field `random_los`"), "{message}");
    let nobody = Files::new(&SCENARIO.replace("\"cubic\"", "\"cubix\""));
    let message = refusal(&nobody.sim(&[]), 2);
    assert!(message.contains("small.toml:10: unknown algorithm \"cubix\"; did you mean cubic?"), "{message}");
    let untested = Files::new(&SCENARIO.replace("under_test = true", ""));
    assert!(refusal(&untested.sim(&["--alg", "reno"]), 2).contains("no flow under test"));
    let traced = Files::new(&SCENARIO.replace("capacity_mbps = 12.0", "trace = \"gone.trace\""));
    assert!(refusal(&traced.sim(&[]), 2).contains("small.toml:5: trace \"gone.trace\""));
}

#[test]
fn an_unknown_option_ends_with_2() {
    assert_eq!(Files::new(SCENARIO).sim(&["--no-such"]).status.code(), Some(2));
}

#[test]
fn what_cannot_be_written_ends_with_1() {
    let files = Files::new(SCENARIO);
    let not_a_folder = files.path("small.toml");
    let message = refusal(&files.sim(&["--out", not_a_folder.to_str().unwrap()]), 1);
    assert!(message.contains("check that --out names a directory"), "{message}");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = sim(&files.path("small.toml"), &["--json"]).stdout(Stdio::from(full)).output().unwrap();
    assert!(refusal(&output, 1).contains("cannot write to standard output"));
}

#[test]
fn every_scenario_in_the_tree_runs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_some_and(|e| e == "toml") {
            let name = file.file_stem().unwrap().to_str().unwrap().to_string();
            let run = &lines(&sim(&file, &["--alg", "native", "--json"]).output().unwrap())[0];
            assert_eq!(run["scenario"], name.as_str());
            count += 1;
        }
    }
    assert!(count >= 8);
}

#[test]
fn what_would_be_ignored_or_run_for_nothing_is_refused() {
    let files = Files::new(SCENARIO);
    for (options, message) in [
        (&["--alg", "cubic,reno,cubic"][..], "--alg names cubic twice"),
        (
            &["--backend", "torch"],
            "--backend torch: no flow here runs a trained policy; name one with --policy",
        ),
        (&["--set", "bottleneck.buffer_bdp=0"], "a buffer of 0: nothing could wait"),
    ] {
        let told = refusal(&files.sim(options), 2);
        assert!(told.contains(message), "{options:?}: {told}");
    }
    // A sparse file takes no room on the disk.
    let large = std::fs::File::create(files.path("small.toml")).unwrap();
    large.set_len(4 << 30).unwrap();
    let told = refusal(&files.sim(&[]), 2);
    assert!(told.contains("small.toml: it has more than 1 MiB"), "{told}");
    std::fs::write(files.path("small.toml"), SCENARIO.replace("capacity_mbps = 12.0", "trace = \"t\""))
        .unwrap();
    std::fs::File::create(files.path("t")).unwrap().set_len(4 << 30).unwrap();
    let told = refusal(&files.sim(&[]), 2);
    assert!(told.contains("small.toml:5: trace \"t\": it has more than 256 MiB"), "{told}");
}

#[test]
fn a_flow_of_anole_explains_itself_step_by_step() {
    let files = Files::new(&SCENARIO.replace("cubic", "anole"));
    let out = files.path("out");
    let output = files.sim(&["--explain", "--out", out.to_str().unwrap(), "--json"]);
    let decisions = lines(&output)[0]["flows"][0]["decisions"].as_u64().unwrap();
    let read = |end: &str| {
        let all = std::fs::read_dir(&out).unwrap().map(|file| file.unwrap().path());
        let named: Vec<PathBuf> = all.filter(|path| path.to_str().unwrap().ends_with(end)).collect();
        assert_eq!(named.len(), 1, "{end}");
        std::fs::read_to_string(&named[0]).unwrap()
    };
    let table = read("-flow1-explained.csv");
    let mut rows = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = rows.next().unwrap();
    let column = |name: &str| head.iter().position(|column| *column == name).unwrap();
    let rows: Vec<Vec<&str>> = rows.collect();
    assert!(rows.iter().all(|row| row.len() == head.len()));
    let evaluated = rows.iter().filter(|row| !row[column("rule_utility")].is_empty());
    let evaluated: Vec<_> = evaluated.collect();
    assert!(!evaluated.is_empty() && evaluated.len() as u64 <= decisions, "{decisions}");
    for row in evaluated {
        assert!(row[column("rule_rate_mbps")].parse::<f64>().unwrap() > 0.0);
        assert!(["", "I", "II", "III", "IV"].contains(&row[column("situation")]));
    }
    let picture = read("-flow1-explained.svg");
    assert!(picture.starts_with("<svg") && picture.matches("class=\"ap-axis\"").count() == 4);
    // Flows have the numbers of the table and of --plot.
    assert!(picture.contains("anole of flow 1<"));
    let part = ["--explain", "--explain-span", "0.1:0.5", "--out", out.to_str().unwrap()];
    assert!(files.sim(&part).status.success());
    let part = read("-flow1-explained.svg");
    assert!(part.starts_with("<svg") && part.contains("time since 0.1 s") && !part.contains("NaN"));
    assert_eq!(read("-flow1-explained.csv"), table);
    for (options, message) in [
        (&["--explain"][..], "--out"),
        (&["--explain-span", "2:1"], "FROM:TO"),
        (&["--explain-span", "1:2"], "--explain"),
        (
            &["--explain", "--out", "out", "--explain-span", "40:50"],
            "--explain-span 40:50 begins after the run of",
        ),
    ] {
        let refused = files.sim(options);
        assert_eq!(refused.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&refused.stderr).contains(message));
    }
}

#[test]
fn the_program_behaves_as_the_others_do() {
    anole_testing::command_line("anole-eval", env!("CARGO_BIN_EXE_anole-eval"));
}

#[test]
fn a_trace_is_fitted_made_again_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let program = env!("CARGO_BIN_EXE_anole-eval");
        std::process::Command::new(program)
            .arg("trace")
            .args(args)
            .current_dir(folder.path())
            .output()
            .unwrap()
    };
    let ok = |args: &[&str]| {
        let output = run(args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    ok(&["make", "cellular", "--seed", "2", "--duration-s", "60", "--out", "a.down"]);
    let model = ok(&["fit", "a.down"]);
    assert!(model.starts_with("# 60.0 s, ") && model.contains("kind = \"cellular\""), "{model}");
    std::fs::write(folder.path().join("m.toml"), &model).unwrap();
    ok(&["make", "m.toml", "--out", "b.down"]);
    let json: serde_json::Value = serde_json::from_str(&ok(&["fit", "b.down", "--json"])).unwrap();
    assert!(
        json["statistics"]["mean_mbps"].as_f64().unwrap() > 1.0 && json["model"]["burst"].is_f64(),
        "{json}"
    );
    ok(&["show", "a.down", "b.down", "--out", "both.svg"]);
    assert!(std::fs::read_to_string(folder.path().join("both.svg")).unwrap().contains("b.down"));
    std::fs::write(folder.path().join("odd.toml"), model.replace("burst", "brust")).unwrap();
    std::fs::write(folder.path().join("odd.down"), "1\nx\n").unwrap();
    let days = "kind = 'leo'\nduration_s = 86400.0\nmean_mbps = 10.0\nhandover_every_s = 1.0\nhandover_s = 0.1\n\
                capacity = [0.4, 1.6]\none_way_delay_ms = [15.0, 45.0]\n";
    std::fs::write(folder.path().join("days.toml"), days).unwrap();
    for (args, hint) in [
        (&["make", "cell", "--out", "c.down"][..], "cellular, wifi, leo"),
        (&["make", "odd.toml", "--out", "c.down"], "brust"),
        (&["make", "cellular", "--duration-s", "-1", "--out", "c.down"], "duration_s = -1"),
        (&["make", "days.toml", "--out", "c.toml"], "c.toml would have"),
        (&["fit", "odd.down"], "odd.down: line 2"),
        (&["fit", "none.down"], "none.down"),
    ] {
        let output = run(args);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && error.contains(hint), "{args:?}: {error}");
    }
}

#[test]
fn a_result_tells_of_its_own_run_whatever_else_the_scenario_or_the_command_names() {
    let files = Files::new(&SCENARIO.replace("alg = \"cubic\"", "alg = \"anole\"\npolicy = \"none\""));
    let told = |algs: &str| {
        let runs = lines(&files.sim(&["--alg", algs, "--json"])).into_iter();
        runs.map(|run| (run["policy"].clone(), run["backend"].clone())).collect::<Vec<_>>()
    };
    let none = || serde_json::Value::Null;
    // Orca has its own policy, and not Anole's.
    assert_eq!(told("orca,cubic"), [(none(), "embedded".into()), (none(), none())]);
    assert_eq!(told("anole"), [("none".into(), none())]);
}
