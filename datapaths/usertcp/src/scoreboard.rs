//! Which transmissions arrived and which were lost, from what the wire shows of one sender.
//!
//! Every segment sent is a transmission with a number of its own, as in QUIC; sending the same bytes again is another
//! one. The peer's ACKs tell which bytes have arrived (cumulatively and by SACK, RFC 2018) and which arrived twice
//! (D-SACK, RFC 2883), and each arrival is one transmission's:
//!
//! | what happens | what it means |
//! |---|---|
//! | bytes arrive for the first time | the earliest of their transmissions that is under way has arrived |
//! | bytes arrive once more | the next one has arrived |
//! | a transmission sent three or more later has arrived (RFC 9002 §6.1.1) | this one is lost |
//! | the retransmission timer fires | all that are under way are lost |
//! | bytes arrive, and none of their transmissions is under way | one that was taken for lost has arrived: taken back |
//!
//! Which of two transmissions of the same bytes has arrived cannot be told, and for the count it does not matter: each
//! arrival takes one from the transmissions of these bytes, and what remains was lost. A transmission of bytes that have all
//! arrived is surplus: it is in flight until the peer acknowledges them cumulatively, and whether it arrives a D-SACK alone can tell. So the count is
//! exact with a peer that sends them (Linux does), as long as those ACKs arrive; with one that never has, surplus
//! transmissions count as neither.
//!
//! While the peer's window is closed, the stack asks with one byte at a time whether it still is (RFC 9293 §3.8.6.1). These
//! probes are no transmissions: the peer drops them, and that says nothing about the path.
//!
//! The timer fires when bytes go again that smoltcp had not gone back to before, a second or more after the last progress,
//! unless three duplicate ACKs asked for them (`duplicates.rs`).
//!
//! A round-trip time is taken of bytes that were sent once (Karn).

use crate::duplicates::Duplicates;
use anole_datapath_host::{Packets, RateSample};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// RFC 9002 §6.1.1, RFC 5681 §3.2: later arrivals that say that a transmission is lost.
const PACKET_THRESHOLD: u64 = 3;
/// smoltcp's shortest retransmission time-out, from the last progress.
pub(crate) const STACK_TIMER: Duration = Duration::from_secs(1);
/// Timers are in whole milliseconds.
const TIMER_MARGIN: Duration = Duration::from_millis(10);
/// Bytes in smoltcp's probe of a closed window.
const PROBE_BYTES: u32 = 1;
/// Ranges above `una` that are remembered. A gigabit over 100 ms with every tenth packet lost has 770. A range beyond that is not
/// heard: its bytes count once they are acknowledged cumulatively.
const MAX_RANGES: usize = 1024;
/// Transmissions taken for lost are remembered for so many later ones, to be taken back.
const REMEMBERED: u64 = 1 << 16;

/// One segment sent.
#[derive(Clone, Copy, Debug)]
struct Transmission {
    bytes: u32,
    sent: Instant,
    lost: bool,
    /// These bytes were sent before.
    again: bool,
    /// These bytes have arrived.
    surplus: bool,
}

/// What one ACK told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Acked {
    /// Bytes that are known to have arrived only now.
    pub bytes: u32,
    /// Transmissions that brought them.
    pub packets: u32,
    /// Those of them that arrived out of order.
    pub misordered_bytes: u32,
    pub misordered_packets: u32,
    /// Transmissions taken for lost only now.
    pub lost: u32,
    /// Of the newest bytes that arrived.
    pub rtt: Option<Duration>,
}

/// What a transmission was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// A probe of the peer's closed window.
    Probe,
    /// Bytes that were not sent before.
    New,
    /// Bytes sent again, because three ACKs told nothing new or after a time-out before.
    Again,
    /// Bytes sent again because the retransmission timer fired: so many transmissions are taken for lost.
    Timeout(u32),
}

/// The sender's half of one connection.
#[derive(Debug)]
pub(crate) struct Scoreboard {
    /// Sequence number of byte 0.
    base: u32,
    /// Everything below has arrived.
    una: u64,
    /// Behind the last byte sent.
    max: u64,
    /// Behind the last byte that a probe carried. The peer may have taken it.
    probed: u64,
    /// Behind the last byte that the stack holds, and behind the last one that the peer takes.
    held: u64,
    taken: u64,
    /// The peer takes nothing now.
    closed: bool,
    pub duplicates: Duplicates,
    /// Where the sender goes on: below `max` after a time-out, while it sends everything again.
    next: u64,
    /// What has arrived above `una`: disjoint, in order.
    sacked: Vec<(u64, u64)>,
    /// By the end of their bytes and their number: under way, or taken for lost.
    transmissions: BTreeMap<(u64, u64), Transmission>,
    /// Those under way by number, with the ends of their bytes; some may have arrived.
    order: VecDeque<(u64, u64)>,
    next_number: u64,
    newest_arrived: Option<u64>,
    newest_rtt_sent: Option<Instant>,
    /// The peer has sent a D-SACK.
    tells_duplicates: bool,
    /// Of `una`, or of the first transmission of a flight.
    progress: Instant,
    last_sent: Instant,
    pub packets: Packets,
    pub sent_packets: u64,
    pub sent_bytes: u64,
    pub arrived_packets: u64,
    lost_packets: u64,
    surplus_lost: u64,
}

impl Scoreboard {
    /// A connection whose first byte has the sequence number `base`.
    pub fn new(now: Instant, base: u32) -> Scoreboard {
        Scoreboard {
            base,
            una: 0,
            max: 0,
            probed: 0,
            held: 0,
            taken: 0,
            closed: false,
            duplicates: Duplicates::default(),
            next: 0,
            sacked: Vec::new(),
            transmissions: BTreeMap::new(),
            order: VecDeque::new(),
            next_number: 0,
            newest_arrived: None,
            newest_rtt_sent: None,
            tells_duplicates: false,
            progress: now,
            last_sent: now,
            packets: Packets::new(now),
            sent_packets: 0,
            sent_bytes: 0,
            arrived_packets: 0,
            lost_packets: 0,
            surplus_lost: 0,
        }
    }

    /// Bytes that have arrived in order.
    pub fn delivered_bytes(&self) -> u64 {
        self.una.min(self.max)
    }

    /// Transmissions that never arrived, as far as is known.
    pub fn lost_packets(&self) -> u64 {
        self.lost_packets + if self.tells_duplicates { self.surplus_lost } else { 0 }
    }

    /// Bytes handed to the stack, of `queued` that it holds, which it has yet to send, or to send again.
    pub fn unsent(&self, queued: u64) -> u64 {
        (self.una + queued).saturating_sub(self.next.max(self.una))
    }

    /// Bytes that have not arrived below others that have.
    pub fn missing_bytes(&self) -> u64 {
        let arrived: u64 = self.sacked.iter().map(|&(from, to)| to - from.max(self.una)).sum();
        self.sacked.last().map_or(0, |&(_, to)| to - self.una - arrived)
    }

    /// When the connection last sent something or learned that something had arrived.
    pub fn last_activity(&self) -> Instant {
        self.progress.max(self.last_sent)
    }

    /// A segment with data goes out.
    pub fn on_sent(&mut self, now: Instant, sequence: u32, bytes: u32) -> Sent {
        let Some(start) = self.offset(sequence) else { return Sent::Again };
        let end = start + u64::from(bytes);
        if self.closed && bytes == PROBE_BYTES {
            self.probed = self.probed.max(end);
            return Sent::Probe;
        }
        let kind = self.kind(now, start);
        if self.packets.packets_in_flight() == 0 {
            self.progress = now;
        }
        self.next = match kind {
            Sent::Timeout(_) => end,
            _ if start <= self.next => self.next.max(end),
            _ => self.next,
        };
        self.max = self.max.max(end);
        let number = self.next_number;
        self.next_number += 1;
        let again = kind != Sent::New;
        let surplus = again && self.has_arrived(end);
        let transmission = Transmission { bytes, sent: now, lost: false, again, surplus };
        self.transmissions.insert((end, number), transmission);
        self.order.push_back((number, end));
        self.packets.on_sent(now, number, u16::try_from(bytes).unwrap_or(u16::MAX));
        if end <= self.una {
            self.packets.on_lost(number);
        }
        self.last_sent = now;
        self.sent_packets += 1;
        self.sent_bytes += u64::from(bytes);
        kind
    }

    fn kind(&mut self, now: Instant, start: u64) -> Sent {
        let asked = self.duplicates.take();
        if start >= self.max {
            return Sent::New;
        }
        let timer = now.saturating_duration_since(self.progress) + TIMER_MARGIN >= STACK_TIMER;
        if start > self.una || start >= self.next || asked || !timer {
            return Sent::Again;
        }
        self.progress = now;
        Sent::Timeout(self.lose_all())
    }

    fn lose_all(&mut self) -> u32 {
        let mut lost = 0;
        while let Some((number, end)) = self.order.pop_front() {
            lost += u32::from(self.lose(number, end));
        }
        lost
    }

    /// Takes a transmission for lost if it is under way.
    fn lose(&mut self, number: u64, end: u64) -> bool {
        let Some(transmission) = self.transmissions.get_mut(&(end, number)).filter(|known| !known.lost)
        else {
            return false;
        };
        transmission.lost = true;
        if transmission.surplus {
            self.surplus_lost += 1;
            return self.tells_duplicates;
        }
        self.lost_packets += 1;
        self.packets.on_lost(number);
        true
    }

    /// What the peer may be sent, bytes, which comes with every ACK and is to be told before it; whether the segment
    /// has data of the peer as well.
    pub fn on_window(&mut self, now: Instant, ack: u32, window: u32, has_data: bool) {
        let acceptable = self.una..=self.highest_ack();
        let Some(ack) = self.offset(ack).filter(|ack| acceptable.contains(ack)) else {
            // Of an old ACK, whose window is an old one.
            return;
        };
        self.duplicates.on_ack(ack == self.una && ack < self.next && !has_data, window);
        if self.closed && window > 0 {
            // What goes now comes of that, not of a timer.
            self.progress = now;
        }
        self.closed = window == 0;
        self.taken = ack + u64::from(window);
    }

    /// The stack's send buffer holds so many bytes.
    pub fn hold(&mut self, queued: u64) {
        self.held = self.una + queued;
    }

    /// Bytes that the stack holds and may send now as far as the peer is concerned.
    pub fn sendable(&self) -> u64 {
        self.held.min(self.taken).saturating_sub(self.next.max(self.una))
    }

    /// The FIN has a number as well.
    fn highest_ack(&self) -> u64 {
        self.max.max(self.probed) + 1
    }

    /// An ACK comes in.
    pub fn on_ack(&mut self, now: Instant, ack: u32, selective: &[Option<(u32, u32)>; 3]) -> Acked {
        let mut acked = Acked::default();
        let Some(ack) = self.offset(ack).filter(|&ack| ack <= self.highest_ack()) else { return acked };
        self.max = self.max.max(ack.min(self.probed));
        let mut blocks = selective.iter().flatten().filter_map(|&(from, to)| self.block(from, to));
        let blocks = [blocks.next(), blocks.next(), blocks.next()];
        let [first, second, _] = blocks;
        let duplicate = first
            .filter(|&(from, to)| to <= ack || second.is_some_and(|(outer, end)| outer <= from && to <= end));
        if ack > self.una {
            self.cover(now, (self.una, ack), false, &mut acked);
            self.land(self.una, ack);
            self.una = ack;
            self.next = self.next.max(ack.min(self.max));
            self.progress = now;
            self.duplicates.take();
            self.sacked.retain(|&(_, to)| to > ack);
        }
        for block in blocks.into_iter().flatten() {
            self.cover(now, (block.0.max(self.una), block.1), true, &mut acked);
        }
        if let Some(block) = duplicate {
            self.tells_duplicates = true;
            self.arrive(now, block, true, &mut acked);
        }
        acked.rtt = self.newest_rtt_sent.take().map(|sent| now.saturating_duration_since(sent));
        acked.lost = self.find_lost();
        self.forget();
        acked
    }

    /// The rates of the newest arrival.
    pub fn rates(&mut self, now: Instant, min_rtt: Duration) -> Option<RateSample> {
        self.packets.sample(now, min_rtt)
    }

    /// The transfer is over and everything has arrived: what is still under way never will.
    pub fn settle(&mut self) {
        if self.una >= self.max {
            self.lose_all();
        }
    }

    /// Whether the byte before `end` has arrived.
    fn has_arrived(&self, end: u64) -> bool {
        end <= self.una || self.sacked.iter().any(|&(from, to)| from < end && end <= to)
    }

    /// What was sent of these bytes in vain is no longer in flight.
    fn land(&mut self, from: u64, to: u64) {
        for (_, number) in self.transmissions.range((from + 1, 0)..=(to, u64::MAX)).map(|(&key, _)| key) {
            self.packets.on_lost(number);
        }
    }

    /// The bytes from `from` to `to` have arrived: tells which of them are news.
    fn cover(&mut self, now: Instant, (from, to): (u64, u64), selectively: bool, acked: &mut Acked) {
        if selectively && self.is_too_much(from, to) {
            return;
        }
        let mut at = from;
        let known: Vec<(u64, u64)> =
            self.sacked.iter().copied().filter(|&(start, end)| end > from && start < to).collect();
        for (start, end) in known.iter().copied().chain([(to, to)]) {
            if at < start {
                let news = (at, start.min(to));
                self.arrive(now, news, false, acked);
                let bytes = (news.1.min(self.max) - news.0.min(self.max)) as u32;
                acked.bytes += bytes;
                acked.misordered_bytes += if selectively { bytes } else { 0 };
            }
            at = at.max(end);
        }
        if selectively && from < to {
            self.remember(from, to);
        }
    }

    /// True for one more range than are remembered.
    fn is_too_much(&self, from: u64, to: u64) -> bool {
        let touching = |&(start, end): &(u64, u64)| start <= to && end >= from;
        self.sacked.len() >= MAX_RANGES && !self.sacked.iter().any(touching)
    }

    /// Joins a range to what has arrived above `una`.
    fn remember(&mut self, from: u64, to: u64) {
        let touching = |&(start, end): &(u64, u64)| start <= to && end >= from;
        let joined = self
            .sacked
            .iter()
            .filter(|range| touching(range))
            .fold((from, to), |joined, range| (joined.0.min(range.0), joined.1.max(range.1)));
        self.sacked.retain(|range| !touching(range));
        let place = self.sacked.partition_point(|range| range.0 < joined.0);
        self.sacked.insert(place, joined);
    }

    /// For each segment that ends in the range, one transmission has arrived.
    fn arrive(&mut self, now: Instant, (from, to): (u64, u64), twice: bool, acked: &mut Acked) {
        let mut at = from + 1;
        while at <= to {
            let Some((&(end, _), _)) = self.transmissions.range((at, 0)..=(to, u64::MAX)).next() else {
                return;
            };
            at = end + 1;
            let all = self.transmissions.range((end, 0)..=(end, u64::MAX));
            let alone = all.clone().count() == 1;
            let found = all.clone().find(|(_, known)| !known.lost).or_else(|| all.clone().next_back());
            let Some((&(_, number), &known)) = found else { continue };
            self.transmissions.remove(&(end, number));
            match (known.lost, known.surplus) {
                (true, true) => self.surplus_lost -= 1,
                (true, false) => self.lost_packets -= 1,
                (false, _) => {}
            }
            self.arrived_packets += 1;
            self.newest_arrived = self.newest_arrived.max(Some(number));
            let news = if twice { 0 } else { u64::from(known.bytes) };
            self.packets.on_acked(now, number, known.sent, news);
            if twice {
                continue;
            }
            for (_, rest) in self.transmissions.range_mut((end, 0)..=(end, u64::MAX)) {
                rest.surplus |= !rest.lost;
            }
            acked.packets += 1;
            // What lies above `una` came out of order.
            acked.misordered_packets += u32::from(from > self.una);
            if alone && !known.again {
                self.newest_rtt_sent = self.newest_rtt_sent.max(Some(known.sent));
            }
        }
    }

    fn find_lost(&mut self) -> u32 {
        let mut lost = 0;
        let newest = self.newest_arrived.unwrap_or(0);
        while let Some(&(number, end)) = self.order.front() {
            let under_way = self.transmissions.get(&(end, number)).is_some_and(|known| !known.lost);
            if under_way && number + PACKET_THRESHOLD > newest {
                break;
            }
            lost += u32::from(self.lose(number, end));
            self.order.pop_front();
        }
        lost
    }

    /// Forgets losses that nobody will take back.
    fn forget(&mut self) {
        while let Some((&key, known)) = self.transmissions.first_key_value() {
            if !known.lost || key.1 + REMEMBERED > self.next_number {
                break;
            }
            self.transmissions.remove(&key);
        }
    }

    /// A SACK block's bytes; `None` for one that is none.
    fn block(&self, from: u32, to: u32) -> Option<(u64, u64)> {
        let (from, to) = (self.offset(from)?, self.offset(to)?);
        (from < to && to <= self.max).then_some((from, to))
    }

    /// The byte that has a sequence number, which lies within 2^31 of `una`.
    fn offset(&self, sequence: u32) -> Option<u64> {
        let distance = sequence.wrapping_sub(self.base.wrapping_add(self.una as u32)) as i32;
        self.una.checked_add_signed(i64::from(distance))
    }
}

#[cfg(test)]
mod tests;
