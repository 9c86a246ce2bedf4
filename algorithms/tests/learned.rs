//! Algorithms that a policy drives, as whole flows: a network written by hand does what its action says,
//! and no network whatever stalls a flow or floods its path.

mod support;

use anole_algorithms::learned::{FaultKind, Policies, PolicyError, Shipped};
use anole_algorithms::{Build, FlowInfo, build};
use anole_model::{Dur, Rate, Time};
use anole_policies::schema::{Signal, builtin};
use anole_policies::{Batch, InferenceSession, Network, Policy, Schema, StepError};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::by_hand::{Only, only};
use support::{Path, World, golden};

/// Algorithms, one per kind of drive and action, with their schemas.
const FLOWS: [(&str, &str); 4] =
    [("libra-rl", "libra-rl"), ("orca", "orca"), ("sage", "sage"), ("spine", "spine")];

fn by_hand(schema: &str, outputs: fn(&Schema, &[f32]) -> Vec<f32>) -> Arc<dyn Policies> {
    only(builtin(schema).unwrap(), outputs)
}

/// Smoothed or mean over smallest round-trip time, from whichever feature has it.
fn rtt_ratio(schema: &Schema, input: &[f32]) -> f32 {
    let index = |numerator, per| {
        let found = |f: &anole_policies::schema::Feature| f.signal == numerator && f.per == Some(per);
        schema.features.iter().position(found)
    };
    let over = index(Signal::RttMs, Signal::MinRttMs).or(index(Signal::RttMs, Signal::MinRtt10sMs));
    if let Some(at) = over {
        input[at] / schema.features[at].scale as f32
    } else {
        let under = index(Signal::MinRttMs, Signal::SrttMs).or(index(Signal::MinRtt10sMs, Signal::SrttMs));
        1.0 / input[under.unwrap()].max(0.01)
    }
}

/// A proportional rule on the queue: up below a tenth of the round-trip time, down above it, slowly where
/// decisions come faster than their effects.
fn steer(schema: &Schema, input: &[f32]) -> Vec<f32> {
    let a = (2.0 * (1.1 - rtt_ratio(schema, input))).clamp(-1.0, 1.0);
    match schema.name.as_str() {
        "orca" => vec![0.1 * a - 0.1],
        "sage" => vec![0.1 * a],
        // Grows by a tenth of a packet per ACK, takes as much off, tolerates a tenth, halves.
        "spine" => vec![-0.6, -0.6, -0.9, 0.0, 1.0],
        _ => vec![a],
    }
}

#[test]
fn networks_by_hand_do_what_their_actions_say() {
    for (algorithm, schema) in FLOWS {
        let mut world = World::with(algorithm, None, by_hand(schema, steer), Path::normal());
        golden(algorithm, &world.trajectory(Dur::from_secs_f64(10.0), Dur::from_millis(200)));
    }
}

/// Mean rate over 30 s, Mbps, and what was lost as a share of what the link could have carried.
fn outcome(world: &mut World) -> (f64, f64) {
    let delivered = world.run(Time::from_secs_f64(30.0));
    let carried = Path::normal().rate.bytes_in(Dur::from_secs_f64(30.0));
    (Rate::from_bytes_in(delivered, Dur::from_secs_f64(30.0)).mbps(), world.lost() as f64 / carried)
}

#[test]
fn no_policy_floods_the_path_or_stops_the_flow() {
    for algorithm in FLOWS.map(|(algorithm, _)| algorithm) {
        for kind in FaultKind::ALL {
            let mut world = World::with(algorithm, Some(kind.name()), Arc::new(Shipped), Path::normal());
            let (mbps, loss) = outcome(&mut world);
            let what = format!("{algorithm} with {}: {mbps} Mbps, {loss} lost", kind.name());
            // Two packets per round trip are 0.46 Mbps.
            assert!(mbps > 0.4, "{what}");
            assert!(loss < 0.15, "{what}");
            // Without a usable answer the rule governs.
            if matches!(kind, FaultKind::Nan | FaultKind::Absent) {
                assert!(mbps > 0.8 * 48.0 && loss < 0.01, "{what}");
            }
        }
    }
}

/// A network whose answers take a while.
#[derive(Debug)]
struct Late(Arc<dyn Policies>, Dur);

impl Policies for Late {
    fn names(&self) -> Vec<String> {
        self.0.names()
    }

    fn find(&self, name: &str) -> Result<Arc<dyn Policy>, PolicyError> {
        Ok(Arc::new(LatePolicy(self.0.find(name)?, self.1)))
    }
}

#[derive(Debug)]
struct LatePolicy(Arc<dyn Policy>, Dur);

impl Policy for LatePolicy {
    fn schema(&self) -> &Schema {
        self.0.schema()
    }

    fn session(&self) -> Box<dyn InferenceSession> {
        Box::new(LateSession { inner: self.0.session(), delay: self.1, ready: None })
    }
}

struct LateSession {
    inner: Box<dyn InferenceSession>,
    delay: Dur,
    ready: Option<Time>,
}

impl InferenceSession for LateSession {
    fn ask(&mut self, now: Time, deadline: Time, input: &[f32]) {
        self.inner.ask(now, deadline, input);
        self.ready = Some(now + self.delay).filter(|ready| *ready <= deadline);
    }

    fn poll(&mut self, now: Time) -> Option<&[f32]> {
        self.ready.take_if(|ready| *ready <= now).and_then(|_| self.inner.poll(now))
    }
}

#[test]
fn an_answer_half_a_millisecond_late_is_used_within_the_interval() {
    for (algorithm, schema) in FLOWS {
        let late = Arc::new(Late(by_hand(schema, steer), Dur::from_micros(500)));
        let mut world = World::with(algorithm, None, late, Path::normal());
        let (mbps, _) = outcome(&mut world);
        let seen = world.telemetry();
        assert!(seen.inferences > 100 && seen.inferences - seen.decisions <= 2, "{algorithm}: {seen:?}");
        let (at_once, _) = outcome(&mut World::with(algorithm, None, by_hand(schema, steer), Path::normal()));
        assert!(mbps > 0.95 * at_once, "{algorithm}: {mbps} Mbps, {at_once} without delay");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Outputs as a broken network may give them; the world checks the window at every ACK.
    #[test]
    fn no_outputs_break_a_flow(
        (algorithm, schema) in proptest::sample::select(FLOWS.to_vec()),
        outputs in proptest::collection::vec(proptest::num::f32::ANY, 1..20),
        mbps in 1.0..200.0f64,
        rtt_ms in 5u64..200,
        buffer_bdp in 0.2..4.0f64,
        loss in prop_oneof![Just(0.0), 0.0..0.3f64],
    ) {
        let rate = Rate::from_mbps(mbps);
        let rtt = Dur::from_millis(rtt_ms);
        let buffer_bytes = (buffer_bdp * rate.bytes_in(rtt)).max(10.0 * f64::from(support::MSS));
        let cycle = Arc::new(Cycle { schema: builtin(schema).unwrap().clone(), outputs, next: AtomicUsize::new(0) });
        let mut world =
            World::with(algorithm, None, Arc::new(Only(cycle)), Path { rate, rtt, buffer_bytes, loss });
        world.run(Time::from_secs_f64(4.0));
        let delivered = world.run(Time::from_secs_f64(8.0));
        prop_assert!(delivered > 4 * u64::from(support::MSS), "{delivered} bytes in four seconds");
    }
}

/// The same outputs over and over, whatever it sees.
#[derive(Debug)]
struct Cycle {
    schema: Schema,
    outputs: Vec<f32>,
    next: AtomicUsize,
}

impl Network for Cycle {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn step(&self, batch: &mut Batch) -> Result<(), StepError> {
        for output in &mut batch.outputs {
            *output = self.outputs[self.next.fetch_add(1, Ordering::Relaxed) % self.outputs.len()];
        }
        Ok(())
    }
}

fn refusal(algorithm: &str, policy: Option<&str>, policies: Arc<dyn Policies>) -> String {
    let what = Build {
        flow: FlowInfo { mss: 1448, init_cwnd: 14_480 },
        classic: None,
        policy: policy.map(String::from),
        policies,
        params: BTreeMap::new(),
        seed: 1,
    };
    build(algorithm, &what).err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    assert_eq!(
        refusal("indigo", None, Arc::new(Shipped)),
        "--alg indigo needs a policy file: make one with `anole-policy import indigo FILE`"
    );
    assert_eq!(
        refusal("orca", Some("libra"), by_hand("libra", steer)),
        "--alg orca runs policies whose action is cubic-cwnd-exp; that of libra is rate-exp"
    );
    assert_eq!(
        refusal("orca", Some("delay-target"), Arc::new(Shipped)),
        "--alg orca needs a trained policy; delay-target is a rule that proposes rates"
    );
    let unknown = refusal("orca", Some("fault:lo"), Arc::new(Shipped));
    assert!(unknown.starts_with("unknown policy \"fault:lo\"; did you mean fault:low?"), "{unknown}");
    // Another program's registers, and those of the executor under any schema.
    let reno = Schema::parse(include_str!("schemas/tuned-reno.toml"), "tuned-reno.toml").unwrap();
    let few = Schema::parse(include_str!("schemas/few.toml"), "few.toml").unwrap();
    assert_eq!(
        refusal("spine", None, only(&reno, steer)),
        "--alg spine runs policies whose action is parameters of spine; that of tuned-reno is parameters of reno"
    );
    assert_eq!(refusal("spine", None, only(&few, steer)), "");
}
