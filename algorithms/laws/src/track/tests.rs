use super::*;

fn track(cwnd: u64) -> Track {
    let mut track = Track::new(1000, 10_000, Params::default());
    track.resume(Time::ZERO, Control::window(cwnd));
    track
}

/// The window after rounds with these round-trip times, us; the first one is the base.
fn after(track: &mut Track, rtts_us: &[u64], lost: u64) -> u64 {
    for (round, &rtt_us) in rtts_us.iter().enumerate() {
        let rtt = Some(Dur::from_micros(rtt_us));
        let cwnd = track.control().cwnd;
        let seen = Feedback {
            acked: cwnd,
            lost,
            rtt,
            min_rtt: rtt,
            samples: 10,
            in_flight: Some(cwnd),
            ..Default::default()
        };
        track.on_feedback(Time::from_micros((round as u64 + 1) * 50_000), &seen);
    }
    track.control().cwnd
}

#[test]
fn the_window_grows_ever_faster_while_no_queue_stands_and_is_cut_by_the_excess() {
    let mut flow = track(200_000);
    assert_eq!(after(&mut flow, &[50_000], 0), 200_500);
    assert_eq!(after(&mut flow, &[50_000, 50_000], 0), 203_500);
    // 80 ms where 50 and a target of 3 are wanted: more than an eighth, once it stands.
    let grown = after(&mut flow, &[80_000], 0) as f64;
    assert!(grown > 203_500.0, "{grown}");
    let cut = after(&mut flow, &[80_000], 0) as f64;
    assert!((cut / grown - 0.875).abs() < 1e-3, "{cut}");
}

#[test]
fn the_window_to_step_back_to_ages_slowly_where_the_path_swings() {
    for (before, swings) in [([50_000, 50_000].repeat(4), false), ([50_000, 100_000].repeat(4), true)] {
        let mut flow = track(200_000);
        after(&mut flow, &before, 0);
        assert_eq!(flow.swings.is_swinging(), swings);
        flow.held = 400_000.0;
        flow.adjust(Time::from_micros(500_000), 0.05);
        assert_eq!(flow.held, if swings { 396_000.0 } else { 380_000.0 });
    }
}

#[test]
fn a_path_that_became_longer_gives_the_window_back() {
    let mut flow = track(200_000);
    after(&mut flow, &[50_000], 0);
    let longer = after(&mut flow, &[60_000; 12], 0);
    assert!(longer > 190_000, "{longer}");
}

#[test]
fn cuts_without_effect_cost_cubic_nothing_from_the_second_time_on() {
    let mut flow = track(200_000);
    after(&mut flow, &[50_000; 3], 0);
    let (mut times, mut cubic) = (0, 0);
    while times < 3 {
        let competed = flow.competes.0;
        let cwnd = after(&mut flow, &[60_000 + 6_000 * times], 0);
        if flow.competes.0 > competed {
            times += 1;
            assert_eq!(cwnd, flow.cubic.cwnd());
        }
        assert!(times < 2 || flow.cubic.cwnd() >= cubic, "{} after {cubic}", flow.cubic.cwnd());
        cubic = flow.cubic.cwnd();
    }
}

#[test]
fn losses_of_a_trial_and_of_a_proof_cost_what_they_cost_cubic() {
    let steady = || {
        let mut flow = track(200_000);
        after(&mut flow, &[50_000; 3], 0);
        flow
    };
    let mut flow = steady();
    let window = flow.control().cwnd;
    flow.try_out();
    let left = after(&mut flow, &[50_000], 10) as f64;
    assert!((left / window as f64 - 0.7).abs() < 0.01, "{left} of {window} after a trial");
    // Where the round-trip time falls under the empty window, a queue has lost them; else the path.
    for (before_ms, kept) in [(60, 0.7), (50, 1.0)] {
        let mut flow = steady();
        flow.seek_proof(Time::from_micros(150_000), Dur::from_millis(before_ms));
        assert_eq!(after(&mut flow, &[50_000], 10), 4_000, "the proof goes on");
        let left = after(&mut flow, &[50_000; 7], 0) as f64;
        assert!((left / window as f64 - kept).abs() < 0.05, "{left} of {window} after a proof");
    }
}

/// A loss that a transport tells of between two ACKs.
fn between(flow: &mut Track, us: u64) -> u64 {
    let seen = Feedback { lost: 1, rtt: Some(Dur::from_millis(50)), ..Default::default() };
    flow.on_feedback(Time::from_micros(us), &seen);
    flow.control().cwnd
}

#[test]
fn a_loss_without_a_round_trip_time_costs_what_it_costs_with_one() {
    let mut flow = track(200_000);
    let window = after(&mut flow, &[50_000; 3], 0);
    let left = between(&mut flow, 150_000);
    assert!((left as f64 / window as f64 - 0.7).abs() < 0.01, "{left} of {window}");
    assert_eq!(between(&mut flow, 160_000), left, "of the same event");
    // Under a trial, and in a proof, whose end tells what it costs.
    let mut flow = track(200_000);
    let window = after(&mut flow, &[50_000; 3], 0);
    flow.try_out();
    let left = between(&mut flow, 150_000);
    assert!((left as f64 / window as f64 - 0.7).abs() < 0.01, "{left} of {window} after a trial");
    assert_eq!(flow.tried(), Some(false));
    let mut flow = track(200_000);
    let window = after(&mut flow, &[50_000; 3], 0);
    flow.seek_proof(Time::from_micros(150_000), Dur::from_millis(60));
    assert_eq!(between(&mut flow, 160_000), 4_000, "the proof goes on");
    let left = after(&mut flow, &[50_000; 8], 0);
    assert!((left as f64 / window as f64 - 0.7).abs() < 0.05, "{left} of {window} after a proof");
}

#[test]
fn a_proof_lasts_until_packets_sent_in_it_have_come_back() {
    // The queue of 200 ms goes a round trip after the window.
    let mut flow = track(200_000);
    after(&mut flow, &[100_000, 300_000], 0);
    flow.base.raise(Time::from_micros(100_000), Dur::from_millis(300));
    flow.seek_proof(Time::from_micros(100_000), Dur::from_millis(300));
    let at = |ms: u64, rtt_ms: u64| {
        let rtt = Some(Dur::from_millis(rtt_ms));
        let seen = Feedback { acked: 4000, rtt, min_rtt: rtt, samples: 4, ..Default::default() };
        (Time::from_micros(ms * 1000), seen)
    };
    for (ms, rtt_ms) in [(401, 300), (702, 100)] {
        assert!(flow.is_proving(), "{ms} ms");
        let (now, seen) = at(ms, rtt_ms);
        flow.on_feedback(now, &seen);
    }
    assert_eq!((flow.proved(), flow.base()), (true, Some(Dur::from_millis(100))));
}

#[test]
fn a_trial_that_goes_well_with_a_base_in_doubt_is_over_once_that_is_proved() {
    for (proved_us, well) in [(50_000, false), (59_000, true)] {
        let mut flow = track(200_000);
        after(&mut flow, &[50_000; 3], 0);
        flow.base.raise(Time::from_micros(150_000), Dur::from_millis(60));
        let window = after(&mut flow, &[60_000], 0);
        flow.try_out();
        let mut rounds = 0;
        while !flow.is_proving() {
            after(&mut flow, &[60_000], 0);
            rounds += 1;
            assert!(rounds < 8 && flow.tried().is_none());
        }
        assert_eq!(flow.control().cwnd, 4_000);
        assert!(after(&mut flow, &[proved_us; 8], 0) >= window);
        assert_eq!(flow.tried(), Some(well), "{proved_us} us");
    }
}

#[test]
fn a_path_that_goes_as_forecast_gets_a_short_queue_and_the_window_stays() {
    // 10 packets in 10 ms: half of a packet is 0.5 ms, 7 % of the base less than the least target.
    let mut flow = track(10_000);
    assert_eq!(after(&mut flow, &[10_000; 3], 0), 11_500);
    after(&mut flow, &[10_500; 6], 0);
    assert_eq!(after(&mut flow, &[10_500; 20], 0), after(&mut flow, &[10_500], 0));
    // A queue that was short enough until then is cut.
    let mut flow = track(10_000);
    let grown = after(&mut flow, &[10_000, 12_500, 12_500, 12_500, 12_500, 12_500], 0);
    let cut = after(&mut flow, &[12_500; 4], 0);
    assert!(cut < grown, "{grown} {cut}");
    // Before it is known to lose nothing the window goes on.
    let mut flow = track(10_000);
    let early = after(&mut flow, &[10_000, 10_000, 10_000, 10_500, 10_500, 10_500], 0);
    let later = after(&mut flow, &[10_500], 0);
    assert!(later > early, "{early} {later}");
}

#[test]
fn a_loss_costs_what_it_costs_cubic_and_limits_what_follows() {
    let mut flow = track(200_000);
    after(&mut flow, &[50_000], 0);
    let left = after(&mut flow, &[50_000], 1);
    assert_eq!(left, 140_350);
    assert_eq!(after(&mut flow, &[50_000], 1), left, "more of the same event");
    let later = after(&mut flow, &[50_000; 3], 0);
    assert!((left..200_500).contains(&later), "{later}");
}

#[test]
fn slow_start_follows_timeouts() {
    // In a proof and in a trial as well: up to a share of the window from before.
    let begin: [fn(&mut Track); 3] =
        [|_| (), |flow| flow.seek_proof(Time::from_micros(300_000), Dur::from_millis(50)), Track::try_out];
    for begin in begin {
        let mut flow = track(200_000);
        after(&mut flow, &[50_000; 3], 0);
        begin(&mut flow);
        for later in [350, 950] {
            flow.on_feedback(
                Time::from_micros(later * 1000),
                &Feedback { timeout: true, lost: 10, ..Default::default() },
            );
            assert_eq!(flow.control().cwnd, 2_000);
        }
        assert!(flow.in_slow_start());
        let grown = after(&mut flow, &[50_000; 5], 0);
        assert_eq!(grown, 48_000, "two segments on top of CUBIC's one, then doubled each round trip");
        after(&mut flow, &[50_000; 4], 0);
        assert!(!flow.in_slow_start(), "not beyond 0.7 of the window that was lost");
    }
}

#[test]
fn a_loss_limits_what_follows_in_a_trial_as_well() {
    let grown = |in_trial: bool| {
        let mut flow = track(200_000);
        after(&mut flow, &[50_000; 40], 0);
        if in_trial {
            flow.try_out();
        }
        let left = after(&mut flow, &[50_000], 1);
        after(&mut flow, &[50_000; 15], 0) - left
    };
    assert_eq!(grown(true), grown(false));
}

#[test]
fn a_queue_that_a_proof_empties_is_no_path_that_swings() {
    let mut flow = track(200_000);
    after(&mut flow, &[50_000; 3], 0);
    for _ in 0..4 {
        after(&mut flow, &[80_000; 3], 0);
        flow.seek_proof(Time::from_micros(150_000), Dur::from_millis(80));
        while flow.is_proving() {
            after(&mut flow, &[50_000; 8], 0);
        }
        assert!(flow.wants_loss_at_once(), "{:?}", flow.swings);
    }
}

#[test]
fn beyond_what_the_path_carried_at_a_loss_a_steady_path_is_tried_by_half_packets() {
    let mut flow = track(200_000);
    after(&mut flow, &[50_000], 0);
    after(&mut flow, &[50_000], 1);
    let grown = after(&mut flow, &[50_000; 46], 0);
    let further = after(&mut flow, &[50_000], 0);
    assert!((200_000..250_000).contains(&grown) && further == grown + 500, "{grown} {further}");
    // Where a round trip is not as forecast, as before.
    let sudden = after(&mut flow, &[70_000, 50_000, 50_000], 0);
    assert!(sudden > further + 1500, "{further} {sudden}");
}

/// The window, packets, and the round-trip time, ms, after so many rounds over a path of so many packets a millisecond and
/// 10 ms that carries nobody else.
fn alone(flow: &mut Track, rounds: u64, lost: u64, per_ms: f64) -> (u64, f64) {
    let mut rtt_ms = 10.0;
    for round in 0..rounds {
        let packets = flow.control().cwnd / 1000;
        rtt_ms = f64::max(10.0, packets as f64 / per_ms);
        let rtt = Dur::from_secs_f64(rtt_ms / 1e3);
        let seen = Feedback {
            acked: packets * 1000,
            lost,
            elapsed: rtt,
            rtt: Some(rtt),
            min_rtt: Some(rtt),
            samples: 10,
            in_flight: Some(packets * 1000),
            ..Default::default()
        };
        flow.on_feedback(Time::from_micros((round + 1) * 50_000), &seen);
    }
    (flow.control().cwnd / 1000, rtt_ms)
}

#[test]
fn a_flow_alone_keeps_what_the_path_holds_and_a_loss_leaves_as_much() {
    let mut flow = track(16_000);
    flow.take_over(Time::ZERO, 16_000, Dur::from_millis(10), Time::ZERO);
    let (window, rtt_ms) = alone(&mut flow, 200, 0, 1.0);
    assert!((10..=11).contains(&window) && rtt_ms <= 11.0, "{window} {rtt_ms}");
    assert!(flow.alone_window().is_some());
    let (window, _) = alone(&mut flow, 1, 1, 1.0);
    assert_eq!(window, 10);
    // The path carries more now, and loses now and then.
    for _ in 0..20 {
        alone(&mut flow, 12, 0, 4.0);
        alone(&mut flow, 1, 1, 4.0);
    }
    let (window, _) = alone(&mut flow, 12, 0, 4.0);
    assert!(window > 30, "{window}");
}

#[test]
fn the_smallest_windows_round_trip_time_is_the_paths() {
    // 2 ms learnt at a larger capacity, 2.6 now: a queue of less than a packet.
    let mut flow = track(2_000);
    flow.take_over(Time::ZERO, 2_000, Dur::from_millis(2), Time::ZERO);
    after(&mut flow, &[2_600; 30], 0);
    assert!(flow.base().unwrap() >= Dur::from_micros(2_600) && flow.control().cwnd >= 2_500);
}

#[test]
fn a_window_out_of_use_stays() {
    let mut flow = track(200_000);
    let rtt = Some(Dur::from_millis(50));
    let seen =
        Feedback { acked: 1000, rtt, min_rtt: rtt, samples: 1, app_limited: true, ..Default::default() };
    flow.on_feedback(Time::from_micros(50_000), &seen);
    assert_eq!(flow.control().cwnd, 200_000);
}
