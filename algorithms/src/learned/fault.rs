//! Deliberately bad policies: what a broken, biased or hostile policy does to a flow has to be bounded, and these
//! show that it is.
//!
//! In a hybrid's learned slot they propose rates, half and twice the rate in force; in the place of a trained policy
//! that runs a flow alone they put out the least, the most or anything that its action may be.

use super::flow_policy::{Answer, Decoder, FlowPolicy};
use anole_model::{Dur, Time};
use anole_policies::schema::Action;
use anole_policies::{Observation, Schema};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// What is wrong with a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Anything: a rate between a tenth and ten times that in force, evenly on a log scale.
    Random,
    /// Always the least: half of the delivery rate.
    Low,
    /// Always the most: twice the rate in force.
    High,
    /// Always the same: the rate that it was first asked about.
    Stuck,
    /// Not a number.
    Nan,
    /// The most and the least in turn.
    Oscillate,
    /// The delivery rate, but only after 100 ms.
    Slow,
    /// Never answers.
    Absent,
}

/// `fault:slow` takes this long (the measuring contract says 100 ms).
const SLOW_ANSWER: Dur = Dur::from_millis(100);

impl FaultKind {
    /// Every kind.
    pub const ALL: [FaultKind; 8] = [
        FaultKind::Random,
        FaultKind::Low,
        FaultKind::High,
        FaultKind::Stuck,
        FaultKind::Nan,
        FaultKind::Oscillate,
        FaultKind::Slow,
        FaultKind::Absent,
    ];

    /// The name that `--policy` takes.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::Random => "fault:random",
            FaultKind::Low => "fault:low",
            FaultKind::High => "fault:high",
            FaultKind::Stuck => "fault:stuck",
            FaultKind::Nan => "fault:nan",
            FaultKind::Oscillate => "fault:oscillate",
            FaultKind::Slow => "fault:slow",
            FaultKind::Absent => "fault:absent",
        }
    }

    /// The kind with this name.
    pub fn find(name: &str) -> Option<FaultKind> {
        FaultKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A policy with a fault.
pub(super) struct Fault {
    kind: FaultKind,
    random: Pcg64Mcg,
    /// The next answer is the high one (`Oscillate`).
    up: bool,
    /// What was observed last.
    seen: Option<Observation>,
    /// What is decided.
    reach: Reach,
    /// When the answer is ready.
    ready: Option<Time>,
}

/// What a fault decides about.
enum Reach {
    /// Rates, bytes/s: the first that it was asked about, and the answer.
    Rates { first: Option<f64>, answer: f64 },
    /// The outputs of a network, all within these bounds.
    Outputs { decoder: Decoder, low: f32, high: f32, outputs: Vec<f32> },
}

impl Fault {
    fn new(kind: FaultKind, reach: Reach, seed: u64) -> Fault {
        let random = Pcg64Mcg::seed_from_u64(seed);
        Fault { kind, random, up: false, seen: None, reach, ready: None }
    }

    /// One that proposes rates.
    pub fn of_rates(kind: FaultKind, seed: u64) -> Fault {
        Fault::new(kind, Reach::Rates { first: None, answer: 0.0 }, seed)
    }

    /// One in the place of a policy with this schema.
    pub fn of(schema: &Schema, kind: FaultKind, seed: u64) -> Fault {
        let (low, high) = match &schema.action {
            Action::RateExp { low, high, .. }
            | Action::RateStep { low, high, .. }
            | Action::CwndExp { low, high, .. }
            | Action::CwndStep { low, high, .. }
            | Action::CubicCwndExp { low, high, .. } => (*low as f32, *high as f32),
            Action::CwndTable { table } => (0.0, table.len().saturating_sub(1) as f32),
            Action::Parameters { .. } => (-1.0, 1.0),
        };
        let outputs = vec![0.0; schema.outputs()];
        Fault::new(kind, Reach::Outputs { decoder: Decoder::new(schema), low, high, outputs }, seed)
    }
}

/// A bad rate for a flow that measured `seen`.
fn rate(
    kind: FaultKind,
    up: bool,
    seen: &Observation,
    first: &mut Option<f64>,
    random: &mut Pcg64Mcg,
) -> f64 {
    let (rate, delivered) = (seen.rate.bytes_per_s(), seen.delivery_rate.bytes_per_s());
    match kind {
        FaultKind::Random => rate * 10f64.powf(random.random_range(-1.0..1.0)),
        FaultKind::Low => 0.5 * delivered,
        FaultKind::High => 2.0 * rate,
        FaultKind::Stuck => *first.get_or_insert(rate),
        FaultKind::Oscillate if up => 2.0 * rate,
        FaultKind::Oscillate => 0.5 * rate,
        FaultKind::Slow => delivered,
        FaultKind::Nan | FaultKind::Absent => f64::NAN,
    }
}

/// A bad output between `low` and `high`.
fn output(kind: FaultKind, up: bool, low: f32, high: f32, random: &mut Pcg64Mcg) -> f32 {
    match kind {
        FaultKind::Random => random.random_range(low..=high),
        FaultKind::Low => low,
        FaultKind::High => high,
        FaultKind::Oscillate if up => high,
        FaultKind::Oscillate => low,
        FaultKind::Stuck | FaultKind::Slow => (low + high) / 2.0,
        FaultKind::Nan | FaultKind::Absent => f32::NAN,
    }
}

impl FlowPolicy for Fault {
    fn observe(&mut self, seen: &Observation) {
        self.seen = Some(*seen);
    }

    fn ask(&mut self, now: Time, deadline: Time) {
        let (Some(seen), kind, random) = (&self.seen, self.kind, &mut self.random) else { return };
        self.up = !self.up;
        let ready = if kind == FaultKind::Slow { now + SLOW_ANSWER } else { now };
        // A hybrid knows by itself when it waits no longer for a rate.
        let in_time = match &mut self.reach {
            Reach::Rates { first, answer } => {
                *answer = rate(kind, self.up, seen, first, random);
                true
            }
            Reach::Outputs { low, high, outputs, .. } => {
                outputs.fill_with(|| output(kind, self.up, *low, *high, random));
                ready <= deadline
            }
        };
        self.ready = (in_time && kind != FaultKind::Absent).then_some(ready);
    }

    fn poll(&mut self, now: Time, seen: &Observation) -> Option<Answer> {
        self.ready.take_if(|ready| *ready <= now)?;
        Some(match &self.reach {
            Reach::Rates { answer, .. } => Answer::rate(*answer),
            Reach::Outputs { decoder, outputs, .. } => decoder.decode(outputs, seen).0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anole_model::Rate;
    use anole_policies::Decision;
    use anole_policies::schema::builtin;

    fn seen() -> Observation {
        Observation {
            delivery_rate: Rate::from_bytes_per_s(900.0),
            ..Observation::quiet(Rate::from_bytes_per_s(1000.0))
        }
    }

    fn answers(mut policy: Fault) -> Vec<Option<Answer>> {
        let times = (0..4).map(|i| Time::from_micros(i * 1000));
        let mut answer = |now| {
            policy.observe(&seen());
            policy.ask(now, now + Dur::from_millis(10));
            policy.poll(now, &seen())
        };
        times.map(&mut answer).collect()
    }

    fn rates(kind: FaultKind, seed: u64) -> Vec<Option<Answer>> {
        answers(Fault::of_rates(kind, seed))
    }

    #[test]
    fn each_kind_does_what_its_name_says() {
        let rate = |rate| Some(Answer::rate(rate));
        assert_eq!(rates(FaultKind::Low, 1), vec![rate(450.0); 4]);
        assert_eq!(rates(FaultKind::High, 1), vec![rate(2000.0); 4]);
        assert_eq!(rates(FaultKind::Stuck, 1), vec![rate(1000.0); 4]);
        assert_eq!(rates(FaultKind::Oscillate, 1)[..2], [rate(2000.0), rate(500.0)]);
        assert_eq!(rates(FaultKind::Absent, 1), vec![None; 4]);
        assert_eq!(rates(FaultKind::Nan, 1), vec![Some(Answer::Unusable); 4]);
    }

    #[test]
    fn in_the_place_of_a_trained_policy_its_action_is_the_limit() {
        // Orca's window is multiplied by 4^a, a from -1 to 1.
        let orca = builtin("orca").unwrap();
        let cwnd = |kind| match answers(Fault::of(orca, kind, 1))[0].clone() {
            Some(Answer::Decided { decision: Decision::Cwnd(cwnd), fresh: true }) => {
                cwnd / seen().cwnd as f64
            }
            answer => panic!("{answer:?}"),
        };
        assert_eq!((cwnd(FaultKind::Low), cwnd(FaultKind::High), cwnd(FaultKind::Stuck)), (0.25, 4.0, 1.0));
        assert_eq!(answers(Fault::of(orca, FaultKind::Nan, 1)), vec![Some(Answer::Unusable); 4]);
        assert_eq!(answers(Fault::of(orca, FaultKind::Slow, 1)), vec![None; 4]);
    }

    #[test]
    fn slow_answers_late_and_once() {
        let mut policy = Fault::of_rates(FaultKind::Slow, 1);
        policy.observe(&seen());
        policy.ask(Time::ZERO, Time::ZERO);
        let mut poll = |us| policy.poll(Time::from_micros(us), &seen());
        assert_eq!(poll(99_999), None);
        assert_eq!(poll(100_000), Some(Answer::rate(900.0)));
        assert_eq!(poll(100_000), None);
    }

    #[test]
    fn the_seed_decides_random() {
        assert_eq!(rates(FaultKind::Random, 7), rates(FaultKind::Random, 7));
        assert_ne!(rates(FaultKind::Random, 7), rates(FaultKind::Random, 8));
    }
}
