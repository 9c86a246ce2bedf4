//! What came out over many links: the figures of `anole-eval suite`.

use crate::scenario::Scenario;
use crate::simulate::Run;
use anole_sim::suite::{LinkOutcome, figures};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The figures of one contestant over links as JSON, beside the first one's: `runs` and `first` are on `links`.
#[pyfunction]
pub fn suite_figures(
    name: &str,
    links: Vec<Bound<'_, Scenario>>,
    runs: Vec<Bound<'_, Run>>,
    first: Vec<Bound<'_, Run>>,
) -> PyResult<String> {
    let outcomes = |runs: &[Bound<'_, Run>]| -> Vec<LinkOutcome> {
        runs.iter().zip(&links).map(|(run, link)| LinkOutcome::of(&run.get().0, &link.get().0)).collect()
    };
    let figures = figures(name, &outcomes(&runs), &outcomes(&first));
    serde_json::to_string(&figures).map_err(|error| PyValueError::new_err(error.to_string()))
}
