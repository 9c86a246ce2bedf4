//! FQ-CoDel (RFC 8290): one CoDel queue per flow, served by deficit round robin with new queues first.
//!
//! Deviations: a queue per flow number instead of 1024 hashed queues, since flows here are numbered
//! from zero and never collide; the scenario's buffer is the limit, instead of 10240 packets. A queue that holds no more
//! than a packet has no standing delay (RFC 8289 §5.3), whatever waits in the others; Linux asks whether all of them
//! together hold more. On overload one packet is dropped at a time; Linux drops half of the fattest queue, 64 packets at most.

use super::codel::Control;
use super::queue::{Drops, Fifo, Queued};
use anole_model::Time;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
struct SubQueue<T> {
    fifo: Fifo<T>,
    control: Control,
    credit_bytes: i64,
    /// On one of the two lists.
    active: bool,
}

#[derive(Clone, Debug)]
pub(super) struct FqCodel<T> {
    queues: Vec<SubQueue<T>>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    bytes: u64,
    max_packet_bytes: u64,
    /// RFC 8290 §5.2.2: one full packet per round.
    quantum_bytes: i64,
}

impl<T> FqCodel<T> {
    /// With full packets of so many bytes.
    pub fn new(max_packet_bytes: u64) -> FqCodel<T> {
        FqCodel {
            queues: Vec::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            bytes: 0,
            max_packet_bytes,
            quantum_bytes: max_packet_bytes as i64,
        }
    }

    pub fn enqueue(&mut self, queued: Queued<T>, limit_bytes: u64, drops: &mut Drops) -> bool {
        let flow = queued.packet.flow;
        let index = flow as usize;
        while self.queues.len() <= index {
            self.queues.push(SubQueue {
                fifo: Fifo::new(),
                control: Control::new(self.max_packet_bytes),
                credit_bytes: 0,
                active: false,
            });
        }
        let dropped_before = drops.of(flow);
        self.bytes += u64::from(queued.packet.size);
        let queue = &mut self.queues[index];
        queue.fifo.push(queued);
        if !queue.active {
            queue.active = true;
            queue.credit_bytes = self.quantum_bytes;
            self.new.push_back(index);
        }
        while self.bytes > limit_bytes {
            self.drop_from_fattest(drops);
        }
        drops.of(flow) == dropped_before
    }

    /// RFC 8290 §4.1.3: overload is paid for by the queue with the most bytes, at its head.
    fn drop_from_fattest(&mut self, drops: &mut Drops) {
        let fattest = self.queues.iter_mut().max_by_key(|q| q.fifo.bytes());
        match fattest.and_then(|q| q.fifo.pop()) {
            Some(dropped) => {
                self.bytes -= u64::from(dropped.packet.size);
                drops.count(dropped.packet.flow);
            }
            None => self.bytes = 0,
        }
    }

    pub fn dequeue(&mut self, now: Time, drops: &mut Drops) -> Option<Queued<T>> {
        loop {
            let (index, is_new) = match (self.new.front(), self.old.front()) {
                (Some(&index), _) => (index, true),
                (None, Some(&index)) => (index, false),
                (None, None) => return None,
            };
            let queue = &mut self.queues[index];
            if queue.credit_bytes <= 0 {
                queue.credit_bytes += self.quantum_bytes;
                self.leave_list(is_new);
                self.old.push_back(index);
                continue;
            }
            let before = queue.fifo.bytes();
            let head = queue.control.dequeue(now, &mut queue.fifo, drops);
            self.bytes -= before - queue.fifo.bytes();
            match head {
                Some(head) => {
                    queue.credit_bytes -= i64::from(head.packet.size);
                    return Some(head);
                }
                None => {
                    // RFC 8290 §4.2: an emptied new queue passes once through the old list, so that it
                    // cannot stay new by emptying itself.
                    self.leave_list(is_new);
                    if is_new && !self.old.is_empty() {
                        self.old.push_back(index);
                    } else {
                        self.queues[index].active = false;
                    }
                }
            }
        }
    }

    fn leave_list(&mut self, is_new: bool) {
        if is_new {
            self.new.pop_front();
        } else {
            self.old.pop_front();
        }
    }

    pub fn len(&self) -> usize {
        self.queues.iter().map(|q| q.fifo.len()).sum()
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
