//! 10^5 cases in every test run; `cargo run --release --bin differ` runs 10^6.

use anole_oracle::differ;

const CASES: u64 = 100_000;
const SEED: u64 = 2;

#[test]
fn equal_to_libccp() {
    let coverage = differ::compare(SEED, CASES).expect("every case is equal");
    // The cases are worth something only if programs run through, abort and report.
    assert!(coverage.reports > coverage.acks / 50, "{coverage:?}");
    assert!(coverage.aborts > coverage.acks / 50 && coverage.aborts < coverage.acks / 2, "{coverage:?}");
}
