//! The Python extension `anole_ccp._anole`, behind the package `anole_ccp`: simulations in step (`fleet`), single
//! runs (`simulate`), scenarios, fold programs, algorithms in Python, an agent of them for real flows (`serve`), and a
//! real QUIC transfer over an emulated link (`transfer`).
//!
//! Python decides, Rust simulates: nothing about the dynamics, the features or the actions exists twice.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "`serve` and `transfer` are real time: clocks and sockets")]

mod algorithm;
mod fleet;
mod peers;
mod program;
mod scenario;
mod serve;
mod simulate;
mod suite;
mod transfer;

use anole_policies::{Batch, Embedded, Network as _, Policies, PolicyError, PolicyFile, Schema};
use anole_sim::control::Step;
use anole_sim::plan::shipped;
use anole_sim::suite::Ranges;
use fleet::{Fleet, FleetPlan};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2};
use peers::Peers;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Simulations that one fleet may have; each needs a thread and some 300 KB.
const MAX_SIMULATIONS: usize = 4096;

/// Rows of figures.
type Rows<'py> = Bound<'py, PyArray2<f32>>;

/// What a round gives: inputs, steps, done, last inputs, windows, numbers of episodes.
type Round<'py> =
    (Rows<'py>, Rows<'py>, Bound<'py, PyArray1<bool>>, Rows<'py>, Bound<'py, PyArray1<f32>>, Vec<u64>);

/// Simulations in step; see `anole_ccp.VectorEnv`.
#[pyclass(frozen)]
struct Simulations {
    plan: Arc<FleetPlan>,
    peers: Arc<Peers>,
    count: usize,
    fleet: Fleet,
}

fn schema(text: &str) -> PyResult<Arc<Schema>> {
    Schema::parse(text, "schema").map(Arc::new).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn ranges(json: &str) -> PyResult<Ranges> {
    let ranges: Ranges =
        serde_json::from_str(json).map_err(|error| PyValueError::new_err(format!("ranges: {error}")))?;
    ranges.check().map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(ranges)
}

#[pymethods]
impl Simulations {
    #[new]
    #[allow(clippy::too_many_arguments, reason = "the package's one call names them")]
    fn new(
        py: Python<'_>,
        schema_text: &str,
        algorithm: &str,
        ranges_json: &str,
        count: usize,
        threads: usize,
        seed: u64,
        first_episodes: Vec<u64>,
        params: BTreeMap<String, f64>,
        watched: bool,
    ) -> PyResult<Simulations> {
        if !(1..=MAX_SIMULATIONS).contains(&count) || threads == 0 {
            let message = format!("n = {count}, threads = {threads}: give n from 1 to {MAX_SIMULATIONS}");
            return Err(PyValueError::new_err(message + " and at least one thread"));
        }
        if first_episodes.len() != count {
            let message = format!("{} first episodes for {count} simulations", first_episodes.len());
            return Err(PyValueError::new_err(message));
        }
        let schema = schema(schema_text)?;
        let known = anole_policies::schema::builtin(&schema.name);
        if known.is_some_and(|known| known.text != schema.text) {
            let message = format!("schema: another \"{}\" comes with the package; give yours", schema.name);
            return Err(PyValueError::new_err(message + " a name of its own"));
        }
        let refuse = |error: PolicyError| PyValueError::new_err(error.to_string());
        let peers = Arc::new(Peers::new(shipped(), &schema).map_err(refuse)?);
        let plan = Arc::new(FleetPlan {
            alg: algorithm.to_string(),
            schema,
            policies: Arc::clone(&peers) as Arc<dyn Policies>,
            ranges: ranges(ranges_json)?,
            params,
            seed,
            first: first_episodes,
            watched,
        });
        let fleet =
            py.detach(|| Fleet::new(Arc::clone(&plan), count, threads)).map_err(PyValueError::new_err)?;
        Ok(Simulations { plan, peers, count, fleet })
    }

    /// From the next episode on, the flows beside that are of the flow's own kind run the policy in these bytes of a policy
    /// file.
    fn set_peer(&self, bytes: &[u8]) -> PyResult<()> {
        self.peers.set(bytes, &self.plan.schema).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Gives every simulation its outputs (count × outputs; None before the first round), and returns
    /// (inputs, steps, done, last inputs, windows, episodes) at the questions that they come to.
    #[pyo3(signature = (outputs=None))]
    fn round<'py>(
        &self,
        py: Python<'py>,
        outputs: Option<PyReadonlyArray2<'py, f32>>,
    ) -> PyResult<Round<'py>> {
        let (inputs, wanted) = (self.plan.schema.inputs(), [self.count, self.plan.schema.outputs()]);
        let outputs = match &outputs {
            None => &[],
            Some(array) => {
                let (shape, slice) = (array.as_array().shape().to_vec(), array.as_slice());
                slice.ok().filter(|_| shape == wanted).ok_or_else(|| {
                    let message = format!("actions of shape {shape:?}; wanted are {wanted:?}, contiguous");
                    PyValueError::new_err(message)
                })?
            }
        };
        let mut seen = vec![0f32; self.count * inputs];
        let mut last = vec![0f32; self.count * inputs];
        let mut steps = vec![0f32; self.count * Step::NAMES.len()];
        let mut done = vec![false; self.count];
        let mut windows = vec![0f32; self.count];
        let mut episodes = vec![0; self.count];
        py.detach(|| {
            self.fleet.round(outputs, |index, halt| {
                seen[index * inputs..][..inputs].copy_from_slice(&halt.input);
                if halt.done {
                    last[index * inputs..][..inputs].copy_from_slice(&halt.last_input);
                }
                let values = halt.step.values();
                steps[index * values.len()..][..values.len()].copy_from_slice(&values);
                done[index] = halt.done;
                windows[index] = halt.cwnd as f32;
                episodes[index] = halt.episode;
            })
        })
        .map_err(PyRuntimeError::new_err)?;
        let rows =
            |values: Vec<f32>, width: usize| PyArray1::from_vec(py, values).reshape([self.count, width]);
        Ok((
            rows(seen, inputs)?,
            rows(steps, Step::NAMES.len())?,
            PyArray1::from_vec(py, done),
            rows(last, inputs)?,
            PyArray1::from_vec(py, windows),
            episodes,
        ))
    }
}

/// The names of a step's figures.
#[pyfunction]
fn step_names() -> Vec<&'static str> {
    Step::NAMES.to_vec()
}

/// The text of a schema that comes with the package; None if there is none of this name.
#[pyfunction]
fn schema_text(name: &str) -> Option<&'static str> {
    anole_policies::schema::builtin(name).map(|schema| schema.text.as_str())
}

/// Names of the schemas that come with the package.
#[pyfunction]
fn schema_names() -> Vec<&'static str> {
    anole_policies::schema::builtins().iter().map(|schema| schema.name.as_str()).collect()
}

/// (inputs, outputs, state) of a schema.
#[pyfunction]
fn schema_shape(text: &str) -> PyResult<(usize, usize, usize)> {
    let schema = schema(text)?;
    Ok((schema.inputs(), schema.outputs(), schema.state()))
}

/// The network of a schema as JSON, as a policy file's manifest describes it.
#[pyfunction]
fn schema_network(text: &str) -> PyResult<String> {
    Ok(schema(text)?.network_json().to_string())
}

/// The canonical text of a schema, from which its hash is made.
#[pyfunction]
fn canonical_schema(text: &str) -> String {
    anole_policies::schema::canonical(text)
}

/// Raises ValueError if these bytes of a file with this name are no policy file, with the reason.
#[pyfunction]
fn check_policy(bytes: &[u8], file: &str) -> PyResult<()> {
    let read = PolicyFile::read(bytes, file);
    read.map(drop).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// A policy file's network in Rust, for comparison.
#[pyclass(frozen)]
struct Network(Embedded);

#[pymethods]
impl Network {
    #[new]
    fn new(bytes: &[u8], file: &str) -> PyResult<Network> {
        let network = PolicyFile::read(bytes, file).and_then(|file| Embedded::new(&file));
        network.map(Network).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Inputs (rows × inputs) and states (rows × state) to outputs and new states.
    fn step<'py>(
        &self,
        py: Python<'py>,
        inputs: PyReadonlyArray2<'py, f32>,
        states: PyReadonlyArray2<'py, f32>,
    ) -> PyResult<(Rows<'py>, Rows<'py>)> {
        let (rows, schema) = (inputs.as_array().nrows(), self.0.schema());
        let flat = |array: &PyReadonlyArray2<'py, f32>| array.as_array().iter().copied().collect::<Vec<_>>();
        let outputs = vec![0.0; rows * schema.outputs()];
        let mut batch = Batch { rows, inputs: flat(&inputs), states: flat(&states), outputs };
        self.0.step(&mut batch).map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok((
            PyArray1::from_vec(py, batch.outputs).reshape([rows, schema.outputs()])?,
            PyArray1::from_vec(py, batch.states).reshape([rows, schema.state()])?,
        ))
    }
}

/// Ranges with a name, as JSON.
#[pyfunction]
fn named_ranges(name: &str) -> PyResult<String> {
    let ranges = Ranges::named(name).map_err(|error| PyValueError::new_err(error.to_string()))?;
    serde_json::to_string(&ranges).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Simulations for training and evaluation; the package `anole_ccp` is what to use.
#[pymodule]
mod _anole {
    #[pymodule_export]
    use super::program::{Program, check_program, program_names};
    #[pymodule_export]
    use super::scenario::{Scenario, scenario_names, scenario_text};
    #[pymodule_export]
    use super::serve::serve;
    #[pymodule_export]
    use super::simulate::{Run, Stop, plot, simulate};
    #[pymodule_export]
    use super::suite::suite_figures;
    #[pymodule_export]
    use super::transfer::transfer;
    #[pymodule_export]
    use super::{
        Network, Simulations, canonical_schema, check_policy, named_ranges, schema_names, schema_network,
        schema_shape, schema_text, step_names,
    };
}
