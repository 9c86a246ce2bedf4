//! Drop-tail: a FIFO that refuses what does not fit.

use super::queue::{Drops, Fifo, Queued};

#[derive(Clone, Debug)]
pub(super) struct DropTail<T> {
    fifo: Fifo<T>,
}

impl<T> DropTail<T> {
    pub fn new() -> DropTail<T> {
        DropTail { fifo: Fifo::new() }
    }

    pub fn enqueue(&mut self, queued: Queued<T>, limit_bytes: u64, drops: &mut Drops) -> bool {
        self.fifo.push_within(queued, limit_bytes, drops)
    }

    pub fn dequeue(&mut self) -> Option<Queued<T>> {
        self.fifo.pop()
    }

    pub fn len(&self) -> usize {
        self.fifo.len()
    }

    pub fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }
}
