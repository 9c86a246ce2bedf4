//! The way of the ACKs: propagation, what the links do to them, perhaps jitter of the flow's own. They never overtake
//! each other. What an ACK that is lost named, the next one names, as a cumulative ACK does.

use super::receiver::{Arrival, Data};
use crate::link::{Link, propagation_back, way_back};
use crate::scenario::{FlowSpec, HEADER_BYTES};
use anole_model::{Dur, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;

/// From a flow's receiver back to its sender: propagation alone. `reverse` has the links' own delays of that direction.
pub(super) fn propagation(flow: &FlowSpec, links: &[Link<Data>], reverse: &[Option<Dur>]) -> Dur {
    flow.extra_delay + propagation_back(links, reverse, &flow.path)
}

/// How long an ACK takes that sets out now; `None` if it is lost on its way.
pub(super) fn way(
    flow: &FlowSpec,
    links: &mut [Link<Data>],
    reverse: &[Option<Dur>],
    now: Time,
) -> Option<Dur> {
    Some(flow.extra_delay + way_back(links, reverse, &flow.path, now, HEADER_BYTES)?)
}

pub(super) struct ReversePath {
    acks: VecDeque<(Time, Arrival)>,
    last_at: Time,
    jitter: Dur,
    rng: Pcg64Mcg,
    /// What lost ACKs named.
    unnamed: Vec<Arrival>,
}

impl ReversePath {
    pub fn new(jitter: Dur, seed: u64) -> ReversePath {
        let rng = Pcg64Mcg::seed_from_u64(seed);
        ReversePath { acks: VecDeque::new(), last_at: Time::ZERO, jitter, rng, unnamed: Vec::new() }
    }

    /// Sends the ACK of these arrivals at `at`, which takes so long, or is lost.
    pub fn send(&mut self, at: Time, takes: Option<Dur>, arrivals: [Option<Arrival>; 2]) {
        let Some(takes) = takes else {
            let named = arrivals.into_iter().flatten().map(|arrival| Arrival { more: true, ..arrival });
            return self.unnamed.extend(named);
        };
        let mut at = at + takes;
        if !self.jitter.is_zero() {
            at += Dur::from_nanos(self.rng.random_range(0..=self.jitter.as_nanos()));
        }
        self.last_at = self.last_at.max(at);
        if !self.unnamed.is_empty() {
            self.acks.extend(self.unnamed.drain(..).map(|arrival| (self.last_at, arrival)));
        }
        for arrival in arrivals.into_iter().flatten() {
            self.acks.push_back((self.last_at, arrival));
        }
    }

    /// When the first ACK arrives.
    pub fn next(&self) -> Option<Time> {
        self.acks.front().map(|&(at, _)| at)
    }

    /// The arrivals that the first ACK names.
    pub fn take(&mut self) -> impl Iterator<Item = Arrival> {
        let mut more = true;
        std::iter::from_fn(move || {
            let (_, arrival) = if more { self.acks.pop_front()? } else { return None };
            more = arrival.more;
            Some(arrival)
        })
    }

    /// Nobody waits for ACKs any more.
    pub fn clear(&mut self) {
        self.acks.clear();
        self.unnamed.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_ack_names_what_a_lost_one_did() {
        let arrival = |segment| {
            let sent_at = Time::ZERO;
            Some(Arrival {
                transmission: segment,
                segment,
                sent_at,
                new_bytes: 1,
                misordered: false,
                marked: false,
                more: false,
            })
        };
        let mut path = ReversePath::new(Dur::ZERO, 1);
        path.send(Time::ZERO, Some(Dur::from_millis(5)), [None, arrival(0)]);
        path.send(Time::from_micros(1_000), None, [None, arrival(1)]);
        path.send(Time::from_micros(2_000), Some(Dur::from_millis(1)), [None, arrival(2)]);
        // The later ACK does not overtake the earlier one.
        let mut acks = Vec::new();
        while let Some(at) = path.next() {
            acks.push((at.as_micros(), path.take().map(|arrival| arrival.segment).collect::<Vec<_>>()));
        }
        assert_eq!(acks, [(5_000, vec![0]), (5_000, vec![1, 2])]);
    }
}
