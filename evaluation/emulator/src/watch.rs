//! What a flow's packets tell on their way past: which data is sent again, and its sender's round trips.
//!
//! A round trip is taken as a sender takes it: from a segment's first transmission until an ACK first
//! covers its end, cumulatively or by SACK (RFC 2018), the newest segment of an ACK alone, and never for
//! data that was sent again (Karn's algorithm, RFC 6298 §3).

use anole_model::{Dur, Time};
use std::collections::VecDeque;

/// IP protocol numbers.
const TCP: u8 = 6;
const UDP: u8 = 17;
/// The TCP option that carries SACK blocks.
const OPTION_SACK: u8 = 5;

/// A round trip that an ACK completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    /// When the ACK went back to the sender.
    pub at: Time,
    /// How long it had been on its way.
    pub rtt: Dur,
}

/// What matters of an IPv4 packet with TCP or UDP in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub source_port: u16,
    pub destination_port: u16,
    /// `None` for UDP.
    pub segment: Option<Segment>,
}

/// What matters of a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of its first byte.
    pub begin: u32,
    /// That after its last byte of data; as `begin` when it has none.
    pub end: u32,
    /// The end of the newest data that it acknowledges, when it acknowledges any.
    pub acknowledged: Option<u32>,
}

/// Reads a packet; `None` when it is of another kind, or cut off.
pub fn parse(packet: &[u8]) -> Option<Header> {
    let byte = |at: usize| packet.get(at).copied();
    let u16_at = |at: usize| Some(u16::from_be_bytes([byte(at)?, byte(at + 1)?]));
    let u32_at = |at: usize| Some(u32::from(u16_at(at)?) << 16 | u32::from(u16_at(at + 2)?));
    let version_and_words = byte(0)?;
    // Behind the first fragment there is no header.
    if version_and_words >> 4 != 4 || u16_at(6)? & 0x1fff != 0 {
        return None;
    }
    let header = usize::from(version_and_words & 0xf) * 4;
    let (source_port, destination_port) = (u16_at(header)?, u16_at(header + 2)?);
    let segment = match byte(9)? {
        UDP => None,
        TCP => {
            let offset = usize::from(byte(header + 12)? >> 4) * 4;
            let data = usize::from(u16_at(2)?).checked_sub(header + offset)?;
            let begin = u32_at(header + 4)?;
            let is_ack = byte(header + 13)? & 0x10 != 0;
            let options = packet.get(header + 20..header + offset)?;
            let acknowledged = match is_ack {
                true => Some(newest_sack(options).into_iter().fold(u32_at(header + 8)?, newer)),
                false => None,
            };
            Some(Segment { begin, end: begin.wrapping_add(data as u32), acknowledged })
        }
        _ => return None,
    };
    Some(Header { source_port, destination_port, segment })
}

/// The newest right edge of the SACK blocks among TCP options.
fn newest_sack(mut options: &[u8]) -> Option<u32> {
    loop {
        match *options {
            // End of the list.
            [] | [0, ..] => return None,
            // Padding.
            [1, ref rest @ ..] => options = rest,
            [kind, length, ..] => {
                let (option, rest) = options.split_at_checked(usize::from(length))?;
                if kind == OPTION_SACK {
                    let blocks = option.get(2..)?.chunks_exact(8);
                    let edges =
                        blocks.map(|block| u32::from_be_bytes([block[4], block[5], block[6], block[7]]));
                    return edges.reduce(newer);
                }
                // A length below 2 would not lead on.
                options = if length >= 2 { rest } else { return None };
            }
            [_] => return None,
        }
    }
}

/// Sequence numbers wrap (RFC 9293 §3.4).
fn is_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

fn newer(a: u32, b: u32) -> u32 {
    if is_after(a, b) { a } else { b }
}

/// One flow's data on its way.
#[derive(Clone, Debug, Default)]
pub struct DataWatch {
    sent: Option<u32>,
    acknowledged: Option<u32>,
    /// End and time of segments that were sent once and are not acknowledged, in order.
    waiting: VecDeque<(u32, Time)>,
    pub(crate) round_trips: Vec<RoundTrip>,
}

impl DataWatch {
    /// The sender sends; true when some of the data had been sent before.
    pub fn on_sent(&mut self, now: Time, segment: &Segment) -> bool {
        let Segment { begin, end, .. } = *segment;
        if begin == end {
            return false;
        }
        let again = self.sent.is_some_and(|sent| is_after(sent, begin));
        match again {
            true => self.waiting.retain(|&(other, _)| !is_after(other, begin) || is_after(other, end)),
            false => self.waiting.push_back((end, now)),
        }
        self.sent = Some(self.sent.map_or(end, |sent| newer(sent, end)));
        again
    }

    /// An ACK goes back to the sender.
    pub fn on_acknowledged(&mut self, now: Time, segment: &Segment) {
        let Some(edge) = segment.acknowledged else { return };
        if self.acknowledged.is_some_and(|before| !is_after(edge, before)) {
            return;
        }
        self.acknowledged = Some(edge);
        let mut newest = None;
        while let Some(&(end, sent)) = self.waiting.front().filter(|(end, _)| !is_after(*end, edge)) {
            newest = Some((end, sent));
            self.waiting.pop_front();
        }
        if let Some((_, sent)) = newest.filter(|&(end, _)| end == edge) {
            self.round_trips.push(RoundTrip { at: now, rtt: now.since(sent) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An IPv4 packet with a TCP segment: no checksums, which nobody here reads.
    fn packet(begin: u32, data: usize, ack: u32, options: &[u8]) -> Vec<u8> {
        let (header, offset) = (20, 20 + options.len());
        let mut packet = vec![0; header + offset + data];
        packet[0] = 0x45;
        packet[2..4].copy_from_slice(&((header + offset + data) as u16).to_be_bytes());
        packet[9] = TCP;
        packet[20..22].copy_from_slice(&10_000u16.to_be_bytes());
        packet[22..24].copy_from_slice(&5001u16.to_be_bytes());
        packet[24..28].copy_from_slice(&begin.to_be_bytes());
        packet[28..32].copy_from_slice(&ack.to_be_bytes());
        packet[32] = (offset as u8 / 4) << 4;
        packet[33] = 0x10;
        packet[40..40 + options.len()].copy_from_slice(options);
        packet
    }

    fn segment(begin: u32, data: usize, ack: u32, options: &[u8]) -> Segment {
        parse(&packet(begin, data, ack, options)).unwrap().segment.unwrap()
    }

    /// A SACK block behind padding, as Linux sends it.
    fn sack(left: u32, right: u32) -> Vec<u8> {
        [&[1, 1, OPTION_SACK, 10][..], &left.to_be_bytes(), &right.to_be_bytes()].concat()
    }

    #[test]
    fn fields_are_where_the_rfcs_put_them() {
        let header = parse(&packet(7, 100, 9, &sack(20, 30))).unwrap();
        let segment = Segment { begin: 7, end: 107, acknowledged: Some(30) };
        assert_eq!(header, Header { source_port: 10_000, destination_port: 5001, segment: Some(segment) });
        // A block below the cumulative ACK reports a duplicate (RFC 2883).
        assert_eq!(self::segment(7, 0, 90, &sack(20, 30)).acknowledged, Some(90));
    }

    #[test]
    fn a_round_trip_is_that_of_the_newest_segment() {
        let mut watch = DataWatch::default();
        let at = Time::from_micros;
        // Across the wrap of sequence numbers.
        let first = u32::MAX - 99;
        assert!(!watch.on_sent(at(0), &segment(first, 100, 0, &[])));
        assert!(!watch.on_sent(at(10), &segment(0, 100, 0, &[])));
        watch.on_acknowledged(at(50), &segment(1, 0, 100, &[]));
        watch.on_acknowledged(at(60), &segment(1, 0, 100, &[]));
        assert_eq!(watch.round_trips, [RoundTrip { at: at(50), rtt: Dur::from_micros(40) }]);
    }

    #[test]
    fn what_was_sent_again_has_no_round_trip() {
        let mut watch = DataWatch::default();
        let at = Time::from_micros;
        for (time, begin) in [(0, 0), (1, 100), (2, 200), (3, 300)] {
            assert!(!watch.on_sent(at(time), &segment(begin, 100, 0, &[])));
        }
        // The first and the last are lost; the others arrive.
        watch.on_acknowledged(at(50), &segment(1, 0, 0, &sack(100, 300)));
        assert!(watch.on_sent(at(51), &segment(0, 100, 0, &[])));
        assert!(watch.on_sent(at(52), &segment(300, 100, 0, &[])));
        watch.on_acknowledged(at(100), &segment(1, 0, 300, &[]));
        watch.on_acknowledged(at(101), &segment(1, 0, 400, &[]));
        assert_eq!(watch.round_trips, [RoundTrip { at: at(50), rtt: Dur::from_micros(48) }]);
        assert!(watch.waiting.is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = parse(&bytes);
            if let Some(first) = bytes.first_mut() {
                *first = 0x45;
            }
            if let Some(protocol) = bytes.get_mut(9) {
                *protocol = TCP;
            }
            let _ = parse(&bytes);
            let _ = newest_sack(&bytes);
        }
    }
}
