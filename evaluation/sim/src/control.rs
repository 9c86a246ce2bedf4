//! Flows whose policy is answered from outside, as by a trainer.
//!
//! The real algorithms run over the real programs; only the network is missing. Whenever a controlled
//! flow asks its policy, the [`Pilot`] is given the input and what the flow went through since the last
//! question, in figures of the simulation (not the flow's own estimates), and its outputs are in force
//! at once, as those of [`anole_policies::Immediate`] would be.

use crate::engine::{AgentScript, Simulation};
use crate::late::late;
use crate::pilot::Cockpit;
pub use crate::pilot::{Pilot, PilotAnswer, Question, Step};
pub use crate::plan::OUTSIDE;
use crate::plan::{Choice, FlowPlan, FlowPlanError, plan};
use crate::scenario::Scenario;
use anole_algorithms::BuildError;
use anole_model::Time;
use anole_policies::{Boosters, InferenceSession, Policies, Policy, PolicyError, Schema};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A run whose flows under test ask a pilot.
pub struct Controlled<'a> {
    simulation: Simulation<'a>,
    cockpit: Cockpit,
}

impl<'a> Controlled<'a> {
    /// Prepares a run. The flows under test run `alg` with the policy described by `schema`, for which
    /// `pilot` answers at once; the other flows find trained policies in `policies`, which take their time.
    pub fn new(
        scenario: &'a Scenario,
        alg: &str,
        schema: &Arc<Schema>,
        policies: &Arc<dyn Policies>,
        seed: u64,
        pilot: Box<dyn Pilot>,
    ) -> Result<Controlled<'a>, FlowPlanError> {
        let cockpit = Cockpit::new(scenario, pilot);
        let outside = |flow: usize| -> Arc<dyn Policies> {
            let model = Outside { schema: Arc::clone(schema), flow, cockpit: cockpit.clone() };
            Arc::new(WithOutside { model: Arc::new(model), others: late(policies, scenario.inference) })
        };
        let choice =
            Choice { alg: Some(alg.to_string()), policy: Some(OUTSIDE.to_string()), ..Choice::default() };
        let plans: Vec<FlowPlan> =
            plan(scenario, &choice, &outside(0), seed).map_err(|error| match error {
                // No flag named the policy.
                FlowPlanError::Build { reason: reason @ BuildError::NoSlot { .. }, .. } => {
                    FlowPlanError::Build { place: format!("algorithm \"{alg}\""), reason }
                }
                error => error,
            })?;
        let plans = plans.into_iter().enumerate().map(|(flow, plan)| plan.with_policies(outside(flow)));
        Ok(Controlled::with(scenario, plans.collect(), seed, cockpit))
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
    ) -> Result<Controlled<'a>, FlowPlanError> {
        let choice = Choice { alg: Some(alg.to_string()), ..Choice::default() };
        let plans = plan(scenario, &choice, policies, seed)?;
        let mut controlled = Controlled::with(scenario, plans, seed, Cockpit::new(scenario, pilot));
        for &flow in &controlled.cockpit.flows {
            controlled.simulation.watch(flow, schema);
        }
        Ok(controlled)
    }

    fn with(scenario: &'a Scenario, plans: Vec<FlowPlan>, seed: u64, cockpit: Cockpit) -> Controlled<'a> {
        let mut simulation = Simulation::new(scenario, plans, seed, AgentScript::default());
        simulation.controlled_by(cockpit.clone());
        Controlled { simulation, cockpit }
    }

    /// Simulates until the pilot stops the run or the scenario ends; returns, for each flow under test,
    /// what happened since its last question.
    pub fn run(mut self) -> Vec<Step> {
        self.simulation.run(&mut |_| ControlFlow::Continue(()));
        self.simulation.note_readings();
        self.cockpit.flows.iter().map(|&flow| self.cockpit.step(flow)).collect()
    }
}

/// The policy of one controlled flow.
struct Outside {
    schema: Arc<Schema>,
    flow: usize,
    cockpit: Cockpit,
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
            cockpit: self.cockpit.clone(),
            outputs: vec![0.0; self.schema.outputs()],
            answered: false,
        })
    }
}

struct OutsideSession {
    flow: usize,
    cockpit: Cockpit,
    outputs: Vec<f32>,
    answered: bool,
}

impl InferenceSession for OutsideSession {
    fn ask(&mut self, now: Time, _deadline: Time, input: &[f32]) {
        self.answered = self.cockpit.ask(self.flow, now, input, &mut self.outputs);
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

    fn boosters(&self, name: Option<&str>, width: usize) -> Result<Arc<Boosters>, PolicyError> {
        self.others.boosters(name, width)
    }
}
