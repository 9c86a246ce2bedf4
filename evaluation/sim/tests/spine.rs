//! Spine's figures, in simulation: how often its generator runs, what the monitor interval changes, and for what share of
//! the time parameters are those of the present network (ETR).

use anole_model::Time;
use anole_model::seed::derive;
use anole_policies::{InferenceSession, Policies, Policy, PolicyError, Schema};
use anole_sim::plan::{Choice, plan, shipped};
use anole_sim::result::RunResult;
use anole_sim::scenario::Scenario;
use anole_sim::{AgentScript, run};
use std::sync::{Arc, Mutex};

const DURATION_S: f64 = 60.0;

/// The shipped policies, deciding every so many milliseconds, with a note of when they are asked.
#[derive(Clone, Debug)]
struct Every(f64, Arc<Mutex<Vec<Time>>>);

impl Every {
    fn ms(ms: f64) -> Every {
        Every(ms, Arc::default())
    }
}

impl Policies for Every {
    fn names(&self) -> Vec<String> {
        shipped().names()
    }

    fn find(&self, name: &str) -> Result<Arc<dyn Policy>, PolicyError> {
        let policy = shipped().find(name)?;
        let mut schema = policy.schema().clone();
        schema.interval.ms = self.0;
        Ok(Arc::new(Noted { policy, schema, asked: Arc::clone(&self.1) }))
    }
}

#[derive(Debug)]
struct Noted {
    policy: Arc<dyn Policy>,
    schema: Schema,
    asked: Arc<Mutex<Vec<Time>>>,
}

impl Policy for Noted {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn session(&self) -> Box<dyn InferenceSession> {
        Box::new(NotedSession(self.policy.session(), Arc::clone(&self.asked)))
    }
}

struct NotedSession(Box<dyn InferenceSession>, Arc<Mutex<Vec<Time>>>);

impl InferenceSession for NotedSession {
    fn ask(&mut self, now: Time, deadline: Time, input: &[f32]) {
        self.1.lock().unwrap().push(now);
        self.0.ask(now, deadline, input);
    }

    fn poll(&mut self, now: Time) -> Option<&[f32]> {
        self.0.poll(now)
    }
}

/// 100 Mbps, 40 ms, 1 BDP.
fn simulate(alg: &str, every: &Every, seed: u64) -> RunResult {
    let text = format!(
        "name = \"spine\"\nduration_s = {DURATION_S:?}\nwarmup_s = 10.0\n[[link]]\nname = \"b\"\n\
         capacity_mbps = 100.0\none_way_delay_ms = 20.0\nbuffer_bdp = 1.0\n\
         [[flow]]\nalg = \"{alg}\"\nack_jitter_us = 200\n"
    );
    let scenario = Scenario::parse(&text, "spine", &[], &mut |_| Err(String::new())).unwrap();
    let policies: Arc<dyn Policies> = Arc::new(every.clone());
    let plans = plan(&scenario, &Choice::default(), &policies, seed).unwrap();
    run(&scenario, plans, seed, AgentScript::default(), &mut |_| ())
}

/// The largest over the smallest.
fn spread(values: &[f64]) -> f64 {
    values.iter().fold(f64::MIN, |a, b| a.max(*b)) / values.iter().fold(f64::MAX, |a, b| a.min(*b))
}

#[test]
fn the_monitor_interval_hardly_matters_and_the_generator_hardly_runs() {
    // Their simulations side by side.
    let both = ["spine", "spine-cubic"].map(|alg| std::thread::spawn(move || monitor_intervals(alg)));
    both.into_iter().for_each(|one| one.join().unwrap());
}

fn monitor_intervals(alg: &str) {
    let (mut utilisation, mut rtt) = (Vec::new(), Vec::new());
    for ms in [20.0, 50.0, 100.0, 200.0, 300.0] {
        let run = simulate(alg, &Every::ms(ms), 1);
        let (link, flow) = (&run.links[0], &run.flows[0]);
        let per_s = |count: Option<u64>| count.unwrap() as f64 / DURATION_S;
        let (runs, questions) = (per_s(flow.decisions), per_s(flow.inferences));
        utilisation.push(link.utilization.unwrap());
        rtt.push(flow.rtt_mean_ms.unwrap());
        println!(
            "{alg}, {ms} ms: {utilisation:.3?} {rtt:.2?}, generator {runs:.2} of {questions:.2} questions/s"
        );
        assert!(runs <= 1.0 && runs < questions, "{alg}, {ms} ms: {runs} of {questions}");
    }
    assert!(spread(&utilisation) < 1.05 && spread(&rtt) < 1.05, "{alg}: {utilisation:?} {rtt:?}");
}

/// Spine: with changes of the network at a rate λ and decisions every T, ETR = (1 − e^−k)/k, k = λT.
#[test]
fn the_effective_time_ratio_is_that_of_the_formula() {
    let per_s = 1.0;
    for (alg, ms, expected) in [
        ("spine", 20.0, 0.990),
        ("spine", 50.0, 0.975),
        ("spine-cubic", 200.0, 0.906),
        ("spine", 500.0, 0.787),
    ] {
        let k: f64 = per_s * ms / 1e3;
        let formula = (1.0 - (-k).exp()) / k;
        assert!((formula - expected).abs() < 6e-4, "{formula}");
        let every = Every::ms(ms);
        simulate(alg, &every, 1);
        let asked: Vec<f64> = every.1.lock().unwrap().iter().map(|at| at.as_secs_f64()).collect();
        let measured = effective_share(&asked, per_s);
        println!("{ms} ms: ETR {measured:.3}, by the formula {formula:.3}");
        assert!((measured - formula).abs() < 0.01, "{ms} ms: {measured}, {formula}");
    }
}

/// The share of the time between decisions before the network changes, over many draws of when it does.
fn effective_share(asked: &[f64], changes_per_s: f64) -> f64 {
    let (mut effective, mut all) = (0.0, 0.0);
    for (i, pair) in asked.windows(2).enumerate() {
        let length = pair[1] - pair[0];
        for draw in 0..1000 {
            let uniform = derive(i as u64, draw) as f64 / u64::MAX as f64;
            let change = -uniform.max(f64::MIN_POSITIVE).ln() / changes_per_s;
            effective += change.min(length);
            all += length;
        }
    }
    effective / all
}
