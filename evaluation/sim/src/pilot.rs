//! Who answers for controlled flows, and what is told of them.
//!
//! The simulation notes how far each controlled flow is; when the flow asks its policy, the [`Pilot`] is given
//! the input and what the flow went through since its last question.

use crate::scenario::Scenario;
use anole_model::{Dur, Rate, Time};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Answers for the policies of all controlled flows of one run.
pub trait Pilot: Send {
    /// Writes the network's outputs and says what to do with them.
    fn answer(&mut self, question: &Question<'_>, outputs: &mut [f32]) -> PilotAnswer;
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
pub enum PilotAnswer {
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
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    pub now: Time,
    pub arrived_bytes: u64,
    pub arrived: u64,
    pub sent: u64,
    pub lost: u64,
    pub owd: (u128, u64),
    pub rtt: (u128, u64),
    /// Bytes that each link of the path could have sent.
    pub offered_bytes: Vec<f64>,
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
        let offered = self.offered_bytes.iter().zip(&before.offered_bytes);
        let slowest = offered.map(|(now, before)| now - before).reduce(f64::min);
        let capacity_mbps = mbps(slowest.unwrap_or(0.0));
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

/// What the cockpit holds.
struct CockpitState {
    pilot: Box<dyn Pilot>,
    /// By flow: the counters now and at its last question, and what was told then.
    now: Vec<Option<Reading>>,
    before: Vec<Reading>,
    last: Vec<Step>,
    stopped: bool,
}

impl CockpitState {
    fn step(&mut self, flow: usize) -> Step {
        if let Some(now) = &self.now[flow] {
            self.last[flow] = now.step(&self.before[flow], &self.last[flow]);
            self.before[flow].clone_from(now);
        }
        self.last[flow]
    }
}

/// Where the simulation and the controlled flows of a run meet; a clone is the same one.
#[derive(Clone)]
pub(crate) struct Cockpit {
    /// Numbers of the controlled flows.
    pub flows: Vec<usize>,
    state: Arc<Mutex<CockpitState>>,
}

impl Cockpit {
    pub fn new(scenario: &Scenario, pilot: Box<dyn Pilot>) -> Cockpit {
        let count = scenario.flows.len();
        Cockpit {
            flows: (0..count).filter(|&flow| scenario.flows[flow].under_test).collect(),
            state: Arc::new(Mutex::new(CockpitState {
                pilot,
                now: vec![None; count],
                before: vec![Reading::default(); count],
                last: vec![Step::default(); count],
                stopped: false,
            })),
        }
    }

    fn state(&self) -> MutexGuard<'_, CockpitState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes how far a flow that has started is.
    pub fn note(&self, flow: usize, reading: Reading) {
        let mut state = self.state();
        if state.now[flow].is_none() {
            state.before[flow] = reading.clone();
        }
        state.now[flow] = Some(reading);
    }

    /// Puts a question to the pilot; true if it has an answer, which is then in `outputs`.
    pub fn ask(&self, flow: usize, now: Time, input: &[f32], outputs: &mut [f32]) -> bool {
        let mut state = self.state();
        if state.stopped {
            return false;
        }
        let cwnd = state.now[flow].as_ref().map_or(0, |reading| reading.cwnd);
        let question = Question { flow, now, input, cwnd, step: state.step(flow) };
        let answer = state.pilot.answer(&question, outputs);
        state.stopped = answer == PilotAnswer::Stop;
        answer == PilotAnswer::Given
    }

    pub fn stopped(&self) -> bool {
        self.state().stopped
    }
    /// What a flow went through since its last question.
    pub fn step(&self, flow: usize) -> Step {
        self.state().step(flow)
    }
}
