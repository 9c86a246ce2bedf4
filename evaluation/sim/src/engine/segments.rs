//! Which segments are there: all below one, and some above it.

use std::collections::VecDeque;

#[derive(Clone, Debug, Default)]
pub(super) struct Segments {
    /// The first one that is not.
    next: u64,
    /// Which of those from `next` on are.
    ahead: VecDeque<bool>,
}

impl Segments {
    /// All segments below this one are there.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Some are missing below others.
    pub fn has_holes(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// Whether a segment is there.
    pub fn has(&self, segment: u64) -> bool {
        let ahead = |offset: u64| self.ahead.get(offset as usize).is_some_and(|there| *there);
        segment.checked_sub(self.next).is_none_or(ahead)
    }

    /// Notes a segment; false if it was there already.
    pub fn note(&mut self, segment: u64) -> bool {
        let Some(offset) = segment.checked_sub(self.next) else { return false };
        if offset == 0 {
            self.next += 1;
            self.ahead.pop_front();
            while self.ahead.front() == Some(&true) {
                self.ahead.pop_front();
                self.next += 1;
            }
            return true;
        }
        let offset = offset as usize;
        if self.ahead.len() <= offset {
            self.ahead.resize(offset + 1, false);
        }
        !std::mem::replace(&mut self.ahead[offset], true)
    }
}
