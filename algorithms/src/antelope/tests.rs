use super::*;
use anole_laws::regression::Sums;
use anole_model::Rate;
use proptest::prelude::*;

const FLOW: FlowInfo = FlowInfo { mss: 1000, init_cwnd: 10_000 };
const RTT: Dur = Dur::from_millis(50);

fn antelope(choice: Choice) -> Antelope {
    let params = AntelopeParams { log: 1.0, ..AntelopeParams::default() };
    let arms = Arms::build(FLOW, 1, DEFAULT_ARM).unwrap();
    Antelope::new(FLOW, params, arms, Selector::new(choice, &params))
}

/// 20 ACKs of 1000 bytes within `ms`, all a round trip late.
fn acks(ms: u64, rtt: Dur, lost: u64) -> Feedback {
    let one = Sums::one(rtt);
    Feedback {
        acked: 20_000,
        lost,
        rtt: Some(rtt),
        min_rtt: Some(rtt),
        samples: 20,
        sums: Sums { n: 20, y: 20 * one.y, ..one },
        elapsed: Dur::from_millis(ms),
        ..Feedback::default()
    }
}

#[test]
fn a_switch_carries_window_and_rate_over() {
    for (to, taking) in ARMS.iter().enumerate() {
        for from in (0..ARMS.len()).filter(|from| *from != to) {
            let mut arms = Arms::build(FLOW, 1, from).unwrap();
            let mut now = Time::ZERO;
            for n in 0..400 {
                now += Dur::from_millis(10);
                arms.feed(now, &acks(10, RTT + Dur::from_millis(n % 3), u64::from(n % 50 == 49)));
            }
            let before = arms.in_force();
            arms.switch(now, to);
            let after = arms.in_force();
            let case = format!("{} to {taking}: {before:?}, {after:?}", ARMS[from]);
            let (rate_before, rate_after) = (before.rate.unwrap().mbps(), after.rate.unwrap().mbps());
            assert!(rate_after <= 1.2501 * rate_before, "{case}");
            assert!(after.cwnd <= before.cwnd + before.cwnd / 4, "{case}");
            // What flows in a round trip goes on: no law starts again from little.
            let sent = |held: arms::Held| held.rate.unwrap().bytes_in(RTT).min(f64::from(held.cwnd));
            assert!(sent(after) >= 0.6 * sent(before), "{case}");
            // And through the round trip that follows.
            for _ in 0..4 {
                now += Dur::from_millis(10);
                arms.feed(now, &acks(10, RTT, 0));
                assert!(arms.in_force().rate.unwrap().mbps() <= 1.2501 * rate_before, "{case}");
            }
        }
    }
}

#[test]
fn a_switch_carries_no_rate_that_was_not_delivered() {
    let mut arms = Arms::build(FLOW, 1, DEFAULT_ARM).unwrap();
    let mut now = Time::ZERO;
    for n in 0..400 {
        now += Dur::from_millis(10);
        // 16 Mbps grow the window; then the application sends 2 of them.
        let mbps = if n < 200 { 16.0 } else { 2.0 };
        let delivery_rate = Some(Rate::from_mbps(mbps));
        arms.feed(now, &Feedback { delivery_rate, ..acks(10, RTT, u64::from(n == 150)) });
    }
    assert!(arms.in_force().rate.unwrap().mbps() > 8.0, "{:?}", arms.in_force());
    arms.switch(now, 0);
    let rate = arms.in_force().rate.unwrap().mbps();
    assert!(rate <= 2.0 * 2.89, "{rate} Mbps"); // BBR's largest gain
}

#[test]
fn an_outage_is_forgotten_with_the_first_sample_after_it() {
    let mut arms = Arms::build(FLOW, 1, DEFAULT_ARM).unwrap();
    for (n, rtt_ms) in [50, 4000, 50].into_iter().enumerate() {
        arms.feed(Time::from_micros(n as u64), &acks(10, Dur::from_millis(rtt_ms), 0));
    }
    assert_eq!(arms.srtt(), Some(RTT));
    // Both in one report.
    let late = acks(10, Dur::from_millis(4000), 0);
    arms.feed(Time::from_micros(3), &Feedback { rtt: Some(RTT), ..late });
    assert_eq!(arms.srtt(), Some(RTT));
}

#[test]
fn a_switch_takes_two_recommendations_in_a_row_and_no_slow_start() {
    // Losses with a short queue: Rein wants BBR.
    let mut antelope = antelope(Choice::Rein(Rein::default()));
    let mut now = Time::ZERO;
    let mut arms = Vec::new();
    for n in 0..60 {
        now += Dur::from_millis(10);
        antelope.take(now, &acks(10, if n == 0 { RTT } else { RTT + Dur::from_millis(15) }, 1));
        arms.push(antelope.judgement().unwrap().arm);
    }
    assert_eq!((arms[0], arms[59]), ("cubic", "bbr"));
    assert_eq!(arms.windows(2).filter(|pair| pair[0] != pair[1]).count(), 1, "{arms:?}");
    let mut starting = self::antelope(Choice::random(1, 1.0));
    for _ in 0..60 {
        now += Dur::from_millis(10);
        starting.take(now, &acks(10, RTT, 0));
        assert!(starting.arms.current() == DEFAULT_ARM || !starting.arms.in_slow_start());
    }
}

#[test]
fn units_are_logged_only_when_asked_for() {
    let mut quiet = Antelope { logs: false, ..antelope(Choice::random(1, 10.0)) };
    quiet.take(Time::from_micros(50_000), &acks(50, RTT, 0));
    assert_eq!((quiet.judgement(), quiet.telemetry().decisions), (None, 1));
}

proptest! {
    #[test]
    fn whatever_is_reported_what_is_held_stays_in_bounds(
        reports in prop::collection::vec(prop::array::uniform15(prop_oneof![0..100_000u64, any::<u64>()]), 1..60),
        seed in any::<u64>(),
    ) {
        let mut antelope = antelope(Choice::random(seed, 2.0));
        let (mut now, mut out) = (Time::ZERO, Commands::default());
        antelope.start(now, &mut out);
        for values in reports {
            now += Dur::from_millis(20);
            out.clear();
            antelope.on_report(now, &Report { program: &rate_hold::PROGRAM, values: &values }, &mut out);
            let held = antelope.arms.in_force();
            prop_assert!(u64::from(held.cwnd) >= u64::from(FLOW.mss), "{held:?}");
            prop_assert!(held.rate.is_none_or(|rate| rate.mbps().is_finite() && rate > Rate::ZERO), "{held:?}");
        }
    }
}
