//! 10^5 cases in every test run; `cargo run --release --bin differ` runs 10^6.

use anole_oracle::differ;
use anole_oracle::oracle::Machine;

const CASES: u64 = 100_000;
const SEED: u64 = 2;

fn all_equal(machine: Machine) {
    let coverage = differ::compare(machine, SEED, CASES).expect("every case is equal");
    // The cases are worth something only if programs run through, abort and report.
    assert!(coverage.reports > coverage.acks / 50, "{coverage:?}");
    assert!(coverage.aborts > coverage.acks / 50 && coverage.aborts < coverage.acks / 2, "{coverage:?}");
}

#[test]
fn equal_to_libccp() {
    all_equal(Machine::Libccp);
}

#[test]
fn the_kernel_machine_is_equal() {
    all_equal(Machine::Kernel);
}

#[test]
fn the_kernel_machine_refuses_the_same_messages() {
    const CASES: u64 = 10_000;
    let refused = differ::compare_damaged(Machine::Kernel, SEED, CASES).expect("every case is equal");
    assert!(refused > CASES, "{refused}");
}
