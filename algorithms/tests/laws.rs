//! Fold programs against the laws whose half per ACK they are: the same ACKs, losses and timeouts go to the runtime with
//! the program and its agent, and to the law alone.

#[path = "support/governed.rs"]
mod governed;

use anole_algorithms::learned::Shipped;
use anole_algorithms::{Build, FlowInfo};
use anole_datapath::AckSample;
use anole_laws::{Feedback, Law};
use anole_model::{Dur, Rate, Time};
use governed::Governed;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

const MSS: u32 = 1000;
/// Slow start after a timeout is over by then.
const RECOVERY_ROUNDS: u64 = 12;
/// What roundings leave after several decreases, packets.
const MOST_PACKETS: f64 = 5.0;
const FLOW: FlowInfo = FlowInfo { mss: MSS, init_cwnd: 10 * MSS };

/// Longer than any test: the fallback has no part in this.
const PATIENCE: Dur = Dur::from_millis(60_000);

/// A flow that runs an algorithm's program.
fn programmed(name: &str) -> Governed {
    let build = Build {
        flow: FLOW,
        classic: None,
        policy: None,
        policies: Arc::new(Shipped),
        params: BTreeMap::new(),
        seed: 1,
    };
    Governed::new(anole_algorithms::build(name, &build).unwrap(), FLOW, PATIENCE)
}

fn law(name: &str) -> Box<dyn Law> {
    let spec = anole_laws::find(name).unwrap();
    (spec.build)(FLOW.of_law(1), &BTreeMap::new()).unwrap()
}

/// An ACK of one packet, a loss or a timeout, for both.
fn sample(
    rtt: Dur,
    acked: u32,
    lost: u32,
    timeout: bool,
    in_flight: u32,
    rate: u64,
) -> (AckSample, Feedback) {
    let rtt_sample = (acked > 0).then_some(rtt);
    let sample = AckSample {
        bytes_acked: acked,
        packets_acked: acked / MSS,
        lost_packets: lost,
        was_timeout: timeout,
        rtt_us: rtt_sample.map_or(0, |rtt| rtt.as_micros()),
        bytes_in_flight: Some(in_flight),
        packets_in_flight: in_flight / MSS,
        bytes_pending: MSS,
        rate_incoming: rate,
        rate_outgoing: rate,
        ..AckSample::default()
    };
    let seen = Feedback {
        acked: u64::from(acked),
        lost: u64::from(lost),
        timeout,
        rtt: rtt_sample,
        min_rtt: rtt_sample,
        samples: u64::from(acked > 0),
        delivery_rate: (rate > 0).then(|| Rate::from_bytes_per_s(rate as f64)),
        in_flight: Some(u64::from(in_flight)),
        ..Feedback::default()
    };
    (sample, seen)
}

/// What happens after some round trips of ACKs.
#[derive(Clone, Copy, Debug)]
enum Event {
    Loss,
    Timeout,
}

fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let event = prop_oneof![8 => Just(Event::Loss), 1 => Just(Event::Timeout)];
    proptest::collection::vec((3..40u64, event), 1..8)
}

/// The largest difference of the two windows, packets, less `share` of the larger one.
fn largest_difference(name: &str, rtt: Dur, first: u64, events: &[(u64, Event)], share: f64) -> f64 {
    let (mut program, mut law) = (programmed(name), law(name));
    let (mut now, mut worst) = (Time::from_micros(1000), 0.0f64);
    // After a timeout the transport keeps two packets, the law one, until both are out of slow start.
    let mut timed_out = false;
    let slow_start = (first, Event::Loss);
    let ends = std::iter::once(&slow_start).chain(events);
    for &(rounds, event) in ends {
        let until = now + rtt * (rounds + if timed_out { RECOVERY_ROUNDS } else { 0 });
        while now < until {
            // Both get the ACKs of the law's window.
            let packets = (law.control().cwnd / u64::from(MSS)).clamp(1, 2000);
            now += rtt / packets;
            let (sample, seen) = sample(rtt, MSS, 0, false, packets as u32 * MSS, 0);
            let control = program.on_ack(now, &sample);
            law.on_feedback(now, &seen);
            timed_out &= law.in_slow_start();
            if !timed_out {
                let (a, b) = (f64::from(control.cwnd), law.control().cwnd.max(2 * u64::from(MSS)) as f64);
                worst = worst.max(((a - b).abs() - share * a.max(b)) / f64::from(MSS));
            }
        }
        let timeout = matches!(event, Event::Timeout);
        timed_out |= timeout;
        let (sample, seen) = sample(rtt, 0, u32::from(!timeout), timeout, MSS, 0);
        program.on_ack(now, &sample);
        law.on_feedback(now, &seen);
    }
    worst
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_program_reno_is_the_law(rtt_ms in 5..200u64, first in 1..7u64, events in events()) {
        let worst = largest_difference("reno", Dur::from_millis(rtt_ms), first, &events, 0.01);
        prop_assert!(worst < MOST_PACKETS, "{worst} packets");
    }

    /// The program grows in the round trip after a decrease, in which the law stands still; and whether a loss came below
    /// the last plateau, which lowers the next one by (1 − β)/2, may be a matter of a fraction, twice in a row: 1 − 0.85².
    #[test]
    fn the_program_cubic_is_the_law(rtt_ms in 5..200u64, first in 1..7u64, events in events()) {
        let worst = largest_difference("cubic", Dur::from_millis(rtt_ms), first, &events, 0.28);
        prop_assert!(worst < MOST_PACKETS, "{worst} packets");
    }
}

/// A loss at a window between the threshold of a timeout and the plateau from before it: that plateau counts no more.
#[test]
fn the_program_cubic_forgets_its_plateau_at_a_timeout_as_the_law_does() {
    let events = [(3, Event::Loss), (20, Event::Timeout), (3, Event::Loss), (60, Event::Loss)];
    let worst = largest_difference("cubic", Dur::from_millis(50), 5, &events, 0.05);
    assert!(worst < MOST_PACKETS, "{worst} packets");
}

/// Bulk, a loss, an application that sends a packet per 100 ms for half a minute, or uses three quarters of the window,
/// and bulk again for a second: the program's windows before and after the pause and at the end, and the law's at the end.
fn over_a_pause(name: &str, trickle: bool) -> ([f64; 3], f64) {
    let (mut program, mut law) = (programmed(name), law(name));
    let (rtt, mut now) = (Dur::from_millis(50), Time::from_micros(1000));
    let bulk = |now: &mut Time, program: &mut Governed, law: &mut Box<dyn Law>, rounds: u64| {
        let (until, mut cwnd) = (*now + rtt * rounds, 0);
        while *now < until {
            let packets = law.control().cwnd / u64::from(MSS);
            *now += rtt / packets;
            let (sample, seen) = sample(rtt, MSS, 0, false, packets as u32 * MSS, 0);
            cwnd = program.on_ack(*now, &sample).cwnd;
            law.on_feedback(*now, &seen);
        }
        f64::from(cwnd)
    };
    bulk(&mut now, &mut program, &mut law, 5);
    let (loss, seen) = sample(rtt, 0, 1, false, MSS, 0);
    program.on_ack(now, &loss);
    law.on_feedback(now, &seen);
    let before = bulk(&mut now, &mut program, &mut law, 10);
    let mut paused = 0.0;
    for _ in 0..300 {
        now += Dur::from_millis(100);
        let in_flight = if trickle { 0 } else { 3 * law.control().cwnd as u32 / 4 };
        let (sample, seen) = sample(rtt, MSS, 0, false, in_flight, 0);
        paused = f64::from(program.on_ack(now, &AckSample { bytes_pending: 0, ..sample }).cwnd);
        law.on_feedback(now, &Feedback { app_limited: true, ..seen });
    }
    let after = bulk(&mut now, &mut program, &mut law, 20);
    ([before, paused, after].map(|bytes| bytes / f64::from(MSS)), law.control().cwnd as f64 / f64::from(MSS))
}

#[test]
fn a_window_that_is_not_in_use_does_not_grow_and_its_epoch_stands_still() {
    for name in ["cubic", "reno"] {
        for trickle in [false, true] {
            let ([before, paused, after], law) = over_a_pause(name, trickle);
            assert_eq!(before, paused, "{name}");
            assert!(
                (after / law - 1.0).abs() < 0.05,
                "{name}: {paused}, then {after} where the law has {law}"
            );
        }
    }
}

/// A path of 6 MB/s and 50 ms, on which two bandwidth-delay products are in flight: the mean pacing rate and window.
#[test]
fn the_program_bbr_is_the_law() {
    let (mut program, mut law) = (programmed("bbr"), law("bbr"));
    let (rtt, gap, rate) = (Dur::from_millis(50), Dur::from_micros(1000), 6_000_000);
    let (mut sums, mut now, mut n) = ([0.0; 4], Time::from_micros(1000), 0.0);
    while now < Time::from_secs_f64(9.0) {
        now += gap;
        let (sample, seen) = sample(rtt, 6 * MSS, 0, false, 290 * MSS, rate);
        let control = program.on_ack(now, &sample);
        law.on_feedback(now, &Feedback { elapsed: gap, ..seen });
        if now > Time::from_secs_f64(1.0) {
            let asked = law.control();
            n += 1.0;
            let terms = [
                f64::from(control.rate),
                asked.rate.unwrap().bytes_per_s(),
                f64::from(control.cwnd),
                asked.cwnd as f64,
            ];
            sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
        }
    }
    let [program_rate, law_rate, program_cwnd, law_cwnd] = sums.map(|sum| sum / n);
    assert!((program_rate / law_rate - 1.0).abs() < 0.02, "{program_rate} and {law_rate} bytes/s");
    assert!((program_cwnd / law_cwnd - 1.0).abs() < 0.02, "{program_cwnd} and {law_cwnd} bytes");
}
