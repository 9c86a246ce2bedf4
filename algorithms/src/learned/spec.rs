//! A policy's row in the registry, made of its schema.

use super::actuator::{Actuator, Hold, Orca, Parameters, Setting};
use super::algorithm::Learned;
use super::choice::{self, DEFAULT};
use super::delay_target::DelayTarget;
use super::fault::{Fault, FaultKind};
use super::flow_policy::{FlowPolicy, Trained};
use super::guard::Guard;
use super::report::Reader;
use crate::{Algorithm, Build, BuildError, Parameter, Program, Spec};
use anole_laws::params;
use anole_model::Dur;
use anole_policies::Schema;
use anole_policies::import::PEERS;
use anole_policies::schema::{Action, Interval, ParameterRange, StartupParameter};
use anole_programs::{orca, rate_hold};

/// Of every policy that runs a flow by itself.
const GUARD: Parameter = Parameter {
    name: "guard",
    default: 1.0,
    min: 0.0,
    max: 1.0,
    doc: "1: a rule takes over after heavy loss; 0: only after a timeout or without answers (for training).",
};
/// Of every policy that runs a flow by itself: 0 is no time.
const INTERVAL: Parameter = Parameter {
    name: "interval_ms",
    default: 0.0,
    min: 0.0,
    max: 1000.0,
    doc: "Time between two decisions, ms; 0: what the policy was trained with.",
};
/// Of policies that multiply CUBIC's window.
const REBASE: Parameter = Parameter {
    name: "rebase",
    default: 0.0,
    min: 0.0,
    max: 1.0,
    doc: "1: each action begins an epoch of CUBIC; 0: CUBIC's clock goes on, as in Linux.",
};

/// The algorithm that runs a flow by policies with this schema's kind of action, those with this schema by default.
/// The row lasts as long as the program.
pub fn spec(schema: &'static Schema) -> Spec {
    let mut parameters = vec![GUARD, INTERVAL];
    if matches!(schema.action, Action::CubicCwndExp { .. }) {
        parameters.push(REBASE);
    }
    parameters.extend(schema.algorithm.parameters.iter().map(|own| Parameter {
        name: &own.name,
        default: own.default,
        min: own.low,
        max: own.high,
        doc: &own.doc,
    }));
    let parameters: &'static [Parameter] = parameters.leak();
    // A schema names a program that there is; the building looks again.
    let programs: Vec<&'static Program> = programs(schema).into_iter().flatten().collect();
    Spec {
        name: &schema.name,
        kind: "learned",
        summary: &schema.summary,
        programs: programs.leak(),
        parameters,
        source: &schema.source,
        takes_classic: false,
        takes_policy: true,
        builder: Box::leak(Box::new(move |what: &Build| build(schema, parameters, what))),
    }
}

/// The program that an action acts through.
fn program(action: &Action) -> Option<&'static Program> {
    match action {
        Action::Parameters { program, .. } => anole_programs::find(program),
        Action::CubicCwndExp { .. } => Some(&orca::PROGRAM),
        _ => Some(&rate_hold::PROGRAM),
    }
}

/// The program, and the one that holds the rule's window beside a program that moves its own.
fn programs(schema: &Schema) -> [Option<&'static Program>; 2] {
    let held = matches!(schema.action, Action::Parameters { .. });
    [program(&schema.action), held.then_some(&rate_hold::PROGRAM)]
}

fn refuse(row: &Schema, reason: &str) -> BuildError {
    BuildError::Policy(format!("--alg {} {reason}", row.name))
}

fn build(row: &Schema, known: &[Parameter], what: &Build) -> Result<Box<dyn Algorithm>, BuildError> {
    params::check(known, &what.params)?;
    let value = |parameter: &Parameter| what.params.get(parameter.name).copied().unwrap_or(parameter.default);
    let (schema, policy) = find(row, what)?;
    let actuator: Box<dyn Actuator> = match &schema.action {
        Action::CubicCwndExp { .. } => Box::new(Orca::new(what.flow, value(&REBASE) > 0.5)),
        Action::Parameters { parameter, .. } => Box::new(parameters(row, &schema, parameter, what)?),
        _ => Box::new(Hold::new(what.flow)),
    };
    let guard = Guard::new(value(&GUARD) > 0.5);
    let interval = match value(&INTERVAL) {
        ms if ms > 0.0 => Interval { ms, rtts: 0.0 },
        _ => schema.interval,
    };
    let probe_after = row.algorithm.probe_rtt_s.map(Dur::from_secs_f64);
    Ok(Box::new(Learned::new(what.flow, interval, policy, actuator, guard, probe_after)))
}

/// The actuator of a policy that sets registers; its start-up is the row's.
fn parameters(
    row: &Schema,
    schema: &Schema,
    ranges: &[ParameterRange],
    what: &Build,
) -> Result<Parameters, BuildError> {
    let refuse = |why: String| refuse(row, &format!("can't run {}: {why}", schema.name));
    let Some(program) = program(&schema.action) else {
        return Err(refuse("its program is not part of this version".to_string()));
    };
    if let Some((register, needed_by)) = Reader::new(program).lacks(schema) {
        return Err(refuse(format!("{} reports no {register}, which {needed_by} needs", program.name)));
    }
    let setting = |range: &ParameterRange| match program.control(&range.name) {
        Some(register) => Ok(Setting { register, range: range.clone() }),
        None => Err(refuse(format!("{} has no register {}", program.name, range.name))),
    };
    let settings = ranges.iter().map(setting).collect::<Result<_, _>>()?;
    // Ranges of the registers that the row names: those of its own action.
    let own = |name: &str| match &row.action {
        Action::Parameters { parameter, .. } => parameter.iter().find(|range| range.name == name),
        _ => None,
    };
    let fixed = |(name, value): (&String, &f64)| Some((program.control(name)?, own(name)?.register(*value)));
    let mut startup: Vec<_> = row.algorithm.startup.iter().filter_map(fixed).collect();
    let given =
        |parameter: &StartupParameter| what.params.get(&parameter.name).copied().unwrap_or(parameter.default);
    startup.extend(row.algorithm.parameters.iter().filter_map(|own| fixed((&own.register, &given(own)))));
    Ok(Parameters::new(what.flow, program, settings, startup))
}

/// A policy of one flow with its schema.
type Found = Result<(Schema, Box<dyn FlowPolicy>), BuildError>;

/// The policy asked for, or the row's own; one with an action of another kind is refused.
fn find(row: &Schema, what: &Build) -> Found {
    let trained = |name: &str| choice::find(name, &*what.policies);
    let policy = match what.policy.as_deref() {
        Some(name) if name == DEFAULT => return by_hand(row),
        Some("none") => return Ok((row.clone(), Box::new(Fault::of(row, FaultKind::Absent, what.seed)))),
        Some(name) if name.starts_with("fault:") => {
            let kind = FaultKind::find(name).ok_or_else(|| choice::unknown(name, &*what.policies))?;
            return Ok((row.clone(), Box::new(Fault::of(row, kind, what.seed))));
        }
        Some(name) => trained(name)?,
        None => trained(&row.name).map_err(|error| match error {
            BuildError::UnknownPolicy { .. } => nowhere(row),
            error => error,
        })?,
    };
    let schema = policy.schema();
    if schema.action.kind() != row.action.kind()
        || named_program(&schema.action) != named_program(&row.action)
    {
        let ours = describe(&row.action);
        let theirs = describe(&schema.action);
        return Err(refuse(
            row,
            &format!("runs policies whose action is {ours}; that of {} is {theirs}", schema.name),
        ));
    }
    Ok((schema.clone(), Box::new(Trained::new(&*policy))))
}

/// The rule that proposes rates, where they are what the row's policies decide.
fn by_hand(row: &Schema) -> Found {
    match row.action {
        Action::RateExp { .. } | Action::RateStep { .. } => {
            Ok((row.clone(), Box::new(DelayTarget::default())))
        }
        _ => Err(refuse(row, &format!("needs a trained policy; {DEFAULT} is a rule that proposes rates"))),
    }
}

/// The row's own policy does not come with the program.
fn nowhere(row: &Schema) -> BuildError {
    match PEERS.iter().find(|peer| peer.schema == row.name) {
        Some(peer) => refuse(
            row,
            &format!("needs a policy file: make one with `anole-policy import {} FILE`", peer.name),
        ),
        None => refuse(
            row,
            &format!(
                "needs a policy file: none is shipped under the name {}; name one with --policy FILE",
                row.name
            ),
        ),
    }
}

fn named_program(action: &Action) -> Option<&str> {
    match action {
        Action::Parameters { program, .. } => Some(program),
        _ => None,
    }
}

fn describe(action: &Action) -> String {
    let of = named_program(action).map(|program| format!(" of {program}"));
    action.kind().to_string() + &of.unwrap_or_default()
}
