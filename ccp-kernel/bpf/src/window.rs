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

unsafe extern "C" {
    safe fn anole_fold_burst(rate: u64, min_rtt_us: u32) -> u32;
    safe fn anole_fold_conserved(cwnd: u32, in_flight: u32, acked: u32, is_first: i32) -> u32;
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
fn while_losses_are_repaired_as_much_leaves_as_arrives() {
    assert_eq!(anole_fold_conserved(100, 60, 2, 0), 62);
    assert_eq!(anole_fold_conserved(50, 60, 2, 0), 50, "never more than the program asks for");
    assert_eq!(anole_fold_conserved(100, 60, 0, 1), 61, "the first packet that is sent again");
    assert_eq!(anole_fold_conserved(100, 60, 0, 0), 60);
    assert_eq!(anole_fold_conserved(100, 0, 0, 0), 1);
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
