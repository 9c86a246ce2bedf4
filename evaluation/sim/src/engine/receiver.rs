//! The receiving end of a flow: what arrived, in order or not, and when to acknowledge it.
//!
//! An ACK names the transmissions that it acknowledges, as a SACK option or a QUIC ACK frame would; what a lost ACK
//! named, the next one does, so that each arrival is named once. It tells for each whether it was marked (ECN), as QUIC's
//! counts and accurate ECN do; the handshake of ECE and CWR (RFC 3168 §6.1) is not modelled. By default every packet is
//! acknowledged at once. With delayed ACKs (RFC 5681 §4.2) every second full packet is, and at once when
//! it is out of order or fills a hole; a lone packet waits for 40 ms, as in Linux (TCP_DELACK_MIN).

use super::segments::Segments;
use anole_model::{Dur, Time};
use std::num::NonZeroU32;

/// Linux: include/net/tcp.h, TCP_DELACK_MIN (HZ/25).
const DELAYED_ACK: Dur = Dur::from_millis(40);

/// What travels with a data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Data {
    /// Number of the transmission; a retransmission has a new one.
    pub transmission: u64,
    /// Number of the segment.
    pub segment: u64,
    /// When it was sent.
    pub sent_at: Time,
    /// Links that it has passed.
    pub hop: u32,
    /// Payload, bytes: never none, which lets a link tell it from cross traffic for no more space.
    pub payload: NonZeroU32,
}

/// A packet as an ACK reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    pub transmission: u64,
    pub segment: u64,
    pub sent_at: Time,
    /// Payload that had not arrived before, bytes.
    pub new_bytes: u32,
    /// It arrived above a hole.
    pub misordered: bool,
    /// It carried the mark of a congested queue (RFC 3168).
    pub marked: bool,
    /// The next arrival belongs to the same ACK.
    pub more: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Receiver {
    delayed_ack: bool,
    arrived: Segments,
    held: Option<(Time, Arrival)>,
}

impl Receiver {
    pub fn new(delayed_ack: bool) -> Receiver {
        Receiver { delayed_ack, arrived: Segments::default(), held: None }
    }

    /// Takes a packet; `acknowledge` is called for every arrival that is acknowledged now.
    pub fn receive(
        &mut self,
        now: Time,
        data: &Data,
        marked: bool,
        mut acknowledge: impl FnMut(Arrival),
    ) -> Arrival {
        let fills_hole = self.arrived.has_holes();
        let new = self.arrived.note(data.segment);
        let arrival = Arrival {
            transmission: data.transmission,
            segment: data.segment,
            sent_at: data.sent_at,
            new_bytes: if new { data.payload.get() } else { 0 },
            misordered: data.segment >= self.next(),
            marked,
            more: false,
        };
        let held = self.held.take();
        if self.delayed_ack && held.is_none() && new && !arrival.misordered && !fills_hole {
            self.held = Some((now + DELAYED_ACK, arrival));
            return arrival;
        }
        if let Some((_, held)) = held {
            acknowledge(Arrival { more: true, ..held });
        }
        acknowledge(arrival);
        arrival
    }

    /// When a held ACK has to go.
    pub fn deadline(&self) -> Option<Time> {
        self.held.map(|(at, _)| at)
    }

    /// The held ACK, if its time has come.
    pub fn take_overdue(&mut self, now: Time) -> Option<Arrival> {
        self.held.take_if(|(at, _)| *at <= now).map(|(_, arrival)| arrival)
    }

    /// All segments below this one have arrived.
    pub fn next(&self) -> u64 {
        self.arrived.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn data(segment: u64) -> Data {
        let payload = NonZeroU32::new(100).unwrap();
        Data { transmission: segment, segment, sent_at: Time::ZERO, hop: 0, payload }
    }

    fn receive(receiver: &mut Receiver, segment: u64) -> Vec<(u64, bool)> {
        let mut acks = Vec::new();
        receiver.receive(Time::ZERO, &data(segment), false, |a| acks.push((a.segment, a.more)));
        acks
    }

    #[test]
    fn delayed_acks_cover_two_packets_and_never_a_hole() {
        let mut r = Receiver::new(true);
        assert_eq!(receive(&mut r, 0), []);
        assert_eq!(receive(&mut r, 1), [(0, true), (1, false)]);
        assert_eq!(receive(&mut r, 3), [(3, false)]);
        assert_eq!(receive(&mut r, 2), [(2, false)]);
        assert_eq!(receive(&mut r, 4), []);
        assert_eq!(receive(&mut r, 6), [(4, true), (6, false)]);
        assert_eq!(receive(&mut r, 5), [(5, false)]);
        assert_eq!(receive(&mut r, 7), []);
        assert_eq!(r.deadline(), Some(Time::from_micros(40_000)));
        assert_eq!(r.take_overdue(Time::from_micros(39_999)), None);
        assert_eq!(r.take_overdue(Time::from_micros(40_000)).unwrap().segment, 7);
        assert_eq!(r.next(), 8);
    }

    proptest! {
        #[test]
        fn counts_each_segment_once(segments in proptest::collection::vec(0u64..40, 0..200)) {
            let mut r = Receiver::new(false);
            let mut seen = BTreeSet::new();
            for s in segments {
                let arrival = r.receive(Time::ZERO, &data(s), false, |_| ());
                prop_assert_eq!(arrival.new_bytes > 0, seen.insert(s));
                let next = (0..).find(|n| !seen.contains(n)).unwrap();
                prop_assert_eq!(r.next(), next);
                prop_assert_eq!(arrival.misordered, s > next);
            }
        }
    }
}
