//! The slots that have a question, on their way to the thread that computes.
//!
//! Each flow is in the queue at most once, so its length is bounded by the number of flows.

use crate::slot::Slot;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Room for so many flows before the queue allocates.
const ROOM: usize = 1024;

/// A queue with many producers and one consumer, which can wait for it and for a socket at once.
#[derive(Debug)]
pub struct Queue<T> {
    waiting: Mutex<Vec<Arc<Slot<T>>>>,
    wake: EventFd,
    closed: AtomicBool,
}

/// Why waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// Questions came, the socket can be read, or time is up: look at both.
    Look,
    /// Nobody asks any more.
    Closed,
}

impl<T> Queue<T> {
    /// An empty one.
    pub fn new() -> std::io::Result<Queue<T>> {
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Queue { waiting: Mutex::new(Vec::with_capacity(ROOM)), wake, closed: AtomicBool::new(false) })
    }

    /// Adds a slot.
    pub fn push(&self, slot: Arc<Slot<T>>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let first = waiting.is_empty();
        waiting.push(slot);
        drop(waiting);
        if first {
            self.wake();
        }
    }

    /// The consumer is to end.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        // Fails only when the counter is full, and then the consumer is awake anyway.
        let _ = self.wake.write(1);
    }

    /// Waits for slots, for `socket` to become readable, or for `timeout`; slots are added to `into`.
    pub fn wait(
        &self,
        into: &mut Vec<Arc<Slot<T>>>,
        socket: Option<BorrowedFd<'_>>,
        timeout: Option<Duration>,
    ) -> Woken {
        let timeout = timeout.map_or(PollTimeout::NONE, |timeout| {
            // Rounded up, so that what is due at its end is due.
            PollTimeout::try_from(timeout + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
        });
        let fd = |fd| PollFd::new(fd, PollFlags::POLLIN);
        // Interrupted by a signal, it is called again.
        let _ = match socket {
            Some(socket) => poll(&mut [fd(self.wake.as_fd()), fd(socket)], timeout),
            None => poll(&mut [fd(self.wake.as_fd())], timeout),
        };
        if self.closed.load(Ordering::Acquire) {
            return Woken::Closed;
        }
        let _ = self.wake.read();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        into.append(&mut waiting);
        Woken::Look
    }
}
