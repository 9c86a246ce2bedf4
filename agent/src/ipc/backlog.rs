//! Messages that wait for room in a datapath's socket.

use crate::flow_key::DatapathId;
use anole_model::{Dur, Time};
use std::collections::{HashMap, VecDeque};

/// Messages that wait for one datapath: several times the programs of all algorithms, which are
/// installed at once.
const MAX_WAITING: usize = 64;
/// A datapath that has taken nothing for this long does not read; what waits for it is stale.
const GIVE_UP_AFTER: Dur = Dur::from_millis(1_000);

struct Queue {
    /// When a message last went through, or the first began to wait.
    progress: Time,
    messages: VecDeque<Vec<u8>>,
}

/// What came of one attempt to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// It is settled, for better or worse.
    Done,
    /// There is still no room.
    NoRoom,
    /// Nobody is there.
    Gone,
}

/// Queues of the datapaths whose sockets are full, each in order.
#[derive(Default)]
pub struct Backlog {
    queues: HashMap<DatapathId, Queue>,
}

impl Backlog {
    /// True when nothing waits.
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// True when messages wait for this datapath, so that new ones have to join them.
    pub fn holds(&self, peer: DatapathId) -> bool {
        self.queues.contains_key(&peer)
    }

    /// Lets a message wait; false when there is no room here either.
    pub fn push(&mut self, now: Time, peer: DatapathId, message: Vec<u8>) -> bool {
        let queue =
            self.queues.entry(peer).or_insert_with(|| Queue { progress: now, messages: VecDeque::new() });
        let room = queue.messages.len() < MAX_WAITING;
        if room {
            queue.messages.push_back(message);
        }
        room
    }

    /// Nothing waits for this datapath any more.
    pub fn forget(&mut self, peer: DatapathId) {
        self.queues.remove(&peer);
    }

    /// Tries to send what waits; returns the messages given up and the datapaths that are gone.
    pub fn flush(
        &mut self,
        now: Time,
        mut send: impl FnMut(DatapathId, &[u8]) -> Attempt,
    ) -> (u64, Vec<DatapathId>) {
        let (mut lost, mut gone) = (0, Vec::new());
        self.queues.retain(|&peer, queue| {
            while let Some(message) = queue.messages.front() {
                match send(peer, message) {
                    Attempt::Done => {
                        queue.messages.pop_front();
                        queue.progress = now;
                    }
                    Attempt::NoRoom if now.since(queue.progress) < GIVE_UP_AFTER => return true,
                    Attempt::NoRoom => {
                        lost += queue.messages.len() as u64;
                        return false;
                    }
                    Attempt::Gone => {
                        gone.push(peer);
                        return false;
                    }
                }
            }
            false
        });
        (lost, gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: DatapathId = DatapathId::SELF;

    fn ms(millis: u64) -> Time {
        Time::ZERO + Dur::from_millis(millis)
    }

    #[test]
    fn order_is_kept_and_room_is_bounded() {
        let mut backlog = Backlog::default();
        for n in 0..MAX_WAITING as u8 {
            assert!(backlog.push(ms(0), PEER, vec![n]));
        }
        assert!(!backlog.push(ms(0), PEER, vec![255]));
        let mut taken = Vec::new();
        let three = |_: DatapathId, message: &[u8]| {
            if taken.len() == 3 {
                return Attempt::NoRoom;
            }
            taken.push(message[0]);
            Attempt::Done
        };
        assert_eq!(backlog.flush(ms(1), three), (0, vec![]));
        assert_eq!(taken, [0, 1, 2]);
        assert!(backlog.holds(PEER));
        assert_eq!(backlog.flush(ms(2), |_, _| Attempt::Done), (0, vec![]));
        assert!(backlog.is_empty());
    }

    #[test]
    fn who_does_not_read_or_is_gone_is_given_up() {
        let mut backlog = Backlog::default();
        backlog.push(ms(0), PEER, vec![1]);
        backlog.push(ms(900), PEER, vec![2]);
        assert_eq!(backlog.flush(ms(999), |_, _| Attempt::NoRoom), (0, vec![]));
        assert_eq!(backlog.flush(ms(1000), |_, _| Attempt::NoRoom), (2, vec![]));
        assert!(!backlog.holds(PEER));
        backlog.push(ms(1000), PEER, vec![3]);
        backlog.forget(PEER);
        assert!(backlog.is_empty());
        backlog.push(ms(1000), PEER, vec![3]);
        assert_eq!(backlog.flush(ms(1000), |_, _| Attempt::Gone), (0, vec![PEER]));
        assert!(backlog.is_empty());
    }
}
