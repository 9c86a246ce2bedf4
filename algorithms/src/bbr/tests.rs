//! Every transition, by hand-made reports of a path of 2 MB/s and 50 ms.

use super::*;
use proptest::prelude::*;

const FLOW: FlowInfo = FlowInfo { mss: 1000, init_cwnd: 10_000 };
const MS: Dur = Dur::from_millis(1);

struct Bench {
    bbr: Bbr,
    now: Time,
    out: Commands,
}

impl Bench {
    fn new() -> Bench {
        let mut bench = Bench { bbr: Bbr::new(FLOW, 1), now: Time::ZERO, out: Commands::default() };
        bench.bbr.start(Time::ZERO, &mut bench.out);
        bench
    }

    fn report(&mut self, seen: bbr::Report) {
        self.now += Dur::from_micros(seen.elapsed_us);
        self.out.clear();
        let values = [
            seen.rate,
            seen.acked,
            seen.lost,
            seen.timeout,
            seen.elapsed_us,
            seen.rtt_us,
            seen.min_rtt_us,
            seen.inflight,
        ];
        self.bbr.on_report(self.now, &Report { program: &bbr::PROGRAM, values: &values }, &mut self.out);
    }

    /// A report of a round of 50 ms, or of a round-trip time where that is longer.
    fn round(&mut self, rate: u64, rtt_ms: u64, inflight: u64) {
        let rtt_us = rtt_ms * 1000;
        self.report(bbr::Report {
            rate,
            acked: rate / 20,
            lost: 0,
            timeout: 0,
            elapsed_us: rtt_us.max(50_000),
            rtt_us,
            min_rtt_us: rtt_us,
            inflight,
        });
    }

    fn timeout(&mut self) {
        self.report(bbr::Report {
            rate: 0,
            acked: 0,
            lost: 100,
            timeout: 1,
            elapsed_us: 300_000,
            rtt_us: 50_000,
            min_rtt_us: u64::from(u32::MAX),
            inflight: 0,
        });
    }

    fn field(&self, name: &str) -> Option<u32> {
        self.out.fields().iter().find(|(r, _)| r.name == name).map(|&(_, value)| value)
    }

    fn in_startup(&self) -> bool {
        matches!(self.bbr.stage, Stage::Startup(_)) && self.field("gain_64") == Some(HIGH_GAIN_64)
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
    assert_eq!(bench.bbr.stage, Stage::ProbeBw);
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
    assert_eq!((bench.field("Cwnd"), bench.field("gain_64")), (Some(4000), Some(64)));
    bench
}

#[test]
fn the_first_window_goes_out_at_once_and_its_first_ack_reports() {
    let mut bench = Bench::new();
    assert_eq!((bench.field("Cwnd"), bench.field("bw")), (Some(10_000), Some(10_000_000)));
    assert_eq!(bench.field("phase_us"), Some(1000));
    // A single packet after 50 ms says little of the bandwidth; the initial window per round trip counts.
    bench.round(20_000, 50, 9000);
    assert_eq!((bench.field("Cwnd"), bench.field("bw")), (Some(20_000), Some(200_000)));
    assert_eq!(bench.field("phase_us"), Some(50_000));
}

#[test]
fn startup_counts_rounds_and_not_reports() {
    let mut bench = Bench::new();
    bench.round(2_000_000, 50, 100_000);
    for _ in 0..9 {
        // A third of a round each.
        bench.round(2_000_000, 50, 100_000);
        bench.bbr.stage = Stage::Startup(Plateau { bandwidth: Rate::from_bytes_per_s(2e6), rounds: 1 });
        let third = bbr::Report {
            rate: 2_000_000,
            acked: 33_000,
            lost: 0,
            timeout: 0,
            elapsed_us: 17_000,
            rtt_us: 50_000,
            min_rtt_us: 50_000,
            inflight: 100_000,
        };
        bench.report(third);
        bench.report(third);
        assert!(matches!(bench.bbr.stage, Stage::Startup(Plateau { rounds: 1, .. })));
        bench.report(third);
        assert!(matches!(bench.bbr.stage, Stage::Startup(Plateau { rounds: 2, .. })));
    }
}

#[test]
fn startup_ends_when_the_bandwidth_is_flat_and_drains() {
    let mut bench = drained();
    assert_eq!((bench.bbr.stage, bench.field("gain_64")), (Stage::Drain, Some(DRAIN_GAIN_64)));
    bench.round(2_000_000, 70, 120_000);
    assert_eq!(bench.bbr.stage, Stage::Drain);
    bench.round(2_000_000, 50, 100_000);
    assert_eq!((bench.bbr.stage, bench.field("cycling")), (Stage::ProbeBw, Some(1)));
    assert_eq!((bench.field("bw"), bench.field("Cwnd")), (Some(2_000_000), Some(200_000)));
    assert_eq!(bench.field("gain_64"), Some(64));
    assert_ne!(bench.field("phase"), Some(1), "the draining phase is no start");
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
    assert_eq!((bench.bbr.stage, bench.bbr.model.min_rtt()), (Stage::ProbeBw, Some(MS * 55)));
}

#[test]
fn the_small_window_does_not_lower_the_bandwidth() {
    let mut bench = measuring();
    // A path so short that the 200 ms are many rounds.
    for _ in 0..3 {
        bench.round(1_000_000, 60, 4000);
    }
    while bench.bbr.stage != Stage::ProbeBw {
        bench.report(bbr::Report {
            rate: 400_000,
            acked: 4000,
            lost: 0,
            timeout: 0,
            elapsed_us: 10_000,
            rtt_us: 10_000,
            min_rtt_us: 10_000,
            inflight: 4000,
        });
    }
    assert_eq!((bench.field("bw"), bench.field("Cwnd")), (Some(2_000_000), Some(40_000)));
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
        assert_eq!((bench.field("Cwnd"), bench.field("phase_us")), (Some(2000), Some(1000)));
    }
    bench.round(20_000, 50, 1000);
    assert_eq!((bench.field("Cwnd"), bench.field("bw")), (Some(200_000), Some(2_000_000)));
    assert_eq!((bench.bbr.stage, bench.field("phase_us")), (Stage::ProbeBw, Some(50_000)));
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
    assert_eq!(bench.bbr.stage, Stage::ProbeBw);
}

#[test]
fn reports_of_another_program_are_ignored() {
    let mut bench = cruising();
    bench.out.clear();
    let report = Report { program: &anole_programs::reno::PROGRAM, values: &[1; 8] };
    bench.bbr.on_report(bench.now, &report, &mut bench.out);
    assert!(bench.out.is_empty());
}

proptest! {
    /// No report makes a window below two packets, a rate of nothing or a phase beyond the cycle.
    #[test]
    fn commands_stay_in_bounds(
        reports in prop::collection::vec(
            (any::<[u64; 7]>(), 0..40_u32, 0..30_000_000_u64, any::<bool>()), 1..80),
        plausible in prop::collection::vec((0..3_000_000_u64, 1..200_u64, 0..200_000_u64), 0..80),
    ) {
        let mut bench = Bench::new();
        for (wild, shift, elapsed_us, timeout) in reports {
            let [rate, acked, lost, _, rtt_us, min_rtt_us, inflight] = wild.map(|value| value >> shift);
            let timeout = u64::from(timeout);
            bench.report(bbr::Report { rate, acked, lost, timeout, elapsed_us, rtt_us, min_rtt_us, inflight });
            in_bounds(&bench)?;
        }
        for (rate, rtt_ms, inflight) in plausible {
            bench.round(rate, rtt_ms, inflight);
            in_bounds(&bench)?;
        }
    }
}

fn in_bounds(bench: &Bench) -> Result<(), TestCaseError> {
    let field = |name| bench.field(name).unwrap_or_default();
    prop_assert!((2000..=1 << 30).contains(&field("Cwnd")));
    prop_assert!((1500..=4_000_000_000).contains(&field("bw")));
    prop_assert!((1000..=10_000_000).contains(&field("phase_us")));
    prop_assert!(field("phase") <= 7 && field("phase") != 1);
    prop_assert!(field("cycling") == 0 || field("gain_64") == 64);
    Ok(())
}
