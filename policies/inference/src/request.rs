//! Where a flow's question waits for its answer.
//!
//! A request is shared by the flow's [`InferenceSession`](anole_policies::InferenceSession) and the thread that
//! computes. Its lock is held to copy a few kilobytes at most, never while anything is computed, sent or received.
//!
//! ```text
//!            ask                 take                  answer                poll
//!   idle ─────────▶ questioned ─────────▶ computing ─────────▶ answered ─────────▶ idle
//! ```
//! A question asked meanwhile has the next number, and an answer to another number than the last is
//! dropped. The state moves on only when an answer is polled, so an answer that came too late leaves no
//! trace.

use anole_policies::{Schema, refuse_unfinite};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The request of one flow; `T` says what computes its answers.
#[derive(Debug)]
pub struct Request<T> {
    /// What computes.
    pub target: T,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Number and deadline of the last question.
    number: u64,
    deadline: Instant,
    /// Number and deadline of a question that nobody has taken yet.
    question: Option<(u64, Instant)>,
    input: Vec<f32>,
    /// The flow's state after the last answer that was polled.
    state: Vec<f32>,
    /// True while an answer to the last question waits in the two fields below.
    answered: bool,
    outputs: Vec<f32>,
    next_state: Vec<f32>,
}

impl<T> Request<T> {
    /// The request of a new flow: its state is zero.
    pub fn new(target: T, schema: &Schema) -> Request<T> {
        let inner = Inner {
            number: 0,
            deadline: Instant::now(),
            question: None,
            input: vec![0.0; schema.inputs()],
            state: vec![0.0; schema.state()],
            answered: false,
            outputs: vec![0.0; schema.outputs()],
            next_state: vec![0.0; schema.state()],
        };
        Request { target, inner: Mutex::new(inner) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics while it holds the lock; a poisoned one is as good.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a question; true when none was waiting, so that the request has to be queued. An input of the
    /// wrong width is no question, but ends the one before.
    pub fn ask(&self, input: &[f32], deadline: Instant) -> bool {
        let mut inner = self.inner();
        inner.number += 1;
        inner.deadline = deadline;
        inner.answered = false;
        if input.len() != inner.input.len() {
            return false;
        }
        inner.input.copy_from_slice(input);
        let number = inner.number;
        inner.question.replace((number, deadline)).is_none()
    }

    /// Takes the question unless its deadline has passed: appends input and state, and gives number and
    /// deadline.
    pub fn take(&self, now: Instant, inputs: &mut Vec<f32>, states: &mut Vec<f32>) -> Option<(u64, Instant)> {
        let mut inner = self.inner();
        let question = inner.question.take().filter(|(_, deadline)| now < *deadline)?;
        inputs.extend_from_slice(&inner.input);
        states.extend_from_slice(&inner.state);
        Some(question)
    }

    /// Nobody will take the question that waits, if there is one; the next one has to be queued.
    pub fn forget(&self) {
        self.inner().question = None;
    }

    /// The answer to question `number`, in time or not at all; its state may be refused.
    pub fn answer(&self, number: u64, outputs: &[f32], state: &[f32]) {
        let mut inner = self.inner();
        let fits = outputs.len() == inner.outputs.len() && state.len() == inner.state.len();
        if number != inner.number || !fits || Instant::now() > inner.deadline {
            return;
        }
        inner.outputs.copy_from_slice(outputs);
        inner.next_state.copy_from_slice(state);
        let Inner { state, next_state, outputs, answered, .. } = &mut *inner;
        refuse_unfinite(outputs, next_state, state);
        *answered = true;
    }

    /// Takes the answer to the last question, if there is one, and adopts its state.
    pub fn poll(&self, outputs: &mut Vec<f32>) -> bool {
        let mut inner = self.inner();
        if !std::mem::take(&mut inner.answered) {
            return false;
        }
        outputs.clear();
        outputs.extend_from_slice(&inner.outputs);
        let Inner { state, next_state, .. } = &mut *inner;
        std::mem::swap(state, next_state);
        true
    }
}
