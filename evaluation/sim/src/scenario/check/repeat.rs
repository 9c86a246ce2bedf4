//! Changes that come again and again.

use super::{Check, MAX_SECONDS, Result};
use crate::scenario::{Change, Scenario};
use anole_model::Dur;
use std::ops::Range;
use toml::Spanned;

/// Changes of a run that comes again and again; they are known before it starts.
const MAX_CHANGES: f64 = 1e5;

impl Check<'_> {
    /// `every_s` of a `[[change]]`.
    pub(super) fn repetition(
        &self,
        scenario: &Scenario,
        every_s: &Option<Spanned<f64>>,
    ) -> Result<Option<Dur>> {
        let Some(every) = every_s else { return Ok(None) };
        let seconds = self.within(every, "every_s", 1e-3, MAX_SECONDS)?;
        self.not_too_often(scenario, seconds, &every.span())?;
        Ok(Some(Dur::from_secs_f64(seconds)))
    }

    /// Refuses an interval that makes more changes than a run should hold.
    pub(super) fn not_too_often(&self, scenario: &Scenario, every_s: f64, span: &Range<usize>) -> Result<()> {
        let duration_s = scenario.duration.as_secs_f64();
        let random = scenario.random_changes.iter().map(|change| duration_s / change.every.as_secs_f64());
        let changes = duration_s / every_s + scenario.changes.len() as f64 + random.sum::<f64>();
        if changes <= MAX_CHANGES {
            return Ok(());
        }
        let message = format!(
            "every_s = {every_s} makes {changes:.0} changes in all; at most {MAX_CHANGES} are allowed"
        );
        Err(self.origin.error(span.clone(), message))
    }
}

/// Adds a change and its repetitions until the end of the run.
pub(super) fn push(scenario: &mut Scenario, change: Change, every: Option<Dur>) {
    scenario.changes.push(change);
    let Some(every) = every else { return };
    let mut at = change.at + every;
    while at < scenario.end() {
        scenario.changes.push(Change { at, ..change });
        at += every;
    }
}
