//! Trouble that may come with every question, logged at once and then at most once a minute.

use std::time::{Duration, Instant};

/// The same trouble is logged once in this time.
const EVERY: Duration = Duration::from_secs(60);

/// Counts what went wrong since it was last logged.
#[derive(Debug, Default)]
pub struct Complaints {
    last: Option<(Instant, String)>,
    unlogged: u64,
}

impl Complaints {
    /// Something went wrong with a policy; its flows go on without this answer.
    pub fn say(&mut self, policy: &str, reason: &str) {
        let now = Instant::now();
        self.unlogged += 1;
        let same = |(at, last): &(Instant, String)| now.duration_since(*at) < EVERY && last == reason;
        if self.last.as_ref().is_some_and(same) {
            return;
        }
        tracing::warn!(policy, reason, times = self.unlogged, "no answer; flows go on without");
        self.last = Some((now, reason.to_string()));
        self.unlogged = 0;
    }
}
