//! How far the model of the path is believed.
//!
//! The model says: at the rate in force round-trip times stay within the tolerated queue, the path carries that rate, and
//! no more is lost than the path loses anyway. Every probing and acceleration stage, every check and every alarm is held
//! against it; the share of the forecast that came true is to the confidence in the model what the share of the largest
//! utility is to that in a candidate (eq. 11). A rate that was lowered again and again while the queue stays as it is
//! refutes the model at once: the queue is not this flow's.

use super::super::interval::{MonitorInterval, Phase};
use super::drain::Reason;
use super::{Anole, IDLE_SHARE, Stage};
use anole_model::{Dur, Rate, Time};

/// Shortfall of a forecast that costs no trust.
const SLACK: f64 = 0.15;
/// What one interval leaves of the trust at least: five tell what one cannot.
const LEAST_LEFT: f64 = 0.9;
/// Weight of the loss that the model does not explain.
const LOSS_WEIGHT: f64 = 4.0;
/// A rate that fell by this share …
const YIELDED: f64 = 0.5;
/// … should have shortened the queue by this share of that.
const EFFECT: f64 = 0.5;
/// A queue of this share of the tolerated one (µ) is short.
const SHORT: f64 = 0.5;
/// Steady round trips after which a trial is made, at first and at most.
const PATIENCE: (u32, u32) = (24, 512);
/// A model that fails within this many times the round trips waited for it has failed soon.
const SOON: u64 = 16;

/// Trust in the model, and what it rests on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trust {
    confidence: f64,
    /// The late round-trip time of the last probing stage.
    rtt: Option<Dur>,
    /// The rate and the round-trip time since which the flow has yielded.
    yielded: Option<(Rate, Dur)>,
    patience: u32,
    /// Since when the model has been trusted again, once it has failed.
    since: Option<Time>,
}

impl Trust {
    pub fn new() -> Trust {
        Trust { confidence: 1.0, rtt: None, yielded: None, patience: PATIENCE.0, since: None }
    }

    /// Takes the share of a forecast that came true.
    fn take(&mut self, share: f64) {
        self.confidence = (self.confidence * (share + SLACK).max(LEAST_LEFT)).min(1.0);
    }

    /// True when the rate has fallen by [`YIELDED`] and the queue is hardly shorter for it.
    fn yields_in_vain(&mut self, rate: Rate, rtt: Dur, base: Dur, short: Dur) -> bool {
        let (from, before) = self.yielded.unwrap_or((rate, rtt));
        if rate >= from || rtt <= short {
            self.yielded = Some((rate, rtt));
            return false;
        }
        self.yielded = Some((from, before));
        let cut = 1.0 - rate.bytes_per_s() / from.bytes_per_s();
        let queue = 1.0 - base.as_secs_f64() / before.max(base).as_secs_f64();
        let fell = 1.0 - rtt.as_secs_f64() / before.as_secs_f64();
        cut > YIELDED && fell < EFFECT * cut.min(queue)
    }

    /// The model is trusted no more: the rate before the flow yielded. One that fails again soon has to wait longer.
    pub fn lose(&mut self, now: Time, rate: Rate, srtt: Dur) -> Rate {
        let waited = srtt * (SOON * u64::from(self.patience));
        let soon = self.since.is_some_and(|since| now.since(since) < waited);
        self.patience = if soon { (2 * self.patience).min(PATIENCE.1) } else { PATIENCE.0 };
        self.rtt = None;
        self.yielded.take().map_or(rate, |(from, _)| from.max(rate))
    }

    /// What the rate has fallen by so far is none of the flow's yielding.
    pub fn forget_yielding(&mut self) {
        (self.rtt, self.yielded) = (None, None);
    }

    /// Round trips that have to go as forecast before the path is tried.
    pub fn patience(&self) -> u32 {
        self.patience
    }

    /// The model is trusted again.
    pub fn regain(&mut self, now: Time) {
        *self = Trust { confidence: 1.0, since: Some(now), ..*self };
    }
}

impl Anole {
    /// A round-trip time up to this tells of no more than a short queue.
    pub(super) fn short_rtt(&self) -> Dur {
        self.short_over(self.path.min_rtt())
    }

    /// The same over another base.
    pub(super) fn short_over(&self, base: Dur) -> Dur {
        base.mul_f64(1.0 + SHORT * self.params.mu)
    }

    /// Holds what an interval shows against the model; true when the model is trusted no more.
    pub(super) fn doubts(&mut self, window: &MonitorInterval) -> bool {
        let rtt = match (self.stage, window.phase) {
            (_, Phase::Alarm) => window.last_rtt,
            (Stage::Probing(_) | Stage::Acceleration(_) | Stage::Check(_), Phase::Hold) => window.late_rtt,
            _ => return false,
        };
        let tolerated = self.path.min_rtt().mul_f64(1.0 + self.target_queue().tolerated);
        let ratio = |a: Dur, b: Dur| a.min(b).as_secs_f64() / a.max(b).as_secs_f64().max(1e-9);
        let excess = self.path.own_loss.recent_excess().unwrap_or(0.0);
        let mut share = ratio(tolerated, rtt.max(tolerated)) * (1.0 - LOSS_WEIGHT * excess);
        if let Stage::Check(drain) = self.stage
            && drain.reason == Reason::Queue
            && drain.repeated > 0
        {
            let after = window.rtt.map_or(rtt, |(_, min)| min.min(rtt));
            share = self.effect(&drain, after).map_or(share, |effect| share.min(effect));
        }
        if matches!(self.stage, Stage::Probing(_)) && window.phase == Phase::Hold {
            let carried = Rate::from_bytes_in(window.acked, window.elapsed).bytes_per_s();
            let carried = carried / self.rate.bytes_per_s().max(1.0);
            let same = self.trust.rtt.map_or(1.0, |last| ratio(last, rtt));
            if carried > IDLE_SHARE || rtt > tolerated {
                share = share.min(carried).min(same);
            }
            self.trust.rtt = Some(rtt);
        }
        self.trust.take(share);
        let in_vain = self.trust.yields_in_vain(self.rate, rtt, self.path.min_rtt(), self.short_rtt());
        self.trust.confidence < self.params.eta_off || in_vain || self.knows_too_little(self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Dur = Dur::from_millis(50);

    fn mbps(n: f64) -> Rate {
        Rate::from_mbps(n)
    }

    #[test]
    fn five_failed_forecasts_cost_the_trust_and_small_errors_cost_none() {
        let mut trust = Trust::new();
        for _ in 0..100 {
            trust.take(1.0 - SLACK);
        }
        assert!((trust.confidence - 1.0).abs() < 1e-9);
        for _ in 0..5 {
            assert!(trust.confidence > 0.6);
            trust.take(0.0);
        }
        assert!(trust.confidence < 0.6);
    }

    #[test]
    fn a_rate_lowered_under_a_queue_that_stays_was_lowered_in_vain() {
        let vain = |rtts: [Dur; 3]| {
            let mut trust = Trust::new();
            let rates = [40.0, 30.0, 18.0].map(mbps);
            rates
                .into_iter()
                .zip(rtts)
                .any(|(rate, rtt)| trust.yields_in_vain(rate, rtt, RTT, RTT.mul_f64(1.1)))
        };
        assert!(vain([RTT * 2, RTT * 2, RTT * 2]));
        assert!(!vain([RTT * 2, RTT.mul_f64(1.7), RTT.mul_f64(1.4)]));
        assert!(!vain([RTT * 2, RTT, RTT * 2]), "a queue that was short in between");
    }

    #[test]
    fn a_model_that_fails_again_soon_waits_twice_as_long() {
        let mut trust = Trust::new();
        let at = |s: u64| Time::from_micros(s * 1_000_000);
        assert_eq!(trust.lose(at(1000), mbps(1.0), RTT), mbps(1.0));
        assert_eq!(trust.patience(), PATIENCE.0);
        trust.regain(at(1001));
        trust.lose(at(1002), mbps(1.0), RTT);
        assert_eq!(trust.patience(), 2 * PATIENCE.0);
        trust.regain(at(1003));
        trust.lose(at(2000), mbps(1.0), RTT);
        assert_eq!(trust.patience(), PATIENCE.0);
        // The first time is none again, whatever the clock says.
        let mut trust = Trust::new();
        trust.lose(at(4), mbps(1.0), RTT);
        assert_eq!(trust.patience(), PATIENCE.0);
    }
}
