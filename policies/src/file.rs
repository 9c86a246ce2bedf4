//! The policy file: weights in safetensors, with a manifest that says what they are.
//!
//! Layout (safetensors): 8 bytes with the header's length n, little-endian; n bytes of JSON: for each
//! tensor dtype, shape and its place in the data, and under `__metadata__` the key `anole`, whose value
//! is the [`Manifest`] as JSON; then the data, float32, little-endian. A file is taken only if all of it
//! is as its schema says: nothing missing, nothing more, every weight finite.

use crate::digest::sha256;
use crate::error::PolicyError;
use crate::schema::{self, Schema, SchemaError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The only version of the manifest.
pub const FORMAT: u32 = 1;
/// Largest header, bytes.
pub const MAX_HEADER: usize = 1 << 20;
/// Largest size of all tensors together, bytes: 16 million weights, three times the largest network that
/// answers within a millisecond.
pub const MAX_DATA: usize = 64 << 20;

/// What a policy file says about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: u32,
    /// The schema's name.
    pub name: String,
    /// SHA-256 of `schema`.
    pub schema_sha256: String,
    /// The schema's canonical text.
    pub schema: String,
    /// [`Schema::network_json`].
    pub network: Value,
    /// SHA-256 of the data.
    pub tensors_sha256: String,
    /// Kind of the schema's action.
    pub action: String,
    /// The conditions under which it was trained: numbers, ranges and text.
    #[serde(default)]
    pub training: Map<String, Value>,
    /// Seed of the training; none for a policy trained elsewhere.
    #[serde(default)]
    pub seed: Option<u64>,
    /// Version and command that trained or imported it.
    pub trained_by: String,
}

/// What is told of a policy's making when a file is written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Origin {
    /// [`Manifest::training`].
    pub training: Map<String, Value>,
    /// [`Manifest::seed`].
    pub seed: Option<u64>,
    /// [`Manifest::trained_by`].
    pub trained_by: String,
}

/// Values in the order of PyTorch: the last axis is contiguous.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Lengths of the axes.
    pub shape: Vec<usize>,
    /// Their product of values.
    pub values: Vec<f32>,
}

/// Tensors by name.
pub type Tensors = BTreeMap<String, Tensor>;

/// A policy file that was found whole.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyFile {
    /// Its schema.
    pub schema: Schema,
    /// What it says about itself.
    pub manifest: Manifest,
    /// Its weights: those of [`Schema::tensors`].
    pub tensors: Tensors,
}

/// One tensor of the header.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [usize; 2],
}

impl PolicyFile {
    /// Reads a file; `file` is named in errors.
    pub fn read(bytes: &[u8], file: &str) -> Result<PolicyFile, PolicyError> {
        read(bytes).map_err(|message| PolicyError::Refused(format!("{file}: {message}")))
    }

    /// The bytes of a file with these weights.
    pub fn write(schema: &Schema, origin: Origin, tensors: &Tensors) -> Vec<u8> {
        let mut data = Vec::new();
        let mut header = Map::new();
        for (name, tensor) in tensors {
            let start = data.len();
            data.extend(tensor.values.iter().flat_map(|value| value.to_le_bytes()));
            let entry = json!({"dtype": "F32", "shape": tensor.shape, "data_offsets": [start, data.len()]});
            header.insert(name.clone(), entry);
        }
        let manifest = Manifest {
            format: FORMAT,
            name: schema.name.clone(),
            schema_sha256: schema.sha256(),
            schema: schema.text.clone(),
            network: schema.network_json(),
            tensors_sha256: sha256(&data),
            action: schema.action.kind().to_string(),
            training: origin.training,
            seed: origin.seed,
            trained_by: origin.trained_by,
        };
        let manifest = json!(manifest).to_string();
        header.insert("__metadata__".to_string(), json!({ "anole": manifest }));
        let mut header = Value::Object(header).to_string();
        // The data begins at a multiple of 8.
        while !header.len().is_multiple_of(8) {
            header.push(' ');
        }
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
    }
}

fn read(bytes: &[u8]) -> Result<PolicyFile, String> {
    let (entries, manifest, data) = split(bytes)?;
    let schema = agreed_schema(&manifest)?;
    check_tensors(&schema, &entries)?;
    check_places(&entries, data.len())?;
    let hash = sha256(data);
    if hash != manifest.tensors_sha256 {
        return Err(format!(
            "the tensors' SHA-256 is {hash}, the manifest says {}: the file was changed or damaged",
            manifest.tensors_sha256
        ));
    }
    let mut tensors = Tensors::new();
    for (name, Entry { shape, data_offsets: [start, end], .. }) in entries {
        let values = data[start..end].chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        let values: Vec<f32> = values.collect();
        if let Some(at) = values.iter().position(|value| !value.is_finite()) {
            return Err(format!("weight {at} of tensor {name} is {}", values[at]));
        }
        tensors.insert(name, Tensor { shape, values });
    }
    Ok(PolicyFile { schema, manifest, tensors })
}

type Entries = BTreeMap<String, Entry>;

/// Header and data of a safetensors file.
pub(crate) fn header(bytes: &[u8]) -> Result<(BTreeMap<String, Value>, &[u8]), String> {
    if bytes.starts_with(b"PK\x03\x04") {
        return Err("a file of torch.save, which can run code when it is read; write the weights with \
                    safetensors.torch.save_file(module.state_dict(), FILE), and import those"
            .to_string());
    }
    let cut = |needed: usize| {
        format!("truncated, or no safetensors file: {} bytes where {needed} are announced", bytes.len())
    };
    let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(|| cut(8))?;
    let length = u64::from_le_bytes(*length);
    let length = usize::try_from(length).ok().filter(|&length| length <= MAX_HEADER);
    let length = length.ok_or_else(|| {
        let json = bytes.trim_ascii_start().starts_with(b"{");
        let what = if json { " but JSON, as models are for --alg antelope" } else { "" };
        format!("no safetensors file{what}: a header of more than {MAX_HEADER} bytes is announced")
    })?;
    let (header, data) = rest.split_at_checked(length).ok_or_else(|| cut(8 + length))?;
    let header =
        serde_json::from_slice(header).map_err(|error| format!("the header is no JSON object: {error}"))?;
    Ok((header, data))
}

/// Header, manifest and data of a policy file.
fn split(bytes: &[u8]) -> Result<(Entries, Manifest, &[u8]), String> {
    let (mut header, data) = header(bytes)?;
    let metadata = header.remove("__metadata__").unwrap_or_default();
    let text = metadata.get("anole").and_then(Value::as_str).ok_or(
        "safetensors without a manifest (__metadata__ has no \"anole\"): \
         not written by a trainer or `anole-policy import`",
    )?;
    let manifest: Value =
        serde_json::from_str(text).map_err(|error| format!("the manifest is no JSON: {error}"))?;
    if manifest.get("format").is_some_and(|format| *format != json!(FORMAT)) {
        return Err(format!("manifest of format {}; this version reads format {FORMAT}", manifest["format"]));
    }
    let manifest = Manifest::deserialize(manifest).map_err(|error| format!("in the manifest: {error}"))?;
    let mut entries = Entries::new();
    for (name, entry) in header {
        let entry = Entry::deserialize(entry).map_err(|error| format!("header of tensor {name}: {error}"))?;
        if entry.dtype != "F32" {
            return Err(format!("tensor {name} is of type {}; all are to be F32", entry.dtype));
        }
        entries.insert(name, entry);
    }
    Ok((entries, manifest, data))
}

/// The schema that the file carries, where it agrees with its hash, with the manifest's other fields and
/// with the schema of that name in this version.
fn agreed_schema(manifest: &Manifest) -> Result<Schema, String> {
    let hash = sha256(manifest.schema.as_bytes());
    if hash != manifest.schema_sha256 {
        return Err(format!(
            "the schema's SHA-256 is {hash}, the manifest says {}: the file was changed or damaged",
            manifest.schema_sha256
        ));
    }
    if let Some(ours) = schema::builtin(&manifest.name).filter(|ours| ours.text != manifest.schema) {
        return Err(format!(
            "made for another version of schema \"{}\": {}; train or import it again",
            manifest.name,
            first_difference(&ours.text, &manifest.schema)
        ));
    }
    let schema = Schema::parse(&manifest.schema, "its schema").map_err(|e: SchemaError| e.to_string())?;
    if schema.text != manifest.schema {
        return Err("its schema is not in canonical form (no comments, blank lines or indentation)".into());
    }
    let agree = |what: &str, said: &Value, meant: &Value| match said == meant {
        true => Ok(()),
        false => Err(format!("the manifest's {what} is {said}, its schema means {meant}")),
    };
    agree("name", &json!(manifest.name), &json!(schema.name))?;
    agree("action", &json!(manifest.action), &json!(schema.action.kind()))?;
    agree("network", &manifest.network, &schema.network_json())?;
    Ok(schema)
}

/// The first line in which two schemas differ, in words.
fn first_difference(ours: &str, theirs: &str) -> String {
    let (mut ours, mut theirs) = (ours.lines(), theirs.lines());
    loop {
        match (ours.next(), theirs.next()) {
            (Some(a), Some(b)) if a == b => {}
            (None, None) => return "only line ends differ".to_string(),
            (a, b) => {
                let name = |line: Option<&str>| line.map_or("nothing".to_string(), |l| format!("`{l}`"));
                return format!("it has {} where this version has {}", name(b), name(a));
            }
        }
    }
}

/// The tensors are those of the schema.
fn check_tensors(schema: &Schema, entries: &Entries) -> Result<(), String> {
    let expected = schema.tensors();
    for (name, shape) in &expected {
        match entries.get(name) {
            None => return Err(format!("tensor {name} {shape:?} is missing")),
            Some(entry) if entry.shape != *shape => {
                return Err(format!("tensor {name} has shape {:?}, its schema means {shape:?}", entry.shape));
            }
            Some(_) => {}
        }
    }
    match entries.keys().find(|&name| expected.iter().all(|(known, _)| known != name)) {
        Some(name) => Err(format!("tensor {name} is not one of its schema's")),
        None => Ok(()),
    }
}

/// The tensors lie one after the other, and fill the data.
fn check_places(entries: &Entries, length: usize) -> Result<(), String> {
    let mut places: Vec<(&String, &Entry)> = entries.iter().collect();
    places.sort_by_key(|(_, entry)| entry.data_offsets);
    let mut end = 0_usize;
    for (name, entry) in places {
        // The shapes are the schema's, which bounds every axis.
        let size = entry.shape.iter().fold(4_usize, |size, &axis| size.saturating_mul(axis));
        if entry.data_offsets != [end, end.saturating_add(size)] {
            let [from, to] = entry.data_offsets;
            return Err(format!("tensor {name} lies at {from}..{to}; {size} bytes at {end} were expected"));
        }
        end = entry.data_offsets[1];
        if end > MAX_DATA {
            return Err(format!("the tensors take more than {MAX_DATA} bytes"));
        }
    }
    match end == length {
        true => Ok(()),
        false => Err(format!("the data has {length} bytes, the tensors take {end}: truncated or overlong")),
    }
}
