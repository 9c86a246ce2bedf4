//! What befalls packets behind a link's transmitter, beside random loss and aggregation.
//!
//! Jitter: every packet takes up to so much longer, uniformly drawn; the order is kept, so that a packet drawn
//! early waits for the one before it.

use anole_model::Dur;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// What befalls packets; by default nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Impairments {
    /// Data are late by up to this, in order.
    pub jitter: Dur,
    /// ACKs of the other direction are.
    pub ack_jitter: Dur,
}

/// The state of it.
#[derive(Clone, Debug)]
pub(super) struct Impairer {
    config: Impairments,
    jitter: Pcg64Mcg,
    ack_jitter: Pcg64Mcg,
}

impl Impairer {
    /// Each kind of randomness has a stream of its own, so that none repeats another.
    pub fn new(config: Impairments, seed: u64) -> Impairer {
        let stream = |kind: u64| Pcg64Mcg::seed_from_u64(seed ^ kind);
        Impairer { config, jitter: stream(0x4a44_0000), ack_jitter: stream(0x4a41_0000) }
    }

    /// How much later the next data packet is.
    pub fn late(&mut self) -> Dur {
        up_to(self.config.jitter, &mut self.jitter)
    }

    /// How much later the next ACK is.
    pub fn ack_late(&mut self) -> Dur {
        up_to(self.config.ack_jitter, &mut self.ack_jitter)
    }
}

fn up_to(most: Dur, rng: &mut Pcg64Mcg) -> Dur {
    if most.is_zero() { Dur::ZERO } else { Dur::from_nanos(rng.random_range(0..=most.as_nanos())) }
}
