//! Time per inference.

use super::{Policy, leave_out, loader, percentile, print, processor_time};
use crate::output;
use anole_inference::{Backend, BackendSettings, Serving};
use anole_policies::{Batch, Network};
use anyhow::{Result, anyhow};
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, Instant};

/// Flows computed at once.
const BATCHES: [usize; 3] = [1, 32, 256];
/// Each is measured for this long …
const SPAN: Duration = Duration::from_millis(800);
/// … after this many steps that are not.
const WARM_UP: usize = 20;
/// Anole asks once in five round trips, here of 50 ms: decisions per second.
const ANOLE_PER_S: f64 = 4.0;
/// A policy that drives a flow by itself every 20 ms: decisions per second.
const EVERY_20_MS_PER_S: f64 = 50.0;

#[derive(Serialize)]
struct Figure<'a> {
    bench: &'static str,
    policy: &'a str,
    backend: &'static str,
    batch: usize,
    p50_us: f64,
    p99_us: f64,
    cpu_us_per_flow: f64,
    anole_us_per_flow_s: f64,
    every_20_ms_us_per_flow_s: f64,
}

/// Measures every policy with the embedded networks and, where the library is found, with LibTorch.
pub fn run(policies: &[Policy], torch_library: Option<&Path>, json: bool) -> Result<()> {
    let settings =
        BackendSettings { torch_library: torch_library.map(Path::to_path_buf), ..BackendSettings::default() };
    let embedded = loader(Backend::Embedded, Serving::Immediate, BackendSettings::default())?;
    let torch = loader(Backend::Torch, Serving::Immediate, settings)?;
    let mut loaders = vec![(Backend::Embedded, embedded)];
    match (torch.torch(), torch_library) {
        (Ok(library), _) => {
            eprintln!("anole-eval: {}", library.describe());
            loaders.push((Backend::Torch, torch));
        }
        (Err(error), Some(_)) => return Err(crate::options::usage(error)),
        (Err(error), None) => leave_out("LibTorch", error),
    }
    if !json {
        output::print_line(
            "policy       backend   batch   p50 µs   p99 µs | processor time, µs: per flow, and per flow and second of control at Anole's cadence, every 20 ms",
        )?;
    }
    for policy in policies {
        for (backend, loader) in &loaders {
            let network =
                loader.network(&policy.file.to_string_lossy()).map_err(|error| anyhow!("{error}"))?;
            for batch in BATCHES {
                let (times, cpu_us) = measure(&*network, batch)?;
                let per_flow = cpu_us / batch as f64;
                let figure = Figure {
                    bench: "inference",
                    policy: &policy.name,
                    backend: backend.name(),
                    batch,
                    p50_us: percentile(&times, 0.5),
                    p99_us: percentile(&times, 0.99),
                    cpu_us_per_flow: per_flow,
                    anole_us_per_flow_s: per_flow * ANOLE_PER_S,
                    every_20_ms_us_per_flow_s: per_flow * EVERY_20_MS_PER_S,
                };
                print(json, &figure, || figure.row())?;
            }
        }
    }
    Ok(())
}

impl Figure<'_> {
    fn row(&self) -> String {
        format!(
            "{:<12} {:<9} {:>5} {:>8.1} {:>8.1} | {:>8.2} {:>8.0} {:>8.0}",
            self.policy,
            self.backend,
            self.batch,
            self.p50_us,
            self.p99_us,
            self.cpu_us_per_flow,
            self.anole_us_per_flow_s,
            self.every_20_ms_us_per_flow_s
        )
    }
}

/// Sorted times of steps, and the mean processor time of one, µs. Networks compute on the thread that
/// asks.
fn measure(network: &dyn Network, rows: usize) -> Result<(Vec<f64>, f64)> {
    let schema = network.schema();
    let mut batch = Batch {
        rows,
        inputs: (0..rows * schema.inputs()).map(|i| (i % 7) as f32 / 7.0 - 0.5).collect(),
        states: vec![0.0; rows * schema.state()],
        outputs: vec![0.0; rows * schema.outputs()],
    };
    for _ in 0..WARM_UP {
        network.step(&mut batch).map_err(|error| anyhow!("{error}"))?;
    }
    let (mut times, began, before) = (Vec::new(), Instant::now(), processor_time()?);
    while began.elapsed() < SPAN {
        let started = Instant::now();
        network.step(&mut batch).map_err(|error| anyhow!("{error}"))?;
        times.push(started.elapsed().as_secs_f64() * 1e6);
    }
    let cpu_us = (processor_time()? - before).as_secs_f64() * 1e6 / times.len().max(1) as f64;
    times.sort_by(f64::total_cmp);
    Ok((times, cpu_us))
}
