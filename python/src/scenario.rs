//! Scenarios: read from text, or drawn from ranges.

use anole_sim::scenario::{self, Scenario as Checked};
use anole_sim::suite::Purpose;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A checked scenario.
#[pyclass(frozen, module = "anole_ccp._anole")]
pub struct Scenario(pub Checked);

#[pymethods]
impl Scenario {
    /// `file` is how errors name the text, `set` are changes (`KEY=VALUE`), and `load_trace` gives the text of a
    /// trace that the scenario names.
    #[new]
    fn new(text: &str, file: &str, set: Vec<String>, load_trace: &Bound<'_, PyAny>) -> PyResult<Scenario> {
        let mut load = |path: &str| -> Result<String, String> {
            let read = load_trace.call1((path,)).and_then(|text| text.extract());
            read.map_err(|error| error.value(load_trace.py()).to_string())
        };
        let read = Checked::parse(text, file, &set, &mut load);
        // A message that names a flag of `anole-eval` names the argument of the same name here.
        read.map(Scenario).map_err(|error| PyValueError::new_err(error.to_string().replace("--set", "set")))
    }

    /// Link `number` of an evaluation with these ranges and this seed, on which no training runs.
    #[staticmethod]
    fn drawn(ranges_json: &str, seed: u64, number: u64) -> PyResult<Scenario> {
        Ok(Scenario(crate::ranges(ranges_json)?.draw("native", Purpose::Evaluation, seed, number)))
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn duration_s(&self) -> f64 {
        self.0.duration.as_secs_f64()
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.0.seed
    }

    /// (algorithm, whether it is under test) of every flow.
    #[getter]
    fn flows(&self) -> Vec<(&str, bool)> {
        self.0.flows.iter().map(|flow| (flow.alg.as_str(), flow.under_test)).collect()
    }

    /// (name, mean capacity in Mbps, one-way delay in ms, buffer in bytes) of every link.
    #[getter]
    fn links(&self) -> Vec<(&str, f64, f64, u64)> {
        let links = self.0.links.iter().map(|link| {
            let (mbps, ms) = (link.capacity.mean_rate().mbps(), link.one_way_delay.as_millis_f64());
            (link.name.as_str(), mbps, ms, link.buffer_bytes)
        });
        links.collect()
    }
}

/// Names of the scenarios that come with the package.
#[pyfunction]
pub fn scenario_names() -> Vec<&'static str> {
    scenario::names().collect()
}

/// The text of the one with this name.
#[pyfunction]
pub fn scenario_text(name: &str) -> PyResult<&'static str> {
    scenario::shipped(name).map_err(|error| PyValueError::new_err(error.to_string()))
}
