//! The thread that computes with a network of this process: embedded or LibTorch's.

use crate::complaints::Complaints;
use crate::request::Request;
use crate::worker::{Queue, Woken};
use anole_policies::{Batch, Network};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

/// Rows computed at once; more would keep the first ones waiting.
const MAX_ROWS: usize = 256;

/// Answers questions until the queue is closed: all that wait for the same network in one batch.
pub fn serve(queue: &Queue<Arc<dyn Network>>, taken: &mut Vec<Arc<Request<Arc<dyn Network>>>>) {
    let (mut rows, mut complaints) = (Rows::default(), Complaints::default());
    while queue.wait(taken, None, None) == Woken::Look {
        let identity = |request: &Arc<Request<Arc<dyn Network>>>| Arc::as_ptr(&request.target).cast::<()>();
        taken.sort_by_key(identity);
        for same in taken.chunk_by(|a, b| identity(a) == identity(b)) {
            for chunk in same.chunks(MAX_ROWS) {
                rows.answer(chunk, &mut complaints);
            }
        }
        taken.clear();
    }
}

/// A batch and the questions that it answers.
#[derive(Default)]
struct Rows {
    batch: Batch,
    /// Request, by its place in the chunk, and number of the question of each row.
    asked: Vec<(usize, u64)>,
}

impl Rows {
    /// Answers the questions of a chunk, all for the same network.
    fn answer(&mut self, chunk: &[Arc<Request<Arc<dyn Network>>>], complaints: &mut Complaints) {
        let Rows { batch, asked } = self;
        let Some(network) = chunk.first().map(|request| &request.target) else { return };
        batch.inputs.clear();
        batch.states.clear();
        asked.clear();
        for (index, request) in chunk.iter().enumerate() {
            let taken = request.take(Instant::now(), &mut batch.inputs, &mut batch.states);
            asked.extend(taken.map(|(number, _)| (index, number)));
        }
        if asked.is_empty() {
            return;
        }
        let (state, outputs) = (network.schema().state(), network.schema().outputs());
        batch.rows = asked.len();
        batch.outputs.clear();
        batch.outputs.resize(batch.rows * outputs, 0.0);
        match catch_unwind(AssertUnwindSafe(|| network.step(batch))) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return complaints.say(&network.schema().name, &error.to_string()),
            Err(_) => return complaints.say(&network.schema().name, "the network panicked"),
        }
        let fits = (batch.outputs.len(), batch.states.len()) == (batch.rows * outputs, batch.rows * state);
        if !fits {
            return complaints.say(&network.schema().name, "the network answered in the wrong shape");
        }
        for (row, &(index, number)) in asked.iter().enumerate() {
            let outputs = &batch.outputs[row * outputs..][..outputs];
            chunk[index].answer(number, outputs, &batch.states[row * state..][..state]);
        }
    }
}
