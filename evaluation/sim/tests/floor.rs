//! The floor under Anole, over random policies: whatever one answers, and whenever, the flow gets at least 95 % of
//! what the rule-based candidate gets alone, wherever that one uses 90 % of the link within the queue that Anole
//! tolerates; and once it has started, at least 95 % of what it gets without a policy, 97 % on average.
//!
//! The argument for the bound stands in `docs/anole/law.md`.

use anole_model::{Dur, Time};
use anole_policies::{InferenceSession, Policies, Policy, PolicyError, Schema};
use anole_sim::plan::{Choice, plan, shipped};
use anole_sim::result::RunResult;
use anole_sim::scenario::Scenario;
use anole_sim::{AgentScript, run};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::sync::{Arc, LazyLock};

/// Share of the throughput that is left with any policy, and with the mean of many.
const FLOOR: f64 = 0.95;
const MEAN_FLOOR: f64 = 0.97;
/// The rule is worth comparing with from here: share of the link, and mean RTT over the smallest (1 + µ).
const GOOD: (f64, f64) = (0.9, 1.2);

/// What a policy does for a while.
#[derive(Clone, Copy, Debug)]
enum Whim {
    /// Always this rate, Mbps.
    Constant(f64),
    /// Always this share of the rate in force.
    Share(f64),
    /// From its last answer, up or down by at most this factor.
    Walk(f64),
    /// Any of these, with the same right: NaN, ∞, 0, negative, huge, tiny, ten times and a tenth.
    Absurd,
    /// The rate that was in force so many questions ago.
    Stale(usize),
    /// Two shares of the rate in force in turn, each for so many questions.
    Swing(f64, f64, u8),
    /// Goes by what the utility accepts: just below the rate while there is a queue, far above it while there is
    /// none; or the other way round.
    Foe { queued: f64, empty: f64 },
    /// Never answers.
    Silent,
}

/// What comes in turn, each for so many questions; again from the start at its end. Answers come so much later.
#[derive(Clone, Debug)]
struct Script {
    whims: Vec<(Whim, u8)>,
    late_us: u64,
    seed: u64,
}

fn whim() -> impl Strategy<Value = Whim> {
    let share = || (-3.5..3.5f64).prop_map(f64::exp2);
    prop_oneof![
        (-7.0..11.0f64).prop_map(|exponent| Whim::Constant(exponent.exp2())),
        share().prop_map(Whim::Share),
        (0.5..1.0f64).prop_map(Whim::Share),
        (1.0..4.0f64).prop_map(Whim::Walk),
        Just(Whim::Absurd),
        (1usize..30).prop_map(Whim::Stale),
        (share(), share(), 1u8..6).prop_map(|(a, b, length)| Whim::Swing(a, b, length)),
        (0.5..1.1f64, 0.8..1.6f64).prop_map(|(queued, empty)| Whim::Foe { queued, empty }),
        (0.9..1.6f64, 0.5..1.0f64).prop_map(|(queued, empty)| Whim::Foe { queued, empty }),
        Just(Whim::Silent),
    ]
}

fn script() -> impl Strategy<Value = Script> {
    let late = prop_oneof![3 => Just(0u64), 1 => 0..200_000u64];
    (prop::collection::vec((whim(), 1u8..40), 1..4), late, any::<u64>())
        .prop_map(|(whims, late_us, seed)| Script { whims, late_us, seed })
}

/// Sees the rate in force and the round-trip time over the smallest; answers with the rate times 2 to any power.
const SCHEMA: &str = r#"
name = "script"
summary = "whatever a test says"
source = "test"
history = 1
[interval]
ms = 10.0
rtts = 1.0
[action]
kind = "rate-exp"
base = 2.0
low = -1000.0
high = 1000.0
[[feature]]
name = "rate in force"
signal = "sending-rate-mbps"
clip = [0.0, 1e6]
unit = "Mbps"
[[feature]]
name = "RTT over smallest"
signal = "rtt-ms"
per = "min-rtt-ms"
clip = [0.0, 1e3]
unit = "1"
[network]
kind = "sequential"
head = "direct"
[[network.layer]]
kind = "dense"
units = 1
activation = "none"
"#;

static SHARED: LazyLock<Schema> = LazyLock::new(|| Schema::parse(SCHEMA, "test").expect("a schema"));

impl Policies for Script {
    fn names(&self) -> Vec<String> {
        vec!["script".to_string()]
    }

    fn find(&self, _name: &str) -> Result<Arc<dyn Policy>, PolicyError> {
        Ok(Arc::new(self.clone()))
    }
}

impl Policy for Script {
    fn schema(&self) -> &Schema {
        &SHARED
    }

    fn session(&self) -> Box<dyn InferenceSession> {
        let random = self.seed | 1;
        Box::new(Scripted {
            script: self.clone(),
            asked: 0,
            random,
            seen: Vec::new(),
            last: 1.0,
            answer: None,
        })
    }
}

/// A policy that follows its script.
struct Scripted {
    script: Script,
    asked: usize,
    random: u64,
    /// Rates that were in force, Mbps.
    seen: Vec<f64>,
    /// Its last answer, Mbps.
    last: f64,
    answer: Option<(Time, [f32; 1])>,
}

impl Scripted {
    /// 0…1, from a linear congruential generator (Knuth's MMIX).
    fn random(&mut self) -> f64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }

    fn whim(&self) -> Whim {
        let length: usize = self.script.whims.iter().map(|(_, length)| usize::from(*length)).sum();
        let mut at = self.asked % length;
        for (whim, length) in &self.script.whims {
            match at.checked_sub(usize::from(*length)) {
                Some(rest) => at = rest,
                None => return *whim,
            }
        }
        Whim::Silent
    }

    /// The rate that it answers with, Mbps; `None` for nothing.
    fn mbps(&mut self, rate: f64, rtt_ratio: f64) -> Option<f64> {
        let random = self.random();
        Some(match self.whim() {
            Whim::Constant(mbps) => mbps,
            Whim::Share(share) => rate * share,
            Whim::Walk(step) => self.last * step.powf(2.0 * random - 1.0),
            Whim::Absurd => {
                let absurd = [f64::NAN, f64::INFINITY, 0.0, -1.0, 1e300, 1e-300, 10.0 * rate, 0.1 * rate];
                absurd[(random * absurd.len() as f64) as usize]
            }
            Whim::Stale(ago) => self.seen[self.seen.len().saturating_sub(ago + 1)],
            Whim::Swing(a, b, length) => match (self.asked / usize::from(length)) % 2 {
                0 => rate * a,
                _ => rate * b,
            },
            Whim::Foe { queued, empty } => rate * if rtt_ratio > 1.05 { queued } else { empty },
            Whim::Silent => return None,
        })
    }
}

impl InferenceSession for Scripted {
    fn ask(&mut self, now: Time, _deadline: Time, input: &[f32]) {
        let (rate, rtt_ratio) = (f64::from(input[0]).max(1e-6), f64::from(input[1]));
        self.seen.push(rate);
        let answer = self.mbps(rate, rtt_ratio);
        self.asked += 1;
        self.answer = answer.map(|mbps| {
            self.last = if mbps.is_finite() && mbps > 0.0 { mbps } else { rate };
            let late = Dur::from_micros(self.script.late_us);
            (now + late, [(mbps / rate).log2() as f32])
        });
    }

    fn poll(&mut self, now: Time) -> Option<&[f32]> {
        let due = self.answer.as_ref().is_some_and(|(at, _)| *at <= now);
        due.then_some(())?;
        self.answer.as_ref().map(|(_, output)| &output[..])
    }
}

/// A link: capacity in Mbps, one-way delay in ms, buffer in BDP, random loss.
#[derive(Clone, Copy, Debug)]
struct Link(f64, f64, f64, f64);

/// Buffers in which a CUBIC of its own keeps its queue within the bound.
const SHORT: [Link; 3] =
    [Link(24.0, 15.0, 0.25, 0.0), Link(12.0, 20.0, 0.3, 0.0), Link(48.0, 10.0, 0.2, 0.0)];
/// Others: deep, lossy, far, slow.
const OTHERS: [Link; 5] = [
    Link(24.0, 15.0, 0.25, 0.0),
    Link(12.0, 20.0, 2.0, 0.0),
    Link(16.0, 10.0, 1.0, 0.01),
    Link(20.0, 40.0, 1.0, 0.0),
    Link(4.0, 15.0, 2.0, 0.0),
];
/// Results count from here on: starting up is over.
const STARTED_S: f64 = 2.0;
/// And from here on for a policy that has had time to be found out; length of a run.
const FOUND_OUT_S: f64 = 8.0;
const RUN_S: f64 = 16.0;

/// A run of `alg` over these candidates; results count from `from_s` on.
fn simulate(
    Link(mbps, one_way_ms, bdp, loss): Link,
    from_s: f64,
    choice: &Choice,
    script: Option<&Script>,
    params: &[&str],
) -> RunResult {
    let text = format!(
        "name = \"floor\"\nduration_s = {RUN_S:?}\nwarmup_s = {from_s:?}\n[[link]]\nname = \"b\"\n\
         capacity_mbps = {mbps:?}\none_way_delay_ms = {one_way_ms:?}\nbuffer_bdp = {bdp:?}\n\
         random_loss = {loss:?}\n[[flow]]\nalg = \"anole\"\nunder_test = true\nack_jitter_us = 200\n"
    );
    let set: Vec<String> = params.iter().map(|param| format!("param.{param}")).collect();
    let scenario = Scenario::parse(&text, "floor", &set, &mut |_| Err(String::new())).unwrap();
    let policies: Arc<dyn Policies> = match script {
        Some(script) => Arc::new(script.clone()),
        None => shipped(),
    };
    let plans = plan(&scenario, choice, &policies, 1).unwrap();
    run(&scenario, plans, 1, AgentScript::default(), &mut |_| ())
}

/// Throughput of Anole, Mbps; without a script, without a policy.
fn anole(link: Link, from_s: f64, rule: &str, script: Option<&Script>, params: &[&str]) -> f64 {
    let policy = if script.is_some() { "script" } else { "none" };
    let choice = Choice {
        alg: Some("anole".to_string()),
        classic: Some(rule.to_string()),
        policy: Some(policy.to_string()),
    };
    simulate(link, from_s, &choice, script, params).flows[0].throughput_mbps.unwrap()
}

/// What CUBIC gets alone on each of the short links, Mbps; it is good there.
static CUBIC: LazyLock<Vec<(Link, f64)>> = LazyLock::new(|| {
    let alone = |link: Link| {
        let choice = Choice { alg: Some("cubic".to_string()), ..Choice::default() };
        let run = simulate(link, STARTED_S, &choice, None, &[]);
        let (flow, used) = (&run.flows[0], run.links[0].utilization.unwrap());
        let ratio = flow.rtt_mean_ms.unwrap() / (2.0 * link.1);
        assert!(used >= GOOD.0 && ratio <= GOOD.1, "{link:?}: {used}, {ratio}");
        (link, flow.throughput_mbps.unwrap())
    };
    SHORT.map(alone).into()
});

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn with_any_policy_a_flow_gets_what_a_good_rule_gets(script in script()) {
        for &(link, alone) in CUBIC.iter() {
            let ours = anole(link, STARTED_S, "cubic", Some(&script), &[]);
            prop_assert!(ours >= FLOOR * alone, "{:?}: {} of {} Mbps", link, ours, alone);
        }
    }
}

#[test]
fn no_policy_costs_much_once_it_is_found_out() {
    for rule in ["cubic", "reno"] {
        let without = OTHERS.map(|link| (link, anole(link, FOUND_OUT_S, rule, None, &[])));
        let shares = std::cell::RefCell::new(Vec::new());
        let mut runner = TestRunner::new(cases(30));
        let outcome = runner.run(&(script(), 0..OTHERS.len()), |(script, number)| {
            let (link, without) = without[number];
            let share = anole(link, FOUND_OUT_S, rule, Some(&script), &[]) / without;
            shares.borrow_mut().push(share);
            prop_assert!(share >= FLOOR, "{:?} over {}: {} of {} Mbps", link, rule, share, without);
            Ok(())
        });
        outcome.unwrap_or_else(|failure| panic!("{failure}"));
        let shares = shares.into_inner();
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
        println!("over {rule}: mean {mean:.4}, least {least:.4}");
        assert!(mean >= MEAN_FLOOR, "over {rule}: {mean}");
    }
}

/// The floor is the work of the clamp, the comparison and the confidence: without them the same test fails.
#[test]
fn without_its_guards_a_bad_policy_takes_the_flow_down() {
    let low = Script { whims: vec![(Whim::Share(0.5), 1)], late_us: 0, seed: 1 };
    let unguarded = ["accept=0", "margin=1", "eta_off=0", "low_test=0.1", "beta=0", "lambda=0"];
    let (link, alone) = CUBIC[0];
    let guarded = anole(link, STARTED_S, "cubic", Some(&low), &[]) / alone;
    let bare = anole(link, STARTED_S, "cubic", Some(&low), &unguarded) / alone;
    println!("guarded {guarded:.3}, without guards {bare:.3}");
    assert!(guarded >= FLOOR && bare < FLOOR, "{guarded}, {bare}");
}
