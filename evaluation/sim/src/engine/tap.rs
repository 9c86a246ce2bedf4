//! A second datapath beside a flow's own: it hears the same ACKs, runs `rate-hold`, and what it reports is
//! what a policy would have seen. What it would send is nobody's concern.

use super::setup::AGENT_TIMEOUT;
use anole_algorithms::Watch;
use anole_datapath::wire::{self, AlgorithmName, CreateMessage, Message};
use anole_datapath::{AckSample, Datapath, FlowId, InForce};
use anole_model::{Bounds, Rate, Time};
use anole_policies::Schema;
use anole_programs::rate_hold::{PROGRAM, control};
use anole_programs::{Commands, Installed};

/// The first report comes with the first ACK.
const FIRST_REPORT_US: u32 = 1_000;

pub(super) struct Tap {
    datapath: Datapath,
    flow: FlowId,
    installed: Installed,
    commands: Commands,
    watch: Watch,
    /// The input of the question that waits to be told.
    due: Option<Vec<f32>>,
}

impl Tap {
    /// Of a flow that begins.
    pub fn new(now: Time, mss: u32, init_cwnd: u32, schema: &Schema) -> Tap {
        let mut datapath = Datapath::new(Bounds::DEFAULT, AGENT_TIMEOUT);
        let installed = Installed::all();
        installed.installs().for_each(|install| deliver(&mut datapath, now, &install));
        let create = CreateMessage::without_addresses(init_cwnd, mss, AlgorithmName::NONE);
        let flow = datapath.open(now, create, &mut Vec::new());
        let mut commands = Commands::default();
        commands.run(&PROGRAM).set(control::INTERVAL_US, FIRST_REPORT_US);
        let mut tap = Tap { datapath, flow, installed, commands, watch: Watch::new(mss, schema), due: None };
        tap.command(now);
        tap
    }

    /// Has the commands obeyed.
    fn command(&mut self, now: Time) {
        if let Some(message) = self.installed.message(self.flow.0, &self.commands) {
            deliver(&mut self.datapath, now, &message);
        }
        self.commands.clear();
    }

    /// Hears what the flow's datapath heard, and what it made of it.
    pub fn on_ack(&mut self, now: Time, sample: &AckSample, in_force: Option<InForce>) {
        let mut sent: Vec<Vec<u8>> = Vec::new();
        self.datapath.on_ack(now, self.flow, sample, &mut sent);
        for message in sent {
            let Ok((Message::Measure { values, .. }, _)) = wire::decode(&message) else { continue };
            let next = self.watch.report(now, &values);
            self.commands.set(control::INTERVAL_US, next.as_micros() as u32);
            self.command(now);
        }
        if let Some(control) = in_force {
            let rate = Rate::from_bytes_per_s(f64::from(control.rate));
            if let Some(input) = self.watch.observe(now, rate, control.cwnd) {
                self.due = Some(input.to_vec());
            }
        }
    }

    /// The input to be told, once.
    pub fn take(&mut self) -> Option<Vec<f32>> {
        self.due.take()
    }
}

/// The messages are well-formed, and about what is there.
fn deliver(datapath: &mut Datapath, now: Time, message: &Message<'_>) {
    let mut bytes = Vec::new();
    let sent = wire::encode(message, &mut bytes).is_ok() && datapath.receive(now, &bytes).is_ok();
    debug_assert!(sent, "{message:?}");
}
