//! Policies whose answers take time: an inference in virtual time.

use anole_model::{Dur, Time};
use anole_policies::{Boosters, InferenceSession, Policies, Policy, PolicyError, Schema};
use std::sync::Arc;

/// The same policies, each answer so much later.
pub(crate) fn late(policies: &Arc<dyn Policies>, by: Dur) -> Arc<dyn Policies> {
    match by {
        Dur::ZERO => Arc::clone(policies),
        by => Arc::new(Late { inner: Arc::clone(policies), by }),
    }
}

#[derive(Debug)]
struct Late {
    inner: Arc<dyn Policies>,
    by: Dur,
}

impl Policies for Late {
    fn names(&self) -> Vec<String> {
        self.inner.names()
    }

    fn find(&self, name: &str) -> Result<Arc<dyn Policy>, PolicyError> {
        Ok(Arc::new(LatePolicy { inner: self.inner.find(name)?, by: self.by }))
    }

    fn boosters(&self, name: Option<&str>, width: usize) -> Result<Arc<Boosters>, PolicyError> {
        self.inner.boosters(name, width)
    }
}

#[derive(Debug)]
struct LatePolicy {
    inner: Arc<dyn Policy>,
    by: Dur,
}

impl Policy for LatePolicy {
    fn schema(&self) -> &Schema {
        self.inner.schema()
    }

    fn session(&self) -> Box<dyn InferenceSession> {
        let (inner, by) = (self.inner.session(), self.by);
        Box::new(LateSession { inner, by, ready: Time::ZERO, deadline: Time::MAX })
    }
}

struct LateSession {
    inner: Box<dyn InferenceSession>,
    by: Dur,
    ready: Time,
    deadline: Time,
}

impl InferenceSession for LateSession {
    fn ask(&mut self, now: Time, deadline: Time, input: &[f32]) {
        (self.ready, self.deadline) = (now + self.by, deadline);
        self.inner.ask(now, deadline, input);
    }

    fn poll(&mut self, now: Time) -> Option<&[f32]> {
        // An answer that comes too late leaves the recurrent state where it was.
        if now < self.ready || self.ready > self.deadline {
            return None;
        }
        self.inner.poll(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anole_policies::Shipped;

    #[test]
    fn an_answer_comes_when_it_is_ready_and_not_after_its_deadline() {
        let shipped: Arc<dyn Policies> = Arc::new(Shipped);
        let policy = late(&shipped, Dur::from_millis(2)).find("libra").unwrap();
        let (at, input) = (|ms: u64| Time::from_micros(ms * 1000), vec![0.0; policy.schema().inputs()]);
        let mut session = policy.session();
        session.ask(at(10), at(20), &input);
        assert!(session.poll(at(11)).is_none());
        assert!(session.poll(at(13)).is_some());
        assert!(session.poll(at(14)).is_none());
        session.ask(at(20), at(21), &input);
        assert!(session.poll(at(23)).is_none());
    }
}
