//! The floor: whatever stands in the learned slot, Anole is about as good as the better candidate alone.

use super::{LONG, LOSS, LTE, NORMAL, STEP};
use crate::reproduce::experiment::{
    Cell, Contender, Experiment, Figure, Packets, Results, Setting, Target, cells, mean,
};
use crate::reproduce::measure::{throughput, throughput_between, utility, utilization};
use crate::reproduce::picture::{Panel, PanelKind};
use anole_sim::result::RunResult;

/// Rule-based candidates, which are algorithms of the same name.
const RULES: [&str; 2] = ["cubic", "reno"];
/// Policies, and the algorithm that runs one by itself, if there is one.
const POLICIES: [(&str, Option<&str>); 10] = [
    ("fault:random", None),
    ("fault:low", None),
    ("fault:high", None),
    ("fault:stuck", None),
    ("fault:nan", None),
    ("fault:oscillate", None),
    ("fault:slow", None),
    ("fault:absent", None),
    ("libra", Some("libra-rl")),
    ("sage", Some("sage")),
];
/// The slot left empty.
const EMPTY: &str = "none";

/// A queue within the bound of Anole's utility: 1 + µ times the smallest round-trip time.
const QUEUE_BOUND: f64 = 1.2;
/// Throughput counts from here where a bad policy has been found out, s.
const LATER_S: f64 = 10.0;

fn floor_cells(tested: &Contender) -> Vec<Cell> {
    let settings = [
        Setting::new("normal", NORMAL).quick("duration_s=12"),
        Setting::new("loss", LOSS).quick("duration_s=12"),
        Setting::new("long", LONG).quick("duration_s=12"),
        Setting::new("shallow", NORMAL).set("bottleneck.buffer_bdp=0.2").quick("duration_s=12"),
        Setting::new("step", STEP).quick("duration_s=16"),
        Setting::new("lte", LTE).quick("duration_s=12"),
    ];
    let mut contenders: Vec<Contender> = RULES.map(Contender::peer).into();
    contenders.extend(POLICIES.iter().filter_map(|(_, alone)| alone.map(Contender::peer)));
    for rule in RULES {
        let policies = POLICIES.iter().map(|(policy, _)| *policy).chain([EMPTY]);
        contenders.extend(policies.map(|policy| tested.with(pair(rule, policy), Some(rule), Some(policy))));
    }
    cells(&settings, &contenders)
}

fn pair(rule: &str, policy: &str) -> String {
    format!("{rule} + {policy}")
}

/// A comparison: each run's figure as a share of that of another with the same seed, where it applies.
type Compare = fn(&Results, &str, &str, (&str, Option<&str>)) -> Option<Vec<f64>>;

/// Utility against the better candidate; below it by 5 % of its size is 95 %, whatever its sign.
fn utility_share(
    results: &Results,
    setting: &str,
    rule: &str,
    (policy, alone): (&str, Option<&str>),
) -> Option<Vec<f64>> {
    let candidates = [Some(rule), alone].into_iter().flatten();
    let utilities = candidates.map(|who| results.each(setting, who, utility));
    let better = utilities.max_by(|a, b| mean(a).total_cmp(&mean(b)))?;
    let size = mean(&better).abs();
    let ours = results.each(setting, &pair(rule, policy), utility);
    Some(ours.iter().zip(&better).map(|(ours, better)| 100.0 * (1.0 + (ours - better) / size)).collect())
}

/// Throughput against the rule alone, where that uses 90 % of the link within the queue bound.
fn throughput_share(
    results: &Results,
    setting: &str,
    rule: &str,
    (policy, _): (&str, Option<&str>),
) -> Option<Vec<f64>> {
    let used = mean(&results.each(setting, rule, utilization));
    let inflation = |run: &RunResult| {
        let flow = run.flows.first()?;
        let base = flow.series.rtt_ms.iter().flatten().copied().reduce(f64::min)?;
        Some(flow.rtt_mean_ms? / base)
    };
    let good = used >= 0.9 && mean(&results.each(setting, rule, inflation)) <= QUEUE_BOUND;
    let alone = results.each(setting, rule, throughput);
    let ours = results.each(setting, &pair(rule, policy), throughput);
    good.then(|| percent(&ours, &alone))
}

/// Throughput after 10 s against the same without a policy.
fn later_share(
    results: &Results,
    setting: &str,
    rule: &str,
    (policy, alone): (&str, Option<&str>),
) -> Option<Vec<f64>> {
    let later = |run: &RunResult| throughput_between(run, 0, [LATER_S, f64::MAX]);
    let without = results.each(setting, &pair(rule, EMPTY), later);
    let ours = results.each(setting, &pair(rule, policy), later);
    // A trained policy is not one that stays bad.
    alone.is_none().then(|| percent(&ours, &without))
}

/// Seed by seed.
fn percent(ours: &[f64], theirs: &[f64]) -> Vec<f64> {
    ours.iter().zip(theirs).map(|(ours, theirs)| 100.0 * ours / theirs).collect()
}

/// The worst policy in each setting, for a rule: where the mean share is lowest.
fn worst(results: &Results, what: &str, compare: Compare, least: f64) -> Vec<Figure> {
    let mut figures = Vec::new();
    for rule in RULES {
        for setting in results.settings() {
            let shares = POLICIES.iter().filter_map(|&(policy, alone)| {
                Some((policy, compare(results, setting, rule, (policy, alone))?))
            });
            let worst = shares.min_by(|(_, a), (_, b)| mean(a).total_cmp(&mean(b)));
            if let Some((policy, values)) = worst {
                let what = format!("{what}, {setting}, {rule}; worst: {policy}");
                figures.push(Figure::new(what, "", values, "%", Target::AtLeast(least)));
            }
        }
    }
    figures
}

pub const FLOOR: Experiment = Experiment {
    id: "anole-floor",
    title: "never worse than the better candidate, whatever the policy",
    about: "Deliberately bad policies and trained ones over each rule-based candidate. Utility is Eq. 1 over windows of \
            a second from 5 s on, against the better candidate alone (a faulty policy never runs alone); throughput is compared \
            with the rule alone where that uses 90 % of the link with a mean RTT of at most 1.2 times the smallest, and \
            after 10 s with Anole without a policy. Each line is the policy that does worst.",
    seeds: [10, 1],
    packets: Packets::Everyone,
    cells: floor_cells,
    figures: |results| {
        let mut figures = worst(results, "utility of the better candidate's", utility_share, 95.0);
        figures.extend(worst(results, "throughput of the rule's", throughput_share, 95.0));
        figures.extend(worst(results, "throughput after 10 s of that without a policy", later_share, 97.0));
        figures
    },
    plot: |results| {
        let policies: Vec<&str> = POLICIES.iter().map(|(policy, _)| *policy).chain([EMPTY]).collect();
        let short =
            policies.iter().map(|policy| policy.trim_start_matches("fault:").to_string()).collect::<Vec<_>>();
        let panel = |rule: &str| {
            let start =
                Panel::new(format!("over {rule}"), "", super::THROUGHPUT, PanelKind::Bars(short.clone()));
            let bars = |panel: Panel, setting: &str| {
                let bar = |(x, policy): (u32, &&str)| {
                    (f64::from(x), mean(&results.each(setting, &pair(rule, policy), throughput)))
                };
                panel.with(setting, (0u32..).zip(&policies).map(bar).collect())
            };
            results.settings().into_iter().fold(start, bars)
        };
        RULES.map(panel).into()
    },
};
