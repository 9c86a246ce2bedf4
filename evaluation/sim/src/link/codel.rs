//! CoDel (RFC 8289): drops at the head when packets have waited longer than TARGET for an INTERVAL,
//! and then at intervals that shrink with the square root of the number of drops. A packet that can be marked is marked and
//! sent instead (§5.4; Linux's codel_dequeue): one a dequeue, where drops go on until the delay has fallen.

use super::queue::{Drops, Fifo, Queued};
use anole_model::{Dur, Time};

/// RFC 8289 §4.4: the standing delay that is accepted.
const TARGET: Dur = Dur::from_millis(5);
/// RFC 8289 §4.3: about the largest usual round-trip time.
const INTERVAL: Dur = Dur::from_millis(100);
/// The state machine, apart from the packets, so that FQ-CoDel runs one per queue.
#[derive(Clone, Debug)]
pub(super) struct Control {
    /// RFC 8289 §5.3: with no more than one full packet waiting there is no standing queue.
    max_packet_bytes: u64,
    /// When the delay will have been above TARGET for an INTERVAL; `None` while it is below.
    above_from: Option<Time>,
    drop_next: Time,
    count: u32,
    last_count: u32,
    dropping: bool,
}

impl Control {
    pub fn new(max_packet_bytes: u64) -> Control {
        Control {
            max_packet_bytes,
            above_from: None,
            drop_next: Time::ZERO,
            count: 0,
            last_count: 0,
            dropping: false,
        }
    }

    /// Takes the next packet to send (RFC 8289 §5.4).
    pub fn dequeue<T>(&mut self, now: Time, fifo: &mut Fifo<T>, drops: &mut Drops) -> Option<Queued<T>> {
        let (mut head, mut may_drop) = self.take(now, fifo);
        if self.dropping {
            if !may_drop {
                self.dropping = false;
            }
            while self.dropping && now >= self.drop_next {
                let Some(mut late) = head.take() else { break };
                self.count += 1;
                if late.packet.mark() {
                    self.drop_next += control_law(self.count);
                    return Some(late);
                }
                drops.count(late.packet.flow);
                (head, may_drop) = self.take(now, fifo);
                if may_drop {
                    self.drop_next += control_law(self.count);
                } else {
                    self.dropping = false;
                }
            }
        } else if may_drop && let Some(mut late) = head.take() {
            if late.packet.mark() {
                head = Some(late);
            } else {
                drops.count(late.packet.flow);
                (head, _) = self.take(now, fifo);
            }
            self.dropping = true;
            // RFC 8289 §5.4: resume near the drop rate that controlled the queue a moment ago.
            let delta = self.count - self.last_count;
            let recent = now.since(self.drop_next) < INTERVAL * 16;
            self.count = if delta > 1 && recent { delta } else { 1 };
            self.drop_next = now + control_law(self.count);
            self.last_count = self.count;
        }
        head
    }

    /// Takes the head and tells whether the delay has been above TARGET for an INTERVAL.
    fn take<T>(&mut self, now: Time, fifo: &mut Fifo<T>) -> (Option<Queued<T>>, bool) {
        let Some(head) = fifo.pop() else {
            self.above_from = None;
            return (None, false);
        };
        if head.sojourn(now) < TARGET || fifo.bytes() <= self.max_packet_bytes {
            self.above_from = None;
            return (Some(head), false);
        }
        let from = *self.above_from.get_or_insert(now + INTERVAL);
        (Some(head), now >= from)
    }
}

fn control_law(count: u32) -> Dur {
    INTERVAL.mul_f64(1.0 / f64::from(count.max(1)).sqrt())
}

#[derive(Clone, Debug)]
pub(super) struct CoDel<T> {
    fifo: Fifo<T>,
    control: Control,
}

impl<T> CoDel<T> {
    /// With full packets of so many bytes.
    pub fn new(max_packet_bytes: u64) -> CoDel<T> {
        CoDel { fifo: Fifo::new(), control: Control::new(max_packet_bytes) }
    }

    pub fn enqueue(&mut self, queued: Queued<T>, limit_bytes: u64, drops: &mut Drops) -> bool {
        self.fifo.push_within(queued, limit_bytes, drops)
    }

    pub fn dequeue(&mut self, now: Time, drops: &mut Drops) -> Option<Queued<T>> {
        self.control.dequeue(now, &mut self.fifo, drops)
    }

    pub fn len(&self) -> usize {
        self.fifo.len()
    }

    pub fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }
}
