//! CUBIC of the netlink module's fallback against the runtime's.

use anole_oracle::cubic;

const STREAMS: u64 = 20_000;
const SEED: u64 = 4;

#[test]
fn the_modules_windows_are_the_runtimes() {
    let coverage = cubic::compare(SEED, STREAMS).expect("every window is within the tolerance");
    eprintln!("{coverage:?}");
    // The branches of fast convergence seldom part.
    assert!(coverage.beyond < coverage.acks / 400 && coverage.mean_packets < 1.0, "{coverage:?}");
    // The streams are worth something only if windows grow, shrink and start again.
    assert!(coverage.acks > 100 * STREAMS, "{coverage:?}");
    assert!(coverage.losses > 5 * STREAMS && coverage.timeouts > STREAMS / 2, "{coverage:?}");
}

#[test]
fn the_modules_windows_stay_in_bounds() {
    cubic::stays_in_bounds(SEED, STREAMS).expect("every window is in bounds");
}
