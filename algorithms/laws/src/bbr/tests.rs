//! Every transition, by hand-made feedback of a path of 2 MB/s and 50 ms.

use super::*;

const FLOW: FlowStart = FlowStart { mss: 1000, init_cwnd: 10_000, seed: 1 };
const MS: Dur = Dur::from_millis(1);

struct Bench {
    bbr: Bbr,
    now: Time,
}

impl Bench {
    fn new() -> Bench {
        let mut bbr = Bbr::new(FLOW);
        bbr.start(Time::ZERO);
        Bench { bbr, now: Time::ZERO }
    }

    fn feed(&mut self, seen: Feedback) {
        self.now += seen.elapsed;
        self.bbr.on_feedback(self.now, &seen);
    }

    /// Feedback of a round of 50 ms, or of a round-trip time where that is longer.
    fn round(&mut self, rate: u64, rtt_ms: u64, in_flight: u64) {
        self.feed(seen(rate, rate / 20, (rtt_ms * 1000).max(50_000), rtt_ms * 1000, in_flight));
    }

    fn timeout(&mut self) {
        let elapsed = Dur::from_millis(300);
        self.feed(Feedback { lost: 100, timeout: true, elapsed, in_flight: Some(0), ..Feedback::default() });
    }

    fn cwnd(&self) -> u64 {
        self.bbr.control().cwnd
    }

    fn bandwidth(&self) -> f64 {
        self.bbr.bandwidth().bytes_per_s()
    }

    fn cruises(&self) -> bool {
        matches!(self.bbr.stage, Stage::ProbeBw(_))
    }

    fn in_startup(&self) -> bool {
        self.bbr.in_slow_start() && self.bbr.gain_64() == HIGH_GAIN_64
    }
}

fn seen(rate: u64, acked: u64, elapsed_us: u64, rtt_us: u64, in_flight: u64) -> Feedback {
    let rtt = Some(Dur::from_micros(rtt_us));
    Feedback {
        acked,
        rtt,
        min_rtt: rtt,
        samples: 1,
        delivery_rate: Some(Rate::from_bytes_per_s(rate as f64)),
        in_flight: Some(in_flight),
        elapsed: Dur::from_micros(elapsed_us),
        ..Feedback::default()
    }
}

/// Start-up until the bandwidth of 2 MB/s has been flat for three rounds.
fn drained() -> Bench {
    let mut bench = Bench::new();
    for rate in [500_000, 1_000_000, 2_000_000, 2_000_000, 2_000_000] {
        bench.round(rate, 50, rate / 20);
        assert!(bench.in_startup());
    }
    bench.round(2_000_000, 90, 180_000);
    bench
}

/// ProbeBw, reached from start-up.
fn cruising() -> Bench {
    let mut bench = drained();
    bench.round(2_000_000, 50, 100_000);
    assert!(bench.cruises());
    bench
}

/// ProbeRtt, reached from ProbeBw, with a path that has become 60 ms long.
fn measuring() -> Bench {
    let mut bench = cruising();
    let stale = bench.now + Dur::from_millis(10_000);
    while !matches!(bench.bbr.stage, Stage::ProbeRtt { .. }) {
        bench.round(2_000_000, 60, 100_000);
    }
    assert!(bench.now > stale && bench.now < stale + MS * 100);
    assert_eq!((bench.cwnd(), bench.bbr.gain_64()), (4000, 64));
    bench
}

#[test]
fn the_first_window_goes_out_at_once() {
    let mut bench = Bench::new();
    assert_eq!((bench.cwnd(), bench.bandwidth()), (10_000, 1e7));
    // A single packet after 50 ms says little of the bandwidth; the initial window per round trip counts.
    bench.round(20_000, 50, 9000);
    // The window grows by the packet acknowledged.
    assert_eq!((bench.cwnd(), bench.bandwidth()), (11_000, 200_000.0));
}

#[test]
fn startup_counts_rounds_and_not_feedback() {
    let mut bench = Bench::new();
    bench.round(2_000_000, 50, 100_000);
    for _ in 0..9 {
        // A third of a round each.
        bench.round(2_000_000, 50, 100_000);
        bench.bbr.stage = Stage::Startup(Plateau { bandwidth: Rate::from_bytes_per_s(2e6), rounds: 1 });
        let third = seen(2_000_000, 33_000, 17_000, 50_000, 100_000);
        bench.feed(third);
        bench.feed(third);
        assert!(matches!(bench.bbr.stage, Stage::Startup(Plateau { rounds: 1, .. })));
        bench.feed(third);
        assert!(matches!(bench.bbr.stage, Stage::Startup(Plateau { rounds: 2, .. })));
    }
}

#[test]
fn startup_ends_when_the_bandwidth_is_flat_and_drains() {
    let mut bench = drained();
    assert_eq!((bench.bbr.stage, bench.bbr.gain_64()), (Stage::Drain, DRAIN_GAIN_64));
    assert!(bench.bbr.is_starting() && !bench.bbr.in_slow_start());
    bench.round(2_000_000, 70, 120_000);
    assert_eq!(bench.bbr.stage, Stage::Drain);
    bench.round(2_000_000, 50, 100_000);
    assert!(bench.cruises());
    assert_eq!((bench.bandwidth(), bench.cwnd(), bench.bbr.gain_64()), (2e6, 206_000, 64));
    assert_ne!(bench.bbr.cycle_phase(), Some(1), "the draining phase is no start");
    assert!(!bench.bbr.is_starting());
    assert_eq!(bench.bbr.cruising_rate(), Some(Rate::from_bytes_per_s(2e6 * PACING_MARGIN)));
}

#[test]
fn growth_of_a_quarter_a_round_keeps_startup() {
    let mut bench = Bench::new();
    let mut rate = 100_000;
    for _ in 0..12 {
        bench.round(rate, 50, rate / 20);
        bench.round(rate, 50, rate / 20);
        assert!(bench.in_startup());
        rate += rate / 4 + 1;
    }
}

#[test]
fn a_stale_round_trip_time_is_probed_with_four_packets() {
    let mut bench = measuring();
    // What is in flight has to leave before the 200 ms count.
    for inflight in [80_000, 40_000, 5000] {
        bench.round(1_000_000, 60, inflight);
        assert!(matches!(bench.bbr.stage, Stage::ProbeRtt { until: None, .. }));
    }
    for _ in 0..4 {
        bench.round(80_000, 55, 4000);
        assert!(matches!(bench.bbr.stage, Stage::ProbeRtt { until: Some(_), .. }));
    }
    bench.round(80_000, 55, 4000);
    assert!(bench.cruises());
    assert_eq!(bench.bbr.min_rtt(), Some(MS * 55));
}

#[test]
fn the_small_window_does_not_lower_the_bandwidth() {
    let mut bench = measuring();
    // A path so short that the 200 ms are many rounds.
    for _ in 0..3 {
        bench.round(1_000_000, 60, 4000);
    }
    while !bench.cruises() {
        bench.feed(seen(400_000, 4000, 10_000, 10_000, 4000));
    }
    assert_eq!((bench.bandwidth(), bench.cwnd()), (2e6, 46_000));
}

#[test]
fn a_round_trip_time_that_goes_stale_in_startup_leads_back_to_it() {
    let mut bench = Bench::new();
    let mut rate = 1000;
    bench.round(rate, 50, 1000);
    while bench.in_startup() {
        rate += rate / 2;
        bench.round(rate, 500, 100_000);
    }
    assert_eq!(bench.bbr.stage, Stage::ProbeRtt { until: None, filled: false });
    bench.round(rate, 500, 4000);
    bench.round(rate, 500, 4000);
    assert!(bench.in_startup());
}

#[test]
fn a_timeout_takes_the_window_until_something_is_acknowledged() {
    let mut bench = cruising();
    for _ in 0..3 {
        bench.timeout();
        assert_eq!(bench.cwnd(), 1000);
    }
    bench.round(20_000, 50, 1000);
    assert_eq!((bench.cwnd(), bench.bandwidth()), (206_000, 2e6));
    assert!(bench.cruises());
}

#[test]
fn a_timeout_in_startup_starts_the_search_for_the_end_anew() {
    let mut bench = Bench::new();
    for _ in 0..3 {
        bench.round(2_000_000, 50, 100_000);
    }
    assert!(matches!(bench.bbr.stage, Stage::Startup(Plateau { rounds: 2, .. })));
    bench.timeout();
    assert_eq!(bench.bbr.stage, Stage::Startup(Plateau::default()));
}

#[test]
fn an_outage_is_no_reason_to_measure() {
    let mut bench = cruising();
    for _ in 0..50 {
        bench.timeout();
    }
    assert!(bench.cruises());
}

#[test]
fn the_window_has_room_for_three_quanta() {
    let room = |mbps: f64| {
        let mut bbr = Bbr::new(FLOW);
        bbr.resume(Time::ZERO, Control { cwnd: 100_000, rate: Some(Rate::from_mbps(mbps)) });
        bbr.window_of(0.0)
    };
    assert_eq!([1.0, 8.0, 80.0, 8000.0].map(room), [3000, 6000, 29_700, 3 << 16]);
}

#[test]
fn it_takes_over_in_start_up_once_in_ten_seconds() {
    let mut bbr = Bbr::new(FLOW);
    let mut starts_at = |s: u64| {
        bbr.resume_searching(Time::from_micros(s * 1_000_000), Control::window(100_000));
        bbr.in_slow_start()
    };
    assert_eq!([1, 2, 10, 11, 12].map(&mut starts_at), [true, false, false, true, false]);
}

#[test]
fn a_recovery_begins_a_round() {
    let mut bench = cruising();
    let mut round = |lost| {
        let before = bench.bbr.model.round();
        bench.feed(Feedback { lost, ..seen(2_000_000, 100_000, 50_000, 50_000, 100_000) });
        bench.bbr.model.round() - before
    };
    // The third is in the recovery of the second.
    assert_eq!([0, 1, 1, 0].map(&mut round), [1, 0, 1, 1]);
}

#[test]
fn a_search_goes_on_with_the_smallest_round_trip_time_that_was_known() {
    for (searches, min_rtt_ms) in [(true, 50), (false, 300)] {
        let mut bench = cruising();
        bench.now += Dur::from_millis(11_000);
        for _ in 0..3 {
            // Another law governs: the flight does not shrink to four packets.
            bench.round(2_000_000, 300, 600_000);
        }
        let from = Control { cwnd: 600_000, rate: Some(Rate::from_bytes_per_s(2e6)) };
        if searches {
            bench.bbr.resume_searching(bench.now, from)
        } else {
            bench.bbr.resume(bench.now, from)
        };
        assert_eq!(bench.bbr.min_rtt(), Some(Dur::from_millis(min_rtt_ms)));
    }
}
