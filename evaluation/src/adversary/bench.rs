//! Runs cases: one scenario, the algorithms under test and the references, each once.

use super::family::{Family, Runs, ScenarioHead, loss, utilization};
use crate::options::usage;
use anole_algorithms::learned::Policies;
use anole_policies::is_file;
use anole_sim::AgentScript;
use anole_sim::plan::{Choice, FlowPlanError, plan};
use anole_sim::result::RunResult;
use anole_sim::scenario::Scenario;
use anyhow::{Context, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An algorithm with its policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contestant {
    pub label: String,
    pub choice: Choice,
}

impl Contestant {
    /// From `NAME` or `NAME+POLICY`.
    pub fn named(label: &str) -> Contestant {
        let (alg, policy) = match label.split_once('+') {
            Some((alg, policy)) => (alg, Some(policy.to_string())),
            None => (label, None),
        };
        let choice = Choice { alg: Some(alg.to_string()), classic: None, policy };
        Contestant { label: label.to_string(), choice }
    }

    /// The parts of a scenario file that this algorithm is to run, wherever the file will lie.
    pub fn head(&self, name: String, comment: String, source: String, seed: u64) -> ScenarioHead {
        let Choice { alg, policy, .. } = self.choice.clone();
        let policy = policy.map(|policy| match std::path::absolute(&policy) {
            Ok(file) if is_file(&policy) => file.display().to_string(),
            _ => policy,
        });
        ScenarioHead { name, comment, source, seed, alg: alg.unwrap_or_default(), policy }
    }
}

/// What one algorithm did on a case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CaseFigures {
    pub alg: String,
    pub utilization: f64,
    pub loss_rate: f64,
    pub queue_delay_mean_ms: Option<f64>,
    pub jain_index: Option<f64>,
    pub throughput_mbps: Option<f64>,
    pub fct_s: Option<f64>,
}

impl CaseFigures {
    /// Of the links, and of the last flow under test: the one that a family singles out.
    fn of(label: &str, scenario: &Scenario, run: &RunResult) -> CaseFigures {
        let last = scenario.flows.iter().rposition(|flow| flow.under_test).unwrap_or(0);
        let flow = &run.flows[last];
        CaseFigures {
            alg: label.to_string(),
            utilization: utilization(run),
            loss_rate: loss(run),
            queue_delay_mean_ms: run.links[0].queue_delay_mean_ms,
            jain_index: (run.flows.len() > 1).then_some(run.jain_index).flatten(),
            throughput_mbps: flow.throughput_mbps,
            fct_s: flow.fct_s,
        }
    }

    /// In one line.
    pub fn line(&self) -> String {
        let mut text = format!(
            "{}: used {:.0} %, lost {:.2} %",
            self.alg,
            100.0 * self.utilization,
            100.0 * self.loss_rate
        );
        let further = [
            ("queue", self.queue_delay_mean_ms, " ms"),
            ("Jain", self.jain_index, ""),
            ("last flow", self.throughput_mbps, " Mbps"),
            ("completed in", self.fct_s, " s"),
        ];
        for (name, figure, unit) in further {
            if let Some(figure) = figure {
                text += &format!(", {name} {figure:.2}{unit}");
            }
        }
        text
    }
}

/// The runs of one case.
pub struct Case {
    scenario: Scenario,
    runs: BTreeMap<String, RunResult>,
}

/// Runs cases.
pub struct Bench {
    pub policies: Arc<dyn Policies>,
    pub against: Vec<Contestant>,
    /// Cases that were run.
    pub cases: AtomicU64,
}

impl Bench {
    /// Runs the algorithms under test and the references on a scenario, each with its own candidates or its default ones:
    /// those that the scenario names are the candidates of whoever it was written for.
    pub fn run(&self, mut scenario: Scenario, seed: u64, tested: &[Contestant]) -> Result<Case> {
        self.cases.fetch_add(1, Ordering::Relaxed);
        for flow in scenario.flows.iter_mut().filter(|flow| flow.under_test) {
            (flow.classic, flow.policy) = (None, None);
        }
        let mut runs = BTreeMap::new();
        let tested = tested.iter().map(|contestant| ("--alg", contestant));
        let against = self.against.iter().map(|contestant| ("--against", contestant));
        for (flag, contestant) in tested.chain(against) {
            if !runs.contains_key(&contestant.label) {
                let plans = plan(&scenario, &contestant.choice, &self.policies, seed).map_err(|error| {
                    let reason = match error {
                        FlowPlanError::Build { reason, .. } => reason.to_string(),
                        other => other.to_string(),
                    };
                    usage(format!("{flag} {}: {reason}", contestant.label))
                })?;
                let run = anole_sim::run(&scenario, plans, seed, AgentScript::default(), &mut |_| ());
                runs.insert(contestant.label.clone(), run);
            }
        }
        Ok(Case { scenario, runs })
    }

    /// The score of an algorithm that was run on a case. An algorithm is no reference of its own where there is another.
    pub fn score(&self, family: &Family, case: &Case, tested: &Contestant) -> f64 {
        let others =
            self.against.iter().filter(|other| self.against.len() == 1 || other.label != tested.label);
        let references: Vec<&RunResult> = others.map(|other| &case.runs[&other.label]).collect();
        let score =
            (family.judge)(&Runs { scenario: &case.scenario, tested: &case.runs[&tested.label], references });
        if score.is_finite() { score.max(0.0) } else { 0.0 }
    }

    /// The score of one algorithm at one point of a family.
    pub fn score_at(&self, family: &Family, point: &[f64], seed: u64, tested: &Contestant) -> Result<f64> {
        let case = self.run(scenario(family, point, seed, tested)?, seed, std::slice::from_ref(tested))?;
        Ok(self.score(family, &case, tested))
    }

    /// What everyone did on a case, the algorithm under test first.
    pub fn figures(&self, case: &Case, tested: &Contestant) -> Vec<CaseFigures> {
        let others = self.against.iter().filter(|other| other.label != tested.label);
        let all = std::iter::once(tested).chain(others);
        all.map(|who| CaseFigures::of(&who.label, &case.scenario, &case.runs[&who.label])).collect()
    }
}

/// The scenario of a point, checked as a file is.
pub fn scenario(family: &Family, point: &[f64], seed: u64, tested: &Contestant) -> Result<Scenario> {
    let head = tested.head(family.name.to_string(), String::new(), String::new(), seed);
    let text = (family.text)(point, &head);
    parse(&text, family.name)
}

/// A scenario that needs no other file.
pub fn parse(text: &str, name: &str) -> Result<Scenario> {
    Scenario::parse(text, name, &[], &mut |_| Err("an adversary's scenario names no trace".to_string()))
        .with_context(|| format!("the scenario of {name} is not accepted:\n{text}"))
}

#[cfg(test)]
mod tests {
    use super::super::families::ALL;
    use super::*;

    #[test]
    fn a_policy_file_is_found_wherever_the_scenario_lies() {
        let here = std::path::absolute("my \"own\".json").unwrap().display().to_string();
        for (label, policy) in [("antelope+my \"own\".json", here.as_str()), ("anole+none", "none")] {
            let point: Vec<f64> = ALL[0].axes.iter().map(|axis| axis.plain).collect();
            let found = scenario(ALL[0], &point, 1, &Contestant::named(label)).unwrap();
            assert_eq!(found.flows[0].policy.as_deref(), Some(policy));
        }
    }
}
