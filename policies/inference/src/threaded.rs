//! A model whose answers are computed on another thread: for agents, where the thread that serves
//! reports must not wait for a network.

use crate::queue::Queue;
use crate::slot::Slot;
use anole_model::Time;
use anole_policies::{Brain, Model, Schema};
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A thread that computes, and the queue in front of it. Dropped, it ends.
#[derive(Debug)]
pub struct Worker<T> {
    queue: Arc<Queue<T>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + Sync + 'static> Worker<T> {
    /// Runs `serve` on a thread of its own until the queue is closed: it returns then, and not before,
    /// and keeps in the given list what it has taken from the queue and not dealt with. Should it panic,
    /// that is logged, the list forgotten, and `serve` called again.
    pub fn start(
        serve: impl Fn(&Queue<T>, &mut Vec<Arc<Slot<T>>>) + Send + 'static,
    ) -> std::io::Result<Worker<T>> {
        let queue = Arc::new(Queue::new()?);
        let its = Arc::clone(&queue);
        let thread = std::thread::Builder::new().name("inference".to_string()).spawn(move || {
            let mut taken = Vec::new();
            while catch_unwind(AssertUnwindSafe(|| serve(&its, &mut taken))).is_err() {
                tracing::error!("the inference thread failed and starts again; flows go on without answers");
                taken.drain(..).for_each(|slot| slot.forget());
            }
        })?;
        Ok(Worker { queue, thread: Some(thread) })
    }
}

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

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

impl<T: Clone + Send + Sync + 'static> Model for Threaded<T> {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn brain(&self) -> Box<dyn Brain> {
        Box::new(ThreadedBrain {
            slot: Arc::new(Slot::new(self.target.clone(), &self.schema)),
            worker: Arc::clone(&self.worker),
            deadline: Time::ZERO,
            outputs: Vec::with_capacity(self.schema.outputs()),
        })
    }
}

struct ThreadedBrain<T> {
    slot: Arc<Slot<T>>,
    worker: Arc<Worker<T>>,
    /// Of the last question, on the clock of whoever asks.
    deadline: Time,
    outputs: Vec<f32>,
}

/// No question stays open for longer, whatever its deadline says.
const LONGEST: Duration = Duration::from_secs(60);

impl<T: Send + Sync> Brain for ThreadedBrain<T> {
    fn ask(&mut self, now: Time, deadline: Time, input: &[f32]) {
        self.deadline = deadline;
        let left = Duration::from_nanos(deadline.since(now).as_nanos()).min(LONGEST);
        if self.slot.ask(input, Instant::now() + left) {
            self.worker.queue.push(Arc::clone(&self.slot));
        }
    }

    fn poll(&mut self, now: Time) -> Option<&[f32]> {
        (now <= self.deadline && self.slot.poll(&mut self.outputs)).then_some(self.outputs.as_slice())
    }
}
