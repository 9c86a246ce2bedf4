//! Deliberately bad policies: what a broken, biased or hostile model does to a flow has to be bounded,
//! and these show that it is.

use super::{Observation, Policy};
use anole_model::{Dur, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// What is wrong with a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Anything between a tenth of the rate and ten times it, evenly on a log scale.
    Random,
    /// Half of the delivery rate, always.
    Low,
    /// Twice the rate, always.
    High,
    /// The rate it was first asked about, for ever.
    Stuck,
    /// Not a number.
    Nan,
    /// Half of the rate and twice the rate in turn.
    Oscillate,
    /// The delivery rate, but only after 100 ms.
    Slow,
    /// Never answers.
    Absent,
}

/// `fault:slow` takes this long (the measuring contract says 100 ms).
pub const SLOW_ANSWER: Dur = Dur::from_millis(100);

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 8] = [
        Kind::Random,
        Kind::Low,
        Kind::High,
        Kind::Stuck,
        Kind::Nan,
        Kind::Oscillate,
        Kind::Slow,
        Kind::Absent,
    ];

    /// The name that `--policy` takes.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Random => "fault:random",
            Kind::Low => "fault:low",
            Kind::High => "fault:high",
            Kind::Stuck => "fault:stuck",
            Kind::Nan => "fault:nan",
            Kind::Oscillate => "fault:oscillate",
            Kind::Slow => "fault:slow",
            Kind::Absent => "fault:absent",
        }
    }
}

/// A policy with a fault.
#[derive(Debug)]
pub struct Fault {
    kind: Kind,
    random: Pcg64Mcg,
    /// The first rate asked about (`Stuck`).
    first: Option<f64>,
    /// The next answer is the high one (`Oscillate`).
    up: bool,
    /// The answer and when it is ready.
    answer: Option<(Time, f64)>,
}

impl Fault {
    /// A policy with this fault.
    pub fn new(kind: Kind, seed: u64) -> Fault {
        Fault { kind, random: Pcg64Mcg::seed_from_u64(seed), first: None, up: false, answer: None }
    }
}

impl Policy for Fault {
    fn ask(&mut self, now: Time, seen: &Observation) {
        let (rate, delivered) = (seen.rate.bytes_per_s(), seen.delivery_rate.bytes_per_s());
        let mut ready = now;
        let answer = match self.kind {
            Kind::Random => rate * 10f64.powf(self.random.random_range(-1.0..1.0)),
            Kind::Low => 0.5 * delivered,
            Kind::High => 2.0 * rate,
            Kind::Stuck => *self.first.get_or_insert(rate),
            Kind::Nan => f64::NAN,
            Kind::Oscillate => {
                self.up = !self.up;
                if self.up { 2.0 * rate } else { 0.5 * rate }
            }
            Kind::Slow => {
                ready = now + SLOW_ANSWER;
                delivered
            }
            Kind::Absent => return,
        };
        self.answer = Some((ready, answer));
    }

    fn poll(&mut self, now: Time) -> Option<f64> {
        self.answer.take_if(|(ready, _)| *ready <= now).map(|(_, answer)| answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anole_model::Rate;

    fn seen() -> Observation {
        Observation {
            delivery_rate: Rate::from_bytes_per_s(900.0),
            ..Observation::quiet(Rate::from_bytes_per_s(1000.0))
        }
    }

    fn answers(kind: Kind, seed: u64) -> Vec<Option<f64>> {
        let mut policy = Fault::new(kind, seed);
        let times = (0..4).map(|i| Time::from_micros(i * 1000));
        times.map(|now| (policy.ask(now, &seen()), policy.poll(now)).1).collect()
    }

    #[test]
    fn each_kind_does_what_its_name_says() {
        assert_eq!(answers(Kind::Low, 1), [Some(450.0); 4]);
        assert_eq!(answers(Kind::High, 1), [Some(2000.0); 4]);
        assert_eq!(answers(Kind::Stuck, 1), [Some(1000.0); 4]);
        assert_eq!(answers(Kind::Oscillate, 1)[..2], [Some(2000.0), Some(500.0)]);
        assert_eq!(answers(Kind::Absent, 1), [None; 4]);
        assert!(answers(Kind::Nan, 1).iter().all(|a| a.is_some_and(f64::is_nan)));
    }

    #[test]
    fn slow_answers_late_and_once() {
        let mut policy = Fault::new(Kind::Slow, 1);
        policy.ask(Time::ZERO, &seen());
        assert_eq!(policy.poll(Time::from_micros(99_999)), None);
        assert_eq!(policy.poll(Time::from_micros(100_000)), Some(900.0));
        assert_eq!(policy.poll(Time::from_micros(100_000)), None);
    }

    #[test]
    fn the_seed_decides_random() {
        assert_eq!(answers(Kind::Random, 7), answers(Kind::Random, 7));
        assert_ne!(answers(Kind::Random, 7), answers(Kind::Random, 8));
    }
}
