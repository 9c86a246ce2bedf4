//! Every experiment, in the order of the paper and then beyond it.

mod fairness;
mod floor;
mod flows;
mod links;
mod moving;
mod noise;
mod rates;
mod sweeps;

use super::experiment::{Experiment, Setting};
use super::picture::{Panel, PanelKind};
use anole_sim::result::RunResult;

const NORMAL: &str = include_str!("../../../scenarios/anole-normal.toml");
const LOSS: &str = include_str!("../../../scenarios/anole-loss.toml");
const LONG: &str = include_str!("../../../scenarios/anole-long.toml");
const STEP: &str = include_str!("../../../scenarios/anole-fig10.toml");
const LTE: &str = include_str!("../../../scenarios/lte.toml");

/// Axes that many panels share.
const DELAY: &str = "95th percentile of the one-way delay (ms)";
const THROUGHPUT: &str = "throughput (Mbps)";
const TIME: &str = "time (s)";

/// The links of Figure 5.
fn figure_5_links() -> [Setting; 3] {
    [("normal", NORMAL), ("loss", LOSS), ("long", LONG)]
        .map(|(name, scenario)| Setting::new(name, scenario).quick("duration_s=8"))
}

/// Every sweep of a parameter; long, and not part of `all`.
pub fn sweeps() -> &'static [&'static Experiment] {
    sweeps::SWEEPS
}

/// Every experiment but the sweeps.
pub fn all() -> &'static [&'static Experiment] {
    &[
        &links::FIG5,
        &links::FIG6,
        &links::FIG7,
        &links::FIG8,
        &flows::FIG9,
        &flows::FIG10,
        &rates::FIG11,
        &rates::FIG12,
        &flows::TABLE1_EXPERIMENT,
        &floor::FLOOR,
        &noise::JITTER,
        &fairness::RTT_FAIRNESS,
        &fairness::LATE_START,
        &fairness::COEXISTENCE,
        &moving::RESPONSIVENESS,
        &noise::EXTREMES,
        &moving::RANDOM,
    ]
}

/// An empty panel for flows that share a link: their fair share as a line, and Jain's index above.
fn sharing(title: &str, run: Option<&RunResult>) -> Panel {
    let jain = run.and_then(|run| run.jain_index);
    let title = jain.map_or(title.to_string(), |jain| format!("{title}: Jain's index {jain:.3}"));
    let share = run.and_then(|run| Some(run.optimal_mbps? / run.flows.len().max(1) as f64));
    Panel::new(title, TIME, THROUGHPUT, PanelKind::Lines(share.map(|mbps| (mbps, "fair share".to_string()))))
}

/// The points of a flow's series while it is active: seconds and Mbps.
fn over_time(run: &RunResult, flow: usize) -> Vec<(f64, f64)> {
    let Some(flow) = run.flows.get(flow) else { return Vec::new() };
    let steps = flow.series.throughput_mbps.iter().enumerate();
    let points = steps.map(|(step, &mbps)| (step as f64 * flow.series.dt_s, mbps));
    points.filter(|(at, _)| (flow.start_s..flow.stop_s).contains(at)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::experiment::{CellRuns, Contender, Results, TESTED};
    use super::super::{picture, report};
    use super::*;
    use anole_sim::plan::Choice;

    fn tested() -> Contender {
        let choice = Choice { alg: Some(TESTED.to_string()), ..Choice::default() };
        Contender { label: TESTED.to_string(), choice, params: Vec::new() }
    }

    #[test]
    fn without_a_single_run_there_are_lines_and_plots_of_nothing() {
        for experiment in all().iter().chain(sweeps()) {
            let outcomes =
                (experiment.cells)(&tested()).into_iter().map(|cell| CellRuns { cell, runs: Vec::new() });
            let results = Results(outcomes.collect());
            for figure in (experiment.figures)(&results) {
                assert!(!figure.what.is_empty() && figure.missed_by() != Some(0.0), "{figure:?}");
                assert!(report::lines(experiment.id, &[figure]).starts_with(experiment.id));
            }
            let panels = (experiment.plot)(&results);
            let mut titles: Vec<&str> = panels.iter().map(|panel| panel.title.as_str()).collect();
            titles.sort_unstable();
            let distinct = titles.windows(2).all(|pair| pair[0] != pair[1]);
            assert!(
                distinct && titles.iter().all(|title| !title.is_empty()),
                "{}: {titles:?}",
                experiment.id
            );
            assert!(picture::draw(&panels).ends_with("</svg>\n"));
        }
    }

    #[test]
    fn experiments_have_names_of_their_own_seeds_and_one_cell_of_each_kind() {
        let tested = tested();
        let mut ids: Vec<&str> = all().iter().chain(sweeps()).map(|experiment| experiment.id).collect();
        ids.sort_unstable();
        assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "{ids:?}");
        for experiment in all().iter().chain(sweeps()) {
            assert!(experiment.seeds[0] >= 10 && experiment.seeds[1] >= 1, "{}", experiment.id);
            let cells = (experiment.cells)(&tested);
            let mut names: Vec<(&str, &str)> = cells
                .iter()
                .map(|cell| (cell.setting.name.as_str(), cell.contender.label.as_str()))
                .collect();
            names.sort_unstable();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{}: {names:?}", experiment.id);
            assert!(
                cells.iter().any(|cell| cell.contender.choice.alg == tested.choice.alg),
                "{}",
                experiment.id
            );
        }
    }
}
