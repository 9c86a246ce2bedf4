//! Networks written by hand in the place of trained ones.
#![allow(dead_code, reason = "not every test needs it")]

use anole_algorithms::learned::{Policies, PolicyError};
use anole_policies::{Batch, Immediate, Network, Policy, Schema, StepError};
use std::sync::Arc;

/// A network that puts out `outputs` of the newest set of features.
#[derive(Debug)]
pub struct ByHand {
    pub schema: Schema,
    pub outputs: fn(&Schema, &[f32]) -> Vec<f32>,
}

impl Network for ByHand {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn step(&self, batch: &mut Batch) -> Result<(), StepError> {
        let newest = self.schema.inputs() - self.schema.features.len();
        batch.outputs = (self.outputs)(&self.schema, &batch.inputs[newest..]);
        Ok(())
    }
}

/// The only policy there is, under any name.
#[derive(Debug)]
pub struct Only(pub Arc<dyn Network>);

impl Policies for Only {
    fn names(&self) -> Vec<String> {
        vec![self.0.schema().name.clone()]
    }

    fn find(&self, _name: &str) -> Result<Arc<dyn Policy>, PolicyError> {
        Ok(Arc::new(Immediate(Arc::clone(&self.0))))
    }
}

/// That network as the only policy.
pub fn only(schema: &Schema, outputs: fn(&Schema, &[f32]) -> Vec<f32>) -> Arc<dyn Policies> {
    Arc::new(Only(Arc::new(ByHand { schema: schema.clone(), outputs })))
}
