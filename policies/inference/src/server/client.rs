//! The thread that carries questions to the policy server and answers back.
//!
//! ```text
//!              a question comes, connect            lost, or nonsense
//!   apart ───────────────────────────▶ connected ─────────────────────▶ apart
//!     ▲  │ fails, or is lost before the server has said anything (it is full): wait 100 ms, 200 ms … 2 s
//!     └──┘ meanwhile questions are forgotten: flows see no answer
//! ```
//! Nothing here waits for the server alone, and nothing waits for this thread.

use super::Remote;
use super::connection::Connection;
use super::exchange::{Asked, Exchange};
use crate::complaints::Complaints;
use crate::refused;
use crate::worker::{Queue, Woken};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// First wait before connecting again; doubled with each failure.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// Longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

enum Link {
    /// No connection. Not before `until` is one tried; if that fails, `wait` is how long the next pause
    /// lasts.
    Apart { until: Instant, wait: Duration },
    /// There is one; if it ends before the server has said anything, `wait` is how long the pause lasts.
    Connected(Box<Exchange>, Duration),
}

/// Serves questions through the server at `path` until the queue is closed.
pub fn serve(path: &Path, queue: &Queue<Arc<Remote>>, taken: &mut Vec<Asked>) {
    let name = format!("server {}", path.display());
    let mut complaints = Complaints::default();
    let mut link = Link::Apart { until: Instant::now(), wait: FIRST_WAIT };
    loop {
        let (socket, timeout) = match &link {
            Link::Apart { .. } => (None, None),
            Link::Connected(exchange, _) => (Some(exchange.fd()), exchange.patience(taken)),
        };
        if queue.wait(taken, socket, timeout) == Woken::Closed {
            return;
        }
        let now = Instant::now();
        let (done, wait) = match &mut link {
            Link::Apart { until, wait } => match (now >= *until && !taken.is_empty(), *wait) {
                (false, _) => (Ok(()), FIRST_WAIT),
                (true, wait) => match Connection::open(path) {
                    Ok(connection) => {
                        let mut exchange = Exchange::new(connection, now);
                        let told = exchange.tell(taken, now, &mut complaints);
                        link = Link::Connected(Box::new(exchange), wait);
                        (told, wait)
                    }
                    Err(errno) => (Err(format!("cannot connect: {}", refused::why(path, errno))), wait),
                },
            },
            Link::Connected(exchange, wait) => {
                let new = !exchange.has_heard();
                let heard = exchange.hear(now, &mut complaints);
                if new && exchange.has_heard() {
                    tracing::info!(server = %path.display(), "connected to the policy server");
                    *wait = FIRST_WAIT;
                }
                (heard.and_then(|()| exchange.tell(taken, now, &mut complaints)), *wait)
            }
        };
        if let Err(why) = done {
            complaints.say(&name, &why);
            link = Link::Apart { until: now + wait, wait: (wait * 2).min(LONGEST_WAIT) };
        }
        if matches!(link, Link::Apart { .. }) {
            taken.drain(..).for_each(|request| request.forget());
        }
    }
}
