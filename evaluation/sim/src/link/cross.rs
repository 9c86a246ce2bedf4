//! Traffic across a link that no congestion control governs: at a constant rate, on and off, regular or random.
//!
//! It comes in at the link's queue and is gone behind its transmitter; it has no receiver and no results of its own.

use anole_model::{Dur, Rate, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Traffic of one source.
#[derive(Clone, Debug, PartialEq)]
pub struct CrossTraffic {
    /// While it is on; above 0.
    pub rate: Rate,
    /// Bytes of a packet on the wire, above 0.
    pub packet_bytes: u32,
    /// From here,
    pub start: Time,
    /// to here.
    pub stop: Time,
    /// How long it is on and then off, again and again; both above 0.
    pub on_off: Option<(Dur, Dur)>,
    /// These times and those between packets are exponentially distributed around their means.
    pub random: bool,
    /// Its number among flows, which differs from all of theirs.
    pub flow: u32,
}

/// A source and when it sends next.
#[derive(Clone, Debug)]
pub(super) struct Source {
    config: CrossTraffic,
    next: Time,
    /// The end of this time of being on.
    off_at: Time,
    rng: Pcg64Mcg,
}

impl Source {
    pub fn new(config: CrossTraffic, seed: u64) -> Source {
        let rng = Pcg64Mcg::seed_from_u64(seed ^ 0x4352_0000 ^ (u64::from(config.flow) << 32));
        let mut source = Source { next: config.start, off_at: Time::MAX, rng, config };
        if let Some((on, _)) = source.config.on_off {
            source.off_at = source.config.start + source.around(on);
        }
        source
    }

    /// Its number among flows.
    pub fn flow(&self) -> u32 {
        self.config.flow
    }

    /// When it sends its next packet, if it does.
    pub fn next(&self) -> Option<Time> {
        (self.next < self.config.stop).then_some(self.next)
    }

    /// Size and number of the packet that is due, which is sent now.
    pub fn send(&mut self) -> (u32, u32) {
        let gap = Dur::from_secs_f64(f64::from(self.config.packet_bytes) / self.config.rate.bytes_per_s());
        // Not nothing, or time would stand still.
        let gap = self.around(gap).max(Dur::from_nanos(1));
        self.next += gap;
        if let Some((on, off)) = self.config.on_off {
            // What is left of the gap passes in the next time of being on.
            while self.next >= self.off_at && self.next < self.config.stop {
                let left = self.next.since(self.off_at);
                let on_at = self.off_at + self.around(off);
                self.next = on_at + left;
                self.off_at = on_at + self.around(on);
            }
        }
        (self.config.packet_bytes, self.config.flow)
    }

    /// This long, or so on the mean.
    fn around(&mut self, mean: Dur) -> Dur {
        if self.config.random { mean.mul_f64(-(1.0 - self.rng.random::<f64>()).ln()) } else { mean }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn source(on_off: Option<(Dur, Dur)>, random: bool) -> Source {
        let config = CrossTraffic {
            rate: Rate::from_mbps(12.0),
            packet_bytes: 1500,
            start: Time::from_secs_f64(1.0),
            stop: Time::from_secs_f64(101.0),
            on_off,
            random,
            flow: 3,
        };
        Source::new(config, 1)
    }

    fn packets(mut source: Source) -> usize {
        std::iter::from_fn(|| source.next().map(|_| source.send())).count()
    }

    #[test]
    fn times_of_being_on_that_are_short_beside_the_gap_between_packets_keep_the_rate() {
        // 100 s, half of them on in spans of 0.25 or 2.5 packets: 50 000 packets.
        for on_us in [250, 2_500] {
            let on_off = Some((Dur::from_micros(on_us), Dur::from_micros(on_us)));
            for random in [false, true] {
                let sent = packets(source(on_off, random)) as f64;
                assert!((sent / 50_000.0 - 1.0).abs() < 0.02, "{on_us} {random}: {sent}");
            }
        }
    }

    #[test]
    fn it_sends_at_its_rate_while_it_is_on() {
        // 1000 packets a second.
        assert_eq!(packets(source(None, false)), 100_000);
        let on_off = Some((Dur::from_millis(200), Dur::from_millis(300)));
        assert_eq!(packets(source(on_off, false)), 40_000);
        for (on_off, mean) in [(None, 100_000.0), (on_off, 40_000.0)] {
            let random = packets(source(on_off, true)) as f64;
            assert!((random / mean - 1.0).abs() < 0.1, "{random} {mean}");
        }
    }

    proptest! {
        #[test]
        fn time_goes_on(random in any::<bool>(), on_us in 1u64..5_000, off_us in 1u64..5_000) {
            let mut source = source(Some((Dur::from_micros(on_us), Dur::from_micros(off_us))), random);
            for _ in 0..1000 {
                let Some(before) = source.next() else { return Ok(()) };
                source.send();
                prop_assert!(source.next().is_none_or(|next| next > before));
            }
        }
    }
}
