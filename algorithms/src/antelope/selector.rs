//! What Antelope is wherever the laws run: data units, and after each the law for the next ones.
//!
//! Here the laws are those of [`super::arms`]; a [`Selector`] alone serves a flow whose laws are somebody else's, such as the
//! kernel's own. What such a flow tells is a [`Stretch`]: sums over some round trips, which [`Units`] turns into data units.

use super::arms::{ARMS, DEFAULT_ARM};
use super::choice::{Choice, Rein};
use super::unit::{DataUnit, Units};
use super::{AntelopeParams, Judgement};
use crate::{Build, BuildError};
use anole_laws::Feedback;
use anole_laws::regression::Sums;
use anole_model::{Bounds, Dur, Rate, Time};

/// Round trips after a switch that are not judged.
const UNJUDGED_RTTS: f64 = 2.0;

/// What governs a flow, as whoever runs its laws knows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Governed {
    /// The law that governs, of [`ARMS`].
    pub arm: usize,
    /// It grows exponentially.
    pub starting: bool,
    /// The smoothed round-trip time.
    pub srtt: Dur,
}

/// Some round trips of a flow under one law, summed up by whoever runs it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stretch {
    /// Its length.
    pub elapsed: Dur,
    /// Bytes acknowledged.
    pub acked: u64,
    /// Packets acknowledged.
    pub packets: u64,
    /// Packets found lost.
    pub lost: u64,
    /// Mean round-trip time.
    pub rtt: Dur,
    /// Smallest round-trip time.
    pub min_rtt: Dur,
    /// Largest pacing rate.
    pub pacing: Rate,
}

/// A data unit that is over, and what follows from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// What the unit showed.
    pub judgement: Judgement,
    /// The law that is to govern instead.
    pub switch_to: Option<usize>,
}

/// One flow's data units and choices.
pub struct Selector {
    choice: Choice,
    units: Units,
    patience: u32,
    first: Option<usize>,
    /// The laws that may be recommended.
    offered: Vec<usize>,
    /// What was recommended last, and how often in a row.
    recommended: (usize, u32),
    /// The slow start of a flow that begins, or that begins again after a timeout, is over.
    started: bool,
    /// Units are judged from here on.
    judged_from: Time,
}

impl Selector {
    /// For the algorithm `antelope` or `rein` over laws of somebody else, of whose flows it is told by [`Selector::take`].
    /// `offered` are the laws that may be recommended: what is none of [`Selector::arms`] never is.
    pub fn of(algorithm: &str, what: &Build, offered: &[usize]) -> Result<Selector, BuildError> {
        let rules = (algorithm == super::REIN.name).then(Rein::default);
        let mut selector = Selector::build(what, rules.map(Choice::Rein))?;
        selector.offered = offered.iter().copied().filter(|arm| *arm < ARMS.len()).collect();
        selector.units = Units::of_round_trips();
        Ok(selector)
    }

    /// By models or rules, or at random where parameters say so.
    pub(super) fn build(what: &Build, rules: Option<Choice>) -> Result<Selector, BuildError> {
        let params = AntelopeParams::with(&what.params)?;
        let choice = match rules {
            _ if params.explore > 0.0 => Choice::random(what.seed, params.explore),
            Some(rules) => rules,
            None => Choice::Models(
                what.policies
                    .boosters(what.policy.as_deref(), DataUnit::WIDTH)
                    .map_err(|error| BuildError::Policy(error.to_string()))?,
            ),
        };
        Ok(Selector::new(choice, &params))
    }

    pub(super) fn new(choice: Choice, params: &AntelopeParams) -> Selector {
        let first = (params.first >= 0.0).then_some(params.first as usize);
        Selector {
            patience: choice.patience(params.patience as u32),
            choice,
            units: Units::new(),
            first,
            offered: (0..ARMS.len()).collect(),
            recommended: (first.unwrap_or(DEFAULT_ARM), 0),
            started: false,
            judged_from: Time::ZERO,
        }
    }

    /// What it goes by: models, rules or chance.
    pub fn by(&self) -> &'static str {
        self.choice.name()
    }

    /// The laws that it can ever recommend.
    pub fn arms(&self) -> Vec<usize> {
        self.choice.arms()
    }

    /// The law that a parameter asks for at the start of every flow.
    pub fn first(&self) -> Option<usize> {
        self.first
    }

    /// ACKs that complete the data unit that is open.
    pub(super) fn missing_acks(&self) -> u64 {
        self.units.missing()
    }

    /// Takes a stretch that is over.
    pub fn take(&mut self, now: Time, stretch: &Stretch, flow: &Governed) -> Option<Decision> {
        let Stretch { elapsed, acked, packets, lost, rtt, min_rtt, pacing } = *stretch;
        let one = Sums::one(rtt);
        let seen = Feedback {
            acked,
            lost,
            rtt: Some(rtt),
            min_rtt: Some(min_rtt),
            samples: packets,
            sums: Sums { n: packets, y: one.y.saturating_mul(packets), ..Sums::default() },
            elapsed,
            ..Feedback::default()
        };
        self.feed(now, &seen, Bounds::DEFAULT.clamp(pacing), flow)
    }

    /// Takes what happened since the last report of a flow that paces at `pacing`.
    pub(super) fn feed(
        &mut self,
        now: Time,
        seen: &Feedback,
        pacing: Rate,
        flow: &Governed,
    ) -> Option<Decision> {
        // Another place is no law's.
        let arm = *ARMS.get(flow.arm)?;
        self.started = !flow.starting || (self.started && !seen.timeout);
        let (unit, reward) = self.units.add(seen, pacing)?;
        let judged = self.started && now >= self.judged_from;
        let (at_s, srtt_ms) = (now.as_secs_f64(), 1e3 * flow.srtt.as_secs_f64());
        let judgement = Judgement { at_s, arm, judged, unit, reward, srtt_ms };
        let switch_to = if judged { self.recommend(&unit, flow.arm) } else { None };
        if !judged {
            self.recommended.1 = 0;
        }
        Some(Decision { judgement, switch_to })
    }

    fn recommend(&mut self, unit: &DataUnit, current: usize) -> Option<usize> {
        let next = self.choice.recommend(unit, current, &self.offered);
        self.recommended = match self.recommended {
            (last, times) if last == next => (last, times.saturating_add(1)),
            _ => (next, 1),
        };
        (next != current && self.recommended.1 >= self.patience).then_some(next)
    }

    /// Another law governs from `now` on.
    pub fn switched(&mut self, now: Time, srtt: Dur) {
        self.judged_from = now + Dur::from_secs_f64(UNJUDGED_RTTS * srtt.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const RTT: Dur = Dur::from_millis(50);
    const BBR: usize = 0;
    const CUBIC: usize = 2;
    const WESTWOOD: usize = 5;

    fn build(params: &[(&str, f64)]) -> Build {
        Build {
            flow: crate::FlowInfo { mss: 1000, init_cwnd: 10_000 },
            classic: None,
            policy: None,
            policies: Arc::new(crate::learned::Shipped),
            params: params.iter().map(|&(name, value)| (name.to_string(), value)).collect(),
            seed: 1,
        }
    }

    /// A round trip of 200 packets, a twentieth of them lost.
    fn round_trip() -> Stretch {
        Stretch {
            elapsed: RTT,
            acked: 200_000,
            packets: 200,
            lost: 10,
            rtt: RTT,
            min_rtt: RTT,
            pacing: Rate::from_mbps(64.0),
        }
    }

    fn under(arm: usize) -> Governed {
        Governed { arm, starting: false, srtt: RTT }
    }

    #[test]
    fn a_round_trip_is_told_as_twenty_of_its_acks() {
        let mut selector = Selector::of("antelope", &build(&[]), &[BBR, CUBIC]).unwrap();
        let decision = selector.take(Time::ZERO, &round_trip(), &under(CUBIC)).unwrap();
        let expected = [50.0, 20.0, 1.0, 5.0, 64_000.0, 32_000.0, 50.0];
        for (value, expected) in decision.judgement.unit.row().into_iter().zip(expected) {
            assert!((value - expected).abs() < 0.01 * expected, "{decision:?}");
        }
        assert_eq!(decision.judgement.arm, "cubic");
        // A millisecond of a fast path has more of them.
        let brief = Stretch { elapsed: Dur::from_millis(2), ..round_trip() };
        let decision = selector.take(Time::ZERO, &brief, &under(CUBIC)).unwrap();
        let DataUnit { acks, lost, time_ms, .. } = decision.judgement.unit;
        assert_eq!((acks, lost, time_ms), (100.0, 5.0, 1.0));
    }

    #[test]
    fn what_is_not_offered_is_never_recommended() {
        // Losses without a queue: Rein wants Westwood, and BBR where that is not to be had.
        let chosen = |offered: &[usize]| {
            let mut selector = Selector::of("rein", &build(&[]), offered).unwrap();
            (1..20).find_map(|n| {
                let now = Time::ZERO + Dur::from_millis(50 * n);
                selector.take(now, &round_trip(), &under(CUBIC))?.switch_to
            })
        };
        assert_eq!(chosen(&[BBR, CUBIC, WESTWOOD]), Some(WESTWOOD));
        assert_eq!(chosen(&[BBR, CUBIC]), Some(BBR));
        assert_eq!(chosen(&[CUBIC, 4]), None);
        let mut random = Selector::of("antelope", &build(&[("explore", 1.0)]), &[BBR, CUBIC]).unwrap();
        let mut next = || random.take(Time::ZERO, &round_trip(), &under(CUBIC)).unwrap().switch_to;
        assert!((0..100).all(|_| matches!(next(), None | Some(BBR))));
    }

    #[test]
    fn nothing_is_recommended_in_the_first_slow_start_nor_soon_after_a_switch() {
        let mut selector = Selector::of("antelope", &build(&[("explore", 1.0)]), &[BBR]).unwrap();
        let at = |ms: u64| Time::ZERO + Dur::from_millis(ms);
        let starting = Governed { starting: true, ..under(CUBIC) };
        let mut take = |ms, flow: &Governed| {
            let decision = selector.take(at(ms), &round_trip(), flow).unwrap();
            if ms == 100 {
                selector.switched(at(ms), RTT);
            }
            (decision.judgement.judged, decision.switch_to)
        };
        assert_eq!(take(50, &starting), (false, None));
        assert_eq!(take(100, &under(CUBIC)), (true, Some(BBR)));
        assert_eq!(take(199, &under(CUBIC)), (false, None));
        assert_eq!(take(200, &under(CUBIC)), (true, Some(BBR)));
        // A law that takes its window back to a packet, as C2TCP does, is no flow that begins.
        assert_eq!(take(250, &starting), (true, Some(BBR)));
    }

    #[test]
    fn parameters_are_the_algorithm_s() {
        let selector = Selector::of("antelope", &build(&[("first", 4.0)]), &[]).unwrap();
        assert_eq!((selector.first(), selector.arms().len()), (Some(4), ARMS.len()));
        assert_eq!(Selector::of("rein", &build(&[]), &[]).unwrap().arms(), [BBR, CUBIC, WESTWOOD]);
        assert!(Selector::of("antelope", &build(&[("patience", 0.0)]), &[]).is_err());
    }

    proptest::proptest! {
        #[test]
        fn whatever_is_told_a_decision_is_finite(
            values in proptest::collection::vec(proptest::prelude::any::<[u64; 7]>(), 1..40),
        ) {
            let mut selector = Selector::of("antelope", &build(&[]), &[BBR, CUBIC]).unwrap();
            for (n, [elapsed, acked, packets, lost, rtt, min_rtt, pacing]) in values.into_iter().enumerate() {
                let stretch = Stretch {
                    elapsed: Dur::from_micros(elapsed >> 16),
                    acked,
                    packets,
                    lost,
                    rtt: Dur::from_micros(rtt >> 32),
                    min_rtt: Dur::from_micros(min_rtt >> 32),
                    pacing: Rate::from_bytes_per_s(pacing as f64),
                };
                let now = Time::ZERO + Dur::from_millis(n as u64);
                if let Some(decision) = selector.take(now, &stretch, &under(CUBIC)) {
                    proptest::prop_assert!(decision.judgement.unit.row().iter().all(|value| value.is_finite()));
                    proptest::prop_assert!(decision.judgement.reward.is_finite());
                    proptest::prop_assert!(decision.switch_to.is_none_or(|arm| arm == BBR));
                }
            }
        }
    }
}
