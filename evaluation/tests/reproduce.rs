//! `anole-eval reproduce`: every experiment runs, its files are well-formed, and threads change nothing.

#![allow(clippy::disallowed_methods, reason = "tests of a binary read its files")]

mod support;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::agent;

fn reproduce(options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anole-eval"));
    command.arg("reproduce").args(options).output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The experiments that are part of `all`: those before the empty line.
fn ids() -> Vec<String> {
    let list = text(&reproduce(&["--list"]));
    list.lines()
        .take_while(|line| !line.is_empty())
        .map(|line| line.split_whitespace().next().unwrap().to_string())
        .collect()
}

/// The fields of a line of CSV; a quoted one may hold commas.
fn fields(line: &str) -> usize {
    let mut quoted = false;
    1 + line
        .chars()
        .filter(|&c| {
            quoted ^= c == '"';
            c == ',' && !quoted
        })
        .count()
}

fn check_csv(path: &Path) {
    let text = std::fs::read_to_string(path).unwrap();
    let columns = fields(text.lines().next().unwrap());
    assert!(text.lines().count() > 1, "{} is empty", path.display());
    for line in text.lines() {
        assert_eq!(fields(line), columns, "{}: {line}", path.display());
    }
}

/// Every link of every page leads somewhere, and every page says that these are quick checks.
fn check_site(folder: &Path) {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let pages = entries.filter(|path| path.extension().is_some_and(|extension| extension == "html"));
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    let pages: BTreeMap<String, String> =
        pages.map(|path| (path.file_name().unwrap().to_str().unwrap().to_string(), read(&path))).collect();
    for name in [
        "index.html",
        "paper-study.html",
        "algorithm-c-libra.html",
        "scenario-dumbbell.html",
        "scenario-random-links.html",
    ] {
        assert!(pages.contains_key(name), "{name}: {:?}", pages.keys());
    }
    assert!(pages["algorithm-orca.html"].contains("orca, trained here"));
    assert!(pages["anole-random.html"].contains("<span class=\"tag\">never-seen</span>"));
    assert!(pages["anole-fig5.html"].contains("<span class=\"tag\">tuned-on</span>"));
    let after = |text: &str, attribute: &str| -> Vec<String> {
        text.split(attribute).skip(1).map(|rest| rest.split('"').next().unwrap().to_string()).collect()
    };
    let ids: BTreeMap<&str, BTreeSet<String>> = pages
        .iter()
        .map(|(name, text)| (name.as_str(), after(text, "id=\"").into_iter().collect()))
        .collect();
    for (name, text) in &pages {
        assert!(text.contains("<b>quick</b>") && !text.contains("NaN"), "{name}");
        for link in after(text, "href=\"") {
            let (file, fragment) = link.split_once('#').unwrap_or((&link, ""));
            let file = if file.is_empty() { name.as_str() } else { file };
            if fragment.is_empty() {
                assert!(folder.join(file).exists(), "{name}: {link}");
            } else {
                assert!(ids[file].contains(fragment), "{name}: {link}");
            }
        }
    }
}

#[test]
fn every_experiment_runs_and_writes_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let lines = text(&reproduce(&["all", "--quick", "--json", "--out", out]));
    let figures: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let page = std::fs::read_to_string(folder.path().join("report.md")).unwrap();
    assert!(page.contains("a quick check and no result"), "{page}");
    for id in ids() {
        let of_id: Vec<_> = figures.iter().filter(|figure| figure["id"] == *id).collect();
        assert!(!of_id.is_empty(), "{id}");
        for figure in of_id {
            // Something was measured in every run of every figure.
            let runs = figure["runs"].as_u64().unwrap();
            assert!(figure["mean"].is_f64() && figure["deviation"].is_f64() == (runs > 1), "{figure}");
            assert!(runs >= 1, "{figure}");
        }
        assert!(page.contains(&format!("## {id}: ")) && page.contains(&format!("({id}.svg)")), "{id}");
        check_csv(&folder.path().join(format!("{id}.csv")));
        check_csv(&folder.path().join(format!("{id}-plot.csv")));
        let svg = std::fs::read_to_string(folder.path().join(format!("{id}.svg"))).unwrap();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && !svg.contains("NaN"), "{id}");
        let parquet = std::fs::read(folder.path().join(format!("{id}.parquet"))).unwrap();
        assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"), "{id}");
        // Without a font on this machine there is none.
        if let Ok(png) = std::fs::read(folder.path().join(format!("{id}.png"))) {
            assert!(png.starts_with(b"\x89PNG\r\n"), "{id}");
        }
    }
    check_site(folder.path());
    // A policy decides as often as it is told to.
    let inferences = |ms: u32| {
        let what = format!("inferences per second, static, spine, {ms} ms");
        figures.iter().find(|figure| figure["what"] == *what).unwrap()["mean"].as_f64().unwrap()
    };
    assert!(inferences(50) > 1.5 * inferences(200), "{} {}", inferences(50), inferences(200));
    let targets = figures.iter().filter(|figure| !figure["target"].is_null());
    for figure in targets {
        let verdict = figure["verdict"].as_str().unwrap();
        assert!(verdict == "met" || verdict.starts_with("missed by "), "{figure}");
    }
}

/// Finished runs are kept; one that is damaged, or not there, is made again. A page links to each.
#[test]
fn a_broken_off_reproduction_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let run = |seeds| text(&reproduce(&["libra-fig14", "--quick", "--seeds", seeds, "--json", "--out", out]));
    let files = || {
        let entries = std::fs::read_dir(folder.path().join("cells")).unwrap();
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    };
    let first = run("1");
    let kept = files();
    assert_eq!(kept.len(), 7);
    let read = |file: &Path| std::fs::read_to_string(file).unwrap();
    // Half-written, and with another throughput, which a figure then shows: it was not run again.
    let whole = read(&kept[0]);
    // It says what ran, and each what ran its own policy, if it has one.
    let parse = |file: &PathBuf| serde_json::from_str::<serde_json::Value>(&read(file)).unwrap();
    let backend = |alg: &str| {
        let mut runs = kept.iter().map(|file| parse(file)["run"].clone());
        runs.find(|run| run["alg"] == *alg).unwrap()["backend"].clone()
    };
    assert_eq!((backend("libra-rl"), backend("cubic")), ("embedded".into(), serde_json::Value::Null));
    let cell = parse(&kept[0]);
    assert_eq!(cell["run"]["set"][0], "bottleneck.capacity_mbps=48");
    assert_eq!(cell["run"]["set"][4], "duration_s=30");
    std::fs::write(&kept[0], &whole[..whole.len() / 2]).unwrap();
    assert_eq!(run("1"), first);
    assert_eq!(read(&kept[0]), whole);
    std::fs::remove_file(&kept[1]).unwrap();
    let written = |file: &Path| std::fs::metadata(file).unwrap().modified().unwrap();
    let before = written(&kept[2]);
    assert_eq!(run("1"), first);
    assert_eq!((files(), written(&kept[2])), (kept, before));
    run("2");
    assert_eq!(files().len(), 14);
    let page = read(&folder.path().join("libra-fig14.html"));
    for file in files() {
        let name = file.file_name().unwrap().to_str().unwrap().to_string();
        assert!(page.contains(&format!("href=\"cells/{name}\"")), "{name}");
    }
    assert!(page.contains("anole-eval reproduce libra-fig14 --seeds 2 --quick --only 1.SEED"), "{page}");
    assert!(read(&folder.path().join("index.html")).contains("href=\"libra-fig14.html\""));
    // One of them alone is the same run, and says so.
    let slots = ["--subject", "anole", "--policy", "delay-target", "--classic", "reno"];
    let other = text(&reproduce(
        &[&["libra-fig14", "--quick", "--seeds", "2", "--only", "1.2"][..], &slots].concat(),
    ));
    let other: serde_json::Value = serde_json::from_str(&other).unwrap();
    assert_eq!((&other["policy"], &other["classic"]), (&"delay-target".into(), &"reno".into()));
    let alone = text(&reproduce(&["libra-fig14", "--quick", "--seeds", "2", "--only", "1.2"]));
    let alone: serde_json::Value = serde_json::from_str(&alone).unwrap();
    let same = |file: &PathBuf| {
        let kept: serde_json::Value = serde_json::from_str(&read(file)).unwrap();
        kept["run"]["flows"] == alone["flows"] && kept["seed"] == 2
    };
    assert_eq!((alone["seed"].as_u64(), files().iter().filter(|file| same(file)).count()), (Some(2), 1));
}

/// The random suite draws a run's own seed: the page's number is the one that its command takes.
#[test]
fn a_run_on_a_random_link_is_the_one_that_its_page_leads_to() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["anole-random", "--alone", "--seeds", "2", "--quick"];
    text(&reproduce(&[&options[..], &["--json", "--out", folder.path().to_str().unwrap()]].concat()));
    let page = std::fs::read_to_string(folder.path().join("anole-random.html")).unwrap();
    let command = "anole-eval reproduce anole-random --seeds 2 --quick --alone --only 1.SEED";
    assert!(page.contains(command), "{page}");
    let links = page.split("<a href=\"cells/").skip(1).filter_map(|rest| rest.split_once("</a>"));
    let (file, seed) = links.map(|(link, _)| link.split_once("\">").unwrap()).nth(1).unwrap();
    let read = std::fs::read_to_string(folder.path().join("cells").join(file)).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&read).unwrap();
    let alone = text(&reproduce(&[&options[..], &["--only", &format!("1.{seed}")]].concat()));
    let alone: serde_json::Value = serde_json::from_str(&alone).unwrap();
    assert_eq!(seed, "2");
    assert_eq!((&alone["seed"], &alone["flows"]), (&kept["run"]["seed"], &kept["run"]["flows"]));
}

/// The script that talks to Ray, with a stand-in for it: the same cells and figures. tools/check-ray.sh has the real one.
#[test]
fn runs_on_a_cluster_are_the_same() {
    let python = |out: &Path, address: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anole-eval"));
        command.args(["reproduce", "libra-fig14", "--quick", "--seeds", "3", "--json", "--out"]).arg(out);
        command.args(["--ray", address]);
        command.env("PYTHONPATH", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/python"));
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command.output().unwrap()
    };
    let (alone, cluster) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let out = alone.path().to_str().unwrap();
    let figures = text(&reproduce(&["libra-fig14", "--quick", "--seeds", "3", "--json", "--out", out]));
    let failed = python(cluster.path(), "elsewhere");
    let error = String::from_utf8(failed.stderr).unwrap();
    assert!(failed.status.code() == Some(1) && error.contains("no cluster at elsewhere"), "{error}");
    let output = python(cluster.path(), "stand-in");
    assert_eq!(text(&output), figures);
    let error = String::from_utf8(output.stderr).unwrap();
    // Nothing was left to run here.
    assert!(error.contains("2 of 2 tasks") && !error.contains("an hour"), "{error}");
    let cells = |folder: &Path| {
        let names = std::fs::read_dir(folder.join("cells")).unwrap().map(|entry| entry.unwrap().file_name());
        names.collect::<BTreeSet<_>>()
    };
    assert_eq!(cells(alone.path()), cells(cluster.path()));
    assert_eq!(cells(alone.path()).len(), 21);
}

#[test]
fn a_sweep_has_a_curve_per_figure() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let lines = text(&reproduce(&["anole-sweep-mu", "--quick", "--out", out]));
    assert_eq!(lines.matches("mu = 0.2 ").count(), 3, "{lines}");
    let points = std::fs::read_to_string(folder.path().join("anole-sweep-mu-plot.csv")).unwrap();
    assert_eq!(points.lines().count(), 1 + 3 * 5, "{points}");
    assert!(!points.contains("NaN"), "{points}");
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let run = |jobs| {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().to_str().unwrap();
        let lines =
            text(&reproduce(&["anole-jitter", "anole-random", "--quick", "--jobs", jobs, "--out", out]));
        let file = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        (lines, file("report.md"), file("anole-random.csv"), file("anole-jitter.svg"))
    };
    assert_eq!(run("1"), run("3"));
}

#[test]
fn slots_and_parameters_of_the_tested_algorithm_can_be_changed() {
    let lines = |options: &[&str]| text(&reproduce(&[&["anole-jitter", "--quick"], options].concat()));
    assert_ne!(lines(&[]), lines(&["--policy", "fault:low", "--classic", "reno"]));
    assert_ne!(lines(&[]), lines(&["--param", "beta=100"]));
    let (one, two) = (lines(&["--seeds", "1"]), lines(&["--seeds", "2"]));
    // One run has no deviation.
    assert!(!one.contains('±') && two.contains(" ± ") && one != two, "{one}");
}

#[test]
fn any_algorithm_can_be_the_subject() {
    let lines = text(&reproduce(&["libra-fig14", "--subject", "copa", "--quick", "--seeds", "1"]));
    assert!(
        lines.contains("Jain, copa") && lines.contains("Jain, cubic") && !lines.contains("c-libra"),
        "{lines}"
    );
    // A peer that is the subject runs once.
    let lines = text(&reproduce(&["libra-fig14", "--subject", "cubic", "--quick", "--seeds", "1"]));
    assert_eq!(lines.matches("Jain, cubic").count(), 1, "{lines}");
}

const OWN: &str = r#"
title = "shallow buffers"
source = "mine"
about = "One flow."
family = "mine"
subject = "copa"
seeds = [2, 1]
contenders = ["subject", "reno"]

[axes]
bdp = [0.1, 0.5]

[[setting]]
name = "{bdp} BDP"
for = ["bdp"]
scenario = "link.toml"
set = ["bottleneck.buffer_bdp={bdp}"]

[[figure]]
what = "utilisation over Reno's, {bdp} BDP"
for = ["bdp"]
setting = "{bdp} BDP"
measure = "utilization"
per = { contenders = ["reno"] }
target = { at_least = 1.0 }

[[panel]]
kind = "lines"
title = "Utilisation"
x = "buffer (BDP)"
y = "utilisation"
measure = "utilization"
along = "bdp"
setting = "{bdp} BDP"
"#;

/// A researcher's own, with a scenario and a trace of theirs beside it.
#[test]
fn an_experiment_of_ones_own_is_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let link = "name = \"mine\"\nduration_s = 3.0\n[[link]]\nname = \"bottleneck\"\ntrace = \"steady.down\"\n\
                one_way_delay_ms = 10.0\nbuffer_bdp = 1.0\n[[flow]]\nalg = \"cubic\"\nunder_test = true\n";
    std::fs::write(at("steady.down"), "1\n2\n3\n").unwrap();
    std::fs::write(at("link.toml"), link).unwrap();
    std::fs::write(at("mine.toml"), OWN).unwrap();
    let file = at("mine.toml").display().to_string();
    let lines = text(&reproduce(&[&file]));
    assert_eq!(
        lines.lines().filter(|line| line.starts_with("mine  utilisation over Reno's")).count(),
        2,
        "{lines}"
    );
    // One that draws nothing has its tables nevertheless.
    let (figures, _panels) = OWN.split_once("[[panel]]").unwrap();
    std::fs::write(at("mine.toml"), figures).unwrap();
    let out = at("out");
    assert_eq!(text(&reproduce(&[&file, "--out", out.to_str().unwrap()])), lines);
    check_csv(&out.join("mine.csv"));
    // A policy's file is beside the experiment's.
    let elsewhere = "\"reno\", { label = \"x\", alg = \"libra-rl\", policy = \"gone.safetensors\" }]";
    std::fs::write(at("mine.toml"), OWN.replacen("\"reno\"]", elsewhere, 1)).unwrap();
    let output = reproduce(&[&file]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains(&at("gone.safetensors").display().to_string()), "{error}");
    // The subject runs, by whatever name it stands among the contenders.
    std::fs::write(at("mine.toml"), OWN.replacen("\"subject\"", "\"copa\"", 1)).unwrap();
    assert_eq!(text(&reproduce(&[&file])), lines);
    // A figure of each has those that run in its setting: three, and two.
    let elsewhere = "\"reno\", { label = \"x\", alg = \"vegas\", settings = [\"0.1 BDP\"] }]";
    let each = OWN.replacen("\"reno\"]", elsewhere, 1).replacen(
        "\"utilization\"\n",
        "\"utilization\"\ncontender = \"each\"\n",
        1,
    );
    std::fs::write(at("mine.toml"), each).unwrap();
    assert_eq!(text(&reproduce(&[&file])).lines().count(), 5);
    for (from, to, hint) in [
        ("\"utilization\"", "\"utilisation\"", "unknown variant `utilisation`"),
        ("{bdp} BDP\"\nmeasure", "{bpd} BDP\"\nmeasure", "{bpd} is not known here"),
        ("for = [\"bdp\"]", "for = [\"dbp\"]", "no such axis; there are bdp"),
        ("title = \"shallow", "titel = \"shallow", "unknown field `titel`"),
        ("link.toml", "none.toml", "none.toml"),
        (
            "for = [\"bdp\"]",
            "for = [\"bdp\", \"bdp\", \"bdp\", \"bdp\", \"bdp\", \"bdp\", \"bdp\", \"bdp\", \"bdp\", \"bdp\", \"bdp\", \"bdp\", \"bdp\", \"bdp\"]",
            "16384 combinations of axes; at most 10000",
        ),
        ("seeds = [2, 1]", "seeds = [0, 1]", "seeds = [0, 1]: give two numbers from 1 to 10000"),
        (
            "per = { contenders = [\"reno\"] }",
            "per = { contenders = [\"renno\"] }",
            "no contender \"renno\" in 0.1 BDP",
        ),
        (
            "measure = \"utilization\"\nper",
            "contender = \"vegas\"\nmeasure = \"utilization\"\nper",
            "no such contender there",
        ),
        ("scenario = \"link.toml\"", "suite = true", "the random suite has none"),
        (
            "\"reno\"]\n",
            "\"reno\", { label = \"x\", settings = [\"0.2 BDP\"] }]\n",
            "contender \"x\": no setting \"0.2 BDP\"; there are 0.1 BDP, 0.5 BDP",
        ),
        // Of two cells of one name a figure would be read off the first.
        ("name = \"{bdp} BDP\"", "name = \"BDP\"", "is in setting \"BDP\" twice"),
        ("\"reno\"]", "\"reno\", \"reno\"]", "contender \"reno\" is in setting \"0.1 BDP\" twice"),
    ] {
        std::fs::write(at("mine.toml"), OWN.replacen(from, to, 1)).unwrap();
        let output = reproduce(&[&file]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && error.contains(hint), "{from}: {error}");
    }
}

/// A node of a cluster has the same files in the same places, but another working folder.
#[test]
fn runs_of_ones_own_experiment_are_found_from_another_folder() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let link = "name = \"mine\"\nduration_s = 1.0\n[[link]]\nname = \"bottleneck\"\ncapacity_mbps = 5.0\n\
                one_way_delay_ms = 10.0\nbuffer_bdp = 1.0\n[[flow]]\nalg = \"cubic\"\nunder_test = true\n";
    std::fs::write(at("link.toml"), link).unwrap();
    std::fs::write(at("mine.toml"), OWN).unwrap();
    let policy = include_bytes!("../../policies/shipped/libra-rl.safetensors");
    std::fs::write(at("mine.safetensors"), policy).unwrap();
    let cells = |from: &Path, file: &Path, policy: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anole-eval"));
        command.current_dir(from).arg("reproduce").arg(file).args([
            "--quick",
            "--subject",
            "libra-rl",
            "--policy",
        ]);
        text(&command.arg(policy).arg("--out").arg(at("out")).output().unwrap());
        std::fs::read_dir(at("out/cells")).unwrap().count()
    };
    assert_eq!(cells(folder.path(), Path::new("mine.toml"), Path::new("mine.safetensors")), 4);
    assert_eq!(cells(Path::new("/"), &at("mine.toml"), &at("mine.safetensors")), 4);
}

/// Its page says what runs it again, and its files are where the page says, whatever its file is called.
#[test]
fn the_page_of_ones_own_experiment_leads_to_its_files_and_runs_again() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let own = OWN
        .replace("link.toml", "dumbbell")
        .replace("[[figure]]", "quick = [\"duration_s=1\"]\n\n[[figure]]");
    std::fs::write(at("my link.toml"), &own).unwrap();
    let (file, out) = (at("my link.toml").display().to_string(), at("out"));
    text(&reproduce(&[&file, "--quick", "--out", out.to_str().unwrap()]));
    let page = std::fs::read_to_string(out.join("my-link.html")).unwrap();
    let again = format!("anole-eval reproduce &#39;{file}&#39; --quick").replace("&#39;", "'");
    assert!(page.contains(&again) && page.contains(&format!("{again} --only 1.SEED")), "{again}\n{page}");
    for link in page.split("href=\"").skip(1).filter_map(|rest| rest.split(['"', '#']).next()) {
        assert!(out.join(link).exists(), "{link}");
    }
    // Every page and cell says what made it.
    let version = text(&Command::new(env!("CARGO_BIN_EXE_anole-eval")).arg("--version").output().unwrap());
    let version = version.trim().strip_prefix("anole-eval ").unwrap();
    assert!(page.contains(version), "{version}");
    let cells = std::fs::read_dir(out.join("cells")).unwrap();
    let cells: Vec<String> =
        cells.map(|cell| std::fs::read_to_string(cell.unwrap().path()).unwrap()).collect();
    assert_eq!(cells.len(), 4);
    assert!(cells.iter().all(|cell| cell.contains(&format!("\"version\":\"{version}\""))), "{}", cells[0]);
    // Two of one name would write the same files.
    std::fs::create_dir(at("other")).unwrap();
    std::fs::write(at("other/my-link.toml"), &own).unwrap();
    let other = at("other/my-link.toml").display().to_string();
    let output = reproduce(&[&file, &other, "--quick"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && error.contains("rename"), "{error}");
}

#[test]
fn the_same_figures_are_read_off_real_packets() {
    let folder = tempfile::tempdir().unwrap();
    let (out, agent) = (folder.path().to_str().unwrap(), agent());
    let real = ["--datapath", "quic", "--agent-binary", agent.to_str().unwrap()];
    let options = ["anole-fig12", "--quick", "--seeds", "1", "--json", "--out", out];
    let output = reproduce(&[&options[..], &real].concat());
    let lines = text(&output);
    assert!(String::from_utf8_lossy(&output.stderr).contains("in real time, about 20 s"), "{output:?}");
    let figures: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(figures.len(), 4);
    for figure in figures {
        assert!(figure["mean"].is_f64() && figure["mode"] == "quic" && figure["runs"] == 1, "{figure}");
    }
    // Anole alone: one run of each of four links.
    let runs = std::fs::read_to_string(folder.path().join("anole-fig12.csv")).unwrap();
    assert_eq!(runs.lines().count(), 5, "{runs}");
    check_csv(&folder.path().join("anole-fig12-plot.csv"));
    let page = std::fs::read_to_string(folder.path().join("report.md")).unwrap();
    assert!(page.contains("over QUIC, in real time, seeds 1 to 1"), "{page}");
    assert!(page.contains("load average of the last minute: "), "{page}");
    assert!(!folder.path().join("anole-fig12-partial.csv").exists());
}

#[test]
fn runs_in_real_time_are_kept_when_the_rest_is_broken_off() {
    let folder = tempfile::tempdir().unwrap();
    let agent = agent();
    let mut run = Command::new(env!("CARGO_BIN_EXE_anole-eval"))
        .args(["reproduce", "anole-fig12", "--quick", "--datapath", "quic", "--agent-binary"])
        .args([agent.as_path(), Path::new("--out"), folder.path()])
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let kept = folder.path().join("anole-fig12-partial.csv");
    let until = Instant::now() + Duration::from_secs(60);
    while !kept.exists() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    // As Ctrl-C does: the agent hears it as well.
    killpg(Pid::from_raw(run.id() as i32), Signal::SIGINT).unwrap();
    assert!(!run.wait().unwrap().success());
    check_csv(&kept);
    assert!(!folder.path().join("anole-fig12.csv").exists());
}

/// What a figure compares with runs whatever is left out.
#[test]
fn without_peers_no_figure_lacks_its_reference() {
    let figures = text(&reproduce(&["anole-jitter", "libra-fig9", "--quick", "--alone", "--json"]));
    let of = |id: &str| {
        let all = figures.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        all.filter(|figure| figure["id"] == id).collect::<Vec<_>>()
    };
    assert_eq!([of("anole-jitter").len(), of("libra-fig9").len()], [6, 10]);
    for figure in [of("anole-jitter"), of("libra-fig9")].concat() {
        assert!(figure["mean"].is_f64(), "{figure}");
    }
    let cubics = |id: &str| text(&reproduce(&[id, "--quick", "--alone", "--only", "2.1"]));
    assert!(cubics("libra-fig9").contains("\"alg\":\"b-libra\""));
    assert!(cubics("anole-jitter").contains("\"alg\":\"anole\""));
}

#[test]
fn what_makes_no_sense_is_refused_in_a_line() {
    let refused = |options: &[&str]| {
        let output = reproduce(options);
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(output.stdout.is_empty());
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    };
    assert!(refused(&["anole-fig4"]).contains("no experiment \"anole-fig4\"; did you mean anole-fig"));
    for (option, message) in [
        (["--policy", "librra"], "unknown policy \"librra\""),
        (["--classic", "qubic"], "unknown rule-based candidate \"qubic\""),
        (
            ["--param", "betta=1"],
            ": param.betta of anole (see `anole-ccp algs`): unknown parameter \"betta\"",
        ),
        (["--param", "beta=x"], "--param beta=x: \"x\" is not a number"),
        (["--param", "beta"], "--param beta: expected NAME=VALUE"),
        (["--param", "param.beta=1"], "--param param.beta=1: expected NAME=VALUE"),
    ] {
        let text = refused(&[&["anole-jitter", "--quick"][..], &option].concat());
        assert!(text.contains(message), "{text}");
    }
    for (options, message) in [
        (&["anole-extremes", "--datapath", "quic"][..], "can't run with these packets: 10 Gbps"),
        (&["anole-fig5", "--datapath", "quic", "--jobs", "2"], "--jobs"),
        (&["anole-fig5", "--peers"], "--datapath quic"),
        (&["anole-fig5", "--emulator", "mahimahi"], "--emulator"),
        (
            &["anole-fig10", "--datapath", "quic", "--emulator", "mahimahi"],
            "Mahimahi cannot do what [[change]]",
        ),
        (&["anole-fig5", "anole-fig7", "--only", "1.1"], "name one"),
        (&["anole-fig5", "--only", "99.1"], "--only 99.1: anole-fig5 has cells 1 to 21"),
        (
            &["anole-fig5", "--only", "1.11"],
            "--only 1.11: anole-fig5 has seeds 1 to 10; for more, give --seeds",
        ),
    ] {
        let text = refused(options);
        assert!(text.contains(message), "{text}");
    }
    // All that was asked for are about parameters that this algorithm has not.
    let output = reproduce(&["sweeps", "--subject", "copa"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("anole-sweep-fill is left out: ") && text.contains("nothing is left"), "{text}");
    // clap's own message: more than a line.
    assert_eq!(reproduce(&[]).status.code(), Some(2));
}
