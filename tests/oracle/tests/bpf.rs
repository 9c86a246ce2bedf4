//! The eBPF datapath's machine against the runtime, in this host's kernel.

use anole_bpf::Mode;
use anole_oracle::bpf::Bpf;
use anole_oracle::differ;
use std::process::Command;

/// The kernel verifies every generated program, which takes some milliseconds; `differ generated` runs more.
const GENERATED_CASES: u64 = 4_000;
const INTERPRETED_CASES: u64 = 100_000;
const SEED: u64 = 3;

fn all_equal(mode: Mode, cases: u64) {
    let mut machine = match Bpf::load(mode) {
        Ok(machine) => machine,
        Err(error) => {
            let known = error.downcast_ref::<anole_bpf::Error>();
            assert!(known.is_some_and(anole_bpf::Error::is_out_of_reach), "{error}");
            anole_testing::skip!("{error}");
            return;
        }
    };
    let coverage = differ::compare_bpf(&mut machine, SEED, cases).expect("every case is equal");
    assert!(coverage.acks > 6 * cases, "{coverage:?}");
    // The cases are worth something only if programs run through, abort and report.
    assert!(coverage.reports > coverage.acks / 50, "{coverage:?}");
    assert!(coverage.aborts > coverage.acks / 50 && coverage.aborts < coverage.acks / 2, "{coverage:?}");
    assert_eq!(machine.refused(), 0, "the verifier takes what is generated");
}

#[test]
fn generated_byte_code_is_equal() {
    all_equal(Mode::Generated, GENERATED_CASES);
}

#[test]
fn the_interpreter_is_equal() {
    all_equal(Mode::Interpreted, INTERPRETED_CASES);
}

#[test]
fn one_case_alone_is_refused_rather_than_compared_with_libccp() {
    let differ =
        Command::new(env!("CARGO_BIN_EXE_differ")).args(["generated", "1", "1", "0"]).output().unwrap();
    assert!(!differ.status.success());
    assert!(String::from_utf8_lossy(&differ.stderr).contains("leave CASE out"), "{differ:?}");
}
