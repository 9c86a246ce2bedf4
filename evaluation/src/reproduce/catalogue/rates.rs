//! Whose rate is in force, and how often a policy is asked: Figures 11 and 12 of Anole.

use super::{NORMAL, figure_5_links};
use crate::reproduce::experiment::{
    Contender, Experiment, Figure, Packets, Results, Setting, TESTED, Target, cells, mean,
};
use crate::reproduce::measure::inferences_per_s;
use crate::reproduce::picture::{Panel, PanelKind};
use anole_algorithms::Shares;
use anole_sim::result::RunResult;

/// Settings, and the paper's shares of the rule-based, the learned and the inferred rate.
const SETTINGS: [(&str, [&str; 3]); 3] = [
    ("normal", ["36 %", "62 %", "2 %"]),
    ("loss", ["7 %", "80 %", "13 %"]),
    ("long", ["35 %", "23 %", "40 %"]),
];

/// A kind of rate, and its share.
type ShareOf = (&'static str, fn(&Shares) -> f64);

const KINDS: [ShareOf; 4] = [
    ("rule-based", |share| share.rule),
    ("learned", |share| share.learned),
    ("inferred", |share| share.inferred),
    ("the one before", |share| share.previous),
];

fn percent(results: &Results, setting: &str, of: fn(&Shares) -> f64) -> Vec<f64> {
    results.each(setting, TESTED, |run| Some(100.0 * of(run.flows.first()?.applied.as_ref()?)))
}

pub const FIG11: Experiment = Experiment {
    id: "anole-fig11",
    title: "share of time of each kind of rate",
    about: "Anole, Fig. 11, 100 runs in each setting. The shares depend on the policy (the paper's is Sage) and are no aim \
            in themselves. A cycle that could not tell keeps the rate before, which the paper does not count.",
    seeds: [100, 2],
    packets: Packets::Tested,
    cells: |tested| cells(&figure_5_links(), std::slice::from_ref(tested)),
    figures: |results| {
        let mut figures = Vec::new();
        for (setting, paper) in SETTINGS {
            for (number, (kind, of)) in KINDS.into_iter().enumerate() {
                let paper = paper.get(number).copied().unwrap_or_default();
                let values = percent(results, setting, of);
                figures.push(Figure::new(format!("{kind}, {setting}"), paper, values, "%", Target::None));
            }
        }
        figures
    },
    plot: |results| {
        let categories = SETTINGS.map(|(setting, _)| setting.to_string()).to_vec();
        let start = Panel::new("Rates in force", "", "share of time (%)", PanelKind::Bars(categories));
        let bars = |panel: Panel, (kind, of): ShareOf| {
            let bar = |(x, (setting, _)): (u32, (&str, [&str; 3]))| {
                (f64::from(x), mean(&percent(results, setting, of)))
            };
            panel.with(kind, (0u32..).zip(SETTINGS).map(bar).collect())
        };
        vec![KINDS.into_iter().fold(start, bars)]
    },
};

/// Capacities of Figure 12, Mbps.
const CAPACITIES: [u32; 4] = [48, 96, 144, 192];
/// Inferences per second of a policy that runs every 20 ms.
const EVERY_20_MS: f64 = 50.0;

pub const FIG12: Experiment = Experiment {
    id: "anole-fig12",
    title: "inferences per second",
    about: "Anole, Fig. 12, shows processor time, which depends on the machine: `anole-eval bench` measures what an \
            inference costs. Counted here is how many there are, against the same policy run every 20 ms; the paper's \
            claim is 80 % fewer.",
    seeds: [10, 2],
    packets: Packets::Tested,
    cells: |tested| {
        let setting = |mbps: u32| {
            Setting::new(format!("{mbps} Mbps"), NORMAL)
                .set(format!("bottleneck.capacity_mbps={mbps}"))
                .quick("duration_s=4")
        };
        let peers = ["orca", "sage", "libra-rl"].map(Contender::peer);
        cells(&CAPACITIES.map(setting), &[&[tested.clone()][..], &peers].concat())
    },
    figures: |results| {
        let figure = |mbps| {
            let fewer = |run: &RunResult| Some(100.0 * (1.0 - inferences_per_s(run)? / EVERY_20_MS));
            let values = results.each(&format!("{mbps} Mbps"), TESTED, fewer);
            Figure::new(format!("fewer inferences, {mbps} Mbps"), "80 %", values, "%", Target::AtLeast(80.0))
        };
        CAPACITIES.map(figure).into()
    },
    plot: |results| {
        let categories: Vec<String> = results.settings().iter().map(|setting| setting.to_string()).collect();
        let start =
            Panel::new("Inferences", "", "inferences per second", PanelKind::Bars(categories.clone()));
        let bars = |panel: Panel, who: &str| {
            let bar = |(x, setting): (u32, &String)| {
                (f64::from(x), mean(&results.each(setting, who, inferences_per_s)))
            };
            panel.with(who, (0u32..).zip(&categories).map(bar).collect())
        };
        vec![results.contenders().into_iter().fold(start, bars)]
    },
};
