//! What a trace shows of a flow.

use super::decision::Source;
use super::inference::{Situation, situation};
use super::verdict::Verdict;
use super::{Anole, Stage};
use crate::{Explanation, Judged};
use anole_model::Time;

impl Stage {
    /// Its name in a trace.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Stage::Ramp(_) => "ramp",
            Stage::Evaluation(_) => "evaluation",
            Stage::Drain(_) => "drain",
            Stage::Check(_) => "check",
            Stage::Probing(_) => "probing",
            Stage::Acceleration(_) => "acceleration",
            Stage::Track => "track",
        }
    }
}

fn judged(verdict: &Verdict) -> Judged {
    Judged {
        rate: verdict.rate,
        utility: verdict.utility,
        slope: verdict.measured.map(|(slope, _)| slope),
        error: verdict.measured.map(|(_, error)| error),
        gradient: verdict.gradient,
        rtt_ratio: verdict.rtt_ratio,
    }
}

impl Anole {
    pub(super) fn explanation(&self, now: Time) -> Explanation {
        let evidence = self.evidence.unwrap_or_default();
        let told = situation(&evidence.ascending()).map(|(situation, _)| match situation {
            Situation::BelowAll => "I",
            Situation::LowerGap => "II",
            Situation::UpperGap => "III",
            Situation::AboveAll => "IV",
        });
        Explanation {
            at: now,
            stage: self.stage.name(),
            rate: self.rate,
            source: match self.source.0 {
                Source::Rule => "rule",
                Source::Learned => "learned",
                Source::Inferred => "inferred",
                Source::Previous => "previous",
            },
            rtt: self.path.srtt(),
            min_rtt: self.path.min_rtt(),
            aim: self.target_queue().target,
            rule: evidence.rule.as_ref().map(judged),
            learned: evidence.learned.as_ref().map(judged),
            previous: evidence.previous.as_ref().map(judged),
            situation: told,
            confidence: [self.rule.confidence.value(), self.learned.confidence.value()],
        }
    }
}
