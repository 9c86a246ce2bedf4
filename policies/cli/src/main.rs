//! `anole-policy`: imports released weights of other projects, shows and checks policy files.

#![allow(clippy::disallowed_methods, reason = "the program's purpose is to read and write files")]

use anole_cli::Failure;
use anole_inference::read as read_file;
use anole_policies::Shipped;
use anole_policies::certificate::{Certificate, certify};
use anole_policies::file::PolicyFile;
use anole_policies::import::{Imported, PEERS, Released, import, import_torch};
use anole_policies::schema::{Feature, Schema};
use anyhow::{Context as _, anyhow, bail};
use clap::{Parser, Subcommand};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The program's name.
const PROGRAM: &str = "anole-policy";

/// Largest file that is read, bytes.
const MAX_FILE: u64 = 1 << 30;

/// Pieces of a box that are examined if nothing else is said: those of docs/certificates.md.
const PIECES: u32 = 1000;

/// Works with policy files.
#[derive(Parser)]
#[command(name = PROGRAM)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Turns a model made elsewhere into a policy file: a released one, or a PyTorch module of your own.
    Import {
        /// Whose model it is; torch for a PyTorch module of your own.
        #[arg(value_parser = makers())]
        maker: String,
        /// Released: an npz, a TensorFlow 1 checkpoint (PREFIX of PREFIX.index and PREFIX.data-00000-of-00001), or the
        /// folder of a SavedModel.
        /// torch: the module's state_dict in safetensors.
        file: PathBuf,
        /// The policy file [default: MAKER-released.safetensors; torch: NAME.safetensors of the schema's name]
        #[arg(short, long)]
        output: Option<PathBuf>,
        /// torch: what the policy sees and does, and the shape of its network.
        #[arg(long, value_name = "TOML", required_if_eq("maker", TORCH))]
        schema: Option<PathBuf>,
        /// torch: the module of a layer, such as layers.0=encoder.fc1, where the order of names does not tell.
        #[arg(long, value_name = "LAYER=MODULE", value_parser = pair)]
        map: Vec<(String, String)>,
    },
    /// Shows what a policy file is: schema, network, origin, conditions of the training.
    Show {
        /// The policy file.
        file: PathBuf,
    },
    /// Proves, as far as it can, what a policy does in whole boxes of situations (docs/certificates.md).
    Certify {
        /// The policy file, or the name of a shipped policy.
        file: PathBuf,
        /// Pieces of a box that are examined, for each property; of a recurrent network a twentieth.
        #[arg(long, default_value_t = PIECES, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        pieces: u32,
    },
    /// Reads policy files as the agent would, and says which are refused.
    Check {
        /// The policy files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

/// Prints a line. Who reads may go away early (`| head`), which is no error.
macro_rules! say {
    ($($text:tt)*) => {{
        let _ = writeln!(std::io::stdout(), $($text)*);
    }};
}

/// Stands for a module of one's own.
const TORCH: &str = "torch";

fn makers() -> clap::builder::PossibleValuesParser {
    PEERS.map(|peer| peer.name).into_iter().chain([TORCH]).collect::<Vec<_>>().into()
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (layer, module) = text.split_once('=').ok_or("give LAYER=MODULE, such as layers.0=encoder.fc1")?;
    Ok((layer.to_string(), module.to_string()))
}

fn main() -> ExitCode {
    anole_cli::run(PROGRAM, |arguments: Arguments| match &arguments.command {
        Command::Import { maker, file, output, schema: Some(schema), map } if maker == TORCH => {
            import_module(file, output.as_deref(), schema, map)
        }
        Command::Import { maker, schema, map, .. } if schema.is_some() || !map.is_empty() => Err(
            Failure::Usage(anyhow!("--schema and --map are for import {TORCH}; {maker}'s schema is known")),
        ),
        Command::Import { maker, file, output, .. } => import_model(maker, file, output.as_deref()),
        Command::Show { file } => load(file).map(|policy| show(&policy)).map_err(Failure::Usage),
        Command::Certify { file, pieces } => load_or_shipped(file)
            .and_then(|policy| Ok(certify(&policy, *pieces as usize)?))
            .map(|certificate| show_certificate(&certificate, *pieces))
            .map_err(Failure::Usage),
        Command::Check { files } => check(files),
    })
}

/// The shipped policy of this name, or the one in this file: as the agent takes it, whatever else the folder has.
fn load_or_shipped(path: &Path) -> anyhow::Result<PolicyFile> {
    match path.to_str().and_then(Shipped::bytes) {
        Some(bytes) => Ok(PolicyFile::read(bytes, &format!("shipped/{}", path.display()))?),
        None => load(path),
    }
}

fn show_certificate(certificate: &Certificate, pieces: u32) {
    say!("{}, at most {pieces} pieces for each property", certificate.name);
    for (property, holds) in &certificate.holds {
        say!("{}\n  {holds}", property.text());
    }
}

fn check(files: &[PathBuf]) -> Result<(), Failure> {
    let refused = files.iter().filter(|file| match load(file) {
        Ok(policy) => {
            say!("{}: {}", file.display(), summary(&policy));
            false
        }
        Err(error) => {
            anole_cli::complain(PROGRAM, &format!("{error:#}"));
            true
        }
    });
    match refused.count() {
        0 => Ok(()),
        refused => Err(Failure::Run(anyhow!("{refused} of {} files refused", files.len()))),
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    read_file(path, MAX_FILE).map_err(|error| anyhow!("{}: {error}", path.display()))
}

fn load(path: &Path) -> anyhow::Result<PolicyFile> {
    Ok(PolicyFile::read(&read(path)?, &path.display().to_string())?)
}

fn import_model(peer: &str, file: &Path, output: Option<&Path>) -> Result<(), Failure> {
    let files = model_files(file).map_err(Failure::Usage)?;
    let imported = read_model(peer, file, &files).map_err(Failure::Usage)?;
    let default = PathBuf::from(format!("{peer}-released.safetensors"));
    keep(output.unwrap_or(&default), &imported, &files)
}

fn import_module(
    file: &Path,
    output: Option<&Path>,
    schema: &Path,
    map: &[(String, String)],
) -> Result<(), Failure> {
    let imported = read_module(file, schema, map).map_err(Failure::Usage)?;
    let default = PathBuf::from(format!("{}.safetensors", imported.file.schema.name));
    keep(output.unwrap_or(&default), &imported, &[file.to_path_buf(), schema.to_path_buf()])
}

fn read_module(file: &Path, schema: &Path, map: &[(String, String)]) -> anyhow::Result<Imported> {
    let text =
        String::from_utf8(read(schema)?).with_context(|| format!("{}: is no text", schema.display()))?;
    let schema = Schema::parse(&text, &schema.display().to_string())?;
    Ok(import_torch(
        &schema,
        &read(file)?,
        &map.iter().cloned().collect(),
        &file.display().to_string(),
        &made_by(TORCH),
    )?)
}

fn made_by(maker: &str) -> String {
    format!("anole-ccp {}: anole-policy import {maker}", env!("CARGO_PKG_VERSION"))
}

/// Writes the policy file, which is none of those that it was made from, and says what it is.
fn keep(output: &Path, imported: &Imported, from: &[PathBuf]) -> Result<(), Failure> {
    let place = fs::canonicalize(output).ok();
    if place.is_some() && from.iter().any(|path| fs::canonicalize(path).ok() == place) {
        return Err(Failure::Usage(anyhow!(
            "{}: is what is imported; name another with --output",
            output.display()
        )));
    }
    write(output, imported).map_err(Failure::Run)?;
    say!("{}: {}", output.display(), summary(&imported.file));
    match imported.error {
        Some(error) => say!("known answers: largest difference {error:.1e}"),
        None => say!("known answers: none came with the model"),
    }
    Ok(())
}

/// The files of a model: an npz archive, or index and data of a checkpoint.
fn model_files(file: &Path) -> anyhow::Result<Vec<PathBuf>> {
    Ok(if file.extension().is_some_and(|extension| extension == "npz") {
        vec![file.to_path_buf()]
    } else if file.is_dir() {
        saved_model(file)?.to_vec()
    } else {
        checkpoint(&file.display().to_string()).to_vec()
    })
}

fn read_model(peer: &str, file: &Path, files: &[PathBuf]) -> anyhow::Result<Imported> {
    let (name, made_by) = (file.display().to_string(), made_by(peer));
    if let [index, data] = files {
        let hint =
            "a TensorFlow 1 checkpoint is two files; give their common prefix, or the folder of a SavedModel";
        let (index, data) = (read(index).context(hint)?, read(data).context(hint)?);
        Ok(import(peer, Released::Checkpoint { index: &index, data: &data }, &name, &made_by)?)
    } else {
        Ok(import(peer, Released::Npz(&read(file)?), &name, &made_by)?)
    }
}

/// The two files of the checkpoint in a SavedModel.
fn saved_model(folder: &Path) -> anyhow::Result<[PathBuf; 2]> {
    if !folder.join("saved_model.pb").exists() {
        bail!("{}: no SavedModel, which has saved_model.pb and variables/", folder.display());
    }
    Ok(checkpoint(&folder.join("variables/variables").display().to_string()))
}

/// The two files of a checkpoint, named by their prefix or by one of them.
fn checkpoint(name: &str) -> [PathBuf; 2] {
    let endings = [".index", ".meta", ".data-00000-of-00001"];
    let prefix = endings.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
    [format!("{prefix}.index").into(), format!("{prefix}.data-00000-of-00001").into()]
}

/// The file is whole or not there.
fn write(path: &Path, imported: &Imported) -> anyhow::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.part", std::process::id()));
    let written = fs::write(&beside, &imported.bytes).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// One line.
fn summary(policy: &PolicyFile) -> String {
    let Schema { name, action, .. } = &policy.schema;
    let weights: usize = policy.tensors.values().map(|tensor| tensor.values.len()).sum();
    format!("{name}, action {}, {} inputs, {weights} weights", action.kind(), policy.schema.inputs())
}

fn show(policy: &PolicyFile) {
    let (schema, manifest) = (&policy.schema, &policy.manifest);
    say!("{}", summary(policy));
    say!("{}", schema.summary);
    say!("source      {}", schema.source);
    say!("schema      {}", manifest.schema_sha256);
    say!("tensors     {}", manifest.tensors_sha256);
    say!("made by     {}", manifest.trained_by);
    say!("seed        {}", manifest.seed.map_or("none".to_string(), |seed| seed.to_string()));
    say!("interval    {} ms, at least {} RTT", schema.interval.ms, schema.interval.rtts);
    say!("state       {} values per flow", schema.state());
    say!("training");
    for (key, value) in &manifest.training {
        say!("  {key:<20} {value}");
    }
    say!("features    {} × {}", schema.history, schema.features.len());
    for Feature { name, unit, clip: [low, high], .. } in &schema.features {
        say!("  {name:<40} {low} … {high} ({unit})");
    }
    say!("tensors");
    for (name, tensor) in &policy.tensors {
        say!("  {name:<24} {:?}", tensor.shape);
    }
}
