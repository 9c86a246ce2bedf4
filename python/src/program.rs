//! Fold programs: checked, explained, and compiled for algorithms of the user's own.

use anole_lang::{Compiled, Declaration, Severity};
use anole_programs::Register;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Line, column, severity, code, message.
type Finding = (u32, u32, &'static str, &'static str, String);

/// Everything that is wrong with a program's text.
#[pyfunction]
pub fn check_program(text: &str) -> Vec<Finding> {
    let findings = anole_lang::check(text).into_iter().map(|finding| {
        let severity = match finding.severity() {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        (finding.position.line, finding.position.column, severity, finding.code.name(), finding.message)
    });
    findings.collect()
}

/// Names of the programs that come with the package.
#[pyfunction]
pub fn program_names() -> Vec<&'static str> {
    anole_programs::ALL.iter().map(|program| program.name).collect()
}

/// A compiled fold program.
#[pyclass(frozen, module = "anole_ccp._anole")]
pub struct Program {
    pub program: &'static anole_programs::Program,
    compiled: Compiled,
}

#[pymethods]
impl Program {
    /// Compiles a text; without one, the program with this name that comes with the package.
    #[new]
    #[pyo3(signature = (name, text=None))]
    fn new(name: &str, text: Option<&str>) -> PyResult<Program> {
        let Some(text) = text else { return Program::shipped(name) };
        let compiled = compile(name, text)?;
        Ok(Program { program: kept(name, &compiled), compiled })
    }

    #[getter]
    fn name(&self) -> &'static str {
        self.program.name
    }

    /// The text without comments.
    #[getter]
    fn source(&self) -> &'static str {
        self.program.source
    }

    /// (name, initial value, comment) of the registers that it reports, in wire order.
    #[getter]
    fn reports(&self) -> Vec<(&str, &str, &str)> {
        self.compiled.program.reports.iter().map(described).collect()
    }

    /// The same of the registers that an algorithm may set, beside the window and the rate.
    #[getter]
    fn controls(&self) -> Vec<(&str, &str, &str)> {
        self.compiled.program.controls.iter().map(described).collect()
    }

    /// What it takes of what a datapath has.
    #[getter]
    fn summary(&self) -> String {
        self.compiled.summary().to_string()
    }

    /// Its byte code, an instruction a line.
    #[getter]
    fn disassembly(&self) -> String {
        anole_lang::disassemble(&self.compiled)
    }
}

impl Program {
    fn shipped(name: &str) -> PyResult<Program> {
        let mut known = anole_programs::ALL.iter().copied().zip(anole_programs::TEXTS);
        let (program, text) = known.find(|(program, _)| program.name == name).ok_or_else(|| {
            let names = program_names().join(", ");
            PyValueError::new_err(format!("no program is named \"{name}\"; known are {names}"))
        })?;
        Ok(Program { program, compiled: compile(name, text)? })
    }
}

fn compile(name: &str, text: &str) -> PyResult<Compiled> {
    anole_lang::compile(text).map_err(|error| {
        let findings = anole_lang::render(&anole_lang::check(text), name, text);
        PyValueError::new_err(if findings.is_empty() { format!("{name}: {error}") } else { findings })
    })
}

fn described(declaration: &Declaration) -> (&str, &str, &str) {
    (&declaration.name, &declaration.initial, &declaration.comment)
}

/// The program as the runtime wants it, which is for the life of the process: each name and text once.
fn kept(name: &str, compiled: &Compiled) -> &'static anole_programs::Program {
    static KEPT: Mutex<BTreeMap<(String, String), &'static anole_programs::Program>> =
        Mutex::new(BTreeMap::new());
    let mut all = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (name.to_string(), compiled.source.clone());
    all.entry(key).or_insert_with(|| Box::leak(Box::new(forever(name, compiled))))
}

fn forever(name: &str, compiled: &Compiled) -> anole_programs::Program {
    let text = |text: &str| -> &'static str { Box::leak(text.to_string().into_boxed_str()) };
    let reports: Vec<&'static str> =
        compiled.program.reports.iter().map(|known| text(&format!("Report.{}", known.name))).collect();
    let register = |(index, known): (u32, &Declaration)| Register {
        name: text(&known.name),
        kind: if known.volatile { 8 } else { 0 },
        index,
    };
    let controls: Vec<Register> = (0..).zip(&compiled.program.controls).map(register).collect();
    anole_programs::Program {
        name: text(name),
        source: text(&compiled.source),
        reports: Box::leak(reports.into_boxed_slice()),
        controls: Box::leak(controls.into_boxed_slice()),
        expressions: compiled.expressions,
        instructions: compiled.instructions,
        code: Box::leak(compiled.code.clone().into_boxed_slice()),
    }
}
