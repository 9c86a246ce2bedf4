//! Why a flow goes on as it does: what an algorithm knew when it decided, and what it decided.

use anole_model::{Dur, Rate, Time};

/// What is known about one of the rates that compete.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// The rate.
    pub rate: Rate,
    /// Its utility.
    pub utility: f64,
    /// Slope of the round-trip time while its packets were sent, s/s; `None` with too few samples.
    pub slope: Option<f64>,
    /// Standard error of the slope.
    pub error: Option<f64>,
    /// The gradient that the utility took: the slope where significant, and the excess of loss; else 0.
    pub gradient: f64,
    /// The shortest round-trip time of the window over the smallest one known.
    pub rtt_ratio: f64,
}

/// One step of a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Explanation {
    /// When.
    pub at: Time,
    /// What the flow does from now on.
    pub stage: &'static str,
    /// The rate in force from now on.
    pub rate: Rate,
    /// Where it came from.
    pub source: &'static str,
    /// Mean round-trip time of the last window.
    pub rtt: Dur,
    /// The smallest round-trip time as known.
    pub min_rtt: Dur,
    /// The standing queue aimed at.
    pub aim: Dur,
    /// The verdict on the rule-based candidate, after an evaluation.
    pub rule: Option<Judged>,
    /// The verdict on the learned candidate.
    pub learned: Option<Judged>,
    /// The verdict on the rate before.
    pub previous: Option<Judged>,
    /// Where the optimum was taken to be: the situation I, II, III or IV of the inference.
    pub situation: Option<&'static str>,
    /// Confidence in the rule-based and the learned candidate.
    pub confidence: [f64; 2],
}
