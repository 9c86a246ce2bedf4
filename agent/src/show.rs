//! `anole-ccp algs`, `anole-ccp check` and `anole-ccp status`.

use crate::control;
use crate::flow_table::FlowStatus;
use crate::flow_table::Status;
use crate::shared::short_name;
use anole_algorithms::Spec;
use anole_cli::Failure;
use anole_lang::Severity;
use anyhow::{Context, anyhow};
use serde_json::json;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;

/// Lists the algorithms on stdout.
pub fn algorithms(as_json: bool) -> Result<(), Failure> {
    let all = anole_algorithms::all();
    let text = if as_json {
        format!("{}\n", all.iter().map(describe).collect::<serde_json::Value>())
    } else {
        table(all)
    };
    print(&text)
}

fn describe(spec: &Spec) -> serde_json::Value {
    let programs: Vec<&str> = spec.programs.iter().map(|program| program.name).collect();
    let parameters: Vec<_> = spec
        .parameters
        .iter()
        .map(|parameter| json!({"name": parameter.name, "default": parameter.default, "doc": parameter.doc}))
        .collect();
    json!({"name": spec.name, "kind": spec.kind, "summary": spec.summary, "programs": programs,
           "parameters": parameters, "source": spec.source, "takes": takes(spec)})
}

/// The flags that fill the algorithm's slots.
fn takes(spec: &Spec) -> Vec<&'static str> {
    let flags = [("--classic", spec.takes_classic), ("--policy", spec.takes_policy)];
    flags.into_iter().filter_map(|(flag, taken)| taken.then_some(flag)).collect()
}

fn table(all: &[Spec]) -> String {
    let mut text = String::new();
    for spec in all {
        let programs: Vec<&str> = spec.programs.iter().map(|program| program.name).collect();
        // Writing to a string does not fail.
        let _ = writeln!(text, "{} ({})  {}", spec.name, spec.kind, spec.summary);
        let _ = writeln!(text, "    programs: {}", programs.join(", "));
        let _ = writeln!(text, "    source: {}", spec.source);
        if !takes(spec).is_empty() {
            let _ = writeln!(text, "    takes: {}", takes(spec).join(", "));
        }
        for parameter in spec.parameters {
            let _ = writeln!(text, "    --param {}={}  {}", parameter.name, parameter.default, parameter.doc);
        }
    }
    text
}

/// Checks a fold program; the findings and what it takes of the limits go to stdout.
pub fn check(file: &Path) -> Result<(), Failure> {
    let name = file.display().to_string();
    let source = std::fs::read_to_string(file)
        .with_context(|| format!("{name}: cannot read it"))
        .map_err(Failure::Usage)?;
    let findings = anole_lang::check(&source);
    print(&anole_lang::render(&findings, &name, &source))?;
    if anole_lang::has_errors(&findings) {
        let errors = findings.iter().filter(|finding| finding.severity() == Severity::Error).count();
        let noun = if errors == 1 { "error" } else { "errors" };
        return Err(Failure::Run(anyhow!("{name}: {errors} {noun}; the program cannot be used")));
    }
    let compiled = anole_lang::compile(&source).map_err(|error| Failure::Run(anyhow!("{name}:{error}")))?;
    print(&format!("{name}: {}\n", compiled.summary()))
}

/// Shows what the agent whose control socket is at `path` does.
pub fn status(path: &Path, as_json: bool) -> Result<(), Failure> {
    let status = control::ask(path)?;
    if as_json {
        let text = serde_json::to_string(&status).context("the status").map_err(Failure::Run)?;
        return print(&(text + "\n"));
    }
    let count = status.flows.len();
    let Status { version, pid, ipc, uptime_s, flows } = status;
    let mut text = format!(
        "anole-ccp {version}, pid {pid}, {}, up {uptime_s:.0} s, flows: {count}\n",
        control::flag(&ipc)
    );
    if !flows.is_empty() {
        let mut rows = vec![STATUS_COLUMNS.map(str::to_string).to_vec()];
        rows.extend(flows.iter().map(status_row));
        text += &aligned(&rows);
    }
    print(&text)
}

const STATUS_COLUMNS: [&str; 10] = [
    "datapath",
    "flow",
    "peer",
    "algorithm",
    "governed by",
    "age s",
    "reports",
    "rate Mbps",
    "RTT ms",
    "loss %",
];

fn status_row(flow: &FlowStatus) -> Vec<String> {
    let figure = |value: Option<f64>| value.map_or("-".to_string(), |value| format!("{value:.2}"));
    vec![
        short_name(&flow.datapath).to_string(),
        flow.flow.to_string(),
        flow.peer.clone().unwrap_or("-".to_string()),
        flow.algorithm.clone(),
        flow.governor.clone(),
        format!("{:.1}", flow.age_s),
        flow.reports.to_string(),
        figure(flow.rate_mbps),
        figure(flow.rtt_ms),
        figure(flow.loss_percent),
    ]
}

/// Rows in columns, two spaces apart.
fn aligned(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..STATUS_COLUMNS.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_string() + "\n"
    };
    rows.iter().map(line).collect()
}

/// Writes to stdout; a reader that has seen enough is no error.
fn print(text: &str) -> Result<(), Failure> {
    match io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::Run(anyhow!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}
