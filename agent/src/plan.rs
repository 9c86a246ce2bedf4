//! What the agent runs for which flow, settled before the first datagram.

use anole_algorithms::learned::{self, Policies, PolicyError};
use anole_algorithms::{
    Algorithm, Build, BuildError, FlowInfo, ParameterError, Preference, Selector, Slot, Slots, Spec,
};
use anole_model::seed::derive;
use anole_programs::Program;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Settings of the algorithms, checked and frozen.
#[derive(Clone)]
pub struct Plan {
    /// What flows may get.
    specs: Vec<Spec>,
    /// What they may not, and why.
    left_out: Vec<(&'static str, BuildError)>,
    default: Spec,
    /// The default is for every flow, whatever it asks for.
    forced: bool,
    /// What fills the default algorithm's slots; flows that ask for another get its own.
    slots: Slots,
    policies: Arc<dyn Policies>,
    /// The default algorithm's; another has its own defaults.
    params: BTreeMap<String, f64>,
    seed: u64,
}

/// What the user asked for.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// Algorithm of flows that ask for none.
    pub alg: String,
    /// It is for flows that ask for another as well.
    pub force_alg: bool,
    /// Its rule slot.
    pub classic: Option<String>,
    /// Its learned slot.
    pub policy: Option<String>,
    /// Its parameters.
    pub params: BTreeMap<String, f64>,
    /// Seed.
    pub seed: u64,
}

/// Which flag is wrong, and why.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A flag's value is refused by the algorithms.
    #[error("{flag}: {reason}")]
    Flag {
        /// The flag.
        flag: &'static str,
        /// The reason.
        reason: BuildError,
    },
    /// A parameter is refused.
    #[error("--param is for --alg {alg}: {reason}; anole-ccp algs lists parameters")]
    Parameter {
        /// The algorithm.
        alg: &'static str,
        /// The reason.
        reason: ParameterError,
    },
}

/// Which flag's value an algorithm refuses.
fn refused(alg: &'static str, reason: BuildError) -> PlanError {
    let flag = match reason {
        BuildError::Parameter(reason) => return PlanError::Parameter { alg, reason },
        BuildError::UnknownAlgorithm { .. } => "--alg",
        BuildError::UnknownClassic { .. } | BuildError::NoSlot { slot: Slot::Classic, .. } => "--classic",
        BuildError::UnknownPolicy { .. }
        | BuildError::Policy(_)
        | BuildError::NoSlot { slot: Slot::Policy, .. } => "--policy",
    };
    PlanError::Flag { flag, reason }
}

/// What a datapath asks for with `NAME`, `NAME:PREFERENCE` or `:PREFERENCE`: an algorithm, or none, and what the flow's
/// application prefers. A text with an unknown preference is the name of an algorithm that does not exist.
pub fn asked(text: &str) -> (&str, Preference) {
    let hint = text.split_once(':').and_then(|(name, preference)| Some((name, preference.parse().ok()?)));
    hint.unwrap_or((text, Preference::Default))
}

/// A flow for trial builds.
const TRIAL: FlowInfo = FlowInfo { mss: 1448, init_cwnd: 14_480 };

impl Plan {
    /// Checks a wish, by building every algorithm that a flow may get once. Trained policies are found in
    /// `policies`; an algorithm that has none that fits is left out, unless it is the default.
    pub fn new(specs: &[Spec], wish: Wish, policies: Arc<dyn Policies>) -> Result<Plan, PlanError> {
        let default = anole_algorithms::find(&wish.alg);
        let default = specs.iter().find(|spec| spec.name == wish.alg).copied().map_or(default.copied(), Ok);
        let default = default.map_err(|reason| PlanError::Flag { flag: "--alg", reason })?;
        let Wish { force_alg: forced, classic, policy, params, seed, .. } = wish;
        let slots = Slots { classic, policy };
        let (usable, left_out) = (Vec::new(), Vec::new());
        let mut plan = Plan { specs: usable, left_out, default, forced, slots, policies, params, seed };
        plan.check_policy()?;
        for spec in specs.iter().filter(|spec| !forced || spec.name == default.name) {
            match spec.build(&plan.parts(spec, TRIAL, 0)) {
                Ok(_) => plan.specs.push(*spec),
                Err(reason @ BuildError::Policy(_)) if spec.name != default.name => {
                    tracing::debug!(alg = spec.name, %reason, "not available to flows");
                    plan.left_out.push((spec.name, reason));
                }
                Err(reason) => return Err(refused(spec.name, reason)),
            }
        }
        if !plan.left_out.is_empty() {
            let algs: Vec<&str> = plan.left_out.iter().map(|(name, _)| *name).collect();
            tracing::info!(algs = algs.join(", "), "not available to flows: no policy that fits");
        }
        Ok(plan)
    }

    /// A policy that was asked for has to be there, whichever algorithm may use it.
    fn check_policy(&self) -> Result<(), PlanError> {
        let named = self.slots.policy.as_deref().filter(|name| !learned::names().contains(name));
        // Models of Antelope, which its trial build reads.
        let named = named.filter(|name| !name.ends_with(".json"));
        match named.map(|name| self.policies.find(name)) {
            Some(Err(PolicyError::Refused(reason))) => {
                Err(PlanError::Flag { flag: "--policy", reason: BuildError::Policy(reason) })
            }
            // An unknown name is refused with the nearest one, by whoever has a slot for it.
            _ => Ok(()),
        }
    }

    /// The algorithm for a flow that asks for `name`; an error says what the default stands in for.
    pub fn choose(&self, name: &str) -> Result<&Spec, (&Spec, BuildError)> {
        if name.is_empty() || self.forced {
            return Ok(&self.default);
        }
        if let Some(spec) = self.specs.iter().find(|spec| spec.name == name) {
            return Ok(spec);
        }
        let left_out = self.left_out.iter().find(|(left_out, _)| *left_out == name);
        let error = left_out.map(|(_, reason)| reason.clone()).or_else(|| anole_algorithms::find(name).err());
        let error = error.unwrap_or_else(|| BuildError::UnknownAlgorithm {
            name: name.to_string(),
            nearest: None,
            known: self.specs.iter().map(|spec| spec.name).collect(),
        });
        Err((&self.default, error))
    }

    /// The algorithm of flows that ask for none.
    pub fn default_name(&self) -> &'static str {
        self.default.name
    }

    /// Whether it is every flow's.
    pub fn is_forced(&self) -> bool {
        self.forced
    }

    /// An algorithm for the agent's `number`th flow; `first` is the law that Antelope begins with, where its address is known
    /// and no parameter says otherwise.
    pub fn build(
        &self,
        spec: &Spec,
        flow: FlowInfo,
        number: u64,
        first: Option<usize>,
    ) -> Result<Box<dyn Algorithm>, BuildError> {
        let mut parts = self.parts(spec, flow, number);
        if matches!(spec.name, "antelope" | "rein") {
            // Data units are told to whoever asks: the log and the prior do.
            parts.params.insert("log".to_string(), 1.0);
            if let Some(first) = first {
                let asked = parts.params.entry("first".to_string()).or_insert(-1.0);
                *asked = if *asked < 0.0 { first as f64 } else { *asked };
            }
        }
        spec.build(&parts)
    }

    /// What chooses for the agent's `number`th flow among laws that are not ours: those `offered`.
    pub fn selector(&self, number: u64, offered: &[usize]) -> Result<Selector, BuildError> {
        Selector::of(self.default.name, &self.parts(&self.default, TRIAL, number), offered)
    }

    fn parts(&self, spec: &Spec, flow: FlowInfo, number: u64) -> Build {
        let (slots, params) = match spec.name == self.default.name {
            true => (self.slots.clone(), self.params.clone()),
            false => Default::default(),
        };
        Build {
            flow,
            classic: slots.classic,
            policy: slots.policy,
            policies: Arc::clone(&self.policies),
            params,
            seed: derive(self.seed, number.wrapping_add(1)),
        }
    }

    /// Every program of every algorithm that a flow may get, once. Where one is forced, those of no other are: libccp's
    /// usual table holds nine.
    pub fn programs(&self) -> Vec<&'static Program> {
        let mut programs: Vec<&'static Program> =
            self.specs.iter().flat_map(|spec| spec.programs).copied().collect();
        programs.sort_by_key(|program| program.name);
        programs.dedup_by_key(|program| program.name);
        programs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datapath_may_ask_for_a_preference() {
        assert_eq!(asked("c-libra:la-1"), ("c-libra", Preference::La1));
        assert_eq!(asked(":th-2"), ("", Preference::Th2));
        assert_eq!(asked("cubic"), ("cubic", Preference::Default));
        assert_eq!(asked("cubic:fast"), ("cubic:fast", Preference::Default));
    }

    fn wish(alg: &str) -> Wish {
        Wish { alg: alg.to_string(), seed: 1, ..Wish::default() }
    }

    #[test]
    fn flows_have_seeds_of_their_own_and_the_same_ones_each_time() {
        let seed = |seed, number| {
            let wish = Wish { seed, ..wish("reno") };
            let plan = Plan::new(anole_algorithms::all(), wish, Arc::new(learned::Shipped)).unwrap();
            plan.parts(&plan.default, TRIAL, number).seed
        };
        let seeds = [seed(7, 3), seed(7, 4), seed(8, 3)];
        assert_eq!(seeds[0], seed(7, 3));
        assert!(seeds[0] != seeds[1] && seeds[0] != seeds[2], "{seeds:?}");
    }

    #[test]
    fn wrong_wishes_name_their_flag() {
        let specs = anole_algorithms::all();
        let error = |wish| Plan::new(specs, wish, Arc::new(learned::Shipped)).err().unwrap().to_string();
        assert!(error(wish("cubi")).starts_with("--alg: unknown algorithm \"cubi\"; did you mean cubic?"));
        // Reno has none of that name, and those who have are not meant.
        let params = BTreeMap::from([("beta".to_string(), 0.7)]);
        let refused = error(Wish { params, ..wish("reno") });
        assert!(refused.starts_with("--param is for --alg reno: unknown parameter \"beta\""), "{refused}");
        let policy = Some("libra".to_string());
        let refused = error(Wish { policy, ..wish("cubic") });
        assert!(
            refused.starts_with("--policy: cubic takes no policy (\"libra\"); leave it out"),
            "{refused}"
        );
        let classic = Some("reno".to_string());
        let refused = error(Wish { classic, ..wish("libra-rl") });
        assert!(refused.starts_with("--classic: libra-rl takes no rule-based candidate"), "{refused}");
    }

    #[test]
    fn the_defaults_policy_is_no_obstacle_to_other_algorithms() {
        // Orca needs a policy of another kind, and has its own.
        let wish = Wish { policy: Some("libra".to_string()), ..wish("anole") };
        let plan = Plan::new(anole_algorithms::all(), wish, Arc::new(learned::Shipped)).unwrap();
        for name in ["orca", "cubic", "anole"] {
            assert_eq!(plan.choose(name).ok().map(|spec| spec.name), Some(name));
        }
        let policy_of = |name: &str| plan.parts(plan.choose(name).ok().unwrap(), TRIAL, 0).policy;
        assert_eq!((policy_of("anole").as_deref(), policy_of("orca")), (Some("libra"), None));
    }

    #[test]
    fn parameters_are_the_default_algorithm_s() {
        // Each is out of the bounds of others that have one of this name.
        for (alg, name) in [("anole", "beta"), ("vegas", "beta"), ("c-libra", "alpha"), ("vivace", "c")] {
            let spec = anole_algorithms::find(alg).unwrap();
            let its = spec.parameters.iter().find(|parameter| parameter.name == name).unwrap();
            let params = BTreeMap::from([(name.to_string(), its.default)]);
            let wish = Wish { params, ..wish(alg) };
            let plan = Plan::new(anole_algorithms::all(), wish, Arc::new(learned::Shipped)).unwrap();
            let params_of = |name: &str| plan.parts(plan.choose(name).ok().unwrap(), TRIAL, 0).params;
            assert_eq!((params_of(alg).get(name), params_of("cubic").len()), (Some(&its.default), 0));
        }
    }

    /// What Antelope begins with is told by its first command alone: it is the same as with that parameter.
    #[test]
    fn what_is_known_of_an_address_is_used_unless_a_law_is_asked_for() {
        let begins = |asked: Option<f64>, known: Option<usize>| {
            let params = asked.map(|first| ("first".to_string(), first)).into_iter().collect();
            let wish = Wish { params, ..wish("antelope") };
            let plan = Plan::new(anole_algorithms::all(), wish, Arc::new(learned::Shipped)).unwrap();
            let mut algorithm = plan.build(&plan.default, TRIAL, 0, known).unwrap();
            let mut commands = anole_algorithms::Commands::default();
            algorithm.start(anole_model::Time::ZERO, &mut commands);
            format!("{commands:?}")
        };
        let (bbr, cubic) = (begins(Some(0.0), None), begins(Some(2.0), None));
        assert_ne!(bbr, cubic);
        assert_eq!(begins(None, Some(0)), bbr);
        assert_eq!(begins(Some(-1.0), Some(0)), bbr);
        assert_eq!(begins(Some(2.0), Some(0)), cubic);
    }

    #[test]
    fn whoever_asks_for_what_was_left_out_is_told_why() {
        // No policy of Aurora's is shipped.
        let plan = Plan::new(anole_algorithms::all(), wish("reno"), Arc::new(learned::Shipped)).unwrap();
        let (stand_in, error) = plan.choose("aurora").err().unwrap();
        assert_eq!(stand_in.name, "reno");
        assert!(matches!(&error, BuildError::Policy(reason) if reason.contains("aurora")), "{error}");
    }

    #[test]
    fn a_forced_algorithm_is_every_flow_s() {
        let chosen = |force_alg| {
            let plan = Plan::new(
                anole_algorithms::all(),
                Wish { force_alg, ..wish("anole") },
                Arc::new(learned::Shipped),
            );
            ["", "reno", "anole", "vivaldi"].map(|name| match plan.as_ref().unwrap().choose(name) {
                Ok(spec) | Err((spec, _)) => spec.name,
            })
        };
        let programs = |force_alg| {
            let wish = Wish { force_alg, ..wish("reno") };
            let plan = Plan::new(anole_algorithms::all(), wish, Arc::new(learned::Shipped)).unwrap();
            plan.programs().iter().map(|program| program.name).collect::<Vec<_>>()
        };
        assert_eq!(programs(true), ["reno"]);
        assert!(programs(false).len() > 5, "{:?}", programs(false));
        assert_eq!(chosen(false), ["anole", "reno", "anole", "anole"]);
        assert_eq!(chosen(true), ["anole"; 4]);
    }

    #[test]
    fn an_empty_or_unknown_name_gets_the_default() {
        let plan = Plan::new(anole_algorithms::all(), wish("reno"), Arc::new(learned::Shipped)).unwrap();
        assert_eq!(plan.choose("").ok().unwrap().name, "reno");
        let (stand_in, error) = plan.choose("renno").err().unwrap();
        assert_eq!(stand_in.name, "reno");
        assert!(error.to_string().contains("did you mean reno?"), "{error}");
    }
}
