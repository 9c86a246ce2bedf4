use super::*;
use proptest::prelude::*;

const MSS: u32 = 1000;
const RTT: Dur = Dur::from_millis(100);
/// RFC 9438 §4.3: α_cubic = 3(1 − β)/(1 + β).
const ALPHA: f64 = 9.0 / 17.0;

fn ack(cubic: &mut Cubic, now: Time, bytes: u64, rtt: Dur) {
    cubic.on_rtt(now, rtt, 1);
    cubic.on_ack(now, bytes);
}

/// Acknowledges one window per round trip, packet by packet, for `rounds` round trips.
fn rounds(cubic: &mut Cubic, now: &mut Time, rounds: u32) {
    for _ in 0..rounds {
        let packets = (cubic.cwnd() / u64::from(MSS)).max(1);
        for _ in 0..packets {
            *now += RTT / packets;
            ack(cubic, *now, u64::from(MSS), RTT);
        }
    }
}

#[test]
fn slow_start_doubles() {
    let (mut cubic, mut now) = (Cubic::new(MSS, 10 * MSS), Time::ZERO);
    rounds(&mut cubic, &mut now, 3);
    assert_eq!(cubic.cwnd(), 80 * u64::from(MSS));
    assert!(cubic.in_slow_start());
}

/// Path-MTU discovery finds larger packets in slow start, and again in congestion avoidance.
#[test]
fn another_segment_size_leaves_the_windows_in_bytes() {
    let (mut cubic, mut now) = (Cubic::new(1200, 12_000), Time::ZERO);
    cubic.set_mss(1472);
    assert_eq!((cubic.cwnd(), cubic.in_slow_start()), (12_000, true));
    rounds(&mut cubic, &mut now, 3);
    cubic.on_loss(now);
    let (before, epoch) = (cubic.cwnd(), cubic.epoch());
    cubic.set_mss(1200);
    assert!(cubic.cwnd().abs_diff(before) <= 1 && !cubic.in_slow_start());
    assert!(cubic.epoch().w_max.abs_diff(epoch.w_max) <= 1);
    cubic.on_timeout(now);
    assert_eq!(cubic.cwnd(), 1200);
}

#[test]
fn one_decrease_per_round_trip() {
    let (mut cubic, mut now) = (Cubic::new(MSS, 100 * MSS), Time::ZERO);
    rounds(&mut cubic, &mut now, 1);
    let before = cubic.cwnd() as f64;
    for _ in 0..5 {
        cubic.on_loss(now);
    }
    assert!((cubic.cwnd() as f64 - 0.7 * before).abs() < 1.0);
    assert!(!cubic.in_slow_start());
}

/// After a loss at W_max the window is back at W_max after K = cbrt(W_max·(1 − β)/C), is flat there, and
/// then grows as the cubic does (RFC 9438 §4.2).
#[test]
fn growth_follows_the_cubic() {
    let w_max = 1000.0;
    let (mut cubic, mut now) = (Cubic::resumed(MSS, 1_000_000, Dur::ZERO), Time::ZERO);
    ack(&mut cubic, now, 0, RTT);
    cubic.on_loss(now);
    now += RTT;
    let start = now;
    let k = (w_max * 0.3 / 0.4f64).cbrt();
    while now.since(start).as_secs_f64() < 2.0 * k {
        rounds(&mut cubic, &mut now, 1);
        let t = now.since(start).as_secs_f64();
        let expected = 0.4 * (t - k).powi(3) + w_max;
        let window = cubic.cwnd() as f64 / f64::from(MSS);
        assert!((window - expected).abs() < 0.03 * expected, "t {t}: {window} is not {expected}");
    }
}

/// RFC 9438 §5.1: with a deterministic loss every 1/p packets the average window is
/// (C·(3 + β)/(4·(1 − β)))^(1/4) · RTT^(3/4) / p^(3/4).
#[test]
fn steady_state_matches_the_response_function() {
    let p: f64 = 1e-4;
    let (mut cubic, mut now) = (Cubic::resumed(MSS, 300_000, Dur::ZERO), Time::ZERO);
    let (mut since_loss, mut packets, mut losses) = (0u64, 0u64, 0);
    let mut measured_from = Time::ZERO;
    while losses < 220 {
        let window = cubic.cwnd() as f64 / f64::from(MSS);
        now += Dur::from_secs_f64(RTT.as_secs_f64() / window);
        ack(&mut cubic, now, u64::from(MSS), RTT);
        since_loss += 1;
        packets += 1;
        if since_loss as f64 >= 1.0 / p {
            cubic.on_loss(now);
            since_loss = 0;
            losses += 1;
            if losses == 20 {
                (packets, measured_from) = (0, now);
            }
        }
    }
    let average = packets as f64 * RTT.as_secs_f64() / now.since(measured_from).as_secs_f64();
    let expected = (0.4f64 * 3.7 / (4.0 * 0.3)).powf(0.25) * (RTT.as_secs_f64() / p).powf(0.75);
    assert!((average / expected - 1.0).abs() < 0.1, "{average} packets, {expected} expected");
}

/// RFC 9438 §4.3: where Reno would be faster (short RTT, small window), the window grows as Reno's
/// would: α packets per round trip up to the window before the loss, then one.
#[test]
fn short_round_trips_are_reno_friendly() {
    let rtt = Dur::from_millis(5);
    let (mut cubic, mut now) = (Cubic::resumed(MSS, 20_000, Dur::ZERO), Time::ZERO);
    ack(&mut cubic, now, 0, rtt);
    cubic.on_loss(now);
    now += rtt;
    let round = |cubic: &mut Cubic, now: &mut Time| {
        let window = cubic.cwnd();
        *now += rtt;
        ack(cubic, *now, window, rtt);
        (cubic.cwnd() - window) as f64 / f64::from(MSS)
    };
    round(&mut cubic, &mut now);
    let growth = round(&mut cubic, &mut now);
    assert!((growth - ALPHA).abs() < 0.05, "{growth} packets per round trip");
    while cubic.cwnd() < 21_000 {
        round(&mut cubic, &mut now);
    }
    let growth = round(&mut cubic, &mut now);
    assert!((growth - 1.0).abs() < 0.05, "{growth} packets per round trip");
}

/// RFC 9438 §4.3: in the Reno-friendly region the average window is that of AIMD(α, β),
/// sqrt(α(1 + β)/(2(1 − β)p)) packets.
#[test]
fn steady_state_of_the_friendly_region_is_renos() {
    let (p, rtt): (f64, _) = (1e-3, Dur::from_millis(5));
    let (mut cubic, mut now) = (Cubic::resumed(MSS, 40_000, Dur::ZERO), Time::ZERO);
    let (mut measured_from, mut counted) = (now, 0);
    for packet in 1..=200_000u32 {
        now += Dur::from_secs_f64(rtt.as_secs_f64() * f64::from(MSS) / cubic.cwnd() as f64);
        ack(&mut cubic, now, u64::from(MSS), rtt);
        counted += 1;
        if f64::from(packet) % (1.0 / p) == 0.0 {
            cubic.on_loss(now);
            if packet == 20_000 {
                (measured_from, counted) = (now, 0);
            }
        }
    }
    let average = f64::from(counted) * rtt.as_secs_f64() / now.since(measured_from).as_secs_f64();
    let expected = (ALPHA * (1.0 + 0.7) / (2.0 * (1.0 - 0.7) * p)).sqrt();
    assert!((average / expected - 1.0).abs() < 0.1, "{average} packets, {expected} expected");
}

#[test]
fn fast_convergence_gives_up_more() {
    let (mut cubic, now) = (Cubic::resumed(MSS, 100_000, Dur::ZERO), Time::ZERO);
    ack(&mut cubic, now, 0, RTT);
    cubic.on_loss(now);
    assert_eq!(cubic.w_max, 100.0);
    cubic.on_loss(now + RTT);
    assert_eq!(cubic.w_max, 100.0, "the same event still");
    cubic.on_loss(now + RTT * 2);
    assert!((cubic.w_max - 70.0 * 0.85).abs() < 1e-9);
}

#[test]
fn a_timeout_restarts_and_a_second_one_keeps_the_threshold() {
    let (mut cubic, mut now) = (Cubic::resumed(MSS, 100_000, Dur::ZERO), Time::ZERO);
    rounds(&mut cubic, &mut now, 1);
    cubic.on_timeout(now);
    let threshold = cubic.ssthresh;
    assert_eq!(cubic.cwnd(), u64::from(MSS));
    assert!(cubic.in_slow_start());
    cubic.on_timeout(now + RTT * 10);
    assert_eq!(cubic.ssthresh, threshold);
    now += RTT * 20;
    rounds(&mut cubic, &mut now, 8);
    assert!(!cubic.in_slow_start());
    // The first stage after a timeout is flat at the threshold: K = 0.
    assert!(cubic.avoidance.is_some_and(|stage| stage.k_s == 0.0));
}

#[test]
fn a_timeout_before_a_loss_is_repaired_is_the_same_congestion() {
    let mut cubic = Cubic::new(MSS, 100_000);
    let at = |ms: u64| Time::from_micros(1000 * ms);
    let seen = Feedback { rtt: Some(RTT), in_flight: Some(0), ..Feedback::default() };
    let timeout = Feedback { timeout: true, lost: 1, ..seen };
    cubic.on_feedback(at(100), &Feedback { lost: 1, ..seen });
    cubic.on_feedback(at(200), &Feedback { acked: 99_000, ..seen });
    cubic.on_feedback(at(900), &timeout);
    assert_eq!((cubic.cwnd(), cubic.ssthresh), (1000, 70.0));
    // The next segment of that flight is lost again; then something arrives, and what follows is congestion anew.
    cubic.on_feedback(at(2000), &timeout);
    assert_eq!((cubic.cwnd(), cubic.ssthresh), (1000, 70.0));
    cubic.observe(40_000, 1000);
    cubic.on_feedback(at(9000), &timeout);
    assert_eq!((cubic.cwnd(), cubic.ssthresh), (1000, 28.0));
}

#[test]
fn resuming_moves_the_operating_point() {
    let (mut cubic, mut now) = (Cubic::new(MSS, 10_000), Time::ZERO);
    cubic.resume_at(200_000);
    assert!(!cubic.in_slow_start());
    rounds(&mut cubic, &mut now, 5);
    assert!((200_000..210_000).contains(&cubic.cwnd()), "{}", cubic.cwnd());
}

#[test]
fn batches_grow_like_single_acks() {
    let (mut single, mut batch) =
        (Cubic::resumed(MSS, 100_000, Dur::ZERO), Cubic::resumed(MSS, 100_000, Dur::ZERO));
    let mut now = Time::ZERO;
    for cubic in [&mut single, &mut batch] {
        ack(cubic, now, 0, RTT);
        cubic.on_loss(now);
    }
    now += RTT;
    for _ in 0..100 {
        let mut at = now;
        rounds(&mut single, &mut at, 1);
        now += RTT;
        let window = batch.cwnd();
        ack(&mut batch, now, window, RTT);
    }
    let ratio = batch.cwnd() as f64 / single.cwnd() as f64;
    assert!((0.97..1.03).contains(&ratio), "{ratio}");
}

/// RFC 9438 §5.8: an hour of silence, or of a trickle, is no hour of growth.
#[test]
fn idle_time_does_not_count() {
    let after = |pause: Dur, trickle: bool| {
        let (mut cubic, mut now) = (Cubic::resumed(MSS, 300_000, RTT), Time::ZERO);
        let mut ack = |cubic: &mut Cubic, now: Time, in_flight: u64| {
            let (acked, rtt) = (u64::from(MSS), Some(RTT));
            let in_flight = Some(in_flight);
            cubic.on_feedback(
                now,
                &Feedback { acked, rtt, min_rtt: rtt, samples: 1, in_flight, ..Feedback::default() },
            );
        };
        cubic.on_rtt(now, RTT, 1);
        cubic.on_loss(now);
        let busy = |cubic: &mut Cubic, now: &mut Time, ack: &mut dyn FnMut(&mut Cubic, Time, u64)| {
            for _ in 0..2000 {
                *now += RTT / 200;
                ack(cubic, *now, 300_000);
            }
        };
        busy(&mut cubic, &mut now, &mut ack);
        let before = cubic.cwnd();
        let end = now + pause;
        while trickle && now < end {
            now += RTT;
            ack(&mut cubic, now, 0);
            assert_eq!(cubic.cwnd(), before, "an unused window does not grow");
        }
        now = end;
        busy(&mut cubic, &mut now, &mut ack);
        cubic.cwnd()
    };
    let undisturbed = after(Dur::ZERO, false) as f64;
    for trickle in [false, true] {
        let paused = after(Dur::from_millis(30_000), trickle) as f64;
        assert!((paused / undisturbed - 1.0).abs() < 0.02, "{paused} instead of {undisturbed}");
    }
}

#[test]
fn a_window_of_which_little_was_used_is_found_again_by_slow_start() {
    let (mut cubic, mut now) = (Cubic::resumed_below(MSS, 10_000, 80_000, RTT), Time::ZERO);
    assert!(cubic.in_slow_start() && cubic.cwnd() == 10_000);
    rounds(&mut cubic, &mut now, 3);
    assert_eq!(cubic.cwnd(), 80_000);
    rounds(&mut cubic, &mut now, 3);
    assert!(!cubic.in_slow_start() && cubic.cwnd() < 85_000, "{}", cubic.cwnd());
}

/// A loss before any round-trip time was measured, and the rest of its flight.
#[test]
fn a_loss_without_a_round_trip_time_is_one_event() {
    let mut cubic = Cubic::new(MSS, 100_000);
    let lost = Feedback { lost: 1, ..Feedback::default() };
    for ms in 0..20 {
        cubic.on_feedback(Time::from_micros(ms * 1000), &lost);
    }
    assert_eq!(cubic.cwnd(), 70_000);
}

proptest! {
    #[test]
    fn the_window_is_always_sane(
        mss: u32, init: u32,
        events in prop::collection::vec((0u8..6, any::<u64>(), any::<u64>()), 0..200),
    ) {
        let mut cubic = Cubic::new(mss, init);
        let mut now = Time::ZERO;
        for (kind, a, b) in events {
            now += Dur::from_nanos(a >> (b % 64));
            match kind {
                0 => drop(cubic.on_loss(now)),
                1 => cubic.on_timeout(now),
                2 => cubic.resume_at(a),
                3 => ack(&mut cubic, now, a, Dur::from_nanos(b)),
                _ => ack(&mut cubic, now, a % 100_000, Dur::from_nanos(b % 1_000_000_000)),
            }
            prop_assert!(cubic.cwnd.is_finite() && cubic.cwnd >= LOSS_WINDOW_PACKETS);
            prop_assert!(cubic.cwnd <= MAX_WINDOW_PACKETS && cubic.cwnd() >= 1);
        }
    }
}
