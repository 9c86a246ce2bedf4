//! Who governs each flow of a scenario, checked before anything starts.

use super::DatapathKind;
use crate::options::{planned, usage};
use anole::{InProcess, Settings};
use anole_inference::{Backend, BackendSettings, Loader};
use anole_model::seed::derive;
use anole_sim::plan::{Choice, NATIVE, is_transports, resolve};
use anole_sim::result::Word;
use anole_sim::scenario::Scenario;
use anyhow::Result;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What an agent process is started with.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentSpec {
    pub datapath: DatapathKind,
    pub alg: String,
    pub classic: Option<String>,
    pub policy: Option<String>,
    pub params: BTreeMap<String, f64>,
    pub policies: BackendSettings,
}

/// The stack's own congestion controls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    Cubic,
    Bbr,
    NewReno,
}

/// Who governs one flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowGovernor {
    /// The agent with this index.
    Agent(usize),
    /// The algorithm in the transport's process, with the settings of this index.
    InProcess(usize),
    /// The datapath's native controller.
    Native,
    /// The QUIC stack.
    Stack(Stack),
    /// The kernel's TCP, with its congestion control of this name.
    Linux(String),
}

/// A scenario's flows with their governors.
#[derive(Clone, Debug)]
pub struct GovernedFlows {
    /// Algorithm of each flow, as in results.
    pub algs: Vec<String>,
    /// Governor of each flow.
    pub governors: Vec<FlowGovernor>,
    /// The agents that have to run: flows share one when they ask for the same options.
    pub agents: Vec<AgentSpec>,
    /// What flows without an agent are governed by.
    pub in_process: Vec<InProcess>,
    /// What runs trained policies, if a flow has one.
    pub backend: Option<Word>,
}

/// Chooses and checks the governor of every flow; `loader` stands in for that of the agents, which will
/// have the same settings.
pub fn govern(
    scenario: &Scenario,
    choice: &Choice,
    datapath: DatapathKind,
    loader: &Arc<Loader>,
    seed: u64,
) -> Result<GovernedFlows> {
    let resolved = resolve(scenario, choice).map_err(usage)?;
    if scenario.flows.iter().any(|flow| flow.app.is_some()) {
        return Err(usage(format!(
            "scenario \"{}\" has app_mbps, which only `anole-eval sim` knows: applications here have everything at once; leave it out",
            scenario.name
        )));
    }
    if scenario.flows.iter().any(|flow| !flow.preferences.is_empty()) {
        return Err(usage(format!(
            "scenario \"{}\" has preferences, which only `anole-eval sim` knows; leave them out, and tell the agent with `anole-ccp prefer`",
            scenario.name
        )));
    }
    if scenario.flows.iter().any(|flow| flow.ecn) {
        return Err(usage(format!(
            "scenario \"{}\" has ecn = true, which only `anole-eval sim` knows; leave it out",
            scenario.name
        )));
    }
    let algs: Vec<String> = resolved.iter().filter_map(|runs| runs.alg.clone()).collect();
    let backend = check_names(scenario, choice, &resolved, loader, seed)?;
    let mut agents: Vec<AgentSpec> = Vec::new();
    let mut in_process: Vec<InProcess> = Vec::new();
    let mut governors = Vec::new();
    for (flow, runs) in scenario.flows.iter().zip(&resolved) {
        let alg = runs.alg.as_deref().unwrap_or_default();
        let transport = alg.split_once(':');
        governors.push(match (transport, datapath) {
            (Some(("quic", name)), DatapathKind::Quic | DatapathKind::InProcess) => {
                FlowGovernor::Stack(stack(name)?)
            }
            (Some(("linux", name)), DatapathKind::Kernel) => FlowGovernor::Linux(name.to_string()),
            (Some(("quic", name)), DatapathKind::Kernel) => {
                return Err(usage(format!("{alg:?} needs --datapath quic; the kernel has \"linux:{name}\"")));
            }
            (Some(("quic", name)), DatapathKind::UserTcp) => {
                return Err(usage(format!("{alg:?} needs --datapath quic; use {name:?} or \"{NATIVE}\"")));
            }
            (Some(("linux", name)), _) => {
                return Err(usage(format!(
                    "{alg:?} needs --datapath kernel; use {name:?} or the stack's own \"quic:cubic\""
                )));
            }
            _ if alg == NATIVE && datapath == DatapathKind::Kernel => {
                return Err(usage(format!(
                    "{NATIVE:?} is the datapath without an agent, and the kernel's is loaded by the agent; use --datapath quic, or \"linux:cubic\""
                )));
            }
            _ if alg == NATIVE => FlowGovernor::Native,
            (_, DatapathKind::InProcess) => {
                let params = if flow.under_test { scenario.params.clone() } else { BTreeMap::new() };
                in_process.push(without_agent(alg, runs, params, loader, derive(seed, in_process.len() as u64))?);
                FlowGovernor::InProcess(in_process.len() - 1)
            }
            _ => {
                let spec = AgentSpec {
                    datapath,
                    alg: alg.to_string(),
                    classic: runs.classic.clone(),
                    policy: runs.policy.clone(),
                    params: if flow.under_test { scenario.params.clone() } else { BTreeMap::new() },
                    policies: loader.settings().clone(),
                };
                let known = agents.iter().position(|agent| *agent == spec);
                FlowGovernor::Agent(known.unwrap_or_else(|| {
                    agents.push(spec);
                    agents.len() - 1
                }))
            }
        });
    }
    Ok(GovernedFlows { algs, governors, agents, in_process, backend })
}

/// What a flow without an agent is governed by.
fn without_agent(
    alg: &str,
    runs: &Choice,
    params: BTreeMap<String, f64>,
    loader: &Loader,
    seed: u64,
) -> Result<InProcess> {
    if loader.settings().backend.is_some_and(|backend| backend != Backend::Embedded) {
        return Err(usage(
            "--backend goes with an agent; with --datapath in-process policies run as plain Rust in the process",
        ));
    }
    let (classic, policy) = (runs.classic.clone(), runs.policy.clone());
    let settings =
        Settings { algorithm: alg.to_string(), classic, policy, params, seed, ..Settings::default() };
    InProcess::new(settings).map_err(|error| usage(format!("--datapath in-process: {error}")))
}

/// Checks the names that the registry of algorithms knows; the transport's own stand in for nothing. What runs trained
/// policies, if a flow has one.
fn check_names(
    scenario: &Scenario,
    choice: &Choice,
    resolved: &[Choice],
    loader: &Arc<Loader>,
    seed: u64,
) -> Result<Option<Word>> {
    let mut ours = scenario.clone();
    for (flow, runs) in ours.flows.iter_mut().zip(resolved) {
        let alg = runs.alg.clone().unwrap_or_default();
        flow.alg = if is_transports(&alg) { NATIVE.to_string() } else { alg };
        (flow.classic, flow.policy) = (runs.classic.clone(), runs.policy.clone());
    }
    let choice = Choice { alg: None, ..choice.clone() };
    Ok(planned(&ours, &choice, loader, seed)?.1)
}

fn stack(name: &str) -> Result<Stack> {
    match name {
        "cubic" => Ok(Stack::Cubic),
        "bbr" => Ok(Stack::Bbr),
        "newreno" => Ok(Stack::NewReno),
        _ => Err(usage(format!(
            "the QUIC stack has no algorithm {name:?} of its own; it has quic:cubic, quic:bbr and quic:newreno"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = r#"
name = "two"
source = "test"
duration_s = 1.0
[[link]]
name = "bottleneck"
capacity_mbps = 10.0
one_way_delay_ms = 5.0
buffer_bdp = 1.0
[[flow]]
alg = "reno"
under_test = true
count = 2
[[flow]]
alg = "quic:cubic"
"#;

    fn scenario() -> Scenario {
        Scenario::parse(SCENARIO, "two.toml", &[], &mut |_| Err("no traces".into())).unwrap()
    }

    fn govern(scenario: &Scenario, choice: &Choice) -> Result<GovernedFlows> {
        govern_on(DatapathKind::Quic, scenario, choice)
    }

    fn govern_on(datapath: DatapathKind, scenario: &Scenario, choice: &Choice) -> Result<GovernedFlows> {
        let loader = Loader::new(BackendSettings::default(), anole_inference::Serving::Immediate).unwrap();
        super::govern(scenario, choice, datapath, &Arc::new(loader), 1)
    }

    fn choice(alg: Option<&str>) -> Choice {
        Choice { alg: alg.map(str::to_string), ..Choice::default() }
    }

    #[test]
    fn flows_with_the_same_options_share_an_agent() {
        let governed = govern(&scenario(), &choice(None)).unwrap();
        assert_eq!(governed.agents.len(), 1);
        assert_eq!(
            governed.governors,
            [FlowGovernor::Agent(0), FlowGovernor::Agent(0), FlowGovernor::Stack(Stack::Cubic)]
        );
    }

    #[test]
    fn the_choice_reaches_the_flows_under_test_alone() {
        let governed = govern(&scenario(), &choice(Some("quic:bbr"))).unwrap();
        assert_eq!(governed.algs, ["quic:bbr", "quic:bbr", "quic:cubic"]);
        assert!(governed.agents.is_empty());
        assert_eq!(govern(&scenario(), &choice(Some(NATIVE))).unwrap().governors[0], FlowGovernor::Native);
    }

    #[test]
    fn names_that_do_not_exist_here() {
        for (alg, hint) in
            [("renno", "reno"), ("quic:vegas", "quic:newreno"), ("linux:cubic", "--datapath kernel")]
        {
            let error = govern(&scenario(), &choice(Some(alg))).unwrap_err();
            assert!(error.is::<crate::options::UsageError>());
            assert!(error.to_string().contains(hint), "{error}");
        }
    }

    #[test]
    fn what_is_simulated_only_is_refused() {
        for (line, hint) in [
            ("ecn = true", "ecn = true"),
            ("app_mbps = 1.0", "app_mbps"),
            ("preference = \"th-1\"", "preferences"),
        ] {
            let text = SCENARIO.replacen("alg = \"reno\"", &format!("alg = \"reno\"\n{line}"), 1);
            let scenario = Scenario::parse(&text, "two.toml", &[], &mut |_| Err(String::new())).unwrap();
            let error = govern(&scenario, &choice(None)).unwrap_err().to_string();
            assert!(error.contains(hint) && error.contains("only `anole-eval sim` knows"), "{error}");
        }
    }

    #[test]
    fn the_kernel_has_algorithms_of_its_own() {
        let alone = SCENARIO.replace("alg = \"quic:cubic\"", "alg = \"linux:reno\"");
        let alone = Scenario::parse(&alone, "two.toml", &[], &mut |_| Err("no traces".into())).unwrap();
        let on_kernel = |alg| govern_on(DatapathKind::Kernel, &alone, &choice(alg));
        let governed = on_kernel(Some("linux:cubic")).unwrap();
        assert_eq!(
            governed.governors[1..],
            ["cubic", "reno"].map(|name| FlowGovernor::Linux(name.to_string()))
        );
        assert_eq!(on_kernel(None).unwrap().agents[0].datapath, DatapathKind::Kernel);
        for (alg, hint) in [("quic:bbr", "\"linux:bbr\""), (NATIVE, "linux:cubic")] {
            let error = on_kernel(Some(alg)).unwrap_err();
            assert!(error.is::<crate::options::UsageError>() && error.to_string().contains(hint), "{error}");
        }
    }
}
