//! The way of ACKs over the links of a path, the last link first.

use super::Link;
use anole_model::{Dur, Time};

/// Propagation over the links of a path in the other direction; `reverse` has the links' own delays of that direction.
pub fn propagation_back<T>(links: &[Link<T>], reverse: &[Option<Dur>], path: &[usize]) -> Dur {
    let delays = path.iter().map(|&link| reverse[link].unwrap_or(links[link].delay()));
    delays.fold(Dur::ZERO, |sum, delay| sum + delay)
}

/// How long an ACK of `size` bytes takes that sets out at `now`, which must not decrease; `None` if a link loses it, of
/// which those behind that one see nothing.
pub fn way_back<T>(
    links: &mut [Link<T>],
    reverse: &[Option<Dur>],
    path: &[usize],
    now: Time,
    size: u32,
) -> Option<Dur> {
    let propagation = propagation_back(links, reverse, path);
    path.iter().rev().try_fold(propagation, |sum, &link| Some(sum + links[link].ack_late(now, size)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{AckPath, Aggregation, Capacity, Impairments, LinkConfig, QueueKind};
    use anole_model::Rate;

    #[test]
    fn acks_that_the_last_link_loses_do_not_load_the_first() {
        let link = |ack_mbps: f64, packets: u64| {
            let ack_path = Some(AckPath { rate: Rate::from_mbps(ack_mbps), packets });
            Link::<u8>::new(LinkConfig {
                capacity: Capacity::Fixed(Rate::from_mbps(12.0)),
                delay: Dur::from_millis(10),
                buffer_bytes: 9000,
                random_loss: 0.0,
                queue: QueueKind::DropTail,
                aggregation: Aggregation::default(),
                impairments: Impairments { ack_path, ..Impairments::default() },
                cross: Vec::new(),
                full_packet: 1500,
                seed: 1,
            })
        };
        let mut links = [link(0.1, 1000), link(0.01, 3)];
        let at = (0..5000).map(|ms| Time::ZERO + Dur::from_millis(ms));
        let ways = at.filter_map(|now| way_back(&mut links, &[None, None], &[0, 1], now, 52));
        let ways: Vec<f64> = ways.map(|way| way.as_millis_f64()).collect();
        // 24 a second fit through the last link: 42 ms each, behind three others at most.
        assert!((100..130).contains(&ways.len()), "{}", ways.len());
        assert!(ways.iter().all(|&ms| ms < 200.0), "{ways:?}");
    }
}
