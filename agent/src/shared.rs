//! What the endpoint below portus and the adapter above it tell each other.
//!
//! Both run in portus's one thread; portus asks for `Send` of the endpoint, hence the lock.

use crate::flow_key::FlowKey;
use anole_datapath::wire::AlgorithmName;
use anole_model::Time;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The agent's clock: time since its start.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Clock {
        Clock(Instant::now())
    }
    /// Time since the start.
    pub fn now(self) -> Time {
        Time::from_nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// State of endpoint and adapter together.
#[derive(Clone, Debug, Default)]
pub struct Shared(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// The flow of the CREATE that portus handles next, and the algorithm it asks for: portus tells an
    /// algorithm neither.
    asked: Option<(FlowKey, AlgorithmName)>,
    /// Flows whose algorithm panicked or could not be built; they belong to their datapath's fallback.
    failed: HashSet<FlowKey>,
    /// Why the agent has to end.
    refusal: Option<String>,
}

impl Shared {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics while it holds the lock; a poisoned one is as good.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// portus is about to see this flow's CREATE.
    pub fn asked(&self, flow: FlowKey, name: AlgorithmName) {
        self.inner().asked = Some((flow, name));
    }
    /// The flow that portus creates now and the algorithm that it asks for.
    pub fn take_asked(&self) -> Option<(FlowKey, AlgorithmName)> {
        self.inner().asked.take()
    }
    /// This flow has no algorithm any more.
    pub fn fail(&self, flow: FlowKey) {
        self.inner().failed.insert(flow);
    }
    /// Whether this flow has lost its algorithm.
    pub fn has_failed(&self, flow: FlowKey) -> bool {
        self.inner().failed.contains(&flow)
    }
    /// This flow is over.
    pub fn forget(&self, flow: FlowKey) {
        self.inner().failed.remove(&flow);
    }
    /// The agent has to end, and this is why.
    pub fn refuse(&self, why: String) {
        self.inner().refusal = Some(why);
    }
    /// Why the agent had to end.
    pub fn refusal(&self) -> Option<String> {
        self.inner().refusal.clone()
    }
}
