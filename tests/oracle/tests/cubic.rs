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

#[test]
fn a_pause_is_no_time_of_the_modules_epoch_however_long() {
    let expected = cubic::windows_over_a_pause(0).unwrap();
    assert!(expected.last() > expected.get(20), "{expected:?}");
    // 71.6 minutes are 2^32 us.
    for minutes in [1, 70, 72, 150, 10_000] {
        assert_eq!(cubic::windows_over_a_pause(minutes * 60_000).unwrap(), expected, "{minutes} minutes");
    }
}
