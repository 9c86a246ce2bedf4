//! A model at the server, and asking it while waiting for the answer: for simulations, and to find out
//! at the start whether the server has the model.

use super::connection::{Connection, Trouble};
use super::protocol::{self, Opened, ServerMessage, StepStatus};
use crate::refused;
use anole_policies::{Batch, Network, Schema, StepError};
use nix::errno::Errno;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A server that takes longer is taken for dead; one inference takes a few milliseconds at most.
const PATIENCE: Duration = Duration::from_secs(5);

/// A model as its server knows it.
#[derive(Debug)]
pub struct Remote {
    /// File name without extension in the server's folder.
    pub name: String,
    /// What it is.
    pub schema: Schema,
    /// Hash of the schema.
    pub schema_sha256: String,
}

impl Remote {
    /// The model `name` with this schema.
    pub fn new(name: &str, schema: Schema) -> Remote {
        Remote { name: name.to_string(), schema_sha256: schema.sha256(), schema }
    }

    /// The number under which it was opened, if it has the right shape.
    pub fn check(&self, opened: Result<Opened, String>) -> Result<u32, String> {
        let Opened { model, widths } = opened?;
        let ours = [self.schema.inputs(), self.schema.outputs(), self.schema.state()];
        if widths == ours {
            return Ok(model);
        }
        let [inputs, outputs, state] = widths;
        Err(format!(
            "has {inputs} inputs, {outputs} outputs and a state of {state}, its schema means {}, {} and {}",
            ours[0], ours[1], ours[2]
        ))
    }
}

/// A network at a server; each step waits for the answer.
#[derive(Debug)]
pub struct RemoteNetwork {
    remote: Remote,
    path: PathBuf,
    caller: Mutex<Caller>,
}

#[derive(Debug)]
struct Caller {
    connection: Connection,
    model: u32,
    id: u64,
    packet: Vec<u8>,
    /// Why no question is asked any more.
    failed: Option<String>,
}

impl RemoteNetwork {
    /// Opens the model at the server that listens at `path`. The inner error is why it has not this model, the outer why
    /// it has none.
    pub fn open(path: &Path, remote: Remote) -> Result<Result<RemoteNetwork, String>, String> {
        let connection = Connection::open(path).map_err(|errno| {
            let ask = if errno == Errno::EACCES { "" } else { "; is anole-policy-server running?" };
            format!("cannot connect: {}{ask}", refused::why(path, errno))
        })?;
        let mut caller = Caller { connection, model: 0, id: 0, packet: Vec::new(), failed: None };
        protocol::open(caller.id, &remote.schema_sha256, &remote.name, &mut caller.packet);
        let model = caller.exchange(|answer| match answer {
            ServerMessage::Opened(opened) => Ok(remote.check(opened)),
            ServerMessage::Result(..) => Err("the server answered a question that was not asked".to_string()),
        })?;
        Ok(model.map_err(|error| format!("model {}: {error}", remote.name)).map(|model| {
            caller.model = model;
            RemoteNetwork { remote, path: path.to_path_buf(), caller: Mutex::new(caller) }
        }))
    }

    /// The model.
    pub fn into_remote(self) -> Remote {
        self.remote
    }
}

impl Caller {
    /// Sends the packet that is ready and waits for its answer.
    fn exchange<R>(
        &mut self,
        take: impl FnOnce(ServerMessage<'_>) -> Result<R, String>,
    ) -> Result<R, String> {
        let gone = |trouble| match trouble {
            Trouble::NotNow => format!("no answer within {} s", PATIENCE.as_secs()),
            Trouble::Over(errno) => format!("the connection was lost: {}", errno.desc()),
        };
        let deadline = Instant::now() + PATIENCE;
        self.connection.send(&self.packet).map_err(gone)?;
        loop {
            let packet = self.connection.receive_until(deadline).map_err(gone)?;
            let (id, answer) = protocol::read(packet)?;
            // Answers to earlier questions, which were given up, may still come.
            if id == self.id {
                return take(answer);
            }
        }
    }

    fn step(&mut self, input: &[f32], state: &mut [f32], outputs: &mut [f32]) -> Result<(), String> {
        self.id += 1;
        let budget_us = u32::try_from(PATIENCE.as_micros()).unwrap_or(u32::MAX);
        protocol::step(self.model, self.id, budget_us, input, state, &mut self.packet);
        self.exchange(|answer| match answer {
            ServerMessage::Result(StepStatus::Done, bytes) => {
                protocol::floats(bytes, outputs, state).ok_or("an answer of the wrong size".to_string())
            }
            ServerMessage::Result(status, _) => Err(status.text().to_string()),
            ServerMessage::Opened(_) => Err("an answer to another question".to_string()),
        })
    }
}

impl Network for RemoteNetwork {
    fn schema(&self) -> &Schema {
        &self.remote.schema
    }

    fn step(&self, batch: &mut Batch) -> Result<(), StepError> {
        let mut caller = self.caller.lock().unwrap_or_else(PoisonError::into_inner);
        let (inputs, outputs) = (self.remote.schema.inputs(), self.remote.schema.outputs());
        let width = self.remote.schema.state();
        if let Some(error) = &caller.failed {
            return Err(StepError(error.clone()));
        }
        for row in 0..batch.rows {
            let input = &batch.inputs[row * inputs..][..inputs];
            let state = &mut batch.states[row * width..][..width];
            let outputs = &mut batch.outputs[row * outputs..][..outputs];
            if let Err(error) = caller.step(input, state, outputs) {
                let error = format!("policy server {}: {error}", self.path.display());
                caller.failed = Some(error.clone());
                return Err(StepError(error));
            }
        }
        Ok(())
    }
}
