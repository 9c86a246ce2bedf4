//! What no policy, agent or program may exceed.

use crate::{Dur, Rate};

/// Bounds on what one flow may ask of the network. Applied where a command meets the transport, so
/// that no algorithm, fold program or message can pass them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Smallest congestion window, packets (RFC 5681 §3.1 allows one after a timeout; two keep
    /// delayed ACKs flowing).
    pub min_cwnd_packets: u32,
    /// Largest congestion window, bytes.
    pub max_cwnd_bytes: u32,
    /// Smallest pacing rate, bytes/s.
    pub min_rate_bytes_per_s: u32,
    /// Largest pacing rate, bytes/s.
    pub max_rate_bytes_per_s: u32,
}

impl Bounds {
    /// 2 packets to 1 GiB; 1500 bytes/s (a packet per second) to 4 GB/s (the wire carries a u32 from
    /// the agent).
    pub const DEFAULT: Bounds = Bounds {
        min_cwnd_packets: 2,
        max_cwnd_bytes: 1 << 30,
        min_rate_bytes_per_s: 1500,
        max_rate_bytes_per_s: 4_000_000_000,
    };

    /// A window in bytes brought within the bounds.
    pub fn cwnd(&self, bytes: u64, mss: u32) -> u32 {
        let low = u64::from(self.min_cwnd_packets) * u64::from(mss);
        let high = u64::from(self.max_cwnd_bytes).max(low);
        bytes.clamp(low, high).min(u64::from(u32::MAX)) as u32
    }

    /// A pacing rate in bytes/s brought within the bounds.
    pub fn rate(&self, bytes_per_s: u64) -> u32 {
        let (low, high) = (u64::from(self.min_rate_bytes_per_s), u64::from(self.max_rate_bytes_per_s));
        bytes_per_s.max(low).min(high) as u32
    }

    /// A rate brought within the bounds.
    pub fn clamp(&self, rate: Rate) -> Rate {
        rate.clamp(
            Rate::from_bytes_per_s(f64::from(self.min_rate_bytes_per_s)),
            Rate::from_bytes_per_s(f64::from(self.max_rate_bytes_per_s)),
        )
    }

    /// The window that carries `rate` over `rtt` with `gain` to spare, within the bounds.
    pub fn cwnd_for(&self, rate: Rate, rtt: Dur, gain: f64, mss: u32) -> u32 {
        self.cwnd((rate.bytes_in(rtt) * gain) as u64, mss)
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn always_inside(bytes in any::<u64>(), mss in any::<u32>(), rate in any::<f64>(), gain in any::<f64>()) {
            let b = Bounds::DEFAULT;
            prop_assert!(u64::from(b.cwnd(bytes, mss)) >= (2 * u64::from(mss)).min(u64::from(u32::MAX)));
            let r = b.clamp(Rate::from_bytes_per_s(rate));
            prop_assert!(r.bytes_per_s() >= 1500.0 && r.bytes_per_s() <= 4e9);
            let _ = b.cwnd_for(r, Dur::from_nanos(bytes), gain, mss);
        }
    }

    #[test]
    fn of_bounds_that_cross_the_largest_rate_holds() {
        let b = Bounds { min_rate_bytes_per_s: 3000, max_rate_bytes_per_s: 2000, ..Bounds::DEFAULT };
        for rate in [1000, 2500, 4000] {
            assert_eq!(
                (b.rate(rate), b.clamp(Rate::from_bytes_per_s(rate as f64)).bytes_per_s()),
                (2000, 2e3)
            );
        }
    }
}
