//! Which algorithm each flow of a scenario runs, checked before anything is simulated.

use crate::late::late;
use crate::scenario::{FlowSpec, INITIAL_WINDOW_PACKETS, Places, Scenario};
use crate::streams::Stream;
use anole_algorithms::learned::{Policies, Shipped};
use anole_algorithms::{Algorithm, Build, BuildError, FlowInfo, Preference, Program, Slot, Slots};
use anole_model::Time;
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
    #[error("{}{reason}", if place.is_empty() { String::new() } else { format!("{place}: ") })]
    Build {
        /// The flag, or the place in the scenario; empty of one that no file spells.
        place: String,
        /// What it says.
        reason: BuildError,
    },
    /// Parameters, but no flow under test has an algorithm that takes any.
    #[error(
        "param.{parameter}: {alg} takes no parameters; leave it out, or name one of `anole-ccp algs` with --alg"
    )]
    NoParameters {
        /// The algorithm of a flow under test.
        alg: String,
        /// A parameter that the scenario has.
        parameter: String,
    },
    /// Somebody's own algorithm has what it is made with, and nothing else.
    #[error("param.{parameter}: {alg} takes no policy, classic or params; make them attributes of the class")]
    Custom {
        /// Its name.
        alg: String,
        /// A parameter that the scenario has.
        parameter: String,
    },
}

/// An algorithm that is in no registry: somebody's own.
#[derive(Clone)]
pub struct Custom {
    /// Its name, as in results.
    pub name: String,
    /// The fold programs that it runs.
    pub programs: Vec<&'static Program>,
    /// Makes one for a flow; the number is the seed of all randomness inside.
    pub make: Arc<dyn Fn(FlowInfo, u64) -> Box<dyn Algorithm> + Send + Sync>,
}

impl Custom {
    /// Refuses a scenario with parameters.
    pub fn check(&self, scenario: &Scenario) -> Result<(), FlowPlanError> {
        match scenario.params.keys().next() {
            None => Ok(()),
            Some(parameter) => {
                Err(FlowPlanError::Custom { alg: self.name.clone(), parameter: parameter.clone() })
            }
        }
    }
}

impl std::fmt::Debug for Custom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Custom").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What decides over a flow.
#[derive(Clone, Debug)]
enum Runs {
    /// The datapath by itself.
    Native,
    /// An algorithm of the registry.
    Known(Build),
    /// Somebody's own, with its seed.
    Custom(Custom, u64),
}

/// The algorithm of one flow.
#[derive(Clone, Debug)]
pub struct FlowPlan {
    /// Its name, as in results.
    pub alg: String,
    runs: Runs,
    /// What the application prefers, from when on, in order of time.
    preferences: Vec<(Time, Preference)>,
}

impl FlowPlan {
    /// The same, with its policies found elsewhere. A policy that is answered from outside governs whatever
    /// it does: a rule that took over after heavy loss would earn rewards in its name.
    pub(crate) fn with_policies(mut self, policies: Arc<dyn Policies>) -> FlowPlan {
        let spec = anole_algorithms::find(&self.alg);
        let guarded = spec.is_ok_and(|spec| spec.parameters.iter().any(|p| p.name == GUARD));
        if let Runs::Known(build) = &mut self.runs {
            build.policies = Arc::clone(&policies);
            if guarded && build.policy.as_deref() == Some(OUTSIDE) {
                build.params.entry(GUARD.to_string()).or_insert(0.0);
            }
        }
        self
    }

    /// What the application prefers at `now`.
    pub(crate) fn preference(&self, now: Time) -> Option<Preference> {
        self.preferences.iter().rev().find(|&&(from, _)| from <= now).map(|&(_, preference)| preference)
    }

    /// A new instance; `None` for a flow that the datapath governs by itself.
    pub(crate) fn algorithm(&self, flow: FlowInfo) -> Option<Box<dyn Algorithm>> {
        match &self.runs {
            Runs::Native => None,
            Runs::Known(build) => anole_algorithms::build(&self.alg, &Build { flow, ..build.clone() }).ok(),
            Runs::Custom(custom, seed) => Some((custom.make)(flow, *seed)),
        }
    }

    /// Fold programs that it runs beside the shipped ones.
    pub(crate) fn programs(&self) -> &[&'static Program] {
        match &self.runs {
            Runs::Custom(custom, _) => &custom.programs,
            _ => &[],
        }
    }
}

/// Who named what the registry refuses: an option, or the scenario.
fn place(reason: &BuildError, alg: &str, choice: &Choice, places: &Places) -> String {
    let (flag, asked, place) = match reason {
        BuildError::UnknownAlgorithm { .. } => ("--alg", &choice.alg, &places.alg),
        BuildError::UnknownClassic { .. } | BuildError::NoSlot { slot: Slot::Classic, .. } => {
            ("--classic", &choice.classic, &places.classic)
        }
        BuildError::UnknownPolicy { .. }
        | BuildError::Policy(_)
        | BuildError::NoSlot { slot: Slot::Policy, .. } => ("--policy", &choice.policy, &places.policy),
        BuildError::Parameter(error) => {
            return format!("param.{} of {alg} (see `anole-ccp algs`)", error.name());
        }
    };
    if asked.is_some() { flag.to_string() } else { place.clone() }
}

/// What each flow runs: what the scenario says, and the user's choice for the flows under test. A flag is left out
/// where the algorithm takes none, if another flow's does; what a scenario says of its own algorithm is left out with
/// another one of the user's, and what `--set` says where that takes none.
pub fn resolve(scenario: &Scenario, choice: &Choice) -> Result<Vec<Choice>, FlowPlanError> {
    let asked = *choice != Choice::default() || !scenario.params.is_empty();
    if asked && !scenario.flows.iter().any(|flow| flow.under_test) {
        return Err(FlowPlanError::NothingUnderTest(scenario.name.clone()));
    }
    let nothing = Choice::default();
    let asked = |under_test: bool| if under_test { choice } else { &nothing };
    let alg = |flow: &FlowSpec| asked(flow.under_test).alg.clone().unwrap_or_else(|| flow.alg.clone());
    let algs: Vec<String> = scenario.flows.iter().map(alg).collect();
    let tested =
        scenario.flows.iter().zip(&algs).filter(|(flow, _)| flow.under_test).map(|(_, alg)| alg.as_str());
    if let Some(parameter) = scenario.params.keys().next()
        && let Some(alg) = tested.clone().next()
        && tested.clone().all(|alg| alg == NATIVE || is_transports(alg))
    {
        return Err(FlowPlanError::NoParameters { alg: alg.to_string(), parameter: parameter.clone() });
    }
    let flags = Slots { classic: choice.classic.clone(), policy: choice.policy.clone() };
    let mut flags = flags.of_each(tested).into_iter();
    let resolved = scenario.flows.iter().zip(&algs).map(|(flow, alg)| {
        let given = if flow.under_test { flags.next().unwrap_or_default() } else { Slots::default() };
        let own = Slots { classic: flow.classic.clone(), policy: flow.policy.clone() };
        let own = if *alg == flow.alg { own } else { set_slots(flow).of(alg) };
        let slots = Slots { classic: given.classic.or(own.classic), policy: given.policy.or(own.policy) };
        slots.check(alg).map_err(|reason| FlowPlanError::Build {
            place: place(&reason, alg, asked(flow.under_test), &flow.places),
            reason,
        })?;
        Ok(Choice { alg: Some(alg.clone()), classic: slots.classic, policy: slots.policy })
    });
    resolved.collect()
}

/// The algorithm is a real transport's own.
pub fn is_transports(alg: &str) -> bool {
    alg.starts_with("quic:") || alg.starts_with("linux:")
}

/// What `--set` says of a flow's slots.
fn set_slots(flow: &FlowSpec) -> Slots {
    let [classic, policy] = flow.places.slots_set;
    Slots {
        classic: flow.classic.clone().filter(|_| classic),
        policy: flow.policy.clone().filter(|_| policy),
    }
}

/// The seed of a flow's algorithm in the run with this seed.
pub fn algorithm_seed(run: u64, flow: usize) -> u64 {
    Stream::Algorithm(flow).seed(run)
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
    let nothing = Choice::default();
    let resolved = resolve(scenario, choice)?;
    let policies = late(policies, scenario.inference);
    let plans = scenario.flows.iter().zip(resolved).enumerate().map(|(index, (flow, runs))| {
        let Choice { alg, classic, policy } = runs;
        let alg = alg.unwrap_or_default();
        if alg == NATIVE {
            return Ok(FlowPlan { alg, runs: Runs::Native, preferences: Vec::new() });
        }
        if is_transports(&alg) {
            return Err(FlowPlanError::TransportOnly(alg));
        }
        let build = Build {
            flow: FlowInfo { mss: scenario.mss, init_cwnd: INITIAL_WINDOW_PACKETS * scenario.mss },
            classic,
            policy,
            policies: Arc::clone(&policies),
            params: if flow.under_test { scenario.params.clone() } else { BTreeMap::new() },
            seed: algorithm_seed(seed, index),
        };
        let choice = if flow.under_test { choice } else { &nothing };
        anole_algorithms::build(&alg, &build).map_err(|reason| FlowPlanError::Build {
            place: place(&reason, &alg, choice, &flow.places),
            reason,
        })?;
        Ok(FlowPlan { alg, runs: Runs::Known(build), preferences: flow.preferences.clone() })
    });
    plans.collect()
}

/// The same with somebody's own algorithm in the flows under test.
pub fn plan_custom(
    scenario: &Scenario,
    custom: &Custom,
    policies: &Arc<dyn Policies>,
    seed: u64,
) -> Result<Vec<FlowPlan>, FlowPlanError> {
    custom.check(scenario)?;
    let native = Choice { alg: Some(NATIVE.to_string()), ..Choice::default() };
    let plans = plan(scenario, &native, policies, seed)?;
    let flows =
        scenario.flows.iter().zip(plans).enumerate().map(|(index, (flow, plan))| match flow.under_test {
            true => FlowPlan {
                alg: custom.name.clone(),
                runs: Runs::Custom(custom.clone(), algorithm_seed(seed, index)),
                preferences: flow.preferences.clone(),
            },
            false => plan,
        });
    Ok(flows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"
name = "two"
duration_s = 1.0
[[link]]
name = "b"
capacity_mbps = 10.0
one_way_delay_ms = 5.0
buffer_bdp = 1.0
[[flow]]
alg = "anole"
policy = "none"
under_test = true
[[flow]]
alg = "cubic"
under_test = true
"#;

    fn scenario(text: &str) -> Scenario {
        Scenario::parse(text, "two.toml", &[], &mut |_| Err(String::new())).unwrap()
    }

    fn choice(alg: Option<&str>, classic: Option<&str>, policy: Option<&str>) -> Choice {
        let owned = |text: Option<&str>| text.map(String::from);
        Choice { alg: owned(alg), classic: owned(classic), policy: owned(policy) }
    }

    fn refusal(text: &str, choice: &Choice) -> String {
        plan(&scenario(text), choice, &shipped(), 1).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_flag_goes_to_the_flows_that_take_it_and_one_has_to() {
        let resolved = resolve(&scenario(TWO), &choice(None, Some("reno"), Some("libra"))).unwrap();
        let anole = choice(Some("anole"), Some("reno"), Some("libra"));
        assert_eq!(resolved, [anole, choice(Some("cubic"), None, None)]);
        let refused = refusal(TWO, &choice(Some("cubic"), None, Some("libra")));
        assert!(
            refused.starts_with("--policy: cubic takes no policy (\"libra\"); leave it out, or run"),
            "{refused}"
        );
        let refused = refusal(TWO, &choice(Some("bbr"), Some("reno"), None));
        assert!(refused.starts_with("--classic: bbr takes no rule-based candidate"), "{refused}");
        assert!(
            refusal(TWO, &choice(Some("native"), None, Some("libra")))
                .starts_with("--policy: native takes no")
        );
    }

    #[test]
    fn parameters_that_nobody_takes_are_refused() {
        let mut scenario = scenario(TWO);
        scenario.params.insert("no_such".to_string(), 7.0);
        let refusal =
            |alg| resolve(&scenario, &choice(Some(alg), None, None)).err().map(|error| error.to_string());
        for alg in ["native", "quic:cubic", "linux:cubic"] {
            let refused = refusal(alg).unwrap();
            assert!(refused.starts_with(&format!("param.no_such: {alg} takes no parameters;")), "{refused}");
        }
        // What the registry knows it tells by itself.
        assert_eq!(refusal("cubic"), None);
    }

    #[test]
    fn what_the_scenario_says_of_its_own_algorithm_is_not_said_of_another() {
        assert_eq!(refusal(TWO, &choice(Some("cubic"), None, None)), "");
        let first = |set: &[&str], alg: Option<&str>| {
            let set: Vec<String> = set.iter().map(|option| option.to_string()).collect();
            let scenario = Scenario::parse(TWO, "two.toml", &set, &mut |_| Err(String::new())).unwrap();
            resolve(&scenario, &choice(alg, None, None)).unwrap().remove(0)
        };
        assert_eq!(first(&[], None), choice(Some("anole"), None, Some("none")));
        assert_eq!(first(&[], Some("anole")), choice(Some("anole"), None, Some("none")));
        assert_eq!(first(&[], Some("orca")), choice(Some("orca"), None, None));
        // What the user sets is for whichever takes it.
        let set = ["flow.1.policy=sage"];
        assert_eq!(first(&set, Some("orca")), choice(Some("orca"), None, Some("sage")));
        assert_eq!(first(&set, Some("cubic")), choice(Some("cubic"), None, None));
        let wrong = TWO.replace("alg = \"cubic\"", "alg = \"cubic\"\nclassic = \"reno\"");
        let refused = refusal(&wrong, &Choice::default());
        assert!(
            refused.starts_with("two.toml:15") && refused.contains("cubic takes no rule-based"),
            "{refused}"
        );
    }
}
