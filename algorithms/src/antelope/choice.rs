//! Which algorithm the next data unit is to have.

use super::arms::ARMS;
use super::unit::DataUnit;
use anole_policies::Boosters;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::sync::Arc;

/// Who recommends.
#[derive(Debug)]
pub(super) enum Choice {
    /// One model for each algorithm predicts the reward; the largest wins.
    Models(Arc<Boosters>),
    /// Rules.
    Rein(Rein),
    /// Any of them, at random times, for models to learn from.
    Random {
        random: Pcg64Mcg,
        /// Mean number of data units between two switches.
        every: f64,
    },
}

impl Choice {
    /// Switches at random, every so many data units on the mean.
    pub fn random(seed: u64, every: f64) -> Choice {
        Choice::Random { random: Pcg64Mcg::seed_from_u64(seed), every }
    }

    /// What it goes by.
    pub fn name(&self) -> &'static str {
        match self {
            Choice::Models(_) => "models",
            Choice::Rein(_) => "rules",
            Choice::Random { .. } => "chance",
        }
    }

    /// What it can recommend.
    pub fn arms(&self) -> Vec<usize> {
        let all = 0..ARMS.len();
        match self {
            Choice::Models(models) => all.filter(|arm| models.get(ARMS[*arm]).is_some()).collect(),
            Choice::Rein(_) => all.filter(|arm| Rein::ARMS.contains(&ARMS[*arm])).collect(),
            Choice::Random { .. } => all.collect(),
        }
    }

    /// The recommendation after a data unit under `current`: one of those `offered`, or what it is.
    pub fn recommend(&mut self, unit: &DataUnit, current: usize, offered: &[usize]) -> usize {
        match self {
            Choice::Models(models) => best(models, unit, current, offered),
            Choice::Rein(rein) => rein.recommend(unit, offered).unwrap_or(current),
            Choice::Random { random, every } => {
                if random.random_range(0.0..1.0) * *every < 1.0 && !offered.is_empty() {
                    offered[random.random_range(0..offered.len())]
                } else {
                    current
                }
            }
        }
    }

    /// Recommendations in a row that a switch takes.
    pub fn patience(&self, asked: u32) -> u32 {
        if matches!(self, Choice::Random { .. }) { 1 } else { asked }
    }
}

/// The algorithm with the largest predicted reward; the current one where none is larger than its own.
fn best(models: &Boosters, unit: &DataUnit, current: usize, offered: &[usize]) -> usize {
    let row = unit.row();
    let predicted =
        |arm: usize| models.get(ARMS[arm]).map(|model| model.predict(&row)).filter(|r| r.is_finite());
    let own = predicted(current).unwrap_or(f32::NEG_INFINITY);
    let all = offered.iter().filter_map(|&arm| Some((arm, predicted(arm)?)));
    let best =
        all.fold((current, own), |best, (arm, reward)| if reward > best.1 { (arm, reward) } else { best });
    best.0
}

/// Rein's rules: CUBIC; BBR where the buffer is small; Westwood where losses come without a queue, as on Wi-Fi.
///
/// Rein is told what network it is on; here the flow finds out. A buffer is small where losses come while the
/// queue is at most half the smallest round-trip time, and losses without a queue where it is at most a tenth, and at
/// most half of the largest one that the flow has seen: a buffer of less than a tenth is full at losses too.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rein {
    /// Data units with losses: all, those with a short queue, those with none.
    lossy: [f64; 3],
    /// The largest queue so far, of the smallest round-trip time.
    largest_queue: f64,
}

/// What a data unit leaves of the counts before it.
const REIN_MEMORY: f64 = 0.98;
const SHORT_QUEUE: f64 = 0.5;
const NO_QUEUE: f64 = 0.1;
/// Rules count from so many data units with losses on.
const ENOUGH: f64 = 3.0;

impl Rein {
    /// What its rules name.
    const ARMS: [&str; 3] = ["bbr", "cubic", "westwood"];

    /// The first rule that holds and names one of those `offered`.
    fn recommend(&mut self, unit: &DataUnit, offered: &[usize]) -> Option<usize> {
        let queue = (unit.rtt_ms - unit.delay_min_ms) / unit.delay_min_ms.max(f64::MIN_POSITIVE);
        self.largest_queue = self.largest_queue.max(queue);
        if unit.lost > 0.0 {
            let no_queue = NO_QUEUE.min(self.largest_queue / 2.0);
            let seen = [1.0, f64::from(queue <= SHORT_QUEUE), f64::from(queue <= no_queue)];
            self.lossy.iter_mut().zip(seen).for_each(|(count, seen)| *count = *count * REIN_MEMORY + seen);
        }
        let [all, short, none] = self.lossy;
        let rules = [
            (all >= ENOUGH && none > all / 2.0, "westwood"),
            (all >= ENOUGH && short > all / 2.0, "bbr"),
            (true, "cubic"),
        ];
        let named = |name| offered.iter().copied().find(|&arm| ARMS[arm] == name);
        rules.into_iter().filter(|(holds, _)| *holds).find_map(|(_, name)| named(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [usize; ARMS.len()] = [0, 1, 2, 3, 4, 5];

    #[test]
    fn the_largest_prediction_wins_and_a_tie_changes_nothing() {
        let leaf = |value: f64| {
            format!(
                r#"{{"learner": {{"learner_model_param": {{"base_score": "{value}", "num_feature": "7"}},
                "gradient_booster": {{"name": "gbtree", "model": {{"trees": []}}}}}}}}"#
            )
        };
        let file = format!(
            r#"{{"boosters": {{"bbr": {}, "cubic": {}, "vegas": {}}}}}"#,
            leaf(0.5),
            leaf(0.2),
            leaf(0.5)
        );
        let models = Arc::new(Boosters::parse(&file, DataUnit::WIDTH).unwrap());
        let mut choice = Choice::Models(models);
        let mut after = |current| choice.recommend(&DataUnit::default(), current, &ALL);
        assert_eq!((after(2), after(0), after(4)), (0, 0, 4));
        // Without a model of its own, any prediction is better.
        assert_eq!(after(1), 0);
    }

    #[test]
    fn rein_goes_by_what_losses_come_with() {
        let unit = |rtt_ms, lost| DataUnit { rtt_ms, delay_min_ms: 10.0, lost, ..DataUnit::default() };
        let after = |units: &[DataUnit]| {
            let mut rein = Rein::default();
            ARMS[units.iter().filter_map(|unit| rein.recommend(unit, &ALL)).last().unwrap()]
        };
        assert_eq!(after(&[unit(30.0, 1.0); 20]), "cubic");
        assert_eq!(after(&[unit(14.0, 2.0); 20]), "bbr");
        let (queued, unqueued) = (unit(12.0, 0.0), unit(10.5, 1.0));
        assert_eq!(after(&[[queued, unqueued]; 20].concat()), "westwood");
        assert_eq!(after(&[unqueued; 20]), "bbr", "a buffer of a twentieth, full at every loss");
        assert_eq!(after(&[unit(10.5, 1.0), unit(10.5, 0.0)]), "cubic", "one loss says nothing");
    }

    #[test]
    fn random_switches_reach_every_arm_with_the_mean_that_was_asked_for() {
        let mut choice = Choice::random(7, 10.0);
        let (mut current, mut seen, mut switches) = (0, [false; ARMS.len()], 0);
        for _ in 0..6000 {
            let next = choice.recommend(&DataUnit::default(), current, &ALL);
            switches += u32::from(next != current);
            (current, seen[next]) = (next, true);
        }
        assert_eq!(seen, [true; ARMS.len()]);
        // One in six draws the arm that it has.
        assert!((430..570).contains(&switches), "{switches}");
    }
}
