use super::*;

/// The values that libccp's functions give (worked out by hand from `machine.c`).
#[test]
fn ewma_as_libccp() {
    assert_eq!(ewma(3, 0, 77), 77);
    assert_eq!(ewma(3, 100, 200), 170);
    assert_eq!(ewma(10, 100, 200), 100);
    assert_eq!(ewma(0, 100, 200), 200);
    // A weight above 10 wraps: 11·10 + (−1)·20 = 90.
    assert_eq!(ewma(11, 10, 20), 9);
}

#[test]
fn wrapped_maximum_as_libccp() {
    assert_eq!(max_wrapped(0, 5), 5);
    assert_eq!(max_wrapped(5, 0), 5);
    assert_eq!(max_wrapped(5, 9), 9);
    // 3 comes shortly after 2^32 − 2.
    assert_eq!(max_wrapped(u64::from(u32::MAX) - 1, 3), 3);
    assert_eq!(max_wrapped(3, u64::from(u32::MAX) - 1), 3);
    // Only the low 32 bits are compared and kept.
    assert_eq!(max_wrapped((1 << 32) | 7, 2), 7);
}
