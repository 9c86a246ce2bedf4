//! Trouble that may come with every question: each kind is logged at once and then at most once a minute.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The same trouble is logged once in this time.
const EVERY: Duration = Duration::from_secs(60);
/// Kinds that are told apart; a server may put anything into its words.
const MOST_KINDS: usize = 64;

/// Counts what went wrong since it was last logged, by policy and reason.
#[derive(Debug, Default)]
pub struct Complaints(HashMap<(String, String), Kind>);

#[derive(Debug)]
struct Kind {
    logged: Instant,
    unlogged: u64,
}

impl Complaints {
    /// Something went wrong with a policy; its flows go on without this answer.
    pub fn say(&mut self, policy: &str, reason: &str) {
        if let Some(times) = self.due(Instant::now(), policy, reason) {
            tracing::warn!(policy, reason, times, "no answer; flows go on without");
        }
    }

    /// How often it happened since it was last logged, where that is due again.
    fn due(&mut self, now: Instant, policy: &str, reason: &str) -> Option<u64> {
        let key = (policy.to_string(), reason.to_string());
        if let Some(kind) = self.0.get_mut(&key) {
            kind.unlogged += 1;
            if now.duration_since(kind.logged) < EVERY {
                return None;
            }
            kind.logged = now;
            return Some(std::mem::take(&mut kind.unlogged));
        }
        if self.0.len() >= MOST_KINDS {
            self.0.retain(|_, kind| now.duration_since(kind.logged) < EVERY);
        }
        if self.0.len() >= MOST_KINDS {
            return None;
        }
        self.0.insert(key, Kind { logged: now, unlogged: 0 });
        Some(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_told_once_a_minute_however_they_alternate() {
        let (mut complaints, start) = (Complaints::default(), Instant::now());
        let mut told =
            |ms: u64, policy, reason| complaints.due(start + Duration::from_millis(ms), policy, reason);
        assert_eq!([told(0, "orca", "late"), told(0, "orca", "full")], [Some(1), Some(1)]);
        assert_eq!(told(0, "sage", "late"), Some(1));
        for ms in 1..1000 {
            assert_eq!([told(ms, "orca", "late"), told(ms, "orca", "full")], [None, None]);
        }
        assert_eq!([told(60_000, "orca", "late"), told(60_000, "sage", "late")], [Some(1000), Some(1)]);
    }

    #[test]
    fn a_server_s_own_words_fill_neither_the_log_nor_memory() {
        let (mut complaints, start) = (Complaints::default(), Instant::now());
        let told = (0..10_000).filter(|n| complaints.due(start, "orca", &n.to_string()).is_some()).count();
        assert_eq!((told, complaints.0.len()), (MOST_KINDS, MOST_KINDS));
        assert_eq!(complaints.due(start + EVERY, "orca", "new"), Some(1));
    }
}
