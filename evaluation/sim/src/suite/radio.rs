//! Cells and wireless networks.

use crate::link::{Aggregation, Impairments, Lte};
use anole_model::{Dur, Rate};
use rand_pcg::Pcg64Mcg;

/// A burst of Wi-Fi (A-MPDU) lasts 5.484 ms at most (IEEE 802.11-2016, aPPDUMaxTime of HT-mixed); here from this long, s …
const BURST_S: [f64; 2] = [0.0005, 0.005484];
/// Medium access puts packets off by up to as much, s.
const JITTER_S: [f64; 2] = [0.0005, 0.005];

/// What a medium does to packets beside its capacity.
#[derive(Clone, Debug, Default)]
pub(super) struct Medium {
    pub aggregation: Aggregation,
    pub impairments: Impairments,
}

/// A busy cell: the upper end of the deviations that the authors' recordings show (see [`Lte::deviation`]), flicker of a
/// scheduler with other users, opportunities in bursts, outages of half a second.
pub(super) fn busy_cell(mean: Rate) -> Lte {
    Lte {
        deviation: 0.8,
        flicker: 0.4,
        burst: 4.0,
        outage_every_s: 10.0,
        outage_s: 0.5,
        ..Lte::with_mean(mean)
    }
}

/// The rate of Wi-Fi: it adapts about its mean, and hardly ever goes out.
pub(super) fn wifi_rate(mean: Rate) -> Lte {
    Lte { deviation: 0.25, memory_s: 1.0, outage_every_s: 60.0, outage_s: 0.1, ..Lte::with_mean(mean) }
}

/// Data and ACKs in bursts, and jitter.
pub(super) fn wifi(rng: &mut Pcg64Mcg) -> Medium {
    let mut burst = || {
        let longest = super::uniform(rng, BURST_S);
        Some((Dur::from_secs_f64(BURST_S[0]), Dur::from_secs_f64(longest)))
    };
    let aggregation = Aggregation { data: burst(), acks: burst() };
    let jitter = Dur::from_secs_f64(super::uniform(rng, JITTER_S));
    Medium { aggregation, impairments: Impairments { jitter, ..Impairments::default() } }
}
