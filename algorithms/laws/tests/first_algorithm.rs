//! The law of `docs/first-algorithm.md`: the page shows its file, and it does what the page says.
//! `evaluation/sim/tests/first_algorithm.rs` runs it in the simulator.

#![allow(clippy::disallowed_methods, reason = "a test reads the page and the file")]

use anole_laws::aimd::{Aimd, Params};
use anole_laws::{Control, Feedback, FlowStart, Law};
use anole_model::{Dur, Time};
use std::fs;

const FLOW: FlowStart = FlowStart { mss: 1000, init_cwnd: 10_000, seed: 1 };
const RTT: Dur = Dur::from_millis(50);

#[test]
fn the_page_shows_the_file() {
    let read = |path: &str| fs::read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let (file, page) = (read("src/aimd.rs"), read("../../docs/first-algorithm.md"));
    assert!(
        page.contains(&format!("```rust\n{file}```\n")),
        "docs/first-algorithm.md has to show algorithms/laws/src/aimd.rs as it is"
    );
}

/// A round trip in which the window came back, and `lost` packets of it did not.
fn round(law: &mut Aimd, at_ms: u64, lost: u64) -> u64 {
    let seen = Feedback { acked: law.control().cwnd, lost, rtt: Some(RTT), ..Feedback::default() };
    law.on_feedback(Time::from_micros(1000 * at_ms), &seen);
    law.control().cwnd
}

#[test]
fn the_window_doubles_then_is_halved_once_per_event_then_grows_by_a_segment() {
    let mut law = Aimd::new(FLOW, Params::default());
    assert_eq!(round(&mut law, 50, 0), 20_000);
    assert_eq!(round(&mut law, 100, 0), 40_000);
    assert_eq!(round(&mut law, 150, 3), 20_000);
    // The event lasts for (2 − decrease) round trips, 75 ms.
    assert_eq!(round(&mut law, 200, 1), 20_000);
    assert_eq!(round(&mut law, 250, 0), 21_000);
    assert!(!law.in_slow_start());
}

#[test]
fn it_goes_on_from_anothers_window_and_keeps_two_segments() {
    let mut law = Aimd::new(FLOW, Params::default());
    law.resume(Time::ZERO, Control::window(300_000));
    assert_eq!((round(&mut law, 50, 0), law.in_slow_start()), (301_000, false));
    for n in 1..20 {
        round(&mut law, 100 * n, 1);
    }
    assert_eq!(law.control(), Control::window(2_000));
}

#[test]
fn segments_larger_than_the_largest_window_allows_panic_nowhere() {
    for mss in [65_535, (1 << 29) + 1, u32::MAX] {
        let mut law = Aimd::new(FlowStart { mss, ..FLOW }, Params::default());
        assert_eq!(law.control(), Control::window(2 * u64::from(mss)));
        round(&mut law, 50, 1);
    }
}
