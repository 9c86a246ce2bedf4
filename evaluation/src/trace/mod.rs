//! `anole-eval trace`: what a Mahimahi trace is like, others like it from a seed, and both in a picture.

mod model;
mod picture;
mod statistics;

use crate::options::{self, MAX_TRACE_BYTES, usage};
use crate::output;
use anole_sim::link::Trace;
use anole_sim::scenario::MAX_FILE_BYTES;
use anyhow::{Context, Result};
use clap::Subcommand;
use model::Model;
use statistics::Statistics;
use std::path::{Path, PathBuf};

/// Options of `anole-eval trace`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Read a model off a trace: mean, variation, memory, outages, bursts
    Fit {
        /// A Mahimahi trace: a time in ms per line, each an opportunity for 1504 bytes
        file: PathBuf,
        /// One JSON object with the statistics and the model
        #[arg(long)]
        json: bool,
    },
    /// Make a trace, or for leo a scenario, from a model and a seed
    Make {
        /// A model as `fit` prints it (TOML), or a kind: cellular, wifi, leo
        model: String,
        /// Seed of all randomness
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Length, s; the model's if left out
        #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
        duration_s: Option<f64>,
        /// Where to
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Draw traces side by side: rate over time, its memory, and gaps between opportunities
    Show {
        /// Mahimahi traces
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// The picture
        #[arg(long, value_name = "FILE.svg")]
        out: PathBuf,
    },
}

/// Runs the subcommand.
pub fn main(args: Args) -> Result<()> {
    match args.command {
        Command::Fit { file, json } => fit(&file, json),
        Command::Make { model, seed, duration_s, out } => make(&model, seed, duration_s, &out),
        Command::Show { files, out } => show(&files, &out),
    }
}

fn read(file: &Path) -> Result<Trace> {
    let text = options::read_at_most(file, MAX_TRACE_BYTES)
        .map_err(|error| usage(format!("the trace {}: {error}", file.display())))?;
    Trace::parse(&text).map_err(|error| usage(format!("{}: {error}", file.display())))
}

fn fit(file: &Path, json: bool) -> Result<()> {
    let statistics = Statistics::of(&read(file)?);
    let model = Model::fitted(&statistics);
    if json {
        let both = serde_json::json!({ "statistics": statistics, "model": model });
        return output::print_line(&both.to_string());
    }
    let comments = statistics.lines().into_iter().map(|line| format!("# {line}\n"));
    let model = toml::to_string(&model).context("cannot express the model as TOML")?;
    output::print_line(format!("{}{model}", comments.collect::<String>()).trim_end())
}

fn make(model: &str, seed: u64, duration_s: Option<f64>, out: &Path) -> Result<()> {
    let mut model = match Model::preset(model) {
        Some(model) => model,
        None if model.ends_with(".toml") => {
            let text = options::read_at_most(Path::new(model), MAX_FILE_BYTES)
                .map_err(|error| usage(format!("the model {model}: {error}")))?;
            toml::from_str(&text).map_err(|error| usage(format!("{model}: {}", error.to_string().trim())))?
        }
        None => {
            return Err(usage(format!(
                "\"{model}\" is no kind (cellular, wifi, leo) and no model (FILE.toml, as `anole-eval trace fit` prints it)"
            )));
        }
    };
    if let Some(duration_s) = duration_s {
        model.set_duration(duration_s);
    }
    model.check().map_err(usage)?;
    let text = model.make(seed);
    let most = if matches!(model, Model::Leo { .. }) { MAX_FILE_BYTES } else { MAX_TRACE_BYTES };
    if text.len() as u64 > most {
        let message = "more than a scenario reads; make it shorter, with fewer opportunities or handovers";
        return Err(usage(format!("{} would have {} KiB, {message}", out.display(), text.len() >> 10)));
    }
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = out.file_name().and_then(|name| name.to_str()).ok_or_else(|| usage("--out names no file"))?;
    output::write_whole(folder, name, &text)?;
    eprintln!("anole-eval: {}: seed {seed}", out.display());
    Ok(())
}

fn show(files: &[PathBuf], out: &Path) -> Result<()> {
    let mut named = Vec::new();
    for file in files {
        let name = file.file_name().map_or(String::new(), |name| name.to_string_lossy().to_string());
        named.push((name, Statistics::of(&read(file)?)));
    }
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = out.file_name().and_then(|name| name.to_str()).ok_or_else(|| usage("--out names no file"))?;
    output::write_whole(folder, name, picture::draw(&named))
}
