//! What befalls packets behind a link's transmitter, beside random loss and aggregation, and ACKs in the other
//! direction.
//!
//! - Burst loss: two states, between which a packet's turn may change (Gilbert 1960, Elliott 1963); random loss is the
//!   other loss, and both count alike.
//! - Hold: what leaves the transmitter in a slot of time waits for so much, slot after slot, again and again. With
//!   holds of at most D the service lies anywhere between C·(t − D) and C·t: the network of CCAC (Arun et al.,
//!   SIGCOMM 2021).
//! - Jitter: every packet takes up to so much longer, uniformly drawn; the order is kept, so that a packet drawn
//!   early waits for the one before it.
//! - Reordering: a share of packets takes so much longer, and those behind overtake it (netem's gap reordering with
//!   the roles changed).
//! - Reverse path: ACKs queue for a capacity of their own, and are lost when too many wait.

use anole_model::{Dur, Rate, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// What befalls packets; by default nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Impairments {
    /// Loss in bursts.
    pub burst_loss: Option<BurstLoss>,
    /// Data wait behind the link.
    pub hold: Option<Hold>,
    /// Data are late by up to this, in order.
    pub jitter: Dur,
    /// Some data are late, and overtaken.
    pub reorder: Option<Reorder>,
    /// ACKs queue.
    pub ack_path: Option<AckPath>,
    /// ACKs are late by up to this, in order.
    pub ack_jitter: Dur,
}

/// A good state without loss and a bad one with; probabilities are per packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BurstLoss {
    /// From good to bad.
    pub enter: f64,
    /// From bad to good.
    pub leave: f64,
    /// Of a packet in the bad state.
    pub loss: f64,
}

/// How long packets wait, by when they leave the transmitter.
#[derive(Clone, Debug, PartialEq)]
pub struct Hold {
    /// Length of a slot, above 0.
    pub slot: Dur,
    /// Of each slot, at least one; then again from the first.
    pub waits: Vec<Dur>,
}

impl Hold {
    fn wait(&self, at: Time) -> Dur {
        let slot = at.as_nanos() / self.slot.as_nanos().max(1);
        self.waits[(slot % self.waits.len() as u64) as usize]
    }
}

/// Packets that others overtake.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reorder {
    /// Share of them.
    pub share: f64,
    /// How much longer they take.
    pub by: Dur,
}

/// The other direction's transmitter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AckPath {
    /// Its capacity, above 0.
    pub rate: Rate,
    /// What may wait, ACKs of the size of the one that comes.
    pub packets: u64,
}

/// The state of it.
#[derive(Clone, Debug)]
pub(super) struct Impairer {
    config: Impairments,
    burst_loss: Pcg64Mcg,
    jitter: Pcg64Mcg,
    reorder: Pcg64Mcg,
    ack_jitter: Pcg64Mcg,
    /// In the bad state.
    bad: bool,
    /// When the reverse transmitter is idle.
    acks_done: Time,
}

impl Impairer {
    /// Each kind of randomness has a stream of its own, so that none repeats another.
    pub fn new(config: Impairments, seed: u64) -> Impairer {
        let stream = |kind: u64| Pcg64Mcg::seed_from_u64(seed ^ kind);
        Impairer {
            config,
            burst_loss: stream(0x424c_0000),
            jitter: stream(0x4a44_0000),
            reorder: stream(0x524f_0000),
            ack_jitter: stream(0x4a41_0000),
            bad: false,
            acks_done: Time::ZERO,
        }
    }

    /// Data are late by up to this from now on.
    pub fn set_jitter(&mut self, jitter: Dur) {
        self.config.jitter = jitter;
    }

    /// Whether the next data packet is lost.
    pub fn loses(&mut self) -> bool {
        let Some(BurstLoss { enter, leave, loss }) = self.config.burst_loss else { return false };
        let rng = &mut self.burst_loss;
        let change = if self.bad { leave } else { enter };
        self.bad ^= rng.random::<f64>() < change;
        self.bad && rng.random::<f64>() < loss
    }

    /// How much later the next data packet is, in order, that leaves the transmitter `at`.
    pub fn late(&mut self, at: Time) -> Dur {
        let held = self.config.hold.as_ref().map_or(Dur::ZERO, |hold| hold.wait(at));
        held + up_to(self.config.jitter, &mut self.jitter)
    }

    /// How much later the next data packet is, out of order.
    pub fn overtaken(&mut self) -> Option<Dur> {
        let Reorder { share, by } = self.config.reorder?;
        (self.reorder.random::<f64>() < share).then_some(by)
    }

    /// How much later an ACK of `size` bytes is that sets out `now`, which must not decrease; `None` if it is lost.
    pub fn ack_late(&mut self, now: Time, size: u32) -> Option<Dur> {
        let mut late = up_to(self.config.ack_jitter, &mut self.ack_jitter);
        if let Some(AckPath { rate, packets }) = self.config.ack_path {
            let own = Dur::from_secs_f64(f64::from(size) / rate.bytes_per_s());
            let waiting = self.acks_done.since(now);
            // One of them is being sent.
            if waiting > own * packets {
                return None;
            }
            self.acks_done = now + waiting + own;
            late += waiting + own;
        }
        Some(late)
    }
}

fn up_to(most: Dur, rng: &mut Pcg64Mcg) -> Dur {
    if most.is_zero() { Dur::ZERO } else { Dur::from_nanos(rng.random_range(0..=most.as_nanos())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn impairer(config: Impairments) -> Impairer {
        Impairer::new(config, 1)
    }

    #[test]
    fn losses_come_in_bursts_of_the_length_asked_for() {
        let burst_loss = Some(BurstLoss { enter: 0.01, leave: 0.2, loss: 1.0 });
        let mut link = impairer(Impairments { burst_loss, ..Impairments::default() });
        let lost: Vec<bool> = (0..200_000).map(|_| link.loses()).collect();
        let losses = lost.iter().filter(|lost| **lost).count() as f64;
        let bursts = lost.windows(2).filter(|pair| pair[1] && !pair[0]).count() as f64;
        // Stationary: enter / (enter + leave) of the packets, 1 / leave of them in a row.
        assert!((losses / 200_000.0 - 0.01 / 0.21).abs() < 0.003, "{losses}");
        assert!((losses / bursts - 5.0).abs() < 0.3, "{losses} {bursts}");
    }

    #[test]
    fn acks_queue_for_their_capacity_and_are_lost_beyond_their_buffer() {
        // 52 bytes take 1 ms.
        let ack_path = Some(AckPath { rate: Rate::from_bytes_per_s(52_000.0), packets: 2 });
        let mut link = impairer(Impairments { ack_path, ..Impairments::default() });
        let late: Vec<_> =
            (0..5).map(|_| link.ack_late(Time::ZERO, 52).map(|late| late.as_millis_f64())).collect();
        // One is being sent, and two wait.
        assert_eq!(late, [Some(1.0), Some(2.0), Some(3.0), None, None]);
        assert_eq!(link.ack_late(Time::from_micros(500), 52), None);
        assert_eq!(link.ack_late(Time::from_micros(1_000), 52), Some(Dur::from_millis(3)));
    }

    proptest! {
        // CCAC: held by D at most, the service is between C·(t − D) and C·t.
        #[test]
        fn a_hold_is_one_of_those_asked_for(at_us in 0u64..10_000_000, waits in proptest::collection::vec(0u64..40, 1..9)) {
            let waits: Vec<Dur> = waits.into_iter().map(Dur::from_millis).collect();
            let most = waits.iter().copied().max().unwrap_or(Dur::ZERO);
            let hold = Some(Hold { slot: Dur::from_millis(20), waits });
            let mut link = impairer(Impairments { hold, ..Impairments::default() });
            prop_assert!(link.late(Time::from_micros(at_us)) <= most);
        }
    }
}
