//! What flows are governed by.

use anole_algorithms::{Algorithm, Build, BuildError, FlowInfo, Spec, find};
use anole_model::Bounds;
use anole_model::seed::derive;
use anole_policies::Shipped;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Choices, as of the agent's command line.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The algorithm's name, of `anole-ccp algs`.
    pub algorithm: String,
    /// Its rule-based candidate, if it has one; `None` for the default.
    pub classic: Option<String>,
    /// Its policy, if it takes one: a shipped one or `none`; `None` for the default.
    pub policy: Option<String>,
    /// Parameters that differ from their defaults.
    pub params: BTreeMap<String, f64>,
    /// What no decision may exceed.
    pub bounds: Bounds,
    /// Seed of all randomness inside; each flow derives its own.
    pub seed: u64,
}

impl Default for Settings {
    /// Anole as the agent runs it.
    fn default() -> Settings {
        Settings {
            algorithm: "anole".to_string(),
            classic: None,
            policy: None,
            params: BTreeMap::new(),
            bounds: Bounds::DEFAULT,
            seed: 1,
        }
    }
}

/// Checked settings, from which flows are started. A clone is the same: it continues the flows' numbers.
#[derive(Clone)]
pub struct InProcess(Arc<Checked>);

struct Checked {
    settings: Settings,
    spec: &'static Spec,
    flows: AtomicU64,
}

impl InProcess {
    /// Refuses what no flow could be started with.
    pub fn new(settings: Settings) -> Result<InProcess, BuildError> {
        let checked = Checked { spec: find(&settings.algorithm)?, settings, flows: AtomicU64::new(0) };
        checked.algorithm(FlowInfo { mss: 1448, init_cwnd: 14_480 }, 0)?;
        Ok(InProcess(Arc::new(checked)))
    }

    /// The algorithm's name.
    pub fn algorithm(&self) -> &'static str {
        self.0.spec.name
    }

    pub(crate) fn bounds(&self) -> Bounds {
        self.0.settings.bounds
    }

    /// The algorithm for a flow, or for one that begins anew.
    pub(crate) fn build(&self, flow: FlowInfo) -> Option<Box<dyn Algorithm>> {
        let number = self.0.flows.fetch_add(1, Relaxed);
        // What can be refused was refused above.
        self.0.algorithm(flow, number).ok()
    }
}

impl Checked {
    fn algorithm(&self, flow: FlowInfo, number: u64) -> Result<Box<dyn Algorithm>, BuildError> {
        let settings = &self.settings;
        self.spec.build(&Build {
            flow,
            classic: settings.classic.clone(),
            policy: settings.policy.clone(),
            policies: Arc::new(Shipped),
            params: settings.params.clone(),
            seed: derive(settings.seed, number.wrapping_add(1)),
        })
    }
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InProcess").field(&self.0.settings).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_flow_could_be_started_with_is_refused() {
        let refused = |settings| InProcess::new(settings).unwrap_err().to_string();
        let odd = Settings { algorithm: "anol".to_string(), ..Settings::default() };
        assert_eq!(refused(odd), "unknown algorithm \"anol\"; did you mean anole?");
        let odd = Settings { policy: Some("no-such".to_string()), ..Settings::default() };
        assert!(refused(odd).starts_with("unknown policy \"no-such\""));
        let odd = Settings { params: BTreeMap::from([("no_such".to_string(), 1.0)]), ..Settings::default() };
        assert!(refused(odd).contains("no_such"));
        assert_eq!(InProcess::new(Settings::default()).unwrap().algorithm(), "anole");
    }
}
