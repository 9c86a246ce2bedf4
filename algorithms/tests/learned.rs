//! Algorithms that a policy drives, as whole flows: a network written by hand does what its action says,
//! and no network whatever stalls a flow or floods its path.

mod support;

use anole_algorithms::policy::{Kind, Policies, PolicyError};
use anole_algorithms::{Build, FlowInfo, Shipped, build};
use anole_model::{Dur, Rate, Time};
use anole_policies::schema::{Signal, builtin};
use anole_policies::{Batch, Immediate, Model, Network, Schema, StepError};
use std::collections::BTreeMap;
use std::sync::Arc;
use support::{Path, World};

/// A network written by hand in the place of a trained one: `outputs` of the newest set of features.
#[derive(Debug)]
struct ByHand {
    schema: Schema,
    outputs: fn(&Schema, &[f32]) -> Vec<f32>,
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
struct Only(Arc<ByHand>);

impl Policies for Only {
    fn names(&self) -> Vec<String> {
        vec![self.0.schema.name.clone()]
    }

    fn find(&self, _name: &str) -> Result<Arc<dyn Model>, PolicyError> {
        Ok(Arc::new(Immediate(Arc::clone(&self.0) as Arc<dyn Network>)))
    }
}

fn by_hand(schema: &str, outputs: fn(&Schema, &[f32]) -> Vec<f32>) -> Arc<dyn Policies> {
    Arc::new(Only(Arc::new(ByHand { schema: builtin(schema).unwrap().clone(), outputs })))
}

/// Smoothed or mean over smallest round-trip time, from whichever feature has it.
fn rtt_ratio(schema: &Schema, input: &[f32]) -> f32 {
    let index = |numerator, per| {
        let found = |f: &anole_policies::schema::Feature| f.signal == numerator && f.per == Some(per);
        schema.features.iter().position(found)
    };
    if let Some(at) = index(Signal::RttMs, Signal::MinRttMs) {
        input[at] / schema.features[at].scale as f32
    } else {
        let at = index(Signal::MinRttMs, Signal::SrttMs).unwrap();
        1.0 / input[at].max(0.01)
    }
}
