//! Packets in flight and the delivery-rate samples that their ACKs give.
//!
//! Model: draft-ietf-ccwg-bbr-04 §4.1 (delivery-rate estimation, formerly
//! draft-cheng-iccrg-delivery-rate-estimation). Each packet remembers, as of its sending, how many bytes
//! the connection had delivered, when that count was last raised, and when the flight it belongs to
//! began. The most recently sent packet of an ACK batch then gives
//!
//! ```text
//! delivered   = C.delivered − P.delivered
//! rate out    = delivered / (P.sent − P.first_sent)
//! rate in     = delivered / (now − P.delivered_time)
//! ```
//!
//! Deviations: both rates are reported rather than the smaller one, because a fold program reads them as
//! `Flow.rate_outgoing` and `Flow.rate_incoming`; a sample over less than the minimum round trip is
//! ignored as the draft says, and the rates before it stay.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Packet numbers that the table spans. Packets below have been in flight for so many later ones that
/// their samples mean nothing any more: 2^17 packets are 190 MB in flight.
const MAX_SPAN: usize = 1 << 17;

/// What one packet remembers.
#[derive(Clone, Copy, Debug)]
struct Sent {
    bytes: u16,
    sent: Instant,
    delivered: u64,
    delivered_time: Instant,
    first_sent: Instant,
}

/// The packets in flight of one connection.
#[derive(Clone, Debug)]
pub struct Packets {
    /// Indexed by packet number − `base`; `None` once acknowledged, lost, or never sent.
    table: VecDeque<Option<Sent>>,
    base: u64,
    bytes_in_flight: u64,
    packets_in_flight: u32,
    delivered: u64,
    delivered_time: Instant,
    first_sent: Instant,
    newest: Option<Sent>,
}

/// Rates over the time in which the newest acknowledged packet was in flight, bytes/s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateSample {
    /// At which it was sent.
    pub outgoing: u64,
    /// At which it was acknowledged.
    pub incoming: u64,
}

impl Packets {
    /// Nothing in flight at `now`.
    pub fn new(now: Instant) -> Packets {
        Packets {
            table: VecDeque::new(),
            base: 0,
            bytes_in_flight: 0,
            packets_in_flight: 0,
            delivered: 0,
            delivered_time: now,
            first_sent: now,
            newest: None,
        }
    }

    /// A packet that asks for an acknowledgement was sent.
    ///
    /// The packet number spaces of the handshake share this table; a number that is used twice
    /// replaces its predecessor, which costs at most a few handshake samples.
    pub fn on_sent(&mut self, now: Instant, pn: u64, bytes: u16) {
        if self.packets_in_flight == 0 {
            // A new flight begins: what came before it says nothing about its rate.
            self.first_sent = now;
            self.delivered_time = now;
        }
        if self.table.is_empty() {
            self.base = pn;
        }
        let Some(index) = pn.checked_sub(self.base).and_then(|offset| usize::try_from(offset).ok()) else {
            return;
        };
        if index >= MAX_SPAN {
            // Forgets the oldest half rather than growing without bound.
            self.forget_below(pn - (MAX_SPAN / 2) as u64);
        }
        let index = (pn - self.base) as usize;
        while self.table.len() <= index {
            self.table.push_back(None);
        }
        let packet = Sent {
            bytes,
            sent: now,
            delivered: self.delivered,
            delivered_time: self.delivered_time,
            first_sent: self.first_sent,
        };
        if let Some(replaced) = self.table[index].replace(packet) {
            self.remove(&replaced);
        }
        self.bytes_in_flight += u64::from(bytes);
        self.packets_in_flight += 1;
    }

    /// A packet was acknowledged; `sent` tells packets of equal number apart.
    pub fn on_acked(&mut self, now: Instant, pn: u64, sent: Instant, bytes: u64) {
        self.delivered += bytes;
        self.delivered_time = now;
        let Some(packet) = self.take(pn, Some(sent)) else { return };
        if self.newest.is_none_or(|newest| packet.sent >= newest.sent) {
            self.newest = Some(packet);
        }
    }

    /// A packet was lost; false for one that is not in flight here.
    pub fn on_lost(&mut self, pn: u64) -> bool {
        self.take(pn, None).is_some()
    }

    /// Nothing is in flight any more, whatever this table says: packets of a handshake whose keys are gone are neither
    /// acknowledged nor lost.
    pub fn clear(&mut self) {
        self.base += self.table.len() as u64;
        self.table.clear();
        (self.bytes_in_flight, self.packets_in_flight) = (0, 0);
    }

    /// Ends a batch of acknowledgements: the sample of its newest packet, if it gives one.
    pub fn sample(&mut self, now: Instant, min_rtt: Duration) -> Option<RateSample> {
        let packet = self.newest.take()?;
        self.first_sent = packet.sent;
        let delivered = self.delivered - packet.delivered;
        let send_span = packet.sent.saturating_duration_since(packet.first_sent);
        let ack_span = now.saturating_duration_since(packet.delivered_time);
        if send_span.max(ack_span) < min_rtt {
            return None;
        }
        let rate = |span: Duration| {
            // The first packet of a flight has no send span; the ACK span is the only evidence then.
            let span = if span.is_zero() { ack_span } else { span };
            (delivered as f64 / span.as_secs_f64().max(1e-9)) as u64
        };
        Some(RateSample { outgoing: rate(send_span), incoming: rate(ack_span) })
    }

    /// Bytes in flight by this table's own count.
    pub fn bytes_in_flight(&self) -> u64 {
        self.bytes_in_flight
    }

    /// Packets in flight.
    pub fn packets_in_flight(&self) -> u32 {
        self.packets_in_flight
    }

    fn take(&mut self, pn: u64, sent: Option<Instant>) -> Option<Sent> {
        let index = usize::try_from(pn.checked_sub(self.base)?).ok()?;
        let slot = self.table.get_mut(index)?;
        if let (Some(packet), Some(sent)) = (&slot, sent)
            && packet.sent != sent
        {
            return None;
        }
        let packet = slot.take()?;
        self.remove(&packet);
        while let Some(None) = self.table.front() {
            self.table.pop_front();
            self.base += 1;
        }
        Some(packet)
    }

    fn remove(&mut self, packet: &Sent) {
        self.bytes_in_flight -= u64::from(packet.bytes);
        self.packets_in_flight -= 1;
    }

    fn forget_below(&mut self, pn: u64) {
        while self.base < pn {
            match self.table.pop_front() {
                Some(Some(packet)) => self.remove(&packet),
                Some(None) => {}
                None => {
                    self.base = pn;
                    return;
                }
            }
            self.base += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_paced_flight_gives_its_rate() {
        // One 1000-byte packet per ms, acknowledged 20 ms later: 10^6 bytes/s both ways.
        let start = Instant::now();
        let mut packets = Packets::new(start);
        let mut last = None;
        for tick in 0..200u32 {
            let now = start + MS * tick;
            packets.on_sent(now, u64::from(tick), 1000);
            if let Some(acked) = tick.checked_sub(20) {
                packets.on_acked(now, u64::from(acked), start + MS * acked, 1000);
                last = packets.sample(now, 20 * MS).or(last);
            }
        }
        let sample = last.unwrap();
        assert!(sample.incoming.abs_diff(1_000_000) < 60_000, "{sample:?}");
        assert!(sample.outgoing.abs_diff(1_000_000) < 60_000, "{sample:?}");
        assert_eq!((packets.packets_in_flight(), packets.bytes_in_flight()), (20, 20_000));
    }

    #[test]
    fn a_compressed_ack_burst_is_no_sample() {
        let start = Instant::now();
        let mut packets = Packets::new(start);
        packets.on_sent(start, 0, 1000);
        packets.on_acked(start + MS, 0, start, 1000);
        assert_eq!(packets.sample(start + MS, 20 * MS), None);
    }

    #[test]
    fn equal_numbers_of_two_spaces_do_not_mix() {
        let start = Instant::now();
        let mut packets = Packets::new(start);
        packets.on_sent(start, 0, 1200);
        packets.on_sent(start + MS, 0, 1000);
        packets.on_acked(start + 2 * MS, 0, start, 1200);
        assert_eq!((packets.packets_in_flight(), packets.bytes_in_flight()), (1, 1000));
    }

    #[derive(Clone, Debug)]
    enum Op {
        Send(u8),
        Ack(u64),
        Lose(u64),
    }

    proptest! {
        // Whatever the order, the counts are those of a plain set.
        #[test]
        fn counts_are_exact(ops in proptest::collection::vec(prop_oneof![
            any::<u8>().prop_map(Op::Send), (0u64..300).prop_map(Op::Ack), (0u64..300).prop_map(Op::Lose)
        ], 0..400)) {
            let start = Instant::now();
            let mut packets = Packets::new(start);
            let mut model = std::collections::BTreeMap::new();
            let mut pn = 0;
            for (tick, op) in ops.into_iter().enumerate() {
                let now = start + MS * tick as u32;
                match op {
                    Op::Send(gap) => {
                        pn += 1 + u64::from(gap % 3);
                        packets.on_sent(now, pn, 500);
                        model.insert(pn, now);
                    }
                    Op::Ack(pn) => if let Some(sent) = model.remove(&pn) {
                        packets.on_acked(now, pn, sent, 500);
                        let _ = packets.sample(now, MS);
                    },
                    Op::Lose(pn) => if model.remove(&pn).is_some() { packets.on_lost(pn); },
                }
                prop_assert_eq!(packets.packets_in_flight() as usize, model.len());
                prop_assert_eq!(packets.bytes_in_flight(), model.len() as u64 * 500);
            }
        }
    }
}
