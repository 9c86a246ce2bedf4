//! One run: the scenario, what its flows run, and the result as NumPy arrays.

use crate::algorithm::{Failure, Made};
use crate::scenario::Scenario;
use anole_inference::{BackendSettings, Loader, Serving};
use anole_policies::Policies;
use anole_sim::plan::{Choice, FlowPlan, plan, plan_custom};
use anole_sim::result::{FlowResult, RunResult, Series};
use anole_sim::run_while;
use numpy::PyArray1;
use pyo3::exceptions::{PyIndexError, PyKeyboardInterrupt, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends the runs that were given it.
#[pyclass(frozen, module = "anole_ccp._anole")]
#[derive(Default)]
pub struct Stop(Arc<AtomicBool>);

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Stop {
        Stop::default()
    }

    /// Ends them.
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Stop {
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The result of one run.
#[pyclass(frozen, module = "anole_ccp._anole")]
pub struct Run(pub RunResult);

/// The picture of one run, or of the first flows under test of several, as SVG.
#[pyfunction]
pub fn plot(runs: Vec<Bound<'_, Run>>) -> String {
    let runs: Vec<RunResult> = runs.iter().map(|run| run.get().0.clone()).collect();
    anole_plot::of_runs(&runs).svg()
}

/// Simulates. `alg`, `classic` and `policy` replace what the scenario says of the flows under test; `own` is an
/// algorithm in Python instead.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "the package's one call names them")]
#[pyo3(signature = (scenario, alg, classic, policy, params, own, seed, stop))]
pub fn simulate(
    py: Python<'_>,
    scenario: &Scenario,
    alg: Option<String>,
    classic: Option<String>,
    policy: Option<String>,
    params: BTreeMap<String, f64>,
    own: Option<&Bound<'_, PyAny>>,
    seed: u64,
    stop: &Stop,
) -> PyResult<Run> {
    let mut scenario = scenario.0.clone();
    scenario.params.extend(params);
    let own = own.map(Made::read).transpose()?;
    let (failure, stop) = (Failure::default(), Arc::clone(&stop.0));
    let custom = own.map(|made| made.custom(&failure));
    let (named, filled) = (policy.clone(), classic.clone());
    let done = py.detach(|| -> Result<Option<RunResult>, Refused> {
        let loader = Arc::new(Loader::new(BackendSettings::default(), Serving::Immediate).map_err(refused)?);
        let policies: Arc<dyn Policies> = loader.clone();
        let plans: Vec<FlowPlan> = match &custom {
            Some(custom) => plan_custom(&scenario, custom, &policies, seed).map_err(refused)?,
            None => plan(&scenario, &Choice { alg, classic, policy }, &policies, seed).map_err(refused)?,
        };
        let mut go_on = |_| {
            let signal = Python::attach(|py| py.check_signals().err());
            let over = stop.load(Ordering::Relaxed) || failure.is_there() || signal.is_some();
            if let Some(signal) = signal {
                failure.note(signal);
            }
            if over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let run = run_while(&scenario, plans, seed, &mut go_on);
        match loader.failure() {
            Some(failure) => Err(Refused::Failed(failure)),
            None => Ok(run),
        }
    });
    if let Some(error) = failure.take() {
        return Err(error);
    }
    match done {
        Ok(Some(run)) => Ok(Run(RunResult { classic: filled, policy: named, ..run })),
        Ok(None) => Err(PyKeyboardInterrupt::new_err("the run was ended")),
        Err(Refused::Asked(reason)) => Err(PyValueError::new_err(reason)),
        Err(Refused::Failed(reason)) => Err(PyRuntimeError::new_err(reason)),
    }
}

enum Refused {
    /// What was asked for makes no sense.
    Asked(String),
    /// A policy could not be run.
    Failed(String),
}

fn refused(error: impl ToString) -> Refused {
    Refused::Asked(of_arguments(error))
}

/// A message that names flags of `anole-eval` names the arguments of the same names here.
pub fn of_arguments(error: impl ToString) -> String {
    ["alg", "classic", "policy"]
        .iter()
        .fold(error.to_string(), |text, name| text.replace(&format!("--{name}"), name))
}

#[pymethods]
impl Run {
    /// Number of the flow that the run is about.
    #[getter]
    fn tested(&self) -> usize {
        anole_sim::result::tested(&self.0.flows)
    }

    /// Everything as `anole-eval --json` prints it.
    fn json(&self) -> PyResult<String> {
        serde_json::to_string(&self.0).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// The same without what changes over time.
    fn figures(&self) -> PyResult<String> {
        let flow = |flow: &FlowResult| FlowResult {
            series: Series::default(),
            explained: Vec::new(),
            ..flow.clone()
        };
        let mut links = self.0.links.clone();
        links.iter_mut().for_each(|link| link.series = None);
        let figures = RunResult { flows: self.0.flows.iter().map(flow).collect(), links, ..self.0.clone() };
        serde_json::to_string(&figures).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// A flow over time: arrays of float64 by name; NaN is what was not measured.
    fn flow_series<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyDict>> {
        let flow = self.0.flows.get(index).ok_or_else(|| PyIndexError::new_err("no such flow"))?;
        let series = &flow.series;
        let (points, dict) = (series.throughput_mbps.len(), PyDict::new(py));
        let put = |name: &str, values: Vec<f64>| dict.set_item(name, PyArray1::from_vec(py, values));
        put("time_s", (1..=points).map(|point| point as f64 * series.dt_s).collect())?;
        put("throughput_mbps", series.throughput_mbps.clone())?;
        put("rtt_ms", known(&series.rtt_ms))?;
        let unseen = || vec![f64::NAN; points];
        put("cwnd_bytes", series.cwnd_bytes.as_ref().map_or_else(unseen, |v| known(v)))?;
        put("pacing_mbps", series.pacing_mbps.as_ref().map_or_else(unseen, |v| known(v)))?;
        put("in_flight_bytes", series.in_flight_bytes.as_ref().map_or_else(unseen, |v| counts(v)))?;
        put("lost_packets", series.lost_packets.as_ref().map_or_else(unseen, |v| counts(v)))?;
        Ok(dict)
    }

    /// A link over time, likewise.
    fn link_series<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyDict>> {
        let link = self.0.links.get(index).ok_or_else(|| PyIndexError::new_err("no such link"))?;
        let series = link.series.clone().unwrap_or_default();
        let (points, dict) = (series.queue_bytes.len(), PyDict::new(py));
        let put = |name: &str, values: Vec<f64>| dict.set_item(name, PyArray1::from_vec(py, values));
        put("time_s", (1..=points).map(|point| point as f64 * series.dt_s).collect())?;
        put("queue_bytes", counts(&series.queue_bytes))?;
        put("lost_packets", counts(&series.lost_packets))?;
        put("capacity_mbps", series.capacity_mbps)?;
        Ok(dict)
    }
}

fn counts(values: &[u64]) -> Vec<f64> {
    values.iter().map(|&value| value as f64).collect()
}

fn known<T: Copy + Into<f64>>(values: &[Option<T>]) -> Vec<f64> {
    values.iter().map(|value| value.map_or(f64::NAN, Into::into)).collect()
}
