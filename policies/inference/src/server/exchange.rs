//! What is under way on one connection: models opened, questions asked.

use super::Remote;
use super::connection::{Connection, Trouble};
use super::protocol::{self, ServerMessage, StepStatus};
use crate::complaints::Complaints;
use crate::request::Request;
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Questions whose deadline has passed are forgotten once in this time.
const SWEEP: Duration = Duration::from_millis(100);
/// A model that was refused, or that nobody answered about, is opened again after this time.
const OPEN_AGAIN: Duration = Duration::from_secs(1);
/// A server that was sent something and says nothing for so long is left: it may hang, and another may
/// listen at its path by now.
const SILENCE: Duration = Duration::from_secs(2);
/// Packets taken in a row before questions are sent again.
const TAKE_AT_ONCE: usize = 256;

/// A request with a question.
pub type Asked = Arc<Request<Arc<Remote>>>;

/// One connection, from its beginning to its end.
pub struct Exchange {
    connection: Connection,
    models: Vec<ModelHere>,
    /// Questions that were sent, by id.
    sent: HashMap<u64, Sent>,
    next_id: u64,
    swept: Instant,
    /// Since when something was sent and nothing came.
    silent_since: Option<Instant>,
    /// Whether anything has come.
    heard: bool,
    // Space that is used again and again.
    inputs: Vec<f32>,
    outputs: Vec<f32>,
    states: Vec<f32>,
    packet: Vec<u8>,
}

/// A model on this connection.
struct ModelHere {
    remote: Arc<Remote>,
    opening: Opening,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Opening {
    /// OPEN was sent with this id; without an answer it is sent again at this time.
    Sent(u64, Instant),
    /// It has this number.
    Open(u32),
    /// Not before this time is it tried again.
    Refused(Instant),
}

struct Sent {
    request: Asked,
    number: u64,
    deadline: Instant,
}

impl Exchange {
    /// Nothing is opened or asked yet.
    pub fn new(connection: Connection, now: Instant) -> Exchange {
        Exchange {
            connection,
            models: Vec::new(),
            sent: HashMap::new(),
            next_id: 0,
            swept: now,
            silent_since: None,
            heard: false,
            inputs: Vec::new(),
            outputs: Vec::new(),
            states: Vec::new(),
            packet: Vec::new(),
        }
    }

    /// The socket, to wait for.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.connection.fd()
    }

    /// Whether the server has said anything. One that has no room for the connection does not.
    pub fn has_heard(&self) -> bool {
        self.heard
    }

    /// After how long to look again although nothing has come; `waiting` are the questions that wait
    /// for their model.
    pub fn patience(&self, waiting: &[Asked]) -> Option<Duration> {
        (!waiting.is_empty() || !self.sent.is_empty()).then_some(SWEEP)
    }

    /// Takes what the server has said.
    pub fn hear(&mut self, now: Instant, complaints: &mut Complaints) -> Result<(), String> {
        for _ in 0..TAKE_AT_ONCE {
            let packet = match self.connection.receive() {
                Ok(packet) => {
                    self.silent_since = None;
                    self.heard = true;
                    packet
                }
                Err(Trouble::NotNow) => break,
                Err(Trouble::Over(errno)) => {
                    return Err(format!("the connection was lost: {}", errno.desc()));
                }
            };
            match protocol::read(packet)? {
                (id, ServerMessage::Result(status, floats)) => {
                    // Of a question that was swept away, or never asked.
                    let Some(Sent { request, number, deadline }) = self.sent.remove(&id) else { continue };
                    let remote = &request.target;
                    if status == StepStatus::Done {
                        self.outputs.resize(remote.schema.outputs(), 0.0);
                        self.states.resize(remote.schema.state(), 0.0);
                        protocol::floats(floats, &mut self.outputs, &mut self.states)
                            .ok_or("an answer of the wrong size")?;
                        if now <= deadline {
                            request.answer(number, &self.outputs, &self.states);
                        }
                        continue;
                    }
                    if status == StepStatus::ModelGone {
                        self.models.retain(|model| !Arc::ptr_eq(&model.remote, remote));
                    }
                    complaints.say(&remote.name, status.text());
                }
                (id, ServerMessage::Opened(opened)) => {
                    let asked =
                        |m: &&mut ModelHere| matches!(m.opening, Opening::Sent(sent, _) if sent == id);
                    let Some(model) = self.models.iter_mut().find(asked) else { continue };
                    model.opening = match model.remote.check(opened) {
                        Ok(number) => Opening::Open(number),
                        Err(why) => {
                            complaints.say(&model.remote.name, &why);
                            Opening::Refused(now + OPEN_AGAIN)
                        }
                    };
                }
            }
        }
        if self.silent_since.is_some_and(|since| now.duration_since(since) > SILENCE) {
            return Err(format!("nothing came for {} s", SILENCE.as_secs()));
        }
        if now.duration_since(self.swept) >= SWEEP {
            self.swept = now;
            self.sent.retain(|_, sent| now < sent.deadline);
        }
        Ok(())
    }

    /// Sends the questions in `taken`; what is left in it waits for its model to be opened.
    pub fn tell(
        &mut self,
        taken: &mut Vec<Asked>,
        now: Instant,
        complaints: &mut Complaints,
    ) -> Result<(), String> {
        let mut result = Ok(());
        taken.retain(|request| {
            if result.is_err() {
                request.forget();
                return false;
            }
            match self.model(&request.target, now) {
                Ok(Opening::Sent(..)) => true,
                Ok(Opening::Refused(_)) => {
                    request.forget();
                    false
                }
                Ok(Opening::Open(model)) => {
                    if let Err(why) = self.send_question(request, model, now, complaints) {
                        result = Err(why);
                    }
                    false
                }
                Err(why) => {
                    result = Err(why);
                    request.forget();
                    false
                }
            }
        });
        result
    }

    /// Where the opening of a model stands; opens it if it is time.
    fn model(&mut self, remote: &Arc<Remote>, now: Instant) -> Result<Opening, String> {
        let index = match self.models.iter().position(|model| Arc::ptr_eq(&model.remote, remote)) {
            Some(index) => index,
            None => {
                let model = ModelHere { remote: Arc::clone(remote), opening: Opening::Refused(now) };
                self.models.push(model);
                self.models.len() - 1
            }
        };
        match self.models[index].opening {
            Opening::Sent(_, again) | Opening::Refused(again) if now >= again => {
                let id = self.new_id();
                protocol::open(id, &remote.schema_sha256, &remote.name, &mut self.packet);
                let sent = self.send(now);
                self.models[index].opening = match sent {
                    Ok(()) => Opening::Sent(id, now + OPEN_AGAIN),
                    Err(Trouble::NotNow) => Opening::Refused(now + OPEN_AGAIN),
                    Err(Trouble::Over(errno)) => return Err(format!("cannot send: {}", errno.desc())),
                };
            }
            _ => {}
        }
        Ok(self.models[index].opening)
    }

    fn send_question(
        &mut self,
        request: &Asked,
        model: u32,
        now: Instant,
        complaints: &mut Complaints,
    ) -> Result<(), String> {
        self.inputs.clear();
        self.states.clear();
        let Some((number, deadline)) = request.take(now, &mut self.inputs, &mut self.states) else {
            return Ok(());
        };
        let id = self.new_id();
        let budget_us = u32::try_from((deadline - now).as_micros()).unwrap_or(u32::MAX);
        protocol::step(model, id, budget_us, &self.inputs, &self.states, &mut self.packet);
        match self.send(now) {
            Ok(()) => {
                self.sent.insert(id, Sent { request: Arc::clone(request), number, deadline });
            }
            Err(Trouble::NotNow) => complaints.say(&request.target.name, "the server does not read"),
            Err(Trouble::Over(errno)) => return Err(format!("cannot send: {}", errno.desc())),
        }
        Ok(())
    }

    /// Sends the packet that is ready.
    fn send(&mut self, now: Instant) -> Result<(), Trouble> {
        self.silent_since.get_or_insert(now);
        self.connection.send(&self.packet)
    }

    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}
