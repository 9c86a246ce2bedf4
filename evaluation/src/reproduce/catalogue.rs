//! Every experiment that comes with the program: the files of `evaluation/experiments/`.

use super::experiment::Experiment;

use super::outcome::{Contender, Links, Setting, Source};
use super::site;
use std::path::Path;
use std::sync::LazyLock;

include!(concat!(env!("OUT_DIR"), "/experiments.rs"));

/// Largest file that is read, bytes.
pub const MAX_FILE_BYTES: u64 = 1 << 20;

/// All of them, by family and name.
pub fn all() -> &'static [Experiment] {
    static ALL: LazyLock<Vec<Experiment>> = LazyLock::new(|| {
        let parse = |&(id, text): &(&str, &str)| {
            // A test parses each of them.
            Experiment::parse(id, text, None).unwrap_or_else(|error| panic!("experiments/{id}.toml: {error}"))
        };
        let mut all: Vec<Experiment> = SHIPPED.iter().map(parse).collect();
        all.sort_by_key(|experiment| place(&experiment.id));
        all
    });
    &ALL
}

/// Orders names as a reader would: numbers by value.
fn place(id: &str) -> (usize, Vec<(String, u64)>) {
    const FAMILIES: [&str; 5] = ["anole", "libra", "spine", "antelope", "study"];
    let mut words = id.split('-');
    let family = words.next().unwrap_or_default();
    let rank = FAMILIES.iter().position(|known| *known == family).unwrap_or(FAMILIES.len());
    let word = |word: &str| {
        let text = word.trim_end_matches(|c: char| c.is_ascii_digit());
        (text.to_string(), word[text.len()..].parse().unwrap_or(0))
    };
    (rank, words.map(word).collect())
}

/// An experiment of the user's own.
pub fn read(path: &Path) -> Result<Experiment, String> {
    let text = crate::options::read_at_most(path, MAX_FILE_BYTES).map_err(|error| error.to_string())?;
    let id = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("experiment");
    let id = site::slug(id);
    if id == "index" || site::ACROSS.iter().any(|kind| id.starts_with(kind)) {
        return Err(format!("{id}.html may be a page across experiments; give the file another name"));
    }
    Experiment::parse(&id, &text, Some(path))
}

/// What is known of a setting's links.
pub fn links(experiment: &Experiment, setting: &Setting) -> Links {
    /// The links of all sweeps.
    static SWEPT: LazyLock<Vec<String>> = LazyLock::new(|| {
        let sweeps = all().iter().filter(|experiment| experiment.raw.sweep);
        let of_sweep = |sweep: &'static Experiment| {
            let cells = sweep.cells(&Contender::peer(&sweep.raw.subject)).unwrap_or_default();
            cells.into_iter().filter_map(|cell| links_of(sweep, &cell.setting))
        };
        sweeps.flat_map(of_sweep).collect()
    });
    match setting.source {
        Source::Random if experiment.raw.sweep => Links::TunedOn,
        Source::Random => Links::NeverSeen,
        Source::Scenario(_) => match links_of(experiment, setting) {
            Some(links) if SWEPT.contains(&links) => Links::TunedOn,
            _ => Links::Unlabelled,
        },
    }
}

/// The links of a setting and how they change, as text; none of the random suite.
fn links_of(experiment: &Experiment, setting: &Setting) -> Option<String> {
    let Source::Scenario(name) = &setting.source else { return None };
    let scenario = crate::options::load(&experiment.place(name), &setting.set).ok()?;
    Some(format!("{:?}", (scenario.links, scenario.changes, scenario.random_changes)))
}

#[cfg(test)]
mod tests {
    use super::super::outcome::{CellRuns, Results};
    use super::super::{picture, report};
    use super::*;

    #[test]
    fn without_a_single_run_there_are_lines_and_plots_of_nothing() {
        for experiment in all() {
            let subject = Contender::peer(&experiment.raw.subject);
            let outcome = |cell| CellRuns { cell, runs: Vec::new() };
            let results = Results(experiment.cells(&subject).unwrap().into_iter().map(outcome).collect());
            for figure in experiment.figures(&subject.label, &results).unwrap() {
                assert!(!figure.what.is_empty() && figure.missed_by() != Some(0.0), "{figure:?}");
                assert!(report::lines(&experiment.id, &[figure]).starts_with(&experiment.id));
            }
            let panels = experiment.panels(&subject.label, &results).unwrap();
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
    fn no_experiment_takes_the_place_of_a_page_across_experiments() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["index", "scenario-dumbbell"] {
            let file = folder.path().join(format!("{name}.toml"));
            std::fs::write(&file, "").unwrap();
            assert!(read(&file).err().unwrap().contains("another name"));
        }
    }

    #[test]
    fn the_documented_number_of_simulations() {
        let all = all().iter().filter(|experiment| !experiment.raw.sweep);
        let cells = |experiment: &Experiment| experiment.cells(&Contender::peer(&experiment.raw.subject));
        let cells: usize = all.map(|experiment| cells(experiment).unwrap().len()).sum();
        let text = format!("is {} simulations", cells * 3);
        assert!(include_str!("../../../docs/reproducing.md").contains(&text), "{text}");
    }

    #[test]
    fn experiments_have_seeds_and_one_cell_of_each_kind() {
        for experiment in all() {
            let id = &experiment.id;
            assert!(experiment.raw.seeds[0] >= 5 && experiment.raw.seeds[1] >= 1, "{id}");
            assert!(
                id.starts_with(&experiment.raw.family),
                "{id} is of the family {}",
                experiment.raw.family
            );
            let subject = Contender::peer(&experiment.raw.subject);
            let cells = experiment.cells(&subject).unwrap();
            let name = |cell: &super::super::outcome::Cell| {
                (cell.setting.name.clone(), cell.contender.label.clone())
            };
            let mut names: Vec<_> = cells.iter().map(name).collect();
            names.sort_unstable();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{id}: {names:?}");
            assert!(cells.iter().any(|cell| cell.contender.choice.alg == subject.choice.alg), "{id}");
        }
    }

    #[test]
    fn any_algorithm_can_be_the_subject() {
        for experiment in all() {
            for alg in ["copa", "cubic"] {
                let subject = Contender::peer(alg);
                let cells = experiment.cells(&subject).unwrap();
                assert!(
                    cells.iter().any(|cell| cell.contender.choice.alg.as_deref() == Some(alg)),
                    "{}",
                    experiment.id
                );
            }
        }
    }

    #[test]
    fn links_of_sweeps_and_random_ones_are_labelled() {
        let label = |id: &str, setting: &str| {
            let experiment = all().iter().find(|experiment| experiment.id == id).unwrap();
            let cells = experiment.cells(&Contender::peer(&experiment.raw.subject)).unwrap();
            let cell = cells.iter().find(|cell| cell.setting.name == setting).unwrap();
            links(experiment, &cell.setting)
        };
        assert_eq!(label("anole-random", "unseen links"), Links::NeverSeen);
        assert_eq!(label("anole-fig5", "normal"), Links::TunedOn);
        assert_eq!(label("libra-fig7", "wired 12 Mbps"), Links::Unlabelled);
        for sweep in all().iter().filter(|experiment| experiment.raw.sweep) {
            let cells = sweep.cells(&Contender::peer("anole")).unwrap();
            assert!(cells.iter().all(|cell| links(sweep, &cell.setting) == Links::TunedOn), "{}", sweep.id);
        }
    }

    #[test]
    fn every_algorithm_has_a_look_of_its_own() {
        for spec in anole_algorithms::all() {
            assert!(
                anole_plot::has_look(spec.name),
                "{}: give it one in evaluation/plot/src/style.rs",
                spec.name
            );
        }
    }

    /// Every parameter of Anole that experiments chose has its sweep, and none is swept past its bounds or its default.
    #[test]
    fn every_chosen_parameter_is_swept_around_its_default() {
        let parameters = anole_algorithms::find("anole").unwrap().parameters;
        let sweeps: Vec<&Experiment> = all().iter().filter(|experiment| experiment.raw.sweep).collect();
        let of = |sweep: &Experiment| sweep.raw.title.trim_start_matches("the parameter ").to_string();
        for parameter in parameters.iter().filter(|parameter| parameter.doc.contains("(chosen")) {
            assert!(
                sweeps.iter().any(|sweep| of(sweep) == parameter.name),
                "{} has no sweep",
                parameter.name
            );
        }
        for sweep in sweeps {
            let parameter = parameters.iter().find(|parameter| parameter.name == of(sweep)).unwrap();
            let prefix = format!("param.{}=", parameter.name);
            let cells = sweep.cells(&Contender::peer("anole")).unwrap();
            let values: Vec<f64> = cells
                .iter()
                .map(|cell| cell.contender.params[0].strip_prefix(&prefix).unwrap().parse().unwrap())
                .collect();
            assert!(values.contains(&parameter.default), "{}", sweep.id);
            assert!(
                values.iter().all(|value| (parameter.min..=parameter.max).contains(value)),
                "{}",
                sweep.id
            );
        }
    }
}
