//! What an algorithm and its session did so far, as statistics and results publish it.

use anole_model::Dur;
use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

/// What a session did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Metrics {
    /// Reports taken.
    pub reports: u64,
    /// Messages with commands.
    pub updates: u64,
    /// What its algorithm did.
    pub telemetry: Telemetry,
}

/// What an algorithm did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Telemetry {
    /// Time during which each kind of rate was in force.
    pub applied: Applied,
    /// Decisions taken.
    pub decisions: u64,
    /// Runs of the learned policy.
    pub inferences: u64,
}

/// Time during which each kind of rate was in force.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Applied {
    /// The rule-based candidate's.
    pub rule: Dur,
    /// The learned candidate's.
    pub learned: Dur,
    /// An inferred one.
    pub inferred: Dur,
    /// The one before, kept.
    pub previous: Dur,
}

/// Shares of time, 0 to 1, of that in which a candidate or something else was in force.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// The rule-based candidate.
    pub rule: f64,
    /// The learned candidate.
    pub learned: f64,
    /// An inferred rate.
    pub inferred: f64,
    /// The rate before.
    pub previous: f64,
}

impl Applied {
    /// The shares; `None` when no time was told.
    pub fn shares(&self) -> Option<Shares> {
        let seconds = [self.rule, self.learned, self.inferred, self.previous].map(Dur::as_secs_f64);
        let total: f64 = seconds.iter().sum();
        let [rule, learned, inferred, previous] = seconds.map(|s| s / total);
        (total > 0.0).then_some(Shares { rule, learned, inferred, previous })
    }
}

impl AddAssign for Metrics {
    fn add_assign(&mut self, other: Metrics) {
        self.reports += other.reports;
        self.updates += other.updates;
        self.telemetry += other.telemetry;
    }
}

impl AddAssign for Telemetry {
    fn add_assign(&mut self, other: Telemetry) {
        self.applied.rule += other.applied.rule;
        self.applied.learned += other.applied.learned;
        self.applied.inferred += other.applied.inferred;
        self.applied.previous += other.applied.previous;
        self.decisions += other.decisions;
        self.inferences += other.inferences;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_are_absent_when_nothing_was_told() {
        let mut applied = Applied::default();
        assert!(applied.shares().is_none());
        applied.rule = Dur::from_millis(1);
        applied.previous = Dur::from_millis(3);
        let shares = applied.shares().unwrap();
        assert_eq!((shares.rule, shares.learned, shares.inferred, shares.previous), (0.25, 0.0, 0.0, 0.75));
    }
}
