//! A policy whose answers are computed on another thread: for agents, where the thread that serves
//! reports must not wait for a network.

use crate::request::Request;
use crate::worker::Worker;
use anole_model::Time;
use anole_policies::{InferenceSession, Policy, Schema};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A policy whose flows ask a [`Worker`].
pub struct Threaded<T> {
    schema: Schema,
    target: T,
    worker: Arc<Worker<T>>,
}

impl<T> Threaded<T> {
    /// `target` computes, on `worker`.
    pub fn new(schema: Schema, target: T, worker: Arc<Worker<T>>) -> Threaded<T> {
        Threaded { schema, target, worker }
    }
}

impl<T> Debug for Threaded<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Threaded").field("schema", &self.schema.name).finish_non_exhaustive()
    }
}

impl<T: Clone + Send + Sync + 'static> Policy for Threaded<T> {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn session(&self) -> Box<dyn InferenceSession> {
        Box::new(ThreadedSession {
            request: Arc::new(Request::new(self.target.clone(), &self.schema)),
            worker: Arc::clone(&self.worker),
            outputs: Vec::with_capacity(self.schema.outputs()),
        })
    }
}

struct ThreadedSession<T> {
    request: Arc<Request<T>>,
    worker: Arc<Worker<T>>,
    outputs: Vec<f32>,
}

/// No question stays open for longer, whatever its deadline says.
const LONGEST: Duration = Duration::from_secs(60);

impl<T: Send + Sync + 'static> InferenceSession for ThreadedSession<T> {
    fn ask(&mut self, now: Time, deadline: Time, input: &[f32]) {
        let left = Duration::from_nanos(deadline.since(now).as_nanos()).min(LONGEST);
        if self.request.ask(input, Instant::now() + left) {
            self.worker.push(Arc::clone(&self.request));
        }
    }

    fn poll(&mut self, _: Time) -> Option<&[f32]> {
        self.request.poll(&mut self.outputs).then_some(self.outputs.as_slice())
    }
}
