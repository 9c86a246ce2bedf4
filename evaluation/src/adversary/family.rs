//! What a family of links is: the numbers that an adversary chooses, the scenario that they make, and how a run on it
//! is judged.
//!
//! Every score is a share of what has to be reached or may be allowed: larger is better, and below the family's floor
//! the target is missed. The targets are those of docs/adversary.md.

use super::axis::Axis;
use anole_sim::result::RunResult;
use anole_sim::scenario::Scenario;

/// A score says nothing more above this: loss or time next to none.
pub const BEST: f64 = 10.0;

/// A bounded family of scenarios.
pub struct Family {
    pub name: &'static str,
    /// One line: what the adversary may do.
    pub about: &'static str,
    pub axes: &'static [Axis],
    /// A score below this misses the target.
    pub floor: f64,
    /// What the score is.
    pub score: &'static str,
    /// The scenario, as the text of its file.
    pub text: fn(&[f64], &ScenarioHead) -> String,
    /// The score of a run.
    pub judge: fn(&Runs<'_>) -> f64,
}

impl Family {
    /// The values of genes, one for each axis.
    pub fn point(&self, genes: &[f64]) -> Vec<f64> {
        self.axes.iter().zip(genes).map(|(axis, &gene)| axis.value(gene)).collect()
    }
}

/// The runs of one scenario with one seed.
pub struct Runs<'a> {
    pub scenario: &'a Scenario,
    pub tested: &'a RunResult,
    /// Others on the same scenario, in the order of `--against`; the algorithm under test is not among them.
    pub references: Vec<&'a RunResult>,
}

impl Runs<'_> {
    /// The least of a figure over the references.
    pub fn least(&self, figure: impl Fn(&RunResult) -> f64) -> f64 {
        self.references.iter().map(|run| figure(run)).fold(f64::INFINITY, f64::min)
    }

    /// The figure of the first reference.
    pub fn first(&self, figure: impl Fn(&RunResult) -> f64) -> f64 {
        self.references.first().map_or(f64::NAN, |run| figure(run))
    }
}

/// Loss of the first link.
pub fn loss(run: &RunResult) -> f64 {
    run.links[0].loss_rate.unwrap_or(0.0)
}

/// Share of the first link's capacity that the flows under test and those beside them used.
pub fn utilization(run: &RunResult) -> f64 {
    run.links[0].utilization.unwrap_or(0.0)
}

/// `a` over `b`, at most [`BEST`].
pub fn ratio(a: f64, b: f64) -> f64 {
    if b <= 0.0 { BEST } else { (a / b).min(BEST) }
}

/// The parts of a scenario's text that are the same in every family.
pub struct ScenarioHead {
    pub name: String,
    /// First line, a comment; may be empty.
    pub comment: String,
    pub source: String,
    pub seed: u64,
    /// The algorithm under test and its policy.
    pub alg: String,
    pub policy: Option<String>,
}

impl ScenarioHead {
    /// Everything above the links.
    pub fn top(&self, duration_s: f64, warmup_s: f64) -> String {
        let ScenarioHead { name, comment, source, seed, .. } = self;
        let comment: String = comment.lines().map(|line| format!("# {line}\n")).collect();
        format!(
            "{comment}name = \"{name}\"\nsource = \"{source}\"\nduration_s = {}\nwarmup_s = {}\nseed = {seed}\n",
            float(duration_s),
            float(warmup_s)
        )
    }

    /// A flow under test, with further keys. The jitter is that of real hosts, without which flows march in step.
    pub fn flow(&self, keys: &[(&str, String)]) -> String {
        let policy = |policy: &String| format!("policy = {}\n", toml::Value::from(policy.as_str()));
        let policy = self.policy.as_ref().map(policy).unwrap_or_default();
        format!("\n[[flow]]\nalg = \"{}\"\n{policy}under_test = true\n{HOST_NOISE}{}", self.alg, lines(keys))
    }
}

/// What ACKs of simulated flows have of the noise of real hosts.
pub const HOST_NOISE: &str = "ack_jitter_us = 200.0\n";

/// A link named `name`, with these keys.
pub fn link(name: &str, keys: &[(&str, String)]) -> String {
    format!("\n[[link]]\nname = \"{name}\"\n{}", lines(keys))
}

/// A change, with these keys.
pub fn change(keys: &[(&str, String)]) -> String {
    format!("\n[[change]]\n{}", lines(keys))
}

fn lines(keys: &[(&str, String)]) -> String {
    keys.iter().map(|(key, value)| format!("{key} = {value}\n")).collect()
}

/// A number as TOML wants it of a float, without digits below 10⁻⁶.
pub fn float(value: f64) -> String {
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0');
    if text.ends_with('.') { format!("{text}0") } else { text.to_string() }
}

/// A whole number.
pub fn whole(value: f64) -> String {
    format!("{value:.0}")
}

/// Packets in a product of capacity and round-trip time.
pub fn bdp_packets(mbps: f64, one_way_ms: f64) -> f64 {
    mbps * 1e6 * 2.0 * one_way_ms / 1e3 / 8.0 / 1500.0
}

/// Packets of a buffer of so many of these products, one at least.
pub fn buffer(bdp: f64, mbps: f64, one_way_ms: f64) -> String {
    whole((bdp * bdp_packets(mbps, one_way_ms)).round().max(1.0))
}
