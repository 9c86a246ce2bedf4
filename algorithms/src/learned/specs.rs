//! The algorithms by name: which policy, which action, which program.

use super::drive::Drive;
use super::fault::FaultBrain;
use super::hold::Hold;
use super::mind::Mind;
use super::orca::Orca;
use super::spine::{self, Spine};
use super::{Learned, Params};
use crate::policy::{self, DelayTarget, Kind};
use crate::{Algorithm, Build, BuildError, Spec};
use anole_policies::schema::{self, Action};
use anole_policies::{Brain, Schema};
use anole_programs::{orca, rate_hold, spine as spine_program};

/// What a name stands for.
struct Kin {
    name: &'static str,
    /// Its policy without `--policy`.
    policy: &'static str,
    /// Kind of action that it can put into effect.
    action: &'static str,
    /// Somebody else trains it: there is nothing to ship.
    imported: bool,
}

macro_rules! learned {
    ($($CONST:ident = $name:literal, $policy:literal, $action:literal, $imported:literal, $program:expr, $summary:literal, $source:literal;)*) => {
        $(
            pub(crate) const $CONST: Spec = Spec {
                name: $name,
                kind: "learned",
                summary: $summary,
                programs: &[&$program],
                parameters: Params::PARAMETERS,
                source: $source,
                build: |what| {
                    build(&Kin { name: $name, policy: $policy, action: $action, imported: $imported }, what)
                },
            };
        )*
    };
}

learned! {
    ASTRAEA = "astraea", "astraea", "cwnd-step", true, rate_hold::PROGRAM,
        "A fair policy's steps of the window, with a released model", "Astraea, EuroSys 2024";
    AURORA = "aurora", "aurora", "rate-step", true, rate_hold::PROGRAM,
        "A policy's steps of the rate, with a released model", "Jay et al., ICML 2019";
    INDIGO = "indigo", "indigo", "cwnd-table", true, rate_hold::PROGRAM,
        "A recurrent policy's choice among five changes of the window, with a released model", "Pantheon, USENIX ATC 2018";
    LIBRA_RL = "libra-rl", "libra", "rate-exp", false, rate_hold::PROGRAM,
        "Libra's policy alone, once per round trip: its learned candidate without the framework", "Libra, CoNEXT 2021, Sec. 4.2";
    ORCA = "orca", "orca", "cubic-cwnd-exp", false, orca::PROGRAM,
        "CUBIC per ACK, its window multiplied by a policy every 20 ms", "Orca, SIGCOMM 2020";
    SAGE = "sage", "sage", "cwnd-exp", false, rate_hold::PROGRAM,
        "A recurrent policy on the window, learned from what classic algorithms did", "Sage, SIGCOMM 2023";
    SPINE = "spine", "spine", "parameters", false, spine_program::PROGRAM,
        "A hierarchical policy tunes an executor in the datapath, and only when something changed", "Spine, CoNEXT 2022";
}

fn build(kin: &Kin, what: &Build) -> Result<Box<dyn Algorithm>, BuildError> {
    let params = Params::with(&what.params)?;
    let (schema, mind) = find(kin, what)?;
    let drive: Box<dyn Drive> = match kin.action {
        "cubic-cwnd-exp" => Box::new(Orca::new(what.flow, params.rebase > 0.5)),
        "parameters" => Box::new(Spine::new(what.flow, params.growth)),
        _ => Box::new(Hold::new(what.flow)?),
    };
    Ok(Box::new(Learned::new(what.flow, &schema, mind, drive, &params)))
}

/// The policy asked for, or the default one; one with an action of another kind is refused.
fn find(kin: &Kin, what: &Build) -> Result<(Schema, Mind), BuildError> {
    let refuse = |reason: String| Err(BuildError::Policy(format!("--alg {} {reason}", kin.name)));
    let (schema, brain) = match what.policy.as_deref() {
        Some(name) if name == policy::DEFAULT => {
            return match schema::builtin(kin.policy) {
                Some(schema) if matches!(schema.action, Action::RateExp { .. } | Action::RateStep { .. }) => {
                    Ok((schema.clone(), Mind::Rule(Box::new(DelayTarget::default()))))
                }
                _ => refuse(format!("needs a trained policy; {name} is a rule that proposes rates")),
            };
        }
        Some(name) if name == "none" || name.starts_with("fault:") => {
            let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name);
            if kind.is_none() && name != "none" {
                return Err(policy::unknown(name, &*what.policies));
            }
            let Some(schema) = schema::builtin(kin.policy) else {
                return refuse(format!("has no schema {}.toml that {name} could stand in for", kin.policy));
            };
            let brain: Box<dyn Brain> = Box::new(FaultBrain::new(kind, schema, what.seed));
            (schema.clone(), brain)
        }
        Some(name) => {
            let model = policy::find(name, &*what.policies)?;
            (model.schema().clone(), model.brain())
        }
        None => match policy::find(kin.policy, &*what.policies) {
            Ok(model) => (model.schema().clone(), model.brain()),
            Err(BuildError::UnknownPolicy { .. }) if kin.imported => {
                let name = kin.name;
                return refuse(format!(
                    "needs a policy file: make one with `anole-policy import {name} FILE`"
                ));
            }
            Err(BuildError::UnknownPolicy { .. }) => {
                return refuse(format!("needs a policy file: none is shipped under the name {}", kin.policy));
            }
            Err(error) => return Err(error),
        },
    };
    if schema.action.kind() != kin.action || !fits(&schema.action) {
        return refuse(format!(
            "runs policies whose action is {}; that of {} is {}",
            kin.action,
            schema.name,
            describe(&schema.action)
        ));
    }
    let action = schema.action.clone();
    Ok((schema, Mind::Network(brain, action)))
}

/// True unless the action sets parameters that the program has not.
fn fits(action: &Action) -> bool {
    match action {
        Action::Parameters { program, parameter } => {
            program == spine_program::PROGRAM.name
                && parameter.iter().map(|p| p.name.as_str()).eq(spine::PARAMETERS)
        }
        _ => true,
    }
}

fn describe(action: &Action) -> String {
    match action {
        Action::Parameters { program, parameter } => {
            let names: Vec<&str> = parameter.iter().map(|p| p.name.as_str()).collect();
            format!("parameters of {program} ({})", names.join(", "))
        }
        _ => action.kind().to_string(),
    }
}
