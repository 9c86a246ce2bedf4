//! Parameters of Anole that experiments chose, each over a range, against figures that pull in opposite directions.
//!
//! A row of [`SWEEPS`] is an experiment. The parameters of the paper are not here: `params.rs` names their source.

use super::{NORMAL, STEP};
use crate::reproduce::experiment::{
    Cell, Contender, Experiment, Figure, Packets, Results, Setting, Source, Target, mean,
};
use crate::reproduce::measure::{
    jain_between, owd_p95, power, share_of_optimal, throughput, throughput_between, time_to_reach,
    worst_unfairness,
};
use crate::reproduce::picture::{Panel, PanelKind};
use anole_sim::result::RunResult;

const FOUR_FLOWS: &str = include_str!("../../../scenarios/anole-fig9.toml");
const BESIDE_CUBIC: &str = include_str!("../../../scenarios/coexistence.toml");

/// A parameter, and what its values are judged by.
struct Sweep {
    /// Name, as for `--param`.
    parameter: &'static str,
    /// In ascending order.
    values: &'static [f64],
    /// What is read off.
    probes: &'static [&'static Probe],
}

/// A figure in a setting.
struct Probe {
    /// Name, and unit.
    what: &'static str,
    unit: &'static str,
    /// Where; probes with the same setting share its runs.
    setting: fn() -> Setting,
    /// The policy, if it is another one.
    policy: Option<&'static str>,
    measure: fn(&RunResult) -> Option<f64>,
}

fn random() -> Setting {
    Setting { source: Source::Random, ..Setting::new("random links", "") }
}

fn normal() -> Setting {
    Setting::new("normal", NORMAL).quick("duration_s=8")
}

fn lossy() -> Setting {
    Setting::new("2 % loss", NORMAL).set("bottleneck.random_loss=0.02").quick("duration_s=8")
}

fn bursts() -> Setting {
    Setting::new("bursts", NORMAL)
        .set("bottleneck.ack_aggregation_ms=[2, 8]")
        .set("bottleneck.aggregation_ms=[2, 8]")
        .quick("duration_s=8")
}

fn step() -> Setting {
    Setting::new("step", STEP).quick("duration_s=18")
}

fn four_flows() -> Setting {
    Setting::new("four flows", FOUR_FLOWS)
}

fn beside_cubic() -> Setting {
    Setting::new("beside CUBIC", BESIDE_CUBIC)
        .set("bottleneck.one_way_delay_ms=15")
        .set("bottleneck.buffer_bdp=1")
        .quick("bottleneck.capacity_mbps=20")
}

const USED: Probe = Probe {
    what: "utilisation, random links",
    unit: "%",
    setting: random,
    policy: None,
    measure: |run| Some(100.0 * share_of_optimal(run)?),
};
const POWER: Probe =
    Probe { what: "power, random links", unit: "", setting: random, policy: None, measure: power };
const THROUGHPUT: Probe =
    Probe { what: "throughput", unit: "Mbps", setting: normal, policy: None, measure: throughput };
const DELAY: Probe =
    Probe { what: "p95 one-way delay", unit: "ms", setting: normal, policy: None, measure: owd_p95 };
const LOSSY: Probe =
    Probe { what: "throughput, 2 % loss", unit: "Mbps", setting: lossy, policy: None, measure: throughput };
const BURST_DELAY: Probe =
    Probe { what: "p95 one-way delay, bursts", unit: "ms", setting: bursts, policy: None, measure: owd_p95 };
const REACH: Probe = Probe {
    what: "time from 48 to 90 Mbps",
    unit: "s",
    setting: step,
    policy: None,
    measure: |run| time_to_reach(run, 15.0, 90.0),
};
const STEP_DELAY: Probe =
    Probe { what: "p95 one-way delay, step", unit: "ms", setting: step, policy: None, measure: owd_p95 };
const JAIN: Probe = Probe {
    what: "Jain, four flows, last 10 s",
    unit: "",
    setting: four_flows,
    policy: None,
    measure: |run| jain_between(run, [20.0, 30.0]),
};
const UNFAIR: Probe = Probe {
    what: "unfairness 2 s after an arrival",
    unit: "%",
    setting: four_flows,
    policy: None,
    measure: |run| Some(100.0 * worst_unfairness(run, 48.0, 2.0)?),
};
const BESIDE: Probe = Probe {
    what: "share beside CUBIC, 1 BDP",
    unit: "%",
    setting: beside_cubic,
    policy: None,
    measure: |run| {
        let rate = |flow| throughput_between(run, flow, [20.0, 65.0]);
        Some(100.0 * rate(0)? / (rate(0)? + rate(1)?))
    },
};
const LOW: Probe = Probe {
    what: "throughput, policy always low",
    unit: "Mbps",
    setting: normal,
    policy: Some("fault:low"),
    measure: throughput,
};
const HIGH: Probe = Probe {
    what: "p95 one-way delay, policy always high",
    unit: "ms",
    setting: normal,
    policy: Some("fault:high"),
    measure: owd_p95,
};

const ABOUT: &str = "One parameter of Anole over a range, the others at their defaults; the value in force is that of \
                     `algorithms/src/hybrid/anole/params.rs`. The random suite has as many links as there are seeds.";

/// Settings and policies of a sweep, each once, with every value.
fn cells_of(sweep: &Sweep, tested: &Contender) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    for probe in sweep.probes {
        for value in sweep.values {
            let mut contender = tested.with(label(sweep, *value), None, probe.policy);
            contender.params.push(format!("param.{}={value:?}", sweep.parameter));
            let setting = Setting { name: place(probe), ..(probe.setting)() };
            let cell = Cell { setting, contender };
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        }
    }
    cells
}

fn label(sweep: &Sweep, value: f64) -> String {
    format!("{} = {value}", sweep.parameter)
}

/// A setting's name; with another policy it is another one.
fn place(probe: &Probe) -> String {
    let name = (probe.setting)().name;
    probe.policy.map_or(name.clone(), |policy| format!("{name}, {policy}"))
}

fn each(results: &Results, sweep: &Sweep, probe: &Probe, value: f64) -> Vec<f64> {
    results.each(&place(probe), &label(sweep, value), probe.measure)
}

fn figures_of(sweep: &Sweep, results: &Results) -> Vec<Figure> {
    let mut figures = Vec::new();
    for probe in sweep.probes {
        for value in sweep.values {
            let what = format!("{}, {}", probe.what, label(sweep, *value));
            let values = each(results, sweep, probe, *value);
            figures.push(Figure::new(what, "", values, probe.unit, Target::None));
        }
    }
    figures
}

fn plot_of(sweep: &'static Sweep, results: &Results) -> Vec<Panel> {
    let panel = |probe: &&'static Probe| {
        let point = |value: &f64| (*value, mean(&each(results, sweep, probe, *value)));
        let unit = if probe.unit.is_empty() { String::new() } else { format!(" ({})", probe.unit) };
        Panel::new(format!("{}{unit}", probe.what), sweep.parameter, probe.what, PanelKind::Lines(None))
            .with(sweep.parameter, sweep.values.iter().map(point).collect())
    };
    sweep.probes.iter().map(panel).collect()
}

/// Declares a sweep per row, each with an experiment.
macro_rules! sweeps {
    ($($parameter:ident $id:literal $values:expr, $probes:expr;)*) => {
        /// Every sweep, as an experiment.
        pub const SWEEPS: &[&Experiment] = &[$({
            const SWEEP: &Sweep =
                &Sweep { parameter: stringify!($parameter), values: &$values, probes: &$probes };
            &Experiment {
                id: $id,
                title: concat!("the parameter ", stringify!($parameter)),
                about: ABOUT,
                seeds: [20, 1],
                packets: Packets::Never("a sweep is hundreds of runs"),
                cells: |tested| cells_of(SWEEP, tested),
                figures: |results| figures_of(SWEEP, results),
                plot: |results| plot_of(SWEEP, results),
            }
        }),*];
    };
}

sweeps! {
    mu "anole-sweep-mu" [0.05, 0.1, 0.2, 0.4, 0.8], [&THROUGHPUT, &DELAY, &POWER];
    margin "anole-sweep-margin" [0.0, 0.02, 0.05, 0.1, 0.2], [&LOW, &POWER];
    gamma_mbps "anole-sweep-gamma" [0.25, 0.5, 1.0, 2.0, 4.0], [&REACH, &STEP_DELAY, &POWER];
    fill "anole-sweep-fill" [0.0, 0.4, 0.8, 1.0, 1.5, 2.0], [&THROUGHPUT, &DELAY, &JAIN, &POWER];
    backoff "anole-sweep-backoff" [0.0, 0.05, 0.1, 0.2, 0.3], [&JAIN, &UNFAIR, &BESIDE, &POWER];
    low_test "anole-sweep-low-test" [0.5, 0.65, 0.8, 0.9, 0.95], [&LOW, &UNFAIR, &LOSSY, &POWER];
    high_test "anole-sweep-high-test" [1.05, 1.1, 1.25, 1.5, 2.0], [&HIGH, &REACH, &USED, &POWER];
    ramp_gain "anole-sweep-ramp" [0.05, 0.1, 0.25, 0.5, 1.0], [&REACH, &STEP_DELAY, &BURST_DELAY];
    keep_epoch "anole-sweep-epoch" [0.0, 0.05, 0.1, 0.2, 0.4], [&THROUGHPUT, &DELAY, &POWER];
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sweep: &Experiment) -> &str {
        sweep.title.trim_start_matches("the parameter ")
    }

    /// Every parameter that was chosen here has its sweep, and none is swept past its bounds or its default.
    #[test]
    fn every_chosen_parameter_is_swept_around_its_default() {
        let parameters = anole_algorithms::find("anole").unwrap().parameters;
        for parameter in parameters.iter().filter(|parameter| parameter.doc.contains("(chosen")) {
            assert!(
                SWEEPS.iter().any(|sweep| of(sweep) == parameter.name),
                "{} has no sweep",
                parameter.name
            );
        }
        let tested = Contender { params: Vec::new(), ..Contender::peer("anole") };
        for sweep in SWEEPS {
            let parameter = parameters.iter().find(|parameter| parameter.name == of(sweep)).unwrap();
            let prefix = format!("param.{}=", parameter.name);
            let cells = (sweep.cells)(&tested);
            let value = |cell: &Cell| -> f64 {
                cell.contender.params[0].strip_prefix(&prefix).unwrap().parse().unwrap()
            };
            assert!(cells.iter().any(|cell| value(cell) == parameter.default), "{}", sweep.id);
            assert!(
                cells.iter().all(|cell| (parameter.min..=parameter.max).contains(&value(cell))),
                "{}",
                sweep.id
            );
        }
    }

    #[test]
    fn a_sweep_asks_each_setting_once_per_value() {
        let fill = SWEEPS.iter().find(|sweep| sweep.id == "anole-sweep-fill").unwrap();
        let cells = (fill.cells)(&Contender::peer("anole"));
        // Throughput and delay share their runs.
        assert_eq!(cells.len(), 3 * 6);
    }
}
