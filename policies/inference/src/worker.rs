//! The thread that computes, and the requests on their way to it.
//!
//! Each flow is in the queue at most once, so its length is bounded by the number of flows.

use crate::request::Request;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Room for so many flows before the queue allocates.
const ROOM: usize = 1024;

/// A queue with many producers and one consumer, which can wait for it and for a socket at once.
#[derive(Debug)]
pub struct Queue<T> {
    waiting: Mutex<Vec<Arc<Request<T>>>>,
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

    /// Adds a request.
    pub fn push(&self, request: Arc<Request<T>>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let first = waiting.is_empty();
        waiting.push(request);
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

    /// Waits for requests, for `socket` to become readable, or for `timeout`; requests are added to `into`.
    pub fn wait(
        &self,
        into: &mut Vec<Arc<Request<T>>>,
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

/// A thread that computes, and the queue in front of it. Dropped, it ends.
#[derive(Debug)]
pub struct Worker<T> {
    queue: Arc<Queue<T>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + Sync + 'static> Worker<T> {
    /// Runs `serve` on a thread of its own until the queue is closed: it returns then, and not before,
    /// and keeps in the given list what it has taken from the queue and not dealt with. Should it panic,
    /// that is logged, the list forgotten, and `serve` called again.
    pub fn start(
        serve: impl Fn(&Queue<T>, &mut Vec<Arc<Request<T>>>) + Send + 'static,
    ) -> std::io::Result<Worker<T>> {
        let queue = Arc::new(Queue::new()?);
        let its = Arc::clone(&queue);
        let thread = std::thread::Builder::new().name("inference".to_string()).spawn(move || {
            let mut taken = Vec::new();
            while catch_unwind(AssertUnwindSafe(|| serve(&its, &mut taken))).is_err() {
                tracing::error!("the inference thread failed and starts again; flows go on without answers");
                taken.drain(..).for_each(|request| request.forget());
            }
        })?;
        Ok(Worker { queue, thread: Some(thread) })
    }

    /// Adds a request to its queue.
    pub fn push(&self, request: Arc<Request<T>>) {
        self.queue.push(request);
    }
}

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
