//! What a scenario leaves to the seed about its flows: Poisson arrivals, and sizes.

use super::{Drawn, Scenario};
use crate::streams::Stream;
use anole_model::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::borrow::Cow;

impl Scenario {
    /// The scenario of the run with this seed: starts and sizes of flows are drawn. A flow may start after its
    /// stop then, and never does ([`FlowSpec::runs`](super::FlowSpec::runs)).
    pub fn drawn(&self, seed: u64) -> Cow<'_, Scenario> {
        if self.flows.iter().all(|flow| flow.drawn.is_none()) {
            return Cow::Borrowed(self);
        }
        let mut scenario = self.clone();
        let mut entry: Option<(Drawn, Pcg64Mcg, Time)> = None;
        for flow in &mut scenario.flows {
            let Some(drawn) = flow.drawn.take() else { continue };
            if entry.as_ref().is_none_or(|(known, ..)| known.first != drawn.first) {
                let rng = Pcg64Mcg::seed_from_u64(Stream::Flows(drawn.first).seed(seed));
                entry = Some((drawn, rng, flow.start));
            }
            let Some((_, rng, at)) = &mut entry else { continue };
            if let Some(per_s) = drawn.arrivals_per_s {
                let gap_s = -(1.0 - rng.random::<f64>()).ln() / per_s;
                *at = Time::from_secs_f64(at.as_secs_f64() + gap_s);
                flow.start = *at;
            }
            if let (Some(least), Some(most)) = (flow.bytes, drawn.bytes_up_to) {
                let ratio = most as f64 / least as f64;
                flow.bytes = Some((least as f64 * ratio.powf(rng.random::<f64>())).round() as u64);
            }
        }
        Cow::Owned(scenario)
    }
}
