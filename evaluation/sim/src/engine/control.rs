//! Flows whose policy is answered from outside, as by a trainer.
//!
//! The real algorithms run over the real programs; only the network is missing. Whenever a controlled
//! flow asks its policy, the [`Pilot`] is given the input and what the flow went through since the last
//! question, in figures of the simulation (not the flow's own estimates), and its outputs are in force
//! at once, as those of [`anole_policies::Immediate`] would be.

use super::{AgentScript, Simulation};
use crate::plan::{Choice, FlowPlan, PlanError, plan};
use crate::scenario::Scenario;
use anole_algorithms::BuildError;
use anole_model::{Dur, Rate, Time};
use anole_policies::{InferenceSession, Policies, Policy, PolicyError, Schema};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Name of the policy that the pilot answers for.
pub const OUTSIDE: &str = "outside";

/// Answers for the policies of all controlled flows of one run.
pub trait Pilot: Send {
    /// Writes the network's outputs and says what to do with them.
    fn answer(&mut self, question: &Question<'_>, outputs: &mut [f32]) -> Answer;
}

/// What a controlled flow asks.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Number of the flow in the scenario.
    pub flow: usize,
    /// Virtual time.
    pub now: Time,
    /// The network's input.
    pub input: &'a [f32],
    /// Window in force, bytes.
    pub cwnd: u32,
    /// What happened since the flow's last question, or its start.
    pub step: Step,
}

/// What becomes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The outputs are the policy's answer.
    Given,
    /// The policy does not answer this question.
    Absent,
    /// The run ends here.
    Stop,
}

/// One flow between two of its questions, as the simulation knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// Virtual time at the end.
    pub time_s: f64,
    /// Length.
    pub interval_s: f64,
    /// Bytes on the wire that arrived at the receiver, over the interval.
    pub throughput_mbps: f64,
    /// Bytes on the wire that were sent, over the interval.
    pub sending_mbps: f64,
    /// Mean round-trip time over ACKs; where none came, the one before.
    pub rtt_ms: f64,
    /// Mean time from sending to arrival; where nothing arrived, the one before.
    pub owd_ms: f64,
    /// Round-trip time of the path without queues and transmission times, now.
    pub base_rtt_ms: f64,
    /// Mean time of a packet beyond the path's propagation delay: waiting and transmission.
    pub queue_delay_ms: f64,
    /// Packets lost over packets lost or arrived, for whatever reason.
    pub loss_rate: f64,
    /// Probability of random loss of the path, now.
    pub random_loss: f64,
    /// Mean capacity of the path's slowest link.
    pub capacity_mbps: f64,
    /// The same over the flows that are active.
    pub fair_share_mbps: f64,
    /// Flows that are active, this one included.
    pub flows: f64,
}

impl Step {
    /// Names of [`Step::values`].
    pub const NAMES: [&str; 13] = [
        "time_s",
        "interval_s",
        "throughput_mbps",
        "sending_mbps",
        "rtt_ms",
        "owd_ms",
        "base_rtt_ms",
        "queue_delay_ms",
        "loss_rate",
        "random_loss",
        "capacity_mbps",
        "fair_share_mbps",
        "flows",
    ];

    /// The values, in the order of the names.
    pub fn values(&self) -> [f32; Step::NAMES.len()] {
        [
            self.time_s,
            self.interval_s,
            self.throughput_mbps,
            self.sending_mbps,
            self.rtt_ms,
            self.owd_ms,
            self.base_rtt_ms,
            self.queue_delay_ms,
            self.loss_rate,
            self.random_loss,
            self.capacity_mbps,
            self.fair_share_mbps,
            self.flows,
        ]
        .map(|value| value as f32)
    }
}

/// Counters of a flow since the beginning, and its path as it is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    pub now: Time,
    pub arrived_bytes: u64,
    pub arrived: u64,
    pub sent: u64,
    pub lost: u64,
    pub owd: (u128, u64),
    pub rtt: (u128, u64),
    pub offered_bytes: f64,
    pub base_rtt: Dur,
    pub propagation: Dur,
    pub random_loss: f64,
    pub flows: u64,
    pub full_packet: u32,
    pub cwnd: u32,
}

impl Reading {
    fn step(&self, before: &Reading, last: &Step) -> Step {
        let span = self.now.since(before.now);
        let mbps = |bytes: f64| match span {
            Dur::ZERO => 0.0,
            _ => Rate::from_bytes_per_s(bytes / span.as_secs_f64()).mbps(),
        };
        let mean_ms = |now: (u128, u64), before: (u128, u64), otherwise: f64| match now.1 - before.1 {
            0 => otherwise,
            count => (now.0 - before.0) as f64 / count as f64 / 1e6,
        };
        let owd_ms = mean_ms(self.owd, before.owd, last.owd_ms);
        let (lost, arrived) = (self.lost - before.lost, self.arrived - before.arrived);
        let capacity_mbps = mbps(self.offered_bytes - before.offered_bytes);
        Step {
            time_s: self.now.as_secs_f64(),
            interval_s: span.as_secs_f64(),
            throughput_mbps: mbps((self.arrived_bytes - before.arrived_bytes) as f64),
            sending_mbps: mbps((self.sent - before.sent) as f64 * f64::from(self.full_packet)),
            rtt_ms: mean_ms(self.rtt, before.rtt, last.rtt_ms),
            owd_ms,
            base_rtt_ms: self.base_rtt.as_millis_f64(),
            queue_delay_ms: (owd_ms - self.propagation.as_millis_f64()).max(0.0),
            loss_rate: if lost > 0 { lost as f64 / (lost + arrived) as f64 } else { 0.0 },
            random_loss: self.random_loss,
            capacity_mbps,
            fair_share_mbps: capacity_mbps / self.flows.max(1) as f64,
            flows: self.flows as f64,
        }
    }
}

/// Where the simulation and the controlled flows meet.
pub(super) struct Cockpit {
    pilot: Box<dyn Pilot>,
    /// By flow: the counters now and at its last question, and what was told then.
    now: Vec<Option<Reading>>,
    before: Vec<Reading>,
    last: Vec<Step>,
    stopped: bool,
}

impl Cockpit {
    fn step(&mut self, flow: usize) -> Step {
        if let Some(now) = self.now[flow] {
            self.last[flow] = now.step(&self.before[flow], &self.last[flow]);
            self.before[flow] = now;
        }
        self.last[flow]
    }
}

/// The cockpit of a run, and the flows that are controlled.
#[derive(Clone)]
pub(super) struct Control {
    pub flows: Vec<usize>,
    cockpit: Arc<Mutex<Cockpit>>,
}

impl Control {
    fn new(scenario: &Scenario, pilot: Box<dyn Pilot>) -> Control {
        let count = scenario.flows.len();
        Control {
            flows: (0..count).filter(|&flow| scenario.flows[flow].under_test).collect(),
            cockpit: Arc::new(Mutex::new(Cockpit {
                pilot,
                now: vec![None; count],
                before: vec![Reading::default(); count],
                last: vec![Step::default(); count],
                stopped: false,
            })),
        }
    }

    fn cockpit(&self) -> MutexGuard<'_, Cockpit> {
        self.cockpit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes how far a flow that has started is.
    pub fn note(&self, flow: usize, reading: Reading) {
        let mut cockpit = self.cockpit();
        if cockpit.now[flow].is_none() {
            cockpit.before[flow] = reading;
        }
        cockpit.now[flow] = Some(reading);
    }

    /// Puts a question to the pilot; true if it has an answer, which is then in `outputs`.
    pub fn ask(&self, flow: usize, now: Time, input: &[f32], outputs: &mut [f32]) -> bool {
        let mut cockpit = self.cockpit();
        if cockpit.stopped {
            return false;
        }
        let cwnd = cockpit.now[flow].map_or(0, |reading| reading.cwnd);
        let question = Question { flow, now, input, cwnd, step: cockpit.step(flow) };
        let answer = cockpit.pilot.answer(&question, outputs);
        cockpit.stopped = answer == Answer::Stop;
        answer == Answer::Given
    }

    pub fn stopped(&self) -> bool {
        self.cockpit().stopped
    }
}

/// A run whose flows under test ask a pilot.
pub struct Controlled<'a> {
    simulation: Simulation<'a>,
    control: Control,
}

impl<'a> Controlled<'a> {
    /// Prepares a run. The flows under test run `alg` with the policy described by `schema`, for which
    /// `pilot` answers; the other flows find trained policies in `policies`.
    pub fn new(
        scenario: &'a Scenario,
        alg: &str,
        schema: &Arc<Schema>,
        policies: &Arc<dyn Policies>,
        seed: u64,
        pilot: Box<dyn Pilot>,
    ) -> Result<Controlled<'a>, PlanError> {
        let control = Control::new(scenario, pilot);
        let outside = |flow: usize| -> Arc<dyn Policies> {
            let model = Outside { schema: Arc::clone(schema), flow, control: control.clone() };
            Arc::new(WithOutside { model: Arc::new(model), others: Arc::clone(policies) })
        };
        let choice =
            Choice { alg: Some(alg.to_string()), policy: Some(OUTSIDE.to_string()), ..Choice::default() };
        let plans: Vec<FlowPlan> =
            plan(scenario, &choice, &outside(0), seed).map_err(|error| match error {
                // No flag named the policy.
                PlanError::Build { reason: reason @ BuildError::NoSlot { .. }, .. } => {
                    PlanError::Build { place: format!("algorithm \"{alg}\""), reason }
                }
                error => error,
            })?;
        let plans = plans.into_iter().enumerate().map(|(flow, plan)| plan.with_policies(outside(flow)));
        Ok(Controlled::with(scenario, plans.collect(), seed, control))
    }

    /// Prepares a run whose flows under test run `alg`, whatever it is, and are seen as a policy with this
    /// schema would see them, every `interval.ms`. The pilot is asked as if it drove them; what it answers
    /// has no effect, but it can stop the run.
    pub fn watched(
        scenario: &'a Scenario,
        alg: &str,
        schema: &Arc<Schema>,
        policies: &Arc<dyn Policies>,
        seed: u64,
        pilot: Box<dyn Pilot>,
    ) -> Result<Controlled<'a>, PlanError> {
        let choice = Choice { alg: Some(alg.to_string()), ..Choice::default() };
        let plans = plan(scenario, &choice, policies, seed)?;
        let mut controlled = Controlled::with(scenario, plans, seed, Control::new(scenario, pilot));
        for &flow in &controlled.control.flows {
            controlled.simulation.flows[flow].watched_by = Some(Arc::clone(schema));
        }
        Ok(controlled)
    }

    fn with(scenario: &'a Scenario, plans: Vec<FlowPlan>, seed: u64, control: Control) -> Controlled<'a> {
        let mut simulation = Simulation::new(scenario, plans, seed, AgentScript::default());
        simulation.control = Some(control.clone());
        Controlled { simulation, control }
    }

    /// Simulates until the pilot stops the run or the scenario ends; returns, for each flow under test,
    /// what happened since its last question.
    pub fn run(mut self) -> Vec<Step> {
        self.simulation.run(&mut |_| ());
        self.simulation.note_readings();
        let mut cockpit = self.control.cockpit();
        self.control.flows.iter().map(|&flow| cockpit.step(flow)).collect()
    }
}

/// The policy of one controlled flow.
struct Outside {
    schema: Arc<Schema>,
    flow: usize,
    control: Control,
}

impl std::fmt::Debug for Outside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outside").field("schema", &self.schema.name).field("flow", &self.flow).finish()
    }
}

impl Policy for Outside {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn session(&self) -> Box<dyn InferenceSession> {
        Box::new(OutsideSession {
            flow: self.flow,
            control: self.control.clone(),
            outputs: vec![0.0; self.schema.outputs()],
            answered: false,
        })
    }
}

struct OutsideSession {
    flow: usize,
    control: Control,
    outputs: Vec<f32>,
    answered: bool,
}

impl InferenceSession for OutsideSession {
    fn ask(&mut self, now: Time, _deadline: Time, input: &[f32]) {
        self.answered = self.control.ask(self.flow, now, input, &mut self.outputs);
    }

    fn poll(&mut self, _now: Time) -> Option<&[f32]> {
        std::mem::take(&mut self.answered).then_some(self.outputs.as_slice())
    }
}

/// Other policies, and the pilot's.
#[derive(Debug)]
struct WithOutside {
    model: Arc<Outside>,
    others: Arc<dyn Policies>,
}

impl Policies for WithOutside {
    fn names(&self) -> Vec<String> {
        self.others.names()
    }

    fn find(&self, name: &str) -> Result<Arc<dyn Policy>, PolicyError> {
        match name {
            OUTSIDE => Ok(Arc::clone(&self.model) as Arc<dyn Policy>),
            _ => self.others.find(name),
        }
    }
}
