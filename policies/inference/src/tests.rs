//! The thread that computes in this process.

use crate::compute;
use crate::threaded::Threaded;
use crate::worker::Worker;
use anole_model::{Dur, Time};
use anole_policies::{Batch, Immediate, InferenceSession, Network, Policy, Schema, StepError, schema};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Outputs the input's first value and the state's first value before it is raised by one, unless it is
/// told otherwise by the input.
#[derive(Debug)]
struct Fake {
    schema: Schema,
    steps: AtomicU64,
    largest: AtomicUsize,
    /// Held while a test wants the network to be busy.
    busy: Mutex<()>,
}

/// An answer that comes is there long before, ms.
const PATIENT: u64 = 10_000;
const PANIC: f32 = -1.0;
const FAIL: f32 = -2.0;
const SHORT: f32 = -3.0;
const NAN_STATE: f32 = -4.0;

impl Fake {
    fn new() -> Arc<Fake> {
        let schema = schema::builtin("spine").unwrap().clone();
        Arc::new(Fake { schema, steps: 0.into(), largest: 0.into(), busy: Mutex::new(()) })
    }
}

impl Network for Fake {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn step(&self, batch: &mut Batch) -> Result<(), StepError> {
        let _busy = self.busy.lock();
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.largest.fetch_max(batch.rows, Ordering::Relaxed);
        let (inputs, outputs, state) = (self.schema.inputs(), self.schema.outputs(), self.schema.state());
        for row in 0..batch.rows {
            let told = batch.inputs[row * inputs];
            match told {
                PANIC => panic!("as the test asked"),
                FAIL => return Err(StepError("as the test asked".to_string())),
                SHORT => batch.outputs.truncate(1),
                _ => {
                    batch.outputs[row * outputs] = told;
                    batch.outputs[row * outputs + 1] = batch.states[row * state];
                    batch.states[row * state] += if told == NAN_STATE { f32::NAN } else { 1.0 };
                }
            }
        }
        Ok(())
    }
}

struct Bench {
    fake: Arc<Fake>,
    policy: Threaded<Arc<dyn Network>>,
    started: Instant,
    /// Of the last question.
    deadline: Cell<Time>,
}

impl Bench {
    fn new() -> Bench {
        let fake = Fake::new();
        let worker = Arc::new(Worker::start(compute::serve).unwrap());
        let network: Arc<dyn Network> = fake.clone();
        Bench {
            policy: Threaded::new(fake.schema.clone(), network, worker),
            fake,
            started: Instant::now(),
            deadline: Cell::new(Time::ZERO),
        }
    }

    fn now(&self) -> Time {
        Time::from_nanos(self.started.elapsed().as_nanos() as u64)
    }

    fn ask(&self, session: &mut dyn InferenceSession, told: f32, within_ms: u64) {
        let mut input = vec![0.0; self.fake.schema.inputs()];
        input[0] = told;
        let now = self.now();
        self.deadline.set(now + Dur::from_millis(within_ms));
        session.ask(now, self.deadline.get(), &input);
    }

    /// The first two outputs, waited for until the deadline.
    fn answer(&self, session: &mut dyn InferenceSession) -> Option<[f32; 2]> {
        while self.now() < self.deadline.get() {
            if let Some(outputs) = session.poll(self.now()) {
                return Some([outputs[0], outputs[1]]);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }
}

#[test]
fn each_flow_has_its_state_and_each_answer_is_given_once() {
    let bench = Bench::new();
    let (mut one, mut two) = (bench.policy.session(), bench.policy.session());
    for step in 0..3 {
        bench.ask(&mut *one, 5.0, PATIENT);
        assert_eq!(bench.answer(&mut *one), Some([5.0, step as f32]));
        assert_eq!(one.poll(bench.now()), None);
    }
    bench.ask(&mut *two, 6.0, PATIENT);
    assert_eq!(bench.answer(&mut *two), Some([6.0, 0.0]));
}

#[test]
fn an_answer_that_came_in_time_may_be_taken_later() {
    let bench = Bench::new();
    let mut session = bench.policy.session();
    bench.ask(&mut *session, 5.0, 300);
    std::thread::sleep(Duration::from_millis(350));
    assert_eq!(session.poll(bench.now()).map(|outputs| outputs[0]), Some(5.0));
}

#[test]
fn an_answer_that_was_not_taken_leaves_the_state_where_it_was() {
    let bench = Bench::new();
    let mut session = bench.policy.session();
    bench.ask(&mut *session, 5.0, 0);
    std::thread::sleep(Duration::from_millis(30));
    assert_eq!(session.poll(bench.now()), None, "too late");
    bench.ask(&mut *session, 5.0, PATIENT);
    bench.ask(&mut *session, 7.0, PATIENT);
    assert_eq!(bench.answer(&mut *session), Some([7.0, 0.0]), "the last question counts");
    let wrong_width = [0.0; 3];
    bench.ask(&mut *session, 8.0, 200);
    session.ask(bench.now(), bench.deadline.get(), &wrong_width);
    assert_eq!(bench.answer(&mut *session), None);
}

#[test]
fn what_goes_wrong_in_a_network_is_an_absent_answer() {
    let bench = Bench::new();
    let mut session = bench.policy.session();
    for trouble in [PANIC, FAIL, SHORT] {
        bench.ask(&mut *session, trouble, 200);
        assert_eq!(bench.answer(&mut *session), None);
        bench.ask(&mut *session, 5.0, PATIENT);
        assert!(bench.answer(&mut *session).is_some(), "after {trouble}");
    }
}

#[test]
fn a_state_that_is_not_finite_is_not_adopted() {
    let bench = Bench::new();
    for mut session in [bench.policy.session(), Immediate(bench.fake.clone()).session()] {
        bench.ask(&mut *session, 5.0, PATIENT);
        bench.answer(&mut *session).unwrap();
        bench.ask(&mut *session, NAN_STATE, PATIENT);
        assert!(bench.answer(&mut *session).unwrap()[0].is_nan());
        bench.ask(&mut *session, 5.0, PATIENT);
        assert_eq!(bench.answer(&mut *session), Some([5.0, 1.0]));
    }
}

#[test]
fn an_immediate_answer_moves_the_state_when_it_is_taken() {
    let bench = Bench::new();
    let mut session = Immediate(bench.fake.clone()).session();
    bench.ask(&mut *session, 5.0, PATIENT);
    bench.ask(&mut *session, 7.0, PATIENT);
    assert_eq!(bench.answer(&mut *session), Some([7.0, 0.0]), "the last question counts");
}

#[test]
fn what_waits_is_computed_at_once_and_what_waited_too_long_not_at_all() {
    let bench = Bench::new();
    let mut sessions: Vec<_> = (0..600).map(|_| bench.policy.session()).collect();
    let busy = bench.fake.busy.lock().unwrap();
    bench.ask(&mut *sessions[0], 1.0, PATIENT);
    // Time for the thread to take it and to find the network busy.
    std::thread::sleep(Duration::from_millis(50));
    // The network is busy until this thread says otherwise: if asking waited for it, nothing would go on.
    for session in &mut sessions[300..] {
        bench.ask(&mut **session, 3.0, 10);
    }
    for session in &mut sessions[1..300] {
        bench.ask(&mut **session, 2.0, PATIENT);
    }
    std::thread::sleep(Duration::from_millis(50));
    drop(busy);
    assert!(bench.answer(&mut *sessions[0]).is_some());
    for session in &mut sessions[1..300] {
        assert!(bench.answer(&mut **session).is_some());
    }
    assert!(sessions[300..].iter_mut().all(|session| session.poll(bench.now()).is_none()));
    assert!(bench.fake.largest.load(Ordering::Relaxed) <= 256);
    // One for the first, two for the 299 that waited in time.
    assert!(bench.fake.steps.load(Ordering::Relaxed) <= 4, "{:?}", bench.fake.steps);
}

#[test]
fn a_thread_that_fails_starts_again() {
    let failures = AtomicU64::new(0);
    let serve = move |queue: &_, taken: &mut _| {
        if failures.fetch_add(1, Ordering::Relaxed) == 0 {
            panic!("as the test asked");
        }
        compute::serve(queue, taken)
    };
    let (fake, worker) = (Fake::new(), Arc::new(Worker::start(serve).unwrap()));
    let network: Arc<dyn Network> = fake.clone();
    let policy = Threaded::new(fake.schema.clone(), network, worker);
    let bench = Bench { fake, policy, started: Instant::now(), deadline: Cell::new(Time::ZERO) };
    let mut session = bench.policy.session();
    bench.ask(&mut *session, 5.0, PATIENT);
    assert!(bench.answer(&mut *session).is_some());
}
