// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! Tests of `../vm/window.h`, which both of the kernel's datapaths run.

#[repr(C)]
struct Limit {
    cap: u32,
    lost_flight: u32,
}

#[repr(C)]
struct Lost {
    cwnd: u32,
    asked: u32,
    used: u32,
    app_limited: u32,
}

#[derive(Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct Resumed {
    cwnd: u32,
    ssthresh: u32,
}

#[repr(C)]
struct Reduction {
    ssthresh: u32,
    prior: u32,
    delivered: u32,
    out: u32,
}

unsafe extern "C" {
    safe fn anole_fold_burst(rate: u64, min_rtt_us: u32) -> u32;
    safe fn anole_fold_conserved(cwnd: u32, in_flight: u32, acked: u32, is_first: i32) -> u32;
    safe fn anole_fold_delivered(out: u32, prior: u32, ssthresh: u32) -> u32;
    safe fn anole_fold_reduced(reduction: &mut Reduction, in_flight: u32, acked: u32) -> u32;
    safe fn anole_fold_window(packets: u32, mss: u32) -> u32;
    safe fn anole_fold_resume(limit: &Limit, lost: &Lost, to: &mut Resumed);
}

#[test]
fn what_tcp_sends_at_once_is_in_proportion_to_the_path() {
    const KIB_64: u32 = 65_536;
    // 10 Gbit/s: half of what a path of 100 us holds, and all that a host sends at once over a longer one.
    assert_eq!(anole_fold_burst(1_250_000_000, 100), KIB_64);
    assert_eq!(anole_fold_burst(1_250_000_000, 20_000), KIB_64);
    // 500 flows share it: three times what each has in flight, 375 kB in all.
    assert_eq!(anole_fold_burst(2_500_000, 100), 750);
    // 100 Mbit/s: the 12 kB of a millisecond over a long path, and more over a short one.
    assert_eq!(anole_fold_burst(12_500_000, 20_000), 12_207);
    assert_eq!(anole_fold_burst(12_500_000, 1_000), 37_500);
    // Before the first sample; without a rate; the largest of both.
    assert_eq!(anole_fold_burst(12_500_000, u32::MAX), 12_207);
    assert_eq!(anole_fold_burst(0, 100), 0);
    assert_eq!(anole_fold_burst(4_000_000_000, u32::MAX), KIB_64);
}

#[test]
fn a_window_of_many_packets_is_a_gibibyte_at_most() {
    assert_eq!(anole_fold_window(10, 1448), 14_480);
    // 2^32 bytes and a packet more: not the packet alone.
    assert_eq!(anole_fold_window((1 << 22) + 1, 1 << 10), 1 << 30);
    assert_eq!(anole_fold_window(u32::MAX, u32::MAX), 1 << 30);
}

#[test]
fn while_losses_are_repaired_as_much_leaves_as_arrives() {
    assert_eq!(anole_fold_conserved(100, 60, 2, 0), 62);
    assert_eq!(anole_fold_conserved(50, 60, 2, 0), 50, "never more than the program asks for");
    assert_eq!(anole_fold_conserved(100, 60, 0, 1), 61, "the first packet that is sent again");
    assert_eq!(anole_fold_conserved(100, 60, 0, 0), 60);
    assert_eq!(anole_fold_conserved(100, 0, 0, 0), 1);
}

/// Packets arrive one at a time, each SACKed, and as many leave as the window allows: after each, what has left in the
/// reduction and what is in flight.
fn reduce(reduction: &mut Reduction, mut in_flight: u32, acks: u32) -> Vec<(u32, u32)> {
    let step = |_| {
        in_flight -= 1;
        let sends = anole_fold_reduced(reduction, in_flight, 1).saturating_sub(in_flight);
        reduction.out += sends;
        in_flight += sends;
        (reduction.out, in_flight)
    };
    (0..acks).map(step).collect()
}

#[test]
fn a_reduction_sends_in_proportion_and_then_keeps_the_threshold() {
    let mut whole = Reduction { ssthresh: 70, prior: 100, delivered: 0, out: 0 };
    // One of 100 was lost; RFC 6937: 7 leave for 10 that are delivered.
    let steps = reduce(&mut whole, 99, 98);
    assert_eq!((steps[0], steps[9], steps[49]), ((1, 99), (7, 96), (35, 84)));
    assert_eq!(*steps.last().unwrap(), (69, 70));
    // With less in flight than the threshold, two leave for each until it is reached.
    let mut little = Reduction { ssthresh: 70, prior: 100, delivered: 0, out: 0 };
    assert_eq!(reduce(&mut little, 40, 3), [(2, 41), (4, 42), (6, 43)]);
    assert_eq!(*reduce(&mut little, 43, 40).last().unwrap(), (73, 70));
    assert_eq!(anole_fold_reduced(&mut Reduction { delivered: 30, out: 3, ..little }, 40, 1), 69);
    // What cannot be is bounded.
    assert_eq!(
        anole_fold_reduced(&mut Reduction { ssthresh: 2, prior: 0, delivered: u32::MAX, out: 0 }, 1, 1),
        2
    );
}

#[test]
fn whoever_takes_over_a_reduction_sends_as_if_it_had_begun_it() {
    for (ssthresh, prior, acks) in [(50, 100, 40), (70, 100, 33), (20, 40, 15), (100, 100, 20)] {
        let mut whole = Reduction { ssthresh, prior, delivered: 0, out: 0 };
        let in_flight = reduce(&mut whole, prior - 1, acks).pop().unwrap().1;
        let delivered = anole_fold_delivered(whole.out, prior, ssthresh);
        assert!(
            whole.delivered.abs_diff(delivered) <= 1 + prior / ssthresh,
            "{delivered} of {}",
            whole.delivered
        );
        let mut taken = Reduction { delivered, ..whole };
        let (goes_on, takes_over) = (reduce(&mut whole, in_flight, 10), reduce(&mut taken, in_flight, 10));
        for (a, b) in goes_on.iter().zip(&takes_over) {
            assert!(a.0.abs_diff(b.0) <= 2, "{goes_on:?}, {takes_over:?}");
        }
    }
    assert_eq!(anole_fold_delivered(0, 0, 1 << 31), 0, "a new connection");
    assert_eq!(anole_fold_delivered(9, 10, 1 << 31), 9);
    assert_eq!(anole_fold_delivered(u32::MAX, u32::MAX, 1), u32::MAX);
}

fn resumed(cap: u32, lost_flight: u32, lost: Lost) -> (u32, u32) {
    let mut to = Resumed::default();
    anole_fold_resume(&Limit { cap, lost_flight }, &lost, &mut to);
    (to.cwnd, to.ssthresh)
}

#[test]
fn the_fallback_goes_on_from_what_was_in_use() {
    let lost = |cwnd, used, app_limited| Lost { cwnd, asked: 100, used, app_limited };
    assert_eq!(resumed(0, 0, lost(100, 40, 0)), (40, 40));
    assert_eq!(resumed(0, 0, lost(100, 0, 0)), (100, 100), "it is not known");
    assert_eq!(resumed(0, 0, lost(100, 1, 0)), (2, 2));
    // The application has little to send, or had: RFC 6928's window, and slow start.
    assert_eq!(resumed(0, 0, lost(100, 1, 1)), (10, 100));
    assert_eq!(resumed(12, 0, lost(12, 3, 0)), (10, 100));
    assert_eq!(resumed(0, 0, Lost { cwnd: 4, asked: 4, used: 1, app_limited: 1 }), (4, 4));
    // After a timeout: slow start from where it is to 0.7 of what was in flight (RFC 9438).
    assert_eq!(resumed(3, 40, lost(3, 3, 1)), (3, 28));
    assert_eq!(resumed(1, 1, lost(1, 1, 0)), (1, 2));
}
