//! The verdict on a rate: its utility by Anole's eq. 1,
//!
//! ```text
//! u(x) = α·x^t − β·x·max(ΔD, 0) − λ·x·(RTT/RTTmin)·[RTT/RTTmin > 1 + µ]        x in Mbps
//! ```
//! A gradient counts only when it is significant. Loss has no term: loss alone must not lower u.
//!
//! Above capacity packets that find no room in the queue are dropped instead of delayed, and
//! ΔD = (x + R − C)/C (eq. 4) becomes ΔD + l/(1 − l) = (x + R − C)/C with l the share dropped. Deviation: the verdict
//! adds that term for loss in excess of what the path loses anyway ([`super::own_loss`]). Loss alone still lowers no
//! utility, but without the term a flow on a buffer too small to show a delay would climb for ever.

use super::super::interval::MonitorInterval;
use super::params::AnoleParams;
use super::path::Path;
use anole_model::Rate;

/// What the ACKs of one window told about one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Verdict {
    /// The rate that was in force.
    pub rate: Rate,
    /// Its delay gradient where significant, else 0.
    pub gradient: f64,
    /// True when a gradient could be told from noise.
    pub significant: bool,
    /// The shortest round-trip time of the window over the smallest one known: jitter makes no queue.
    pub rtt_ratio: f64,
    /// The queue tolerated, share of the smallest round-trip time.
    pub tolerated: f64,
    /// Its utility.
    pub utility: f64,
    /// The slope and its error as measured.
    pub measured: Option<(f64, f64)>,
}

impl Verdict {
    /// Judges a rate by its significant gradient (if any) and its round-trip time.
    pub fn new(
        rate: Rate,
        gradient: Option<f64>,
        rtt_ratio: f64,
        tolerated: f64,
        params: &AnoleParams,
    ) -> Verdict {
        let queue = if rtt_ratio > 1.0 + tolerated { params.lambda * rate.mbps() * rtt_ratio } else { 0.0 };
        let utility = params.weights().utility(rate, gradient.unwrap_or(0.0), queue);
        Verdict {
            rate,
            gradient: gradient.unwrap_or(0.0),
            significant: gradient.is_some(),
            rtt_ratio,
            tolerated,
            utility,
            measured: None,
        }
    }

    /// Judges the rate that was in force in an interval; `None` when nothing was acknowledged, for nothing is never
    /// scored.
    pub fn of(
        interval: &MonitorInterval,
        rate: Rate,
        tolerated: f64,
        path: &Path,
        mss: u32,
        params: &AnoleParams,
    ) -> Option<Verdict> {
        let (_, least) = interval.rtt?;
        let ratio = least.as_secs_f64() / path.min_rtt().as_secs_f64().max(1e-9);
        let growth = interval.significant_gradient();
        let gradient = match path.own_loss.excess(interval.loss(mss)) {
            Some(excess) => Some(growth.unwrap_or(0.0).max(0.0) + excess / (1.0 - excess)),
            None => growth,
        };
        let measured = interval.gradient.map(|g| (g.slope, g.error));
        Some(Verdict { measured, ..Verdict::new(rate, gradient, ratio, tolerated, params) })
    }

    /// True when the rate met a growing queue or a long one.
    pub fn congested(&self) -> bool {
        self.gradient > 0.0 || self.queue_is_long()
    }

    /// True when the queue exceeds what the utility tolerates (I_Q of eq. 2).
    pub fn queue_is_long(&self) -> bool {
        self.rtt_ratio > 1.0 + self.tolerated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(mbps: f64, gradient: f64, ratio: f64) -> Verdict {
        Verdict::new(Rate::from_mbps(mbps), Some(gradient), ratio, 0.2, &AnoleParams::default())
    }

    #[test]
    fn figures_of_the_paper() {
        assert!((judge(48.0, 0.0, 1.0).utility - 32.59).abs() < 0.01);
        assert!((judge(48.0, 0.001, 1.0).utility - (32.59 - 43.2)).abs() < 0.01);
        assert!((judge(48.0, 0.0, 1.5).utility - (32.59 - 792.0)).abs() < 0.01);
        assert_eq!(judge(48.0, -0.5, 1.2).utility, judge(48.0, 0.0, 1.0).utility);
    }

    #[test]
    fn an_interval_without_acks_is_not_judged() {
        let mut values = [0; 16];
        values[8] = u64::MAX;
        let interval = MonitorInterval::read(&values).unwrap();
        let (params, path) = (AnoleParams::default(), Path::new());
        assert_eq!(Verdict::of(&interval, Rate::from_mbps(1.0), 0.2, &path, 1448, &params), None);
    }
}
