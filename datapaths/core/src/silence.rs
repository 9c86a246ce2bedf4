//! For how long an agent that need not answer has been silent.
//!
//! Only time in which reports go counts, from one to the next: an application that pauses, or a program that reports now and then,
//! says nothing about the agent. So one gap between two reports counts for no more than half of the patience, and nobody is lost
//! by fewer than three reports.

use anole_model::{Dur, Time};

/// How many times the usual time an agent may be silent that has not shown that it answers every report: 16 s at the
/// default, more than the 10 s between two probes of BBR, the longest that a published agent has nothing to say.
const SILENCE_FACTOR: u64 = 32;

/// Time over which reports have gone in vain.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    length: Dur,
    latest: Option<Time>,
}

impl Span {
    fn extend(&mut self, now: Time, patience: Dur) {
        let gap = self.latest.map_or(Dur::ZERO, |latest| now.since(latest));
        self.length += gap.min(patience / 2);
        self.latest = Some(now);
    }
}

/// What tells of the death of such an agent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Silence {
    /// Nothing has come from it.
    unanswered: Span,
    /// Nothing could be handed to it, or the program has had nothing to report but an abort.
    unheard: Span,
}

impl Silence {
    /// A report goes, and is handed over or not.
    pub fn on_report(&mut self, now: Time, patience: Dur, handed: bool) {
        self.unanswered.extend(now, patience);
        if handed {
            self.unheard = Span::default();
        } else {
            self.unheard.extend(now, patience);
        }
    }

    /// True when such an agent is lost.
    pub fn is_death(&self, patience: Dur) -> bool {
        self.unheard.length > patience || self.unanswered.length > patience * SILENCE_FACTOR
    }
}
