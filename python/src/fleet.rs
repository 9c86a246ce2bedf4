//! Many simulations side by side, each halted at its flow's question.
//!
//! A simulation runs on a thread of its own, because a question comes from deep inside an algorithm, and
//! sleeps in it until the answer is there. Of a fleet at most `threads` simulations are awake: the one
//! that has come to its next question wakes the next one that waits. Nothing is shared between
//! simulations, so that results do not depend on threads.

use crate::peers::PEER;
use anole_model::{Dur, Time};
use anole_policies::{Policies, Schema};
use anole_sim::control::{Controlled, Pilot, PilotAnswer, Question, Step};
use anole_sim::scenario::{FlowSpec, Scenario};
use anole_sim::suite::{Purpose, Ranges};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// An episode whose flow stays silent at its end is given this long for one more question.
const GRACE: Dur = Dur::from_millis(2000);
/// After this many episodes in a row without any question, the algorithm is taken not to ask at all.
const SILENT_EPISODES: u32 = 20;
/// Stack of a simulation's thread, bytes; it needs a small part of it.
const STACK: usize = 1 << 20;

/// What all simulations of a fleet have in common.
pub struct FleetPlan {
    pub alg: String,
    pub schema: Arc<Schema>,
    pub policies: Arc<dyn Policies>,
    pub ranges: Ranges,
    /// Parameters of the algorithm that differ from their defaults.
    pub params: BTreeMap<String, f64>,
    pub seed: u64,
    /// The number of each simulation's first episode.
    pub first: Vec<u64>,
    /// The algorithm drives itself, and is only seen as a policy would see it.
    pub watched: bool,
}

impl FleetPlan {
    /// An episode's scenario; with its grace at the end.
    fn draw(&self, environment: usize, episode: u64) -> (Scenario, Time) {
        let purpose = Purpose::Training(environment as u32);
        let mut scenario = self.ranges.draw(&self.alg, purpose, self.seed, episode);
        let end = scenario.end();
        scenario.duration += GRACE;
        for flow in scenario.flows.iter_mut().filter(|flow| flow.stop >= end) {
            flow.stop = end + GRACE;
        }
        scenario.params.clone_from(&self.params);
        // One flow asks the trainer; those of its own kind run the policy that the trainer left for them.
        for flow in scenario.flows.iter_mut().skip(1).filter(|flow| flow.under_test) {
            flow.under_test = false;
            flow.policy = (!self.watched).then(|| PEER.to_string());
        }
        (scenario, end)
    }

    fn run<'a>(&self, scenario: &'a Scenario, pilot: Box<dyn Pilot>) -> Result<Controlled<'a>, String> {
        let make = if self.watched { Controlled::watched } else { Controlled::new };
        let run = make(scenario, &self.alg, &self.schema, &self.policies, scenario.seed, pilot);
        // A message names flags of `anole-eval`; the policy is that of the schema here.
        run.map_err(|error| error.to_string().replace("--policy", "schema").replace("--alg", "algorithm"))
    }
}

/// What a simulation says when it is halted.
#[derive(Clone, Debug, Default)]
pub struct Halt {
    /// The network's input at the question that waits.
    pub input: Vec<f32>,
    /// What happened since the last answer; after an episode's end still of the old one.
    pub step: Step,
    /// The episode is over, and `input` is the first one of the next.
    pub done: bool,
    /// The last input of the episode that is over.
    pub last_input: Vec<f32>,
    /// Window in force at the question, bytes.
    pub cwnd: u32,
    /// Number of the episode that the question is of.
    pub episode: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Simulation,
    Trainer,
    Over,
}

struct State {
    turn: Turn,
    halt: Halt,
    outputs: Vec<f32>,
    failure: Option<String>,
}

/// Where a simulation and the trainer meet.
struct Seat {
    state: Mutex<State>,
    changed: Condvar,
}

/// One round in which every simulation takes a step.
struct Round {
    /// The next seat to wake.
    next: AtomicUsize,
    /// Simulations that have not come to their question yet.
    left: Mutex<usize>,
    finished: Condvar,
}

struct Hall {
    seats: Vec<Seat>,
    round: Round,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hall {
    fn wake(&self, index: usize) {
        if let Some(seat) = self.seats.get(index) {
            let mut state = lock(&seat.state);
            if state.turn == Turn::Trainer {
                state.turn = Turn::Simulation;
            }
            // Not before the lock is free, which the woken needs.
            drop(state);
            seat.changed.notify_one();
        }
    }

    /// A simulation is done for this round: wakes another, and the trainer after the last.
    fn finish(&self) {
        self.wake(self.round.next.fetch_add(1, Ordering::Relaxed));
        let mut left = lock(&self.round.left);
        *left = left.saturating_sub(1);
        if *left == 0 {
            self.round.finished.notify_one();
        }
    }
}

/// Simulations in step.
pub struct Fleet {
    hall: Arc<Hall>,
    threads: usize,
    /// One round at a time, whoever calls.
    calling: Mutex<()>,
    handles: Vec<JoinHandle<()>>,
}

impl Fleet {
    /// Starts `count` simulations; nothing runs before the first [`Fleet::round`].
    pub fn new(plan: Arc<FleetPlan>, count: usize, threads: usize) -> Result<Fleet, String> {
        // What is wrong with the names is wrong in every episode; but whom chance lets compete may first be seen after hours.
        let (scenario, _) = plan.draw(0, 0);
        let mut alone = scenario.clone();
        alone.flows.truncate(1);
        plan.run(&alone, Box::new(Nobody))?;
        for alg in plan.ranges.cross_algs.iter().filter(|_| plan.ranges.cross_flows[1] > 0) {
            let mut beside = alone.clone();
            beside.flows.push(FlowSpec { alg: alg.clone(), under_test: false, ..alone.flows[0].clone() });
            plan.run(&beside, Box::new(Nobody))
                .map_err(|error| format!("ranges: cross_algs: {}", error.trim_start_matches(": ")))?;
        }
        plan.run(&scenario, Box::new(Nobody))?;
        let outputs = plan.schema.outputs();
        let seat = |_| Seat {
            state: Mutex::new(State {
                turn: Turn::Trainer,
                halt: Halt::default(),
                outputs: vec![0.0; outputs],
                failure: None,
            }),
            changed: Condvar::new(),
        };
        let hall = Arc::new(Hall {
            seats: (0..count).map(seat).collect(),
            round: Round { next: AtomicUsize::new(0), left: Mutex::new(0), finished: Condvar::new() },
        });
        let mut fleet = Fleet { hall, threads, calling: Mutex::new(()), handles: Vec::new() };
        for index in 0..count {
            let (hall, plan) = (Arc::clone(&fleet.hall), Arc::clone(&plan));
            let builder = thread::Builder::new().name(format!("simulation {index}")).stack_size(STACK);
            let handle = builder
                .spawn(move || serve(&hall, &plan, index))
                .map_err(|error| format!("cannot start simulation {index}: {error}; ask for fewer"))?;
            fleet.handles.push(handle);
        }
        Ok(fleet)
    }

    /// Gives the outputs, row after row (none before the first round), lets every simulation run to its
    /// next question, and hands over what each says.
    pub fn round(&self, outputs: &[f32], mut take: impl FnMut(usize, &Halt)) -> Result<(), String> {
        let _calling = lock(&self.calling);
        let (seats, round) = (&self.hall.seats, &self.hall.round);
        if !outputs.is_empty() {
            for (seat, outputs) in seats.iter().zip(outputs.chunks(outputs.len() / seats.len().max(1))) {
                lock(&seat.state).outputs.copy_from_slice(outputs);
            }
        }
        let first = self.threads.min(seats.len());
        round.next.store(first, Ordering::Relaxed);
        *lock(&round.left) = seats.len();
        (0..first).for_each(|index| self.hall.wake(index));
        let mut left = lock(&round.left);
        while *left > 0 {
            left = round.finished.wait(left).unwrap_or_else(PoisonError::into_inner);
        }
        drop(left);
        for (index, seat) in seats.iter().enumerate() {
            let state = lock(&seat.state);
            match &state.failure {
                Some(failure) => return Err(format!("simulation {index}: {failure}")),
                None => take(index, &state.halt),
            }
        }
        Ok(())
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for seat in &self.hall.seats {
            lock(&seat.state).turn = Turn::Over;
            seat.changed.notify_one();
        }
        for handle in self.handles.drain(..) {
            drop(handle.join());
        }
    }
}

/// The thread of one simulation: episode after episode, until the fleet is dropped or it fails.
fn serve(hall: &Arc<Hall>, plan: &FleetPlan, index: usize) {
    if wait(&hall.seats[index]) == Turn::Over {
        return;
    }
    let flight = catch_unwind(AssertUnwindSafe(|| fly(hall, plan, index)));
    let failure = match flight {
        Ok(Ok(())) => return,
        Ok(Err(failure)) => failure,
        Err(_) => "the simulator panicked; please report this with the ranges and the seed".to_string(),
    };
    lock(&hall.seats[index].state).failure = Some(failure);
    // It fails every round from now on.
    while wait(&hall.seats[index]) == Turn::Simulation {
        let mut state = lock(&hall.seats[index].state);
        if state.turn == Turn::Simulation {
            state.turn = Turn::Trainer;
        }
        drop(state);
        hall.finish();
    }
}

/// Waits until it is not the trainer's turn.
fn wait(seat: &Seat) -> Turn {
    let mut state = lock(&seat.state);
    while state.turn == Turn::Trainer {
        state = seat.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    state.turn
}

/// How far the episodes of one simulation are.
#[derive(Default)]
struct Log {
    /// Questions of the present episode.
    questions: u64,
    /// What the last episode ended with, until it is told.
    ended: Option<Step>,
    last_input: Vec<f32>,
    /// The fleet is being dropped.
    over: bool,
}

fn fly(hall: &Arc<Hall>, plan: &FleetPlan, index: usize) -> Result<(), String> {
    let log = Arc::new(Mutex::new(Log::default()));
    let mut silent = 0;
    for episode in plan.first[index].. {
        let (scenario, end) = plan.draw(index, episode);
        lock(&log).questions = 0;
        let pilot =
            Box::new(SeatPilot { hall: Arc::clone(hall), index, episode, end, log: Arc::clone(&log) });
        let rest = plan.run(&scenario, pilot)?.run();
        let mut log = lock(&log);
        if log.over {
            return Ok(());
        }
        silent = if log.questions == 0 { silent + 1 } else { 0 };
        if log.questions > 0 && log.ended.is_none() {
            log.ended = rest.first().copied();
        }
        if silent == SILENT_EPISODES {
            return Err(format!(
                "{} asked its policy nothing in {silent} episodes of {} s; lengthen them, or choose an algorithm with a policy",
                plan.alg, plan.ranges.duration_s
            ));
        }
    }
    Ok(())
}

/// Hands a simulation's questions to the trainer.
struct SeatPilot {
    hall: Arc<Hall>,
    index: usize,
    episode: u64,
    /// The episode ends at the first question from here on.
    end: Time,
    log: Arc<Mutex<Log>>,
}

impl Pilot for SeatPilot {
    fn answer(&mut self, question: &Question<'_>, outputs: &mut [f32]) -> PilotAnswer {
        let mut log = lock(&self.log);
        log.questions += 1;
        let seat = &self.hall.seats[self.index];
        if question.now >= self.end {
            // The trainer has seen nothing of an episode whose first question comes too late, and the end before it stands.
            if log.questions > 1 {
                log.ended = Some(question.step);
                log.last_input.clear();
                log.last_input.extend_from_slice(question.input);
            } else {
                log.questions = 0;
            }
            return PilotAnswer::Stop;
        }
        let ended = log.ended.take();
        {
            let mut state = lock(&seat.state);
            let halt = &mut state.halt;
            halt.done = ended.is_some();
            halt.step = ended.unwrap_or(question.step);
            if halt.done {
                halt.last_input.clone_from(&log.last_input);
            }
            (halt.cwnd, halt.episode) = (question.cwnd, self.episode);
            halt.input.clear();
            halt.input.extend_from_slice(question.input);
            log.last_input.clone_from(&halt.input);
            if state.turn != Turn::Over {
                state.turn = Turn::Trainer;
            }
        }
        self.hall.finish();
        if wait(seat) == Turn::Over {
            log.over = true;
            return PilotAnswer::Stop;
        }
        // A flow that is only watched wants none.
        for (output, given) in outputs.iter_mut().zip(&lock(&seat.state).outputs) {
            *output = *given;
        }
        PilotAnswer::Given
    }
}

/// Answers nothing.
struct Nobody;

impl Pilot for Nobody {
    fn answer(&mut self, _question: &Question<'_>, _outputs: &mut [f32]) -> PilotAnswer {
        PilotAnswer::Absent
    }
}
