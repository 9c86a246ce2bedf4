//! The program: what it prints, and what it refuses.

#![allow(clippy::disallowed_methods, reason = "a test reads and writes files")]

use anole_policies::file::{Origin, PolicyFile, Tensor};
use anole_policies::schema::builtin;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn run(folder: &Path, arguments: &[&str]) -> (bool, String, String) {
    let program = env!("CARGO_BIN_EXE_anole-policy");
    let Output { status, stdout, stderr } =
        Command::new(program).args(arguments).current_dir(folder).output().unwrap();
    (status.success(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn policy() -> Vec<u8> {
    let schema = builtin("aurora").unwrap();
    let tensors = schema.tensors().into_iter().map(|(name, shape)| {
        let values = vec![0.5; shape.iter().product()];
        (name, Tensor { shape, values })
    });
    let mut origin = Origin { seed: Some(3), trained_by: "a test".to_string(), ..Origin::default() };
    origin.training.insert("rtt_ms".to_string(), [10, 200].as_slice().into());
    PolicyFile::write(schema, origin, &tensors.collect())
}

#[test]
fn a_policy_file_is_shown_and_a_damaged_one_refused() {
    let folder = tempfile::tempdir().unwrap();
    let good = policy();
    fs::write(folder.path().join("good.safetensors"), &good).unwrap();
    fs::write(folder.path().join("bad.safetensors"), &good[..good.len() - 1]).unwrap();

    let (ok, out, _) = run(folder.path(), &["show", "good.safetensors"]);
    assert!(ok);
    for line in [
        "aurora, action rate-step, 30 inputs, 1537 weights",
        "made by     a test",
        "seed        3",
        "  rtt_ms               [10,200]",
        "  layers.1.weight          [16, 32]",
    ] {
        assert!(out.lines().any(|printed| printed == line), "{line}\nin\n{out}");
    }

    let (ok, out, error) = run(folder.path(), &["check", "good.safetensors", "bad.safetensors"]);
    assert!(!ok);
    assert_eq!(out, "good.safetensors: aurora, action rate-step, 30 inputs, 1537 weights\n");
    assert!(error.starts_with("anole-policy: bad.safetensors: the data has "), "{error}");
    assert!(error.ends_with("anole-policy: 1 of 2 files refused\n"), "{error}");
    assert!(run(folder.path(), &["check", "good.safetensors"]).0);
}

#[test]
fn what_cannot_be_imported_is_told_and_nothing_written() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.npz"), b"PK").unwrap();
    let (ok, _, error) = run(folder.path(), &["import", "orca", "a.npz"]);
    assert!(!ok);
    assert_eq!(error, "anole-policy: a.npz: no whole npz archive: its directory cannot be read\n");
    let (ok, _, error) = run(folder.path(), &["import", "orca", "model.meta"]);
    assert!(!ok);
    assert!(
        error.contains("give their common prefix, or the folder of a SavedModel: model.index: cannot open it: No such file"),
        "{error}"
    );
    let (ok, _, error) = run(folder.path(), &["import", "orka", "a.npz"]);
    assert!(!ok && error.contains("possible values: orca, indigo, aurora, astraea"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn the_program_behaves_as_the_others_do() {
    anole_testing::command_line("anole-policy", env!("CARGO_BIN_EXE_anole-policy"));
}

#[test]
fn a_module_of_ones_own_takes_a_schema() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("w.safetensors"), b"nonsense").unwrap();
    fs::write(folder.path().join("s.toml"), "name = \"x\"\nno_such = 1\n").unwrap();
    for (args, hint) in [
        (&["import", "torch", "w.safetensors"][..], "--schema <TOML>"),
        (&["import", "torch", "w.safetensors", "--schema", "s.toml"], "s.toml:2: "),
        (&["import", "torch", "w.safetensors", "--schema", "none.toml"], "none.toml"),
        (&["import", "torch", "w.safetensors", "--schema", "s.toml", "--map", "x"], "LAYER=MODULE"),
        (&["import", "orca", "w.npz", "--schema", "s.toml"], "are for import torch"),
    ] {
        let (ok, _, error) = run(folder.path(), args);
        assert!(!ok && error.contains(hint), "{args:?}: {error}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn what_is_imported_is_not_written_over_whatever_it_is_called() {
    let folder = tempfile::tempdir().unwrap();
    let schema = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../schemas/aurora.toml")).unwrap();
    let model = policy();
    fs::write(folder.path().join("aurora.safetensors"), &model).unwrap();
    fs::write(folder.path().join("s.toml"), &schema).unwrap();
    // Aurora's policy file is a model of its schema.
    let import = |more: &[&str]| {
        let arguments = [&["import", "torch", "./aurora.safetensors", "--schema", "s.toml"], more].concat();
        run(folder.path(), &arguments)
    };
    for more in [&[][..], &["-o", "./s.toml"]] {
        let (ok, _, error) = import(more);
        assert!(!ok && error.ends_with(": is what is imported; name another with --output\n"), "{error}");
    }
    assert_eq!(fs::read(folder.path().join("aurora.safetensors")).unwrap(), model);
    assert_eq!(fs::read_to_string(folder.path().join("s.toml")).unwrap(), schema);
    // Nor over a file that only begins like what is written.
    fs::write(folder.path().join("other.safetensors.part"), b"mine").unwrap();
    let (ok, _, error) = import(&["-o", "other.safetensors"]);
    assert!(ok, "{error}");
    assert_eq!(fs::read(folder.path().join("other.safetensors.part")).unwrap(), b"mine");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
}

#[test]
fn pipes_and_devices_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap().success());
    let (ok, _, error) = run(folder.path(), &["check", "pipe", "/dev/zero"]);
    let lines = "anole-policy: pipe: is no file\nanole-policy: /dev/zero: is no file\n";
    assert!(!ok && error.starts_with(lines), "{error}");
}

#[test]
fn a_shipped_policy_is_certified_by_its_name_and_a_file_by_its_path() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mine.safetensors"), policy()).unwrap();
    let (ok, out, error) = run(folder.path(), &["certify", "orca", "--pieces", "20"]);
    assert!(ok, "{error}");
    assert!(
        out.starts_with("orca, at most 20 pieces for each property\nfull short buffer and loss:"),
        "{out}"
    );
    assert_eq!(out.lines().filter(|line| line.contains(" % of the box, broken in ")).count(), 3, "{out}");
    // A folder of that name is no policy.
    fs::create_dir(folder.path().join("libra")).unwrap();
    let (ok, _, error) = run(folder.path(), &["certify", "libra", "--pieces", "1"]);
    assert!(ok, "{error}");
    // Aurora's action is a step.
    let (ok, out, _) = run(folder.path(), &["certify", "mine.safetensors"]);
    assert!(ok && out.contains("open: no bounds are computed for actions of this kind"), "{out}");
    let (ok, _, error) = run(folder.path(), &["certify", "no-such"]);
    assert!(!ok && error.contains("no-such"), "{error}");
}

#[test]
fn a_folder_that_is_no_saved_model_is_refused_and_one_without_variables_named() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model");
    fs::create_dir(&model).unwrap();
    let (ok, _, error) = run(folder.path(), &["import", "aurora", "model"]);
    assert!(!ok && error.contains("no SavedModel, which has saved_model.pb and variables/"), "{error}");
    fs::write(model.join("saved_model.pb"), b"").unwrap();
    let (ok, _, error) = run(folder.path(), &["import", "aurora", "model"]);
    assert!(!ok && error.contains("model/variables/variables.index"), "{error}");
}
