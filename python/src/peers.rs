//! The policy of flows that compete with the one that is trained and are of its own kind.

use anole_policies::file::{Origin, Tensor, Tensors};
use anole_policies::{
    Embedded, Immediate, Network as _, Policies, Policy, PolicyError, PolicyFile, Schema, Shipped,
};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Its name in a scenario.
pub const PEER: &str = "peer";

/// All policies, and the newest of those that are being trained.
pub struct Peers {
    others: Arc<dyn Policies>,
    newest: Mutex<Arc<dyn Policy>>,
}

impl Peers {
    /// Before [`Peers::set`] a peer runs the shipped policy of this schema, or one whose weights are all zero.
    pub fn new(others: Arc<dyn Policies>, schema: &Schema) -> Result<Peers, PolicyError> {
        let shipped = Shipped::network(&schema.name).ok();
        let shipped = shipped.filter(|network| network.schema().text == schema.text);
        let first = shipped.map_or_else(|| zero(schema), |network| Ok(immediate(network)))?;
        Ok(Peers { others, newest: Mutex::new(first) })
    }

    /// New flows run the policy in this file, which has to have this schema.
    pub fn set(&self, bytes: &[u8], schema: &Schema) -> Result<(), PolicyError> {
        let file = PolicyFile::read(bytes, PEER)?;
        if file.schema.text != schema.text {
            return Err(PolicyError::Refused(format!(
                "the peer's schema is another {}; give a policy of the schema that is trained",
                file.schema.name
            )));
        }
        *lock(&self.newest) = immediate(Arc::new(Embedded::new(&file)?));
        Ok(())
    }
}

fn immediate(network: Arc<Embedded>) -> Arc<dyn Policy> {
    Arc::new(Immediate(network))
}

fn zero(schema: &Schema) -> Result<Arc<dyn Policy>, PolicyError> {
    let tensor = |shape: Vec<usize>| Tensor { values: vec![0.0; shape.iter().product()], shape };
    let tensors: Tensors = schema.tensors().into_iter().map(|(name, shape)| (name, tensor(shape))).collect();
    let file = PolicyFile::read(&PolicyFile::write(schema, Origin::default(), &tensors), PEER)?;
    Ok(immediate(Arc::new(Embedded::new(&file)?)))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peers").finish_non_exhaustive()
    }
}

impl Policies for Peers {
    fn names(&self) -> Vec<String> {
        self.others.names()
    }

    fn find(&self, name: &str) -> Result<Arc<dyn Policy>, PolicyError> {
        if name == PEER { Ok(Arc::clone(&lock(&self.newest))) } else { self.others.find(name) }
    }
}
