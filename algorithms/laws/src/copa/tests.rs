//! Copa's equations, by hand-made feedback of a path of 50 ms.

use super::*;
use anole_model::Dur;

const FLOW: FlowStart = FlowStart { mss: 1000, init_cwnd: 10_000, seed: 1 };

fn at(ms: u64) -> Time {
    Time::from_micros(ms * 1000)
}

fn ack(packets: u64, rtt_us: u64) -> Feedback {
    let rtt = Some(Dur::from_micros(rtt_us));
    Feedback { acked: 1000 * packets, rtt, min_rtt: rtt, samples: packets, ..Feedback::default() }
}

/// 100 packets, and a path of 50 ms; at 1 s.
fn avoiding() -> Copa {
    let mut copa = Copa::new(FLOW, Params::default());
    copa.on_feedback(at(1000), &ack(0, 50_000));
    copa.resume(at(1000), Control::window(100_000));
    copa
}

#[test]
fn slow_start_doubles_until_the_rate_exceeds_the_target() {
    let mut copa = Copa::new(FLOW, Params::default());
    copa.on_feedback(at(50), &ack(10, 50_000));
    copa.on_feedback(at(100), &ack(20, 50_000));
    assert_eq!((copa.control().cwnd, copa.in_slow_start()), (40_000, true));
    // A queue of 3 ms allows 1/(0.5·3 ms) = 667 packets/s, 35 packets per 53 ms.
    copa.on_feedback(at(153), &ack(1, 53_000));
    assert!(!copa.in_slow_start() && copa.control().cwnd < 40_000);
}

#[test]
fn the_window_moves_by_v_over_delta_packets_per_round_trip() {
    let mut copa = avoiding();
    copa.on_feedback(at(1010), &ack(100, 50_000));
    assert_eq!(copa.control().cwnd, 102_000);
    // 1.02 ms of queue: the target is 1961 packets/s, 100.04 packets.
    assert_eq!(copa.target(), f64::INFINITY);
    copa.on_feedback(at(1100), &ack(51, 51_020));
    assert!((copa.target() - 100.04).abs() < 0.01, "{}", copa.target());
    assert_eq!(copa.control().cwnd, 101_000);
}

#[test]
fn v_doubles_after_three_round_trips_in_one_direction_and_falls_back_when_it_turns() {
    let mut copa = avoiding();
    let v: Vec<f64> = (0..7)
        .map(|n| {
            copa.on_feedback(at(1050 + 50 * n), &ack(copa.control().cwnd / 1000, 50_000));
            copa.velocity.v
        })
        .collect();
    assert_eq!(v, [1.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0]);
    // 10 ms of queue: 200 packets/s.
    copa.on_feedback(at(1450), &ack(1, 60_000));
    assert_eq!((copa.velocity.v, copa.velocity.up), (1.0, false));
}

#[test]
fn v_falls_back_while_the_window_stands_still() {
    let mut copa = avoiding();
    for n in 0..4 {
        copa.on_feedback(at(1050 + 50 * n), &ack(copa.control().cwnd / 1000, 50_000));
    }
    assert_eq!(copa.velocity.v, 4.0);
    for n in 4..12 {
        let limited = Feedback { app_limited: true, in_flight: Some(0), ..ack(1, 50_000) };
        copa.on_feedback(at(1050 + 50 * n), &limited);
        assert_eq!(copa.velocity.v, 1.0);
    }
}

#[test]
fn a_window_of_n_packets_rests_at_two_packets_in_the_queue() {
    let copa = avoiding();
    // cwnd = 1/δ · standing/dq, so that the queue dq·rate is 1/δ packets.
    let dq = 2.0 * 0.05 / (copa.cwnd - 2.0);
    let mut copa = copa;
    copa.on_feedback(at(1100), &ack(0, ((0.05 + dq) * 1e6) as u64));
    assert!((copa.target() - 100.0).abs() < 0.1, "{}", copa.target());
}

#[test]
fn beside_a_full_buffer_it_keeps_more_packets_in_the_queue() {
    let mut copa = avoiding();
    for n in 0..100 {
        copa.on_feedback(at(1050 + 50 * n), &ack(10, 100_000 + 100 * (n % 7)));
    }
    assert!(copa.inverse_delta() > 20.0, "{}", copa.inverse_delta());
    let mut alone = Copa::new(FLOW, Params { competitive: 0.0, ..Params::default() });
    for n in 0..100 {
        alone.on_feedback(at(1050 + 50 * n), &ack(10, if n == 0 { 50_000 } else { 100_000 }));
    }
    assert_eq!(alone.inverse_delta(), 2.0);
}

#[test]
fn a_timeout_starts_over_and_a_loss_does_not_matter() {
    let mut copa = avoiding();
    copa.on_feedback(at(1060), &Feedback { lost: 5, ..Feedback::default() });
    assert_eq!(copa.control().cwnd, 100_000);
    copa.on_feedback(at(1400), &Feedback { timeout: true, ..Feedback::default() });
    assert_eq!((copa.control().cwnd, copa.in_slow_start()), (2000, true));
}

#[test]
fn a_flow_alone_on_a_path_of_a_packet_takes_its_own_queue_for_nobody_elses() {
    // 1 Mbps and 10 ms.
    let mut copa = Copa::new(FLOW, Params::default());
    let mut now = at(18);
    copa.on_feedback(now, &ack(1, 18_000));
    for _ in 0..400 {
        let packets = copa.control().cwnd / 1000;
        let rtt = Dur::from_micros(u64::max(10_000, 8_000 * packets));
        now += rtt;
        copa.on_feedback(now, &ack(packets, rtt.as_micros()));
    }
    assert!(copa.control().cwnd <= 6_000, "{}", copa.control().cwnd);
}
