//! The loss window, the clock, the mail and the segment size.

use super::*;

/// 30 packets in flight get lost; nothing else comes until another timeout.
fn timeout(run: &mut Run) {
    run.now += Dur::from_millis(300);
    let sample =
        AckSample { was_timeout: true, lost_packets: 30, bytes_in_flight: Some(0), ..AckSample::default() };
    run.flow.on_ack(run.now, &sample, &mut run.wire);
}

#[test]
fn a_timeout_leaves_one_packet_and_slow_start_until_the_agent_sets_a_window_or_a_rate() {
    let mut run = Run::start(false);
    run.change(&reporter(1), 30 * u64::from(MSS), 2_000_000);
    run.acks(1);
    timeout(&mut run);
    // The bounds keep two packets.
    assert_eq!(run.flow.control(), InForce { cwnd: 2 * MSS, rate: 2_000_000 });
    assert_eq!(run.flow.asked().cwnd, 30 * MSS, "the agent hears what it had asked for");
    assert_eq!(run.flow.register(RegisterKind::Implicit, CWND), Some(30_000));
    // An answer to something else, and one that only shows that the agent lives.
    run.update(&[FieldUpdate { kind: 0, index: 3, value: 1 }]);
    run.update(&[]);
    run.acks(1);
    assert_eq!(run.flow.control().cwnd, 2 * MSS);
    run.acks(4);
    assert_eq!(run.flow.control().cwnd, 6 * MSS, "one, and one per ACK");
    // Another one, before any answer.
    timeout(&mut run);
    assert_eq!(run.flow.control().cwnd, 2 * MSS);
    for (index, value) in [(CWND, 25_000), (RATE, 1_000_000)] {
        timeout(&mut run);
        run.update(&[FieldUpdate { kind: 2, index, value }]);
        assert_eq!(run.flow.control().cwnd, 2 * MSS);
        run.acks(1);
        assert_eq!(run.flow.control().cwnd, 25 * MSS);
    }
    assert_eq!(run.flow.governor(), Governor::Agent);
}

#[test]
fn slow_start_after_a_timeout_ends_where_the_agent_s_window_is() {
    let mut run = Run::start(false);
    run.change(&reporter(1), 20 * u64::from(MSS), 0);
    run.acks(1);
    timeout(&mut run);
    for _ in 0..40 {
        run.acks(1);
        run.update(&[]);
    }
    assert_eq!(run.flow.control().cwnd, 20 * MSS);
    assert!(run.flow.loss_window.is_none());
}

/// The fallback governs, in slow start up to CUBIC's share of the 30 packets that were in flight.
fn falls_back_to_slow_start(run: &mut Run) {
    assert_eq!((run.flow.governor(), run.flow.control().cwnd), (Governor::Fallback, 2 * MSS));
    run.acks(19);
    assert_eq!(run.flow.control().cwnd, 20 * MSS, "slow start");
    run.acks(10);
    // 0.7 of 30 packets, and little more in congestion avoidance.
    assert!((21_000..22_000).contains(&run.flow.control().cwnd), "{:?}", run.flow.control());
}

#[test]
fn an_agent_lost_after_a_timeout_leaves_slow_start_up_to_cubic_s_share_of_the_flight() {
    let mut run = Run::start(false);
    run.change(&reporter(1), 1_000_000, 800_000);
    run.acks(1);
    timeout(&mut run);
    timeout(&mut run);
    assert_eq!((run.flow.governor(), run.flow.control().cwnd), (Governor::Agent, 2 * MSS));
    timeout(&mut run);
    falls_back_to_slow_start(&mut run);
}

/// The transport tells neither what is in flight nor what is lost.
#[test]
fn an_agent_lost_after_a_timeout_that_tells_no_flight_leaves_slow_start_up_to_cubic_s_share_of_the_window() {
    let mut run = Run::start(false);
    run.change(&reporter(1), 30 * u64::from(MSS), 800_000);
    run.acks(1);
    for _ in 0..3 {
        run.now += Dur::from_millis(300);
        let sample = AckSample { was_timeout: true, ..AckSample::default() };
        run.flow.on_ack(run.now, &sample, &mut run.wire);
    }
    falls_back_to_slow_start(&mut run);
}

#[test]
fn an_agent_found_lost_at_a_timeout_leaves_the_same() {
    let mut run = Run::start(false);
    run.change(&reporter(1), 1 << 30, 800_000);
    run.acks(12);
    run.now += TIMEOUT;
    timeout(&mut run);
    falls_back_to_slow_start(&mut run);
}

/// A transport in C, as libccp's do, tells of the timeout with the first ACK after it.
#[test]
fn an_agent_found_lost_at_a_timeout_that_is_told_with_an_ack_leaves_the_same() {
    let mut run = Run::start(false);
    run.change(&reporter(1), 1 << 30, 800_000);
    run.acks(12);
    run.now += TIMEOUT + Dur::from_millis(300);
    let sample = AckSample { was_timeout: true, lost_packets: 30, bytes_in_flight: Some(0), ..run.sample };
    run.flow.on_ack(run.now, &sample, &mut run.wire);
    falls_back_to_slow_start(&mut run);
}

#[test]
fn a_clock_that_goes_back_fires_no_timer() {
    let mut run = Run::start(false);
    run.change(&reporter(1), 70_000, 0);
    run.acks(5);
    let latest = run.now;
    for micros in [4_000, 1, 900_000] {
        run.flow.on_ack(Time::from_micros(micros), &run.sample, &mut run.wire);
    }
    assert_eq!((run.flow.stats().reports, run.flow.governor()), (0, Governor::Agent));
    assert_eq!(run.flow.register(RegisterKind::Implicit, 3), Some(4_000), "Micros stands still");
    run.now = latest;
    run.acks(6);
    assert_eq!(run.flow.stats().reports, 0);
    run.acks(1);
    assert_eq!(run.flow.stats().reports, 1);
}

#[test]
fn mail_of_many_messages_is_what_they_amount_to() {
    let mut run = Run::start(false);
    let (mut early, mut late) = (Mail::default(), Mail::default());
    let field = |kind, index, value| FieldUpdate { kind, index, value };
    early.put(FlowMessage::Update(vec![field(0, 1, 11), field(2, CWND, 90_000)]));
    late.put(FlowMessage::ChangeProgram(reporter(1), vec![field(2, CWND, 80_000)]));
    for value in 0..10_000 {
        late.put(FlowMessage::Update(vec![field(0, 2, value), field(7, 1, value)]));
    }
    assert_eq!(late.fields.len(), 2);
    // A copy of the flow gets the same.
    let mut copy = late.clone();
    run.flow.collect(&mut early);
    run.flow.collect(&mut late);
    run.acks(1);
    assert_eq!(run.flow.control().cwnd, 80_000);
    assert_eq!(run.flow.register(RegisterKind::Control, 2), Some(9_999));
    assert_eq!(run.flow.register(RegisterKind::Control, 1), Some(0), "a change of program starts anew");
    assert_eq!(run.flow.stats().updates, 10_002);
    assert_eq!((late.messages(), copy.messages()), (0, 10_001));
    let mut other = Run::start(false);
    other.flow.collect(&mut copy);
    other.acks(1);
    assert_eq!((other.flow.control().cwnd, other.flow.governor()), (80_000, Governor::Agent));
}

#[test]
fn a_larger_segment_size_raises_the_smallest_window_at_once() {
    let mut run = Run::start(false);
    run.change(&reporter(1), 1, 0);
    run.acks(1);
    assert_eq!(run.flow.control().cwnd, 2 * MSS);
    run.flow.set_mss(1472);
    assert_eq!(run.flow.control().cwnd, 2 * 1472);
    run.acks(600);
    assert_eq!(run.flow.governor(), Governor::Fallback);
    let create = run.wire.creates().pop().expect("announced again");
    assert_eq!(create.mss, 1472);
}
