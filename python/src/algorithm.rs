//! An algorithm written in Python, as the session of a flow sees it.
//!
//! ```text
//! session ──start──▶ make()           ──▶ instance.on_flow(Flow)
//!         ──report─▶ Report(registers) ──▶ instance.on_report(Report) ──▶ {register: value} ──▶ Commands
//! ```
//! An exception ends the run: it is kept in [`Failure`], and the algorithm says nothing any more.

use crate::program::Program;
use anole_algorithms::{Algorithm, Commands, FlowInfo, Report};
use anole_model::Time;
use anole_model::names::{did_you_mean, nearest};
use anole_programs::{CWND, RATE, Register};
use anole_sim::plan::Custom;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::{Arc, Mutex, PoisonError};

/// A rate that no window fills, bytes/s.
const UNPACED: u32 = u32::MAX;

/// The first exception of a run.
#[derive(Clone, Default)]
pub struct Failure(Arc<Mutex<Option<PyErr>>>);

impl Failure {
    pub fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub fn is_there(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    pub fn note(&self, error: PyErr) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

/// A Python algorithm: how to make one for a flow, and the programs that it names.
pub struct Made {
    pub name: String,
    /// Called with (mss, initial window, seed, time); gives the algorithm and what `on_flow` returned.
    pub start: Py<PyAny>,
    /// Called with (the algorithm, program's name, registers' values by name, time).
    pub report: Py<PyAny>,
    pub programs: Vec<&'static anole_programs::Program>,
}

impl Made {
    /// Reads the tuple (name, start, report, programs) that `anole_ccp.algorithm` makes.
    pub fn read(given: &Bound<'_, PyAny>) -> PyResult<Made> {
        type Given<'py> = (String, Py<PyAny>, Py<PyAny>, Vec<Bound<'py, Program>>);
        let (name, start, report, programs): Given<'_> = given.extract()?;
        let programs = programs.iter().map(|program| program.get().program).collect();
        Ok(Made { name, start, report, programs })
    }

    /// The same as the simulator takes it; the first exception goes to `failure`.
    pub fn custom(self, failure: &Failure) -> Custom {
        let (name, programs) = (self.name.clone(), self.programs.clone());
        let (made, failure) = (Arc::new(self), failure.clone());
        let make = move |flow: FlowInfo, seed: u64| {
            Box::new(InPython {
                made: Arc::clone(&made),
                failure: failure.clone(),
                flow,
                seed,
                instance: None,
                program: None,
            }) as Box<dyn Algorithm>
        };
        Custom { name, programs, make: Arc::new(make) }
    }
}

struct InPython {
    made: Arc<Made>,
    failure: Failure,
    flow: FlowInfo,
    seed: u64,
    /// `None` before the flow begins.
    instance: Option<Py<PyAny>>,
    /// The program that runs.
    program: Option<&'static anole_programs::Program>,
}

impl Algorithm for InPython {
    fn start(&mut self, now: Time, out: &mut Commands) {
        self.noted(|this, py| {
            let FlowInfo { mss, init_cwnd } = this.flow;
            let made = this.made.start.call1(py, (mss, init_cwnd, this.seed, now.as_secs_f64()))?;
            let (instance, answer): (Py<PyAny>, Py<PyAny>) = made.extract(py)?;
            this.instance = Some(instance);
            if let Some(first) = this.made.programs.first() {
                this.program = Some(first);
                out.run(first);
            }
            this.command("on_flow", answer.bind(py), out)
        });
    }

    fn on_report(&mut self, now: Time, report: &Report<'_>, out: &mut Commands) {
        let current = self.program.is_some_and(|program| std::ptr::eq(program, report.program));
        if !current || self.failure.is_there() {
            return;
        }
        self.noted(|this, py| {
            let Some(instance) = &this.instance else { return Ok(()) };
            let values = PyDict::new(py);
            for (name, value) in report.program.reports.iter().zip(report.values) {
                values.set_item(name.trim_start_matches("Report."), value)?;
            }
            let told = (instance, report.program.name, values, now.as_secs_f64());
            let answer = this.made.report.call1(py, told)?;
            this.command("on_report", answer.bind(py), out)
        });
    }
}

impl InPython {
    /// Does something in Python, and keeps the exception if there is one.
    fn noted(&mut self, act: impl FnOnce(&mut InPython, Python<'_>) -> PyResult<()>) {
        Python::attach(|py| {
            if let Err(error) = act(self, py) {
                self.failure.note(error);
            }
        });
    }

    /// Turns what a method of the algorithm returned into commands.
    fn command(&mut self, method: &str, answer: &Bound<'_, PyAny>, out: &mut Commands) -> PyResult<()> {
        if answer.is_none() {
            return Ok(());
        }
        let answer = answer.cast::<PyDict>().map_err(|_| {
            PyTypeError::new_err(format!(
                "{}.{method} returned {}; it returns None or a dictionary, such as {{\"cwnd\": 14480}}",
                self.made.name,
                answer.get_type()
            ))
        })?;
        if let Some(name) = answer.get_item("program")? {
            let name: String = name.extract()?;
            let found = self.made.programs.iter().find(|program| program.name == name);
            let program = found.ok_or_else(|| self.unknown("program", &name, &self.program_names()))?;
            self.program = Some(program);
            out.run(program);
        }
        for (name, value) in answer {
            let name: String = name.extract()?;
            if name != "program" {
                let register = self.register(&name)?;
                // To a datapath a rate of 0 is no news: the one in force would stay.
                let number = whole(&format!("{}.{method}: {name}", self.made.name), &value)?;
                out.set(register, if register == RATE && number == 0 { UNPACED } else { number });
            }
        }
        Ok(())
    }

    fn register(&self, name: &str) -> PyResult<Register> {
        let program = self.program.ok_or_else(|| PyValueError::new_err("there is no program"))?;
        match name {
            "cwnd" => Ok(CWND),
            "rate" => Ok(RATE),
            _ => program.control(name).ok_or_else(|| {
                let known = ["cwnd", "rate"].into_iter().chain(program.controls.iter().map(|c| c.name));
                self.unknown(
                    &format!("register of program {}", program.name),
                    name,
                    &known.collect::<Vec<_>>(),
                )
            }),
        }
    }

    fn program_names(&self) -> Vec<&'static str> {
        self.made.programs.iter().map(|program| program.name).collect()
    }

    fn unknown(&self, what: &str, name: &str, known: &[&str]) -> PyErr {
        let meant = nearest(name, known.iter().copied());
        let (meant, known) = (did_you_mean(meant.as_deref()), known.join(", "));
        PyValueError::new_err(format!(
            "{}: no {what} is named \"{name}\"{meant}; known are {known}",
            self.made.name
        ))
    }
}

/// A number as a register takes it: rounded, and within 32 bits.
fn whole(what: &str, value: &Bound<'_, PyAny>) -> PyResult<u32> {
    let number: f64 = value
        .extract()
        .map_err(|_| PyTypeError::new_err(format!("{what} is {value}; a register is set to a number")))?;
    match number {
        number if number.is_nan() || number < 0.0 => {
            Err(PyValueError::new_err(format!("{what} is {number}; a register takes 0 to {}", u32::MAX)))
        }
        number => Ok(number.round().min(f64::from(u32::MAX)) as u32),
    }
}
