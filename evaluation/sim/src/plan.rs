//! Which algorithm each flow of a scenario runs, checked before anything is simulated.

use crate::scenario::{INITIAL_WINDOW_PACKETS, Places, Scenario};
use crate::streams::Stream;
use anole_algorithms::policy::{Policies, Shipped};
use anole_algorithms::{Algorithm, Build, BuildError, FlowInfo};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The flow has no agent: the datapath's own CUBIC governs it.
pub const NATIVE: &str = "native";

/// Name of the policy that is answered from outside the simulation.
pub const OUTSIDE: &str = "outside";

/// The parameter of learned algorithms that lets a rule take over after heavy loss.
const GUARD: &str = "guard";

/// The trained policies that come with the program, answering at once.
pub fn shipped() -> Arc<dyn Policies> {
    Arc::new(Shipped)
}

/// What the user asks of the flows under test; `None` leaves what the scenario says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Algorithm.
    pub alg: Option<String>,
    /// Rule slot.
    pub classic: Option<String>,
    /// Learned slot.
    pub policy: Option<String>,
}

/// Why a scenario cannot be simulated with these algorithms.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlowPlanError {
    /// An option about the flows under test, but there are none.
    #[error(
        "scenario \"{0}\" has no flow under test; add under_test = true to a [[flow]], or leave --alg, --classic, --policy and param. out"
    )]
    NothingUnderTest(String),
    /// An algorithm of a real transport.
    #[error("\"{0}\" is a real transport's own algorithm; it runs in `anole-eval emulate` only. Here, use the name without \"{prefix}:\"", prefix = .0.split(':').next().unwrap_or_default())]
    TransportOnly(String),
    /// The registry refused.
    #[error("{place}: {reason}")]
    Build {
        /// The flag, or the place in the scenario.
        place: String,
        /// What it says.
        reason: BuildError,
    },
}

/// The algorithm of one flow.
#[derive(Clone, Debug)]
pub struct FlowPlan {
    /// Its name, as in results.
    pub alg: String,
    build: Option<Build>,
}

impl FlowPlan {
    /// The same, with its policies found elsewhere. A policy that is answered from outside governs whatever
    /// it does: a rule that took over after heavy loss would earn rewards in its name.
    pub(crate) fn with_policies(mut self, policies: Arc<dyn Policies>) -> FlowPlan {
        let spec = anole_algorithms::find(&self.alg);
        let guarded = spec.is_ok_and(|spec| spec.parameters.iter().any(|p| p.name == GUARD));
        if let Some(build) = &mut self.build {
            build.policies = Arc::clone(&policies);
            if guarded && build.policy.as_deref() == Some(OUTSIDE) {
                build.params.entry(GUARD.to_string()).or_insert(0.0);
            }
        }
        self
    }

    /// A new instance; `None` for a flow that the datapath governs by itself.
    pub(crate) fn algorithm(&self, flow: FlowInfo) -> Option<Box<dyn Algorithm>> {
        let build = Build { flow, ..self.build.clone()? };
        anole_algorithms::build(&self.alg, &build).ok()
    }
}

/// Who named what the registry refuses: an option, or the scenario.
fn place(reason: &BuildError, choice: &Choice, places: &Places) -> String {
    let (flag, asked, place) = match reason {
        BuildError::UnknownAlgorithm { .. } => ("--alg", &choice.alg, &places.alg),
        BuildError::UnknownClassic { .. } => ("--classic", &choice.classic, &places.classic),
        BuildError::UnknownPolicy { .. } | BuildError::Policy(_) => {
            ("--policy", &choice.policy, &places.policy)
        }
        BuildError::Parameter(error) => return format!("--set param.{}", error.name()),
    };
    if asked.is_some() { flag.to_string() } else { place.clone() }
}

/// Chooses and checks the algorithm of every flow.
///
/// Trained policies are found in `policies`; see [`shipped`].
pub fn plan(
    scenario: &Scenario,
    choice: &Choice,
    policies: &Arc<dyn Policies>,
    seed: u64,
) -> Result<Vec<FlowPlan>, FlowPlanError> {
    let asked = *choice != Choice::default() || !scenario.params.is_empty();
    if asked && !scenario.flows.iter().any(|flow| flow.under_test) {
        return Err(FlowPlanError::NothingUnderTest(scenario.name.clone()));
    }
    let nothing = Choice::default();
    let plans = scenario.flows.iter().enumerate().map(|(index, flow)| {
        let choice = if flow.under_test { choice } else { &nothing };
        let alg = choice.alg.clone().unwrap_or_else(|| flow.alg.clone());
        if alg == NATIVE {
            return Ok(FlowPlan { alg, build: None });
        }
        if alg.starts_with("quic:") || alg.starts_with("linux:") {
            return Err(FlowPlanError::TransportOnly(alg));
        }
        let build = Build {
            flow: FlowInfo { mss: scenario.mss, init_cwnd: INITIAL_WINDOW_PACKETS * scenario.mss },
            classic: choice.classic.clone().or_else(|| flow.classic.clone()),
            policy: choice.policy.clone().or_else(|| flow.policy.clone()),
            policies: Arc::clone(policies),
            params: if flow.under_test { scenario.params.clone() } else { BTreeMap::new() },
            seed: Stream::Algorithm(index).seed(seed),
        };
        anole_algorithms::build(&alg, &build)
            .map_err(|reason| FlowPlanError::Build { place: place(&reason, choice, &flow.places), reason })?;
        Ok(FlowPlan { alg, build: Some(build) })
    });
    plans.collect()
}
